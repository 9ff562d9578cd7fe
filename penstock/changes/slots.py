"""`SlotTable`: keys of 64-bit integers, numbered, in batches.

What a dictionary is for one key at a time, this is for a hundred thousand at once: an open-addressing
hash table in NumPy arrays, where each step of the search is taken by all keys that still need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SlotTable", "grown"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ABSENT = -1
# Odd constants that spread neighbouring keys over the upper bits, as windows one minute apart are.
_SPREAD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


class SlotTable:
    """Keys of ``width`` 64-bit integers; each gets a slot, 0, 1, 2, …, and keeps it.

    Law: equal keys have equal slots, different keys different ones, whatever their hashes.
    State: the keys, one array per column, and a table of slots that is at most half full: that is why a
    search takes one or two steps, and why the longest of a batch takes some ten, not some hundred.
    Cost: O(keys asked for), some 30 ns each; adding is amortised O(1) per key. Keys are never removed:
    whoever needs that makes a new table of those that stay (`kept`).

    >>> table = SlotTable(width=2)
    >>> table.number([np.array([0, 60, 0]), np.array([60, 120, 60])]).tolist()
    [0, 1, 0]
    >>> table.find([np.array([60, 7]), np.array([120, 7])]).tolist()
    [1, -1]
    """

    __slots__ = ("_count", "_keys", "_table")

    def __init__(self, width: int) -> None:
        self._count = 0
        self._keys: list[Int64s] = [np.zeros(8, np.int64) for _ in range(width)]
        self._table: Int64s = np.full(16, _ABSENT, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> list[Int64s]:
        """The keys in the order of their slots."""
        return [keys[: self._count] for keys in self._keys]

    def find(self, columns: Sequence[Int64s]) -> Int64s:
        """The slot of each key, −1 where it is not there."""
        return self._search(columns)[0]

    def number(self, columns: Sequence[Int64s]) -> Int64s:
        """The slot of each key; those that are not there yet are added."""
        found, place = self._search(columns)
        absent = np.flatnonzero(found < 0)
        if absent.size:
            new = [column[absent] for column in columns]
            if 2 * (self._count + absent.size) > len(self._table):
                self._grow(self._count + absent.size)
                place = self._search(new)[1]
            else:
                place = place[absent]
            found[absent] = self._add(new, place)
        return found

    def kept(self, mask: Bools) -> SlotTable:
        """A table of the keys where ``mask`` is true, numbered anew in the same order."""
        table = SlotTable(len(self._keys))
        table._keys = [keys[mask] for keys in self.columns]
        table._count = int(np.count_nonzero(mask))
        table._grow(table._count)
        return table

    def _home(self, columns: Sequence[Int64s]) -> Int64s:
        """Where the search for each key begins: the upper bits of its hash."""
        mixed = columns[0].view(np.uint64) * _SPREAD[0]
        for column in columns[1:]:
            mixed ^= mixed >> np.uint64(32)
            mixed += column.view(np.uint64)
            mixed *= _SPREAD[1]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _SPREAD[0]
        bits = len(self._table).bit_length() - 1
        return (mixed >> np.uint64(64 - bits)).view(np.int64)

    def _same(self, slots: Int64s, columns: Sequence[Int64s]) -> Bools:
        same: Bools = self._keys[0][slots] == columns[0]
        for keys, column in zip(self._keys[1:], columns[1:], strict=True):
            same &= keys[slots] == column
        return same

    def _search(self, columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
        """For each key its slot and its place in the table, or −1 and the free place it would take."""
        columns = [np.ascontiguousarray(column, np.int64) for column in columns]
        last = len(self._table) - 1
        place = self._home(columns)
        found = self._table[place]
        astray = np.flatnonzero((found >= 0) & ~self._same(found, columns))
        while astray.size:
            step = (place[astray] + 1) & last
            slots = self._table[step]
            place[astray], found[astray] = step, slots
            wrong = (slots >= 0) & ~self._same(slots, [column[astray] for column in columns])
            astray = astray[wrong]
        return found, place

    def _add(self, columns: Sequence[Int64s], place: Int64s) -> Int64s:
        """Give slots to keys that are not there; equal ones among them get one slot."""
        last = len(self._table) - 1
        slots = np.full(len(place), _ABSENT, np.int64)
        todo = np.arange(len(place))
        while todo.size:
            # All who stand before a free place write their mark there, the first of them last: it stays.
            before_free = todo[self._table[place[todo]] < 0][::-1]
            self._table[place[before_free]] = _ABSENT - 1 - before_free
            winners = before_free[self._table[place[before_free]] == _ABSENT - 1 - before_free][::-1]
            slots[winners] = np.arange(self._count, self._count + len(winners))
            self._table[place[winners]] = slots[winners]
            self._append([column[winners] for column in columns])
            # The others look at who has the place now: their own key, or one that sends them on.
            others = todo[slots[todo] < 0]
            there = self._table[place[others]]
            same = self._same(there, [column[others] for column in columns])
            slots[others[same]] = there[same]
            todo = others[~same]
            place[todo] = (place[todo] + 1) & last
        return slots

    def _append(self, columns: Sequence[Int64s]) -> None:
        count = self._count + len(columns[0])
        for i, column in enumerate(columns):
            self._keys[i] = grown(self._keys[i], count)
            self._keys[i][self._count : count] = column
        self._count = count

    def _grow(self, count: int) -> None:
        """Make the table a quarter full with ``count`` keys, and put the present ones in."""
        size = max(16, 1 << (4 * count - 1).bit_length())
        self._keys = [grown(keys, max(count, 1)) for keys in self._keys]
        self._table = np.full(size, _ABSENT, np.int64)
        place = self._home(self.columns)
        todo = np.arange(self._count)
        while todo.size:
            free = todo[self._table[place[todo]] < 0]
            self._table[place[free]] = free
            todo = todo[self._table[place[todo]] != todo]
            place[todo] = (place[todo] + 1) & (size - 1)


def grown(array: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """The array with room for ``count`` values: itself, or a copy at least twice as long, zero-filled."""
    if count <= len(array):
        return array
    longer = np.zeros(max(count, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
