"""Where the items of a growing file begin and end.

A *framing* knows one thing: given a file, the position of the next item and the file's size, which items
are complete? An item is complete when its whole length is there, be the length the same for all
(`FixedRows`) or told by each item itself. Framings read; they keep no state and never wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import InvalidArgument

__all__ = ["READ_BYTES", "FixedRows", "Framing", "Items", "Position", "ReadableFile"]

READ_BYTES = 1 << 20
"""How much a framing reads at once: enough that the call costs nothing, little enough to hold."""


class ReadableFile(Protocol):
    """What a framing needs of a file."""

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, or an error; never fewer."""


@dataclass(frozen=True, slots=True)
class Position:
    """The beginning of an item: how many come before it, and at which byte it stands."""

    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class Items:
    """One or more complete items that stand side by side in a file.

    ``ends[i]`` is where the i-th of them ends in ``data``; the last one is ``len(data)``.
    Everything given out is a view: no byte is copied.

    >>> items = Items(Position(7, 100), memoryview(b"aabbb"), [2, 5])
    >>> bytes(items.item(8)), items.after(7), items.stop
    (b'bbb', Position(index=8, offset=102), Position(index=9, offset=105))
    """

    start: Position
    data: memoryview
    ends: Sequence[int]

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def stop(self) -> Position:
        """The position after the last item."""
        return Position(self.start.index + len(self.ends), self.start.offset + self.ends[-1])

    def item(self, index: int) -> memoryview:
        """The item of this index in the file."""
        number = index - self.start.index
        return self.data[self.ends[number - 1] if number else 0 : self.ends[number]]

    def items_from(self, index: int) -> memoryview:
        """The items from this index on, side by side."""
        number = index - self.start.index
        return self.data[self.ends[number - 1] :] if number else self.data

    def after(self, index: int) -> Position:
        """The position after the item of this index."""
        return Position(index + 1, self.start.offset + self.ends[index - self.start.index])


class Framing(Protocol):
    """How the items of a file are told apart."""

    @property
    def start(self) -> Position:
        """The position of the file's first item, after its header."""

    def skip(self, file: ReadableFile, position: Position, size: int) -> Position:
        """The position after the last item that is complete when the file has this size."""

    def read(self, file: ReadableFile, position: Position, size: int) -> Iterator[Items]:
        """The items from a position on that are complete when the file has this size, in order."""


@dataclass(frozen=True, slots=True)
class FixedRows:
    """Rows of one size behind a header: complete are ``floor((size - header) / row_size)`` of them.

    Index 0 is the first row after the header. Cost: arithmetic, and one read per `READ_BYTES`.

    >>> rows = FixedRows(row_size=8, header=64)
    >>> [rows.complete(size) for size in (0, 64, 71, 72, 80)]
    [0, 0, 0, 1, 2]
    """

    row_size: int
    header: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (("row_size", self.row_size, 1), ("header", self.header, 0)):
            if not isinstance(value, int) or value < least:
                raise InvalidArgument(
                    f"{name} is {value!r}", subject="FixedRows", hint=f"Give an integer of {least} or more."
                )

    def complete(self, size: int) -> int:
        """How many rows are complete when the file has this size."""
        return max(0, size - self.header) // self.row_size

    @property
    def start(self) -> Position:
        return Position(0, self.header)

    def skip(self, file: ReadableFile, position: Position, size: int) -> Position:
        rows = max(position.index, self.complete(size))
        return Position(rows, self.header + rows * self.row_size)

    def read(self, file: ReadableFile, position: Position, size: int) -> Iterator[Items]:
        row, complete = position.index, self.complete(size)
        at_once = max(1, READ_BYTES // self.row_size)
        while row < complete:
            length = min(at_once, complete - row) * self.row_size
            offset = self.header + row * self.row_size
            ends = range(self.row_size, length + 1, self.row_size)
            yield Items(Position(row, offset), file.read(offset, length), ends)
            row += len(ends)
