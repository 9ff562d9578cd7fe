"""`grouped`: rows by equal key, where equal keys have equal hashes.

Cost: one SIMD sort of the hashes, and one comparison of each row with the one before it. Only where different
keys share a hash are rows put into Arrow's hash tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.changes.rows import group, same_rows
from penstock.errors import ArithmeticOverflow
from penstock.spine.arrange import sorting
from penstock.spine.layout import Bools, Int64s

__all__ = ["Groups", "added_up", "grouped"]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows by group; groups are numbered in the order of their hashes, read as unsigned.

    ``ids[i]`` is the group of row i, and ``first[g]`` the first row of group g.
    """

    ids: Int64s
    first: Int64s

    @property
    def count(self) -> int:
        return len(self.first)

    def last(self) -> Int64s:
        """The last row of each group."""
        rows = np.empty(self.count, np.int64)
        rows[self.ids] = np.arange(len(self.ids))  # of several, the last one written stays
        return rows


def grouped(hashes: Int64s, keys: Sequence[pa.Array]) -> Groups:
    """Number the groups of rows whose keys are equal as Spark groups them.

    >>> it = grouped(np.array([7, 3, 7, 7]), [pa.array(["a", "b", "a", None])])
    >>> it.ids.tolist(), it.first.tolist()
    ([1, 0, 1, 2], [1, 0, 3])
    """
    length = len(hashes)
    if not length:
        return Groups(np.empty(0, np.int64), np.empty(0, np.int64))
    order = sorting(unsigned(hashes))
    if order is None:
        order = np.arange(length)
    found = hashes[order]
    begins = np.ones(length, np.bool_)  # a row that begins a stretch of equal hash
    np.not_equal(found[1:], found[:-1], out=begins[1:])
    mixed = _mixed(begins, keys, order)
    if mixed is not None:
        rows = np.flatnonzero(mixed)
        stretch = pa.array(np.cumsum(begins)[rows])
        at = pa.array(order[rows])
        among = group([stretch, *(it.take(at) for it in keys)], len(rows))
        begins[rows] = False
        begins[rows[among.first]] = True
    first = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    if mixed is not None:
        number[rows] = number[rows[among.first[among.ids]]]
    ids = np.empty(length, np.int64)
    ids[order] = number
    return Groups(ids, order[first])


def _mixed(begins: Bools, keys: Sequence[pa.Array], order: Int64s) -> Bools | None:
    """The rows of those stretches in which different keys meet; None where there are no such."""
    follows = np.flatnonzero(~begins)
    if not len(follows) or not keys:
        return None
    here, before = pa.array(order[follows]), pa.array(order[follows - 1])
    same = same_rows([it.take(here) for it in keys], [it.take(before) for it in keys], len(follows))
    if same.all():
        return None
    stretch = np.cumsum(begins) - 1
    has = np.zeros(int(stretch[-1]) + 1, np.bool_)
    has[stretch[follows[~same]]] = True
    mixed: Bools = has[stretch]
    return mixed


def added_up(values: Int64s, groups: Groups) -> Int64s:
    """Σ values by group, refused where that leaves 64 bits.

    >>> added_up(np.array([1, 5, -1]), grouped(np.array([7, 3, 7]), [])).tolist()
    [5, 0]
    """
    if groups.count == len(values):
        sums = np.empty(groups.count, np.int64)
        sums[groups.ids] = values
        return sums
    sums = np.zeros(groups.count, np.int64)
    np.add.at(sums, groups.ids, values)
    if max(int(values.max()), -int(values.min())) * len(values) >= 1 << 63:
        # int64 may have wrapped: add the upper halves apart and see whether both tell the same.
        upper, lower = np.zeros_like(sums), np.zeros_like(sums)
        np.add.at(upper, groups.ids, values >> 32)
        np.add.at(lower, groups.ids, values & 0xFFFFFFFF)
        if ((upper + (lower >> 32)) != (sums >> 32)).any():
            raise ArithmeticOverflow(
                "a sum of weights leaves the range of 64 bits",
                subject="operator",
                hint="No real bag holds so many copies of a row: look for a change applied over and over.",
            )
    return sums
