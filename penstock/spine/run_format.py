"""The bytes of a run file: an Arrow IPC stream of one batch, then what finds rows in it and what checks it.

``docs/FORMAT-runs.md`` is the page for people; this file is the law. Numbers are little-endian::

    Arrow IPC stream (schema, one batch, end)      any Arrow reader reads it and stops here
    zeros up to a multiple of 64
    fences    uint64 each: the hash of rows 0, 512, 1024, …
    checks    uint32 each: CRC32C of bytes 0…4095, 4096…8191, … of all before the fences
    layout    JSON
    tail      64 bytes

The tail's checksum covers the tail; the tail holds one of fences, checks and layout; the checks cover all
the rest. So a file is trusted block by block, as rows are touched, and opening it reads a thousandth of it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import google_crc32c

from penstock.errors import DamagedBytes, Unsupported

__all__ = ["ALIGN", "BLOCK", "FENCE", "TAIL_BYTES", "Tail", "crc32c", "damaged"]

VERSION = 1
ALIGN = 64
BLOCK = 4096
"""Bytes under one checksum."""
FENCE = 512
"""Rows from one fence to the next."""
TAIL_BYTES = 64

_MAGIC = b"PSTKRUN\x01"
# magic, crc of what follows, version, rows, bytes of the stream (padded), of fences, of checks, of layout,
# crc of fences, checks and layout
_TAIL = struct.Struct("<8sIIQQQQQI4x")
_COVERED = 12

assert _TAIL.size == TAIL_BYTES


def crc32c(data: bytes) -> int:
    return int(google_crc32c.value(data))


class Tail(NamedTuple):
    """The last 64 bytes of a run file."""

    rows: int
    stream_bytes: int
    fence_bytes: int
    check_bytes: int
    layout_bytes: int
    crc: int

    @property
    def file_bytes(self) -> int:
        return self.stream_bytes + self.fence_bytes + self.check_bytes + self.layout_bytes + TAIL_BYTES

    def encode(self) -> bytes:
        covered = _TAIL.pack(_MAGIC, 0, VERSION, *self)[_COVERED:]
        return _MAGIC + crc32c(covered).to_bytes(4, "little") + covered

    @classmethod
    def decode(cls, data: bytes, file_bytes: int, where: str) -> Tail:
        """The tail in these last bytes of a file."""
        offset = file_bytes - len(data)
        if len(data) < TAIL_BYTES:
            raise damaged(where, offset, f"the tail of {TAIL_BYTES} bytes is cut short at {len(data)}")
        magic, crc, version, *fields = _TAIL.unpack(data)
        if magic != _MAGIC:
            raise damaged(where, offset, "these are not the last bytes of a run")
        if crc != crc32c(data[_COVERED:]):
            raise damaged(where, offset, "the tail does not match its checksum")
        if version != VERSION:
            raise Unsupported(
                f"the run is of format {version}, and this Penstock reads format {VERSION}",
                subject=where,
                hint="Open the database with a newer Penstock.",
            )
        tail = cls(*fields)
        if tail.file_bytes != file_bytes:
            raise damaged(where, offset, f"the file has {file_bytes} bytes and was {tail.file_bytes}")
        return tail


def damaged(where: str, offset: int, what: str) -> DamagedBytes:
    return DamagedBytes(
        f"{what}, at byte {offset}",
        subject=where,
        hint="The disk or a program changed what was written. Restore the file, or build its view anew.",
    )
