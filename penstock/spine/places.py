"""Where the values of a column lie in a mapped file, so that a guard is asked for just those that are
read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spine.guard import Guard
from penstock.spine.layout import Int64s

__all__ = ["Column", "Place", "place_of"]

Offsets = npt.NDArray[Any]

_SPARSE = 16  # rows apart on average, above which rows are looked at one by one


class Place(Protocol):
    """The bytes of one column."""

    def touch(self, guard: Guard, start: int, stop: int) -> None:
        """Trust rows [start, stop)."""

    def touch_rows(self, guard: Guard, rows: Int64s) -> None:
        """Trust these rows, in any order; there is one at least."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of so many bits each, from a byte on."""

    at: int
    bits: int

    def touch(self, guard: Guard, start: int, stop: int) -> None:
        guard.touch(self.at + (start * self.bits >> 3), self.at + (stop * self.bits + 7 >> 3))

    def touch_rows(self, guard: Guard, rows: Int64s) -> None:
        guard.touch_each(self.at + (rows * self.bits >> 3), self.at + ((rows + 1) * self.bits + 7 >> 3))


@dataclass(frozen=True, slots=True)
class Texts:
    """Byte strings: offsets, then the bytes between them."""

    offsets: Fixed
    ends: Offsets  # the offsets themselves, mapped
    at: int

    def touch(self, guard: Guard, start: int, stop: int) -> None:
        self.offsets.touch(guard, start, stop + 1)
        guard.touch(self.at + int(self.ends[start]), self.at + int(self.ends[stop]))

    def touch_rows(self, guard: Guard, rows: Int64s) -> None:
        self.offsets.touch_rows(guard, rows)
        self.offsets.touch_rows(guard, rows + 1)
        starts, stops = self.ends[rows].astype(np.int64), self.ends[rows + 1].astype(np.int64)
        filled = starts < stops
        guard.touch_each(self.at + starts[filled], self.at + stops[filled])


@dataclass(frozen=True, slots=True)
class Whole:
    """Values whose places depend on one another, as those of lists do: all are trusted, or none."""

    ranges: tuple[tuple[int, int], ...]

    def touch(self, guard: Guard, start: int, stop: int) -> None:
        for first, last in self.ranges:
            guard.touch(first, last)

    def touch_rows(self, guard: Guard, rows: Int64s) -> None:
        self.touch(guard, 0, 0)


@dataclass(frozen=True, slots=True)
class Column:
    """All parts of a column: which values are NULL, and the values."""

    parts: tuple[Place, ...]

    def touch(self, guard: Guard, start: int, stop: int) -> None:
        if not guard.whole and start < stop:
            for part in self.parts:
                part.touch(guard, start, stop)

    def touch_rows(self, guard: Guard, rows: Int64s) -> None:
        if guard.whole or not len(rows):
            return
        start, stop = int(rows.min()), int(rows.max()) + 1
        if stop - start <= _SPARSE * len(rows):
            self.touch(guard, start, stop)
        else:
            for part in self.parts:
                part.touch_rows(guard, rows)


def place_of(column: pa.Array, base: int) -> Column:
    """Where a column lies whose buffers are mapped, in bytes from the address ``base`` on."""
    kind, buffers = column.type, column.buffers()
    t = pa.types
    if t.is_string(kind) or t.is_binary(kind):
        values: Place | None = _texts(buffers, 4, base)
    elif t.is_large_string(kind) or t.is_large_binary(kind):
        values = _texts(buffers, 8, base)
    elif t.is_primitive(kind) or t.is_decimal(kind) or t.is_fixed_size_binary(kind):
        values = Fixed(buffers[1].address - base, kind.bit_width) if buffers[1] else None
    else:
        there = [(it.address - base, it.address - base + it.size) for it in buffers if it]
        return Column((Whole(tuple(there)),))
    nulls = Fixed(buffers[0].address - base, 1) if buffers[0] else None
    return Column(tuple(part for part in (nulls, values) if part is not None))


def _texts(buffers: list[pa.Buffer | None], width: int, base: int) -> Texts | None:
    offsets, data = buffers[1], buffers[2]
    if offsets is None or data is None:
        return None
    ends: Offsets = np.frombuffer(offsets, np.int32 if width == 4 else np.int64)
    return Texts(Fixed(offsets.address - base, 8 * width), ends, data.address - base)
