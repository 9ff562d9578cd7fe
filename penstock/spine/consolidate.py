"""Summing equal rows of a sorted batch, at the price of comparing only those whose hash is not their own.

Equal rows have equal hashes, so they stand in one *stretch* of equal hash (and, in a bag with an order, of
equal value in that column). Within a stretch:

* where each row equals the one before, the stretch is one row: one comparison of neighbours, vectorised;
* of up to four rows, all pairs are compared, vectorised by distance;
* larger ones are grouped by Arrow's hash tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.rows import group, same_rows
from penstock.errors import ArithmeticOverflow
from penstock.spine.layout import Bools, Int64s, Layout, UInt64s, int64s

__all__ = ["added_up", "consolidated", "same_as"]

_PAIRWISE = 4
_MAX = 2**63 - 1


def consolidated(layout: Layout, hashes: UInt64s, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns of the stored form, sorted already, with equal rows summed and zeros dropped."""
    stored = layout.stored
    summed = {
        stored.get_field_index(name): int64s(columns[stored.get_field_index(name)], name)
        for name in layout.summed
    }
    compared = [columns[stored.get_field_index(name)] for name in layout.compared]
    by = None if layout.order is None else columns[stored.get_field_index(layout.order)]
    leaders = _leaders(hashes, compared, by)
    alive: Bools | None = None
    if leaders is not None:
        summed = {i: added_up(values, leaders) for i, values in summed.items()}
        alive = leaders == np.arange(len(hashes))
    some = np.zeros(len(hashes), np.bool_)
    for values in summed.values():
        some |= values != 0
    alive = some if alive is None else alive & some
    kept = None if alive.all() else np.flatnonzero(alive)
    out = []
    for i, column in enumerate(columns):
        if i in summed:
            values = summed[i]
            out.append(pa.array(values if kept is None else values[kept]))
        else:
            out.append(column if kept is None else column.take(pa.array(kept)))
    return out


def added_up(values: Int64s, leaders: Int64s) -> Int64s:
    """Values of the rows added to their leaders'; what stands at other places means nothing."""
    followers = np.flatnonzero(leaders != np.arange(len(leaders)))
    sums = values.copy()
    np.add.at(sums, leaders[followers], values[followers])
    if len(values) and max(int(values.max()), -int(values.min())) * (len(followers) + 1) > _MAX:
        # int64 may have wrapped: add the upper halves apart and see whether both tell the same.
        upper, lower = values >> 32, values & 0xFFFFFFFF
        np.add.at(upper, leaders[followers], (values >> 32)[followers])
        np.add.at(lower, leaders[followers], (values & 0xFFFFFFFF)[followers])
        if ((upper + (lower >> 32)) != (sums >> 32))[leaders].any():
            raise overflow()
    return sums


def overflow() -> ArithmeticOverflow:
    return ArithmeticOverflow(
        "a sum leaves the range of 64 bits",
        subject="spine",
        hint="No real content has so many copies of a row: look for a change that is applied over and over.",
    )


def same_as(
    left: Sequence[pa.Array], left_rows: Int64s, right: Sequence[pa.Array], right_rows: Int64s
) -> Bools:
    """Pair by pair, whether a row on the left is a row on the right."""
    a, b = pa.array(left_rows), pa.array(right_rows)
    return same_rows([it.take(a) for it in left], [it.take(b) for it in right], len(left_rows))


def _leaders(hashes: UInt64s, compared: Sequence[pa.Array], by: pa.Array | None) -> Int64s | None:
    """For each row the first row that equals it; None where all rows differ."""
    length = len(hashes)
    follows = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1 if length > 1 else np.empty(0, np.int64)
    if by is not None and len(follows) and len(compared) > 1:
        follows = follows[_like_before([by], follows, length)]
    if not len(follows):
        return None
    same = np.zeros(length, np.bool_)  # a row like the one before it
    same[follows] = _like_before(compared, follows, length)
    begins = np.ones(length, np.bool_)  # a row that begins a stretch
    begins[follows] = False
    stretch = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    mixed = np.zeros(len(starts), np.bool_)
    mixed[stretch[follows[~same[follows]]]] = True
    leaders = np.arange(length)
    plain = follows[~mixed[stretch[follows]]]
    leaders[plain] = starts[stretch[plain]]
    if mixed.any():
        sizes = np.diff(starts, append=length)
        _lead_pairwise(leaders, compared, same, stretch, starts, np.flatnonzero(mixed & (sizes <= _PAIRWISE)))
        large = np.flatnonzero(mixed & (sizes > _PAIRWISE))
        if len(large):
            rows = _rows_of(starts[large], sizes[large])
            taken = pa.array(rows)
            columns = [pa.array(stretch[rows]), *(it.take(taken) for it in compared)]
            grouping = group(columns, len(rows))
            leaders[rows] = rows[grouping.first[grouping.ids]]
    return leaders


def _lead_pairwise(
    leaders: Int64s,
    compared: Sequence[pa.Array],
    same: Bools,
    stretch: Int64s,
    starts: Int64s,
    small: Int64s,
) -> None:
    if not len(small):
        return
    ends = np.append(starts, len(stretch))[small + 1]
    rows = _rows_of(starts[small], ends - starts[small])
    alike = rows[same[rows]]
    leaders[alike] = alike - 1
    for distance in range(2, _PAIRWISE):
        later = rows[rows - distance >= starts[stretch[rows]]]
        alike = later[same_as(compared, later, compared, later - distance)]
        leaders[alike] = alike - distance


def _like_before(columns: Sequence[pa.Array], rows: Int64s, length: int) -> Bools:
    """Whether each of these rows equals the one before it."""
    if 2 * len(rows) > length:  # most rows: comparing all of them is cheaper than gathering some
        shifted = [column.slice(1) for column in columns], [column.slice(0, length - 1) for column in columns]
        return same_rows(*shifted, length - 1)[rows - 1]
    return same_as(columns, rows, columns, rows - 1)


def _rows_of(starts: Int64s, sizes: Int64s) -> Int64s:
    """All rows of stretches: start, start + 1, … for each."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
