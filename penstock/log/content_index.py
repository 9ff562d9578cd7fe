"""From rows to their places: sorted runs of hashes, and the real columns to be sure.

Law: `Index.find` gives the place of every row that was entered, is still there, and is equal; a collision of
hashes costs time and never an answer.
State: runs of (hash, place), each sorted by hash; a run is merged with one of like size, so there are
O(log n), and an entry is moved O(log n) times. A merge leaves out rows that are gone, so a run has a row once
at most: a row that is replaced again and again does not make itself hard to find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import UInt64s
from penstock.changes.rows import group, same_rows
from penstock.log.content_rows import Counts, Int64s, Rows

__all__ = ["Groups", "Index", "groups"]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups of equal ones: ``order`` has each group's rows side by side, from ``starts`` on.

    Groups are in the order of their hashes, ``hashes`` has one for each.
    """

    order: Int64s
    starts: Int64s
    hashes: UInt64s

    def last(self) -> Int64s:
        """The last row of each group."""
        if len(self.starts) == len(self.order):
            return self.order
        return np.maximum.reduceat(self.order, self.starts)

    def first(self) -> Int64s:
        """The first row of each group."""
        if len(self.starts) == len(self.order):
            return self.order
        return np.minimum.reduceat(self.order, self.starts)


def groups(columns: Sequence[pa.Array], hashes: UInt64s) -> Groups:
    """Rows grouped by their hashes, and by their columns where different rows have one hash."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    repeats = np.flatnonzero(~begins)
    if len(repeats):
        left, right = pa.array(order[repeats - 1]), pa.array(order[repeats])
        same = same_rows([it.take(left) for it in columns], [it.take(right) for it in columns], len(repeats))
        if not same.all():
            ids = group(columns, len(hashes)).ids
            order = np.lexsort((ids, hashes))
            ids = ids[order]
            begins[1:] = ids[1:] != ids[:-1]
    starts = np.flatnonzero(begins)
    return Groups(order, starts, hashes[order[starts]])


@dataclass(frozen=True, slots=True)
class _Run:
    hashes: UInt64s
    places: Int64s


class Index:
    """The places of rows by the hash of some of their columns. Not changed: adding gives a new one."""

    __slots__ = ("_runs",)

    def __init__(self, runs: tuple[_Run, ...] = ()) -> None:
        self._runs = runs

    def added(self, hashes: UInt64s, places: Int64s, counts_at: Callable[[Int64s], Counts]) -> Index:
        """With these entries, in the order of their hashes. ``counts_at`` tells which rows are there."""
        if not len(hashes):
            return self
        runs, run = list(self._runs), _Run(hashes, places)
        while runs and len(runs[-1].hashes) <= 2 * len(run.hashes):
            run = _merged(runs.pop(), run, counts_at)
        return Index((*runs, run))

    def moved(self, places: Int64s) -> Index:
        """After rows got new places: ``places`` tells for each old one the new one, −1 where it is gone."""
        hashes = np.concatenate([np.empty(0, np.uint64), *(it.hashes for it in self._runs)])
        moved = places[np.concatenate([np.empty(0, np.int64), *(it.places for it in self._runs)])]
        there = moved >= 0
        hashes, moved = hashes[there], moved[there]
        order = np.argsort(hashes, kind="stable")
        return Index((_Run(hashes[order], moved[order]),))

    def find(
        self, hashes: UInt64s, columns: Sequence[pa.Array], rows: Rows, names: Sequence[str]
    ) -> tuple[Int64s, Int64s]:
        """Which of these different rows are there, and where: row numbers and places, side by side.

        The hashes are in order.
        """
        some = [_candidates(run, hashes) for run in self._runs]
        needles = np.concatenate([np.empty(0, np.int64), *(needle for needle, _ in some)])
        places = np.concatenate([np.empty(0, np.int64), *(place for _, place in some)])
        there = rows.counts_at(places) != 0
        needles, places = needles[there], places[there]
        order = np.argsort(places)
        needles, places = needles[order], places[order]
        if not len(places):
            return needles, places
        wanted = [it.take(pa.array(needles)) for it in columns]
        same = same_rows(rows.columns_at(places, names), wanted, len(places))
        return needles[same], places[same]


def _candidates(run: _Run, hashes: UInt64s) -> tuple[Int64s, Int64s]:
    """All pairs of a hash and an entry of the run that has it."""
    low = np.searchsorted(run.hashes, hashes, side="left")
    hit = np.flatnonzero(run.hashes[np.minimum(low, len(run.hashes) - 1)] == hashes)
    low = low[hit]
    counts = np.searchsorted(run.hashes, hashes[hit], side="right") - low
    at = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return np.repeat(hit, counts), run.places[at]


def _merged(left: _Run, right: _Run, counts_at: Callable[[Int64s], Counts]) -> _Run:
    hashes = np.concatenate([left.hashes, right.hashes])
    places = np.concatenate([left.places, right.places])
    there = counts_at(places) != 0
    if not there.all():
        hashes, places = hashes[there], places[there]
    order = np.argsort(hashes, kind="stable")  # two runs in order: a merge
    return _Run(hashes[order], places[order])
