"""Benchmarks, one module per room: ``make bench ROOM=changes``."""
