"""A framing for tests whose items are of any length: one byte that tells it, then so many bytes."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.log.framing import Items, Position, ReadableFile


def frame(body: bytes) -> bytes:
    return bytes([len(body)]) + body


class LengthPrefixed:
    """Complete are the frames whose whole length is there."""

    @property
    def start(self) -> Position:
        return Position(0, 0)

    def skip(self, file: ReadableFile, position: Position, size: int) -> Position:
        for items in self.read(file, position, size):
            position = items.stop
        return position

    def read(self, file: ReadableFile, position: Position, size: int) -> Iterator[Items]:
        if size <= position.offset:
            return
        data = file.read(position.offset, size - position.offset)
        ends: list[int] = []
        end = 0
        while end < len(data) and end + 1 + data[end] <= len(data):
            end += 1 + data[end]
            ends.append(end)
        if ends:
            yield Items(position, data[:end], ends)
