"""The frames of a log's segment as items of a growing file: how another process is told of each append."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from penstock.errors import DamagedBytes
from penstock.log import framing
from penstock.log.changes import Changes
from penstock.log.format import FRAME_BYTES, HEAD_BYTES, Frame, Head, damaged
from penstock.log.framing import Items, Position, ReadableFile
from penstock.log.meta import Collection

__all__ = ["LogFrames"]


@dataclass(frozen=True, slots=True)
class LogFrames:
    """A segment's frames; a frame is complete when its whole transaction is there.

    A part of a transaction may still be taken back, so it is nobody's yet. What is given was checked: a frame
    that is not what was written is `DamagedBytes`, with its place in the file. Marks and the seal are frames,
    too, and have no changes. Cost: headers are looked at one by one, bodies are checked when they are given.

    Whoever wants whole logs opens one to read: `Log.tail` goes on from segment to segment. This is for those
    who drive a `RowEmitter` of their own::

        file = WatchedFile(folder / "segments" / "00000000000000000001.segment")
        frames = LogFrames.of(file)
        emitter = RowEmitter(file, frames)
        emitter.subscribe(lambda index, row: print(frames.changes(row, collections)))
        file.follow()
    """

    head: Head
    name: str = "segment"

    @classmethod
    def of(cls, file: ReadableFile, name: str = "segment") -> Self:
        """For this segment; its checksums depend on its head."""
        return cls(Head.decode(bytes(file.read(0, HEAD_BYTES)), name), name)

    @property
    def start(self) -> Position:
        return Position(0, HEAD_BYTES)

    def skip(self, file: ReadableFile, position: Position, size: int) -> Position:
        while ends := self._ends(file, position, size):
            position = Position(position.index + len(ends), position.offset + ends[-1])
        return position

    def read(self, file: ReadableFile, position: Position, size: int) -> Iterator[Items]:
        while ends := self._ends(file, position, size):
            items = Items(position, file.read(position.offset, ends[-1]), ends)
            self._check(items)
            yield items
            position = items.stop

    def frame(self, row: memoryview) -> Frame:
        """The header of a frame that was given."""
        return Frame.trusted(bytes(row[:FRAME_BYTES]), 0)

    def changes(self, row: memoryview, collections: Mapping[int, Collection]) -> Changes | None:
        """What a frame that was given says; None of a mark. ``collections`` are by number: `Meta.by_id`."""
        frame = self.frame(row)
        if not frame.events:
            return None
        collection = collections.get(frame.collection)
        if collection is None:
            raise damaged(self.name, 0, f"a frame is of an unknown collection numbered {frame.collection}")
        body = pa.py_buffer(row[FRAME_BYTES : FRAME_BYTES + frame.body_bytes])
        return Changes(collection, frame, body, frame.first_lsn - 1, frame.last_lsn)

    def _ends(self, file: ReadableFile, position: Position, size: int) -> list[int]:
        """Where frames end, counted from the position: `READ_BYTES` of whole transactions, or just one."""
        piece = file.read(position.offset, min(framing.READ_BYTES, max(size - position.offset, 0)))
        ends: list[int] = []
        whole = end = 0  # frames up to the end of a transaction; bytes up to the end of a frame
        while position.offset + end + FRAME_BYTES <= size and not (whole and end >= len(piece)):
            header = piece[end : end + FRAME_BYTES]
            if len(header) < FRAME_BYTES:
                header = file.read(position.offset + end, FRAME_BYTES)
            frame = Frame.decode(bytes(header), self.name, position.offset + end, self.head.seed)
            end += frame.frame_bytes
            if position.offset + end > size:
                break
            ends.append(end)
            if frame.ends:
                whole = len(ends)
        return ends[:whole]

    def _check(self, items: Items) -> None:
        for index in range(items.start.index, items.stop.index):
            row = items.item(index)
            try:
                self.frame(row).check_body(pa.py_buffer(row[FRAME_BYTES:]), self.name, 0)
            except DamagedBytes:
                at = items.after(index).offset - len(row)
                raise damaged(self.name, at, "a frame's body does not match its checksum") from None
