"""The bytes of a segment: a head, then frames, all little-endian and aligned to 64 bytes.

``docs/FORMAT.md`` is the page for people; this file is the law. Every byte of a segment is covered by a
CRC32C: the head and each frame's header by their own, a frame's body and its padding by the one in its
header. So a reader of one collection can trust and skip other collections' frames by their headers alone.

A header's checksum continues from the head's, which is of one segment of one log: bytes of another log or
segment, such as a file system may leave in a file when power is lost, never pass for frames of this one.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.errors import DamagedBytes, Unsupported

__all__ = [
    "ALIGN",
    "FRAME_BYTES",
    "FRAME_DTYPE",
    "HEAD_BYTES",
    "MAGIC",
    "VERSION",
    "Flag",
    "Frame",
    "Head",
    "Kind",
    "Readable",
    "crc32c",
    "damaged",
    "padded",
    "padding",
    "segment_name",
]

VERSION = 1
ALIGN = 64
HEAD_BYTES = 64
FRAME_BYTES = 64
MAGIC = 0x314D5246  # "FRM1": how each frame begins

# What google_crc32c and struct both take without a copy.
Readable: TypeAlias = bytes | pa.Buffer

_HEAD_MAGIC = b"PSTKSEG\x01"

# magic, crc of what follows, version, log id, first LSN, commit time of the event before it, term
_HEAD = struct.Struct("<8sII16sQqI12x")
_HEAD_COVERED = 12
# magic, crc of what follows, body bytes, first LSN, commit time, synced bytes, body crc, collection, events,
# rows, term, kind, flags
_FRAME = struct.Struct("<IIQQqQIIIIIBB2x")
_FRAME_COVERED = 8
FRAME_DTYPE = np.dtype(
    {
        "names": ["magic", "body_bytes", "first_lsn", "commit_time", "collection", "events", "rows"],
        "formats": ["<u4", "<u8", "<u8", "<i8", "<u4", "<u4", "<u4"],
        "offsets": [0, 8, 16, 24, 44, 48, 52],
        "itemsize": FRAME_BYTES,
    }
)
"""Many headers at once, for those who have checked them before."""
_ZEROS = bytes(ALIGN)

assert _HEAD.size == HEAD_BYTES
assert _FRAME.size == FRAME_BYTES


def crc32c(data: Readable, more: bytes = b"") -> int:
    crc = google_crc32c.value(data)
    return int(google_crc32c.extend(crc, more) if more else crc)


def padded(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGN) * ALIGN


def padding(nbytes: int) -> bytes:
    """The zeros that follow a body of so many bytes."""
    return _ZEROS[: -nbytes % ALIGN]


def segment_name(first_lsn: int) -> str:
    """Names sort as LSNs do."""
    return f"{first_lsn:020d}.segment"


class Kind(IntEnum):
    """What a frame says. The numbers are stored and never change."""

    CHANGES = 1
    REFRESH = 2  # the rows are the whole new content of the collection, as one event
    MARK = 3  # nothing new: all before it is synced (written when a log is closed or comes to rest)
    SEAL = 4  # a mark that ends its segment: the next LSN begins a new one


class Flag:
    """Facts about a frame's transaction and the columns beside the user's: bits of one integer.

    Plain integers, as each operation on an `enum.IntFlag` takes a microsecond and every append has several.
    """

    BEGIN = 1  # first frame of its transaction
    END = 2  # last frame of its transaction: from here on it is visible
    UPDATES = 4  # some event has two rows, −old and +new
    WEIGHTS = 8  # a `_weight` column is stored; without it every weight is its operation's
    TIMES = 16  # a `_ts` column is stored; without it every time is the commit time
    CHANGED = 32  # a `_changed` column is stored: the columns an update touched


_KINDS = {int(kind): kind for kind in Kind}
_ALL_FLAGS = 63


class Head(NamedTuple):
    """The first 64 bytes of a segment."""

    log_id: bytes
    first_lsn: int
    after_time: int  # when the event before the first was committed; 0 where a log begins
    term: int

    def encode(self) -> bytes:
        covered = self._covered()
        return _HEAD_MAGIC + crc32c(covered).to_bytes(4, "little") + covered

    def _covered(self) -> bytes:
        return _HEAD.pack(_HEAD_MAGIC, 0, VERSION, *self)[_HEAD_COVERED:]

    @property
    def seed(self) -> int:
        """The checksum that those of the segment's frames continue from."""
        return crc32c(self._covered())

    @classmethod
    def decode(cls, data: bytes, where: str) -> Head:
        if len(data) < HEAD_BYTES:
            raise damaged(where, 0, f"the head of {HEAD_BYTES} bytes is cut short at {len(data)}")
        magic, crc, version, *fields = _HEAD.unpack(data[:HEAD_BYTES])
        if magic != _HEAD_MAGIC:
            raise damaged(where, 0, "these are not the first bytes of a segment")
        if crc != crc32c(data[_HEAD_COVERED:HEAD_BYTES]):
            raise damaged(where, 0, "the head does not match its checksum")
        if version != VERSION:
            raise Unsupported(
                f"the segment is of format {version}, and this Penstock reads format {VERSION}",
                subject=where,
                hint="Open the log with a newer Penstock.",
            )
        return cls(*fields)


