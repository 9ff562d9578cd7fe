"""Transactions as what goes into a segment: the frames, and the bytes to write."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.log.format import Flag, Frame, Kind, padding
from penstock.log.rows import Part
from penstock.lsn import LsnRange
from penstock.store.data import Bytes

__all__ = ["Packed"]

_BOTH = Flag.BEGIN | Flag.END


class Packed:
    """Frames that are to follow one another in a segment, and their LSNs."""

    __slots__ = ("_seed", "_synced", "_term", "buffers", "frames", "next_lsn")

    def __init__(self, seed: int, synced_bytes: int, term: int, next_lsn: int) -> None:
        self._seed = seed
        self._synced = synced_bytes
        self._term = term
        self.next_lsn = next_lsn
        self.frames: list[tuple[bytes, Frame, pa.Buffer | None]] = []
        self.buffers: list[Bytes] = []

    def add(self, parts: Sequence[Part], time: int) -> LsnRange:
        """One transaction, committed at this time."""
        first = lsn = self.next_lsn
        last = len(parts) - 1
        for i, part in enumerate(parts):
            body = part.body
            data, events = body.data, part.events
            flags = body.flags | (Flag.BEGIN if i == 0 else 0) | (Flag.END if i == last else 0)
            number, synced, term = part.collection.id, self._synced, self._term
            size, crc, rows = data.size, body.crc, body.rows
            frame = Frame(size, lsn, time, synced, crc, number, events, rows, term, part.kind, flags)
            header = frame.encode(self._seed)
            self.frames.append((header, frame, data))
            self.buffers += (header, data, padding(size))
            lsn += events
        self.next_lsn = lsn
        return LsnRange(first, lsn - 1)

    def add_mark(self, kind: Kind, time: int) -> None:
        """A mark or a seal."""
        frame = Frame(0, self.next_lsn, time, self._synced, 0, 0, 0, 0, self._term, kind, _BOTH)
        header = frame.encode(self._seed)
        self.frames.append((header, frame, None))
        self.buffers.append(header)
