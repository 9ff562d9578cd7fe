"""``python -m bench changes``, or ``all``."""

from __future__ import annotations

import argparse
import importlib
import sys

ROOMS = ("changes", "log", "spine", "operators", "views")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description="Measure Penstock, room by room.")
    parser.add_argument("room", choices=("all", *ROOMS), help="which room to measure")
    chosen = parser.parse_args().room
    for room in ROOMS if chosen == "all" else (chosen,):
        importlib.import_module(f"bench.{room}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