class Frame(NamedTuple):
    """A frame's header: enough to skip it, or to know what its body holds. In the order of the bytes."""

    body_bytes: int
    first_lsn: int
    commit_time: int  # microseconds since 1970, never less than the frame's before it
    synced_bytes: int  # so much of this segment was on disk before this frame was written
    body_crc: int
    collection: int
    events: int
    rows: int
    term: int
    kind: Kind
    flags: int  # of `Flag`

    @property
    def last_lsn(self) -> int:
        return self.first_lsn + self.events - 1

    @property
    def frame_bytes(self) -> int:
        """Header, body and padding."""
        return FRAME_BYTES + padded(self.body_bytes)

    @property
    def begins(self) -> bool:
        return bool(self.flags & Flag.BEGIN)

    @property
    def ends(self) -> bool:
        return bool(self.flags & Flag.END)

    def encode(self, seed: int) -> bytes:
        packed = _FRAME.pack(MAGIC, 0, *self)
        crc = google_crc32c.extend(seed, packed[_FRAME_COVERED:])
        return packed[:4] + int(crc).to_bytes(4, "little") + packed[_FRAME_COVERED:]

    @classmethod
    def decode(cls, data: bytes, where: str, offset: int, seed: int) -> Frame:
        """The header in these 64 bytes; damage is told with the place it is at."""
        if len(data) < FRAME_BYTES:
            raise damaged(where, offset, "a frame's header is cut short")
        magic, crc, *fields, kind, flags = _FRAME.unpack(data)
        if magic != MAGIC or crc != google_crc32c.extend(seed, data[_FRAME_COVERED:]):
            raise damaged(where, offset, "a frame's header does not match its checksum")
        if kind not in _KINDS or flags > _ALL_FLAGS:
            raise Unsupported(
                f"the frame at byte {offset} is of kind {kind} with flags {flags}, unknown to this Penstock",
                subject=where,
                hint="Open the log with a newer Penstock.",
            )
        return cls._make((*fields, _KINDS[kind], flags))

    @classmethod
    def trusted(cls, headers: bytes | bytearray, at: int) -> Frame:
        """The header from this byte on, which was checked before."""
        _, _, *fields, kind, flags = _FRAME.unpack_from(headers, at)
        return cls._make((*fields, _KINDS[kind], flags))

    @staticmethod
    def synced_told(data: bytes, seed: int) -> int | None:
        """The synced bytes that these 64 bytes tell of; None when they are not a whole header."""
        magic, crc, _, _, _, synced, *_ = _FRAME.unpack(data)
        if magic != MAGIC or crc != google_crc32c.extend(seed, data[_FRAME_COVERED:]):
            return None
        return int(synced)

    def check_body(self, body: Readable, where: str, offset: int) -> None:
        """Refuse a body (with its padding) that is not what was written."""
        if crc32c(body) != self.body_crc:
            raise damaged(where, offset, "a frame's body does not match its checksum")


def damaged(where: str, offset: int, what: str) -> DamagedBytes:
    return DamagedBytes(
        f"{what}, at byte {offset}",
        subject=where,
        hint="The disk or a program changed what was written. Restore the file, or build the log anew.",
    )
