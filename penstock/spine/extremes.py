"""Look-up of the least or the greatest live value of each key.

Law: a value is alive where its weights, added up over all runs, are more than 0. Nothing about a value is
known before all runs have told of it, so a round reads some rows of each run, from the end on, and decides
the values that lie before the last one that any run has shown. What is undecided is read again in the next
round, which reads eight times as many rows.
Cost: a search per key and run; then rows in proportion to the dead ones that lie before the answer. With
bounds these are the rows of values that died since the bound was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidArgument, SchemaMismatch
from penstock.spine.layout import WEIGHT, Int64s, Layout
from penstock.spine.needles import Needles
from penstock.spine.order import before, ranks
from penstock.spine.run import Run

__all__ = ["extremes_of"]

_FIRST_ROWS = 8  # of each key and run in the first round
_GROWTH = 8
_MOST_ROWS = 1 << 18  # of all in one round, while there are more keys than one
_PROBES = 64  # values looked at in one step of a search, at least


def extremes_of(
    layout: Layout, runs: Sequence[Run], keys: pa.RecordBatch, bounds: pa.Array | None, greatest: bool
) -> pa.Array:
    """Row i for row i of ``keys``: NULL where nothing is alive."""
    kind = _kind(layout, keys, bounds)
    needles = Needles(layout, keys)
    if bounds is not None:
        bounds = bounds.take(pa.array(needles.order))
    ranges = [_Ranges.found(layout, run, needles, bounds, greatest) for run in runs]
    ranges = [it for it in ranges if len(it.needles)]
    answer = np.full(len(needles), -1)  # where among the values told so far
    told: list[pa.Array] = [pa.array([], kind)]
    count, at_once = 0, _FIRST_ROWS
    while ranges:
        values, needle, progress = _round(ranges, needles, at_once)
        answer[needle] = np.arange(count, count + len(needle))
        told.append(values)
        count += len(needle)
        ranges = [left for it in ranges if len((left := it.without(answer >= 0)).needles)]
        waiting = sum(len(it.needles) for it in ranges)
        if progress:
            at_once = max(min(at_once * _GROWTH, _MOST_ROWS // max(waiting, 1)), at_once)
        else:  # each window is full of one value
            at_once *= _GROWTH
    found = np.empty(len(needles), np.int64)
    found[needles.order] = answer
    return pa.concat_arrays(told).take(pa.array(found, mask=found < 0))


def _kind(layout: Layout, keys: pa.RecordBatch, bounds: pa.Array | None) -> pa.DataType:
    if layout.order is None:
        raise InvalidArgument(
            "the rows of this spine are in no order", subject="extremes", hint="Give its layout an order."
        )
    kind = layout.schema.field(layout.order).type
    if bounds is not None and (bounds.type != kind or len(bounds) != keys.num_rows):
        raise SchemaMismatch(
            f"there are {len(bounds)} bounds of {bounds.type} for {keys.num_rows} keys",
            subject="extremes",
            hint=f"Give one {kind} for each key, NULL where there is no bound.",
        )
    return kind


@dataclass(slots=True)
class _Ranges:
    """What is left to read of one run: rows [starts, stops) for each needle that it has rows for."""

    layout: Layout
    run: Run
    greatest: bool
    needles: Int64s
    starts: Int64s
    stops: Int64s

    @classmethod
    def found(
        cls, layout: Layout, run: Run, needles: Needles, bounds: pa.Array | None, greatest: bool
    ) -> _Ranges:
        """All rows of each needle's hash, but none before its bound."""
        found, starts, stops = needles.find(run)
        it = cls(layout, run, greatest, found, starts, stops)
        if bounds is not None and len(found):
            bounded = np.flatnonzero(bounds.is_valid().to_numpy(zero_copy_only=False)[found])
            if len(bounded):
                edges = bounds.take(pa.array(found[bounded]))
                rows = it._seek(starts[bounded], stops[bounded], edges)
                (stops if greatest else starts)[bounded] = rows
        return it.without(np.zeros(len(needles), np.bool_))

    def without(self, done: np.ndarray) -> _Ranges:
        """Those that have rows left and whose needle is not done."""
        kept = np.flatnonzero(~done[self.needles] & (self.starts < self.stops))
        if len(kept) == len(self.needles):
            return self
        return _Ranges(
            self.layout, self.run, self.greatest, self.needles[kept], self.starts[kept], self.stops[kept]
        )

    def _seek(self, starts: Int64s, stops: Int64s, edges: pa.Array) -> Int64s:
        """The first row whose value is not less than the edge; with ``greatest`` the first that is more.

        Each step looks at several values of each range, so few ranges take few steps.
        """
        starts, stops = starts.copy(), stops.copy()
        parts = max(_PROBES // len(starts), 1) + 1
        inner = np.arange(1, parts)
        while True:
            wide = np.flatnonzero(starts < stops)
            if not len(wide):
                return starts
            low, size = starts[wide], stops[wide] - starts[wide]
            probes = low[:, None] + size[:, None] * inner // parts
            values = self.run.take([self._order], probes.reshape(-1))[0]
            against = edges.take(pa.array(np.repeat(wide, len(inner))))
            passed = ~before(against, values) if self.greatest else before(values, against)
            count = passed.reshape(probes.shape).sum(axis=1)
            padded = np.column_stack([low - 1, probes, stops[wide]])
            row = np.arange(len(wide))
            starts[wide] = padded[row, count] + 1
            stops[wide] = np.maximum(padded[row, count + 1], starts[wide])

    @property
    def _order(self) -> str:
        assert self.layout.order is not None
        return self.layout.order

    def window(self, at_once: int) -> tuple[Int64s, Int64s]:
        """The next rows of each range: first, and how many."""
        sizes = np.minimum(self.stops - self.starts, at_once)
        return (self.stops - sizes if self.greatest else self.starts), sizes

    def read(self, rows: Int64s) -> tuple[pa.Array, Int64s]:
        values, weights = self.run.take([self._order, WEIGHT], rows)
        return values, weights.to_numpy()

    def pass_over(self, counts: Int64s) -> None:
        """So many rows of each range are decided."""
        if self.greatest:
            self.stops -= counts
        else:
            self.starts += counts


def _round(ranges: Sequence[_Ranges], needles: Needles, at_once: int) -> tuple[pa.Array, Int64s, bool]:
    """Read on in each range: the values that turn out to be answers, whose, and whether any row was
    decided."""
    values, weights, owner, source, same = [], [], [], [], []
    first = 0
    windows = []
    for it in ranges:
        starts, sizes = it.window(at_once)
        ends = np.cumsum(sizes)
        at = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.arange(int(ends[-1])) + np.repeat(starts - (ends - sizes), sizes)
        told, weight = it.read(rows)
        values.append(told)
        weights.append(weight)
        owner.append(it.needles[at])
        source.append(at + first)
        same.append(needles.same(it.needles[at], it.run, rows))
        windows.append((first, ends, sizes))
        first += len(sizes)
    value = pa.concat_arrays(values)
    rank = ranks(value)
    if ranges[0].greatest:
        rank = ~rank
    needle = np.concatenate(owner)
    horizon = np.full(len(needles), np.iinfo(np.int64).max)
    limited = np.zeros(len(needles), np.bool_)
    before_row = 0
    for it, (_, ends, sizes) in zip(ranges, windows, strict=True):
        more = np.flatnonzero(sizes < it.stops - it.starts)
        last = (ends - sizes if it.greatest else ends - 1)[more] + before_row
        np.minimum.at(horizon, it.needles[more], rank[last])
        limited[it.needles[more]] = True
        before_row += int(ends[-1])
    undecided = limited[needle] & (rank >= horizon[needle])
    counts = np.bincount(np.concatenate(source)[~undecided], minlength=first)
    for it, (begin, _, sizes) in zip(ranges, windows, strict=True):
        it.pass_over(counts[begin : begin + len(sizes)])
    kept = np.flatnonzero(~undecided & np.concatenate(same))
    kept = kept[np.lexsort((rank[kept], needle[kept]))]
    alive = _alive(needle[kept], rank[kept], np.concatenate(weights)[kept])
    answers = kept[alive]
    return value.take(pa.array(answers)), needle[answers], bool(counts.any())


def _alive(needle: Int64s, rank: Int64s, weights: Int64s) -> Int64s:
    """Of sorted rows, those that begin the first value of their needle whose weights add up to more than
    0."""
    if not len(needle):
        return np.empty(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], (needle[1:] != needle[:-1]) | (rank[1:] != rank[:-1])]))
    starts = starts[np.add.reduceat(weights, starts) > 0]
    owners = needle[starts]
    return starts[np.concatenate([[True], owners[1:] != owners[:-1]])] if len(starts) else starts
