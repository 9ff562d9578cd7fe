"""What a content does with changes: by key, or as a bag. Each step gives a new state; none is changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
import pyarrow as pa

from penstock.changes.op import Op
from penstock.changes.rows import canonical
from penstock.changes.zset import ZSet
from penstock.errors import ArithmeticOverflow
from penstock.log.changes import Changes
from penstock.log.content_hash import row_hashes
from penstock.log.content_index import Index, groups
from penstock.log.content_rows import Int64s, Rows
from penstock.log.keyed import key_ops
from penstock.log.meta import Collection

__all__ = ["Bag", "ByKey", "State"]


class State(ABC):
    """The content of a collection at one moment."""

    rows: Rows

    @abstractmethod
    def told_by(self, changes: Changes) -> Int64s:
        """For each row of the changes the number that `applied` is to get."""

    @abstractmethod
    def applied(self, batch: pa.RecordBatch, told: Int64s) -> Self:
        """After these changes, in this order."""

    @property
    def owed(self) -> int:
        """How many copies were taken away that were not there."""
        return 0


class ByKey(State):
    """Law: the last event of a key says what its row is; an old side without a new one of its key deletes.

    State: rows with a count of 1 or, when they were replaced or deleted, 0; and their places by key.
    Cost: O(changes × log of rows / changes) look-ups.
    """

    def __init__(self, collection: Collection) -> None:
        self._key = collection.key
        self.rows = Rows(collection.schema, np.int8)
        self._index = Index()

    @classmethod
    def _of(cls, key: tuple[str, ...], rows: Rows, index: Index) -> Self:
        made = cls.__new__(cls)
        made._key, made.rows, made._index = key, rows, index
        return made

    def told_by(self, changes: Changes) -> Int64s:
        return key_ops(changes).astype(np.int64)

    def applied(self, batch: pa.RecordBatch, told: Int64s) -> Self:
        old_sides = told == Op.UPDATE_BEFORE
        if old_sides.any():
            batch, told = batch.filter(pa.array(~old_sides)), told[~old_sides]
        keys = [batch.column(name) for name in self._key]
        found = groups(keys, row_hashes(keys, len(told)))
        last = found.last()
        needles = [it.take(pa.array(last)) for it in keys]
        _, gone = self._index.find(found.hashes, needles, self.rows, self._key)
        rows = self.rows.with_counts(gone, np.zeros(len(gone), np.int8))
        stays = told[last] != Op.DELETE
        set_now = last[stays]
        kept = np.sort(set_now)  # as they came
        places = np.empty(len(told), np.int64)
        places[kept] = rows.end + np.arange(len(kept))
        batch = batch if len(kept) == len(told) else batch.take(pa.array(kept))
        rows = rows.appended(batch, np.ones(len(kept), np.int8))
        index = self._index.added(found.hashes[stays], places[set_now], rows.counts_at)
        if rows.is_sparse:
            rows, moved = rows.compacted()
            index = index.moved(moved)
        return self._of(self._key, rows, index)


class Bag(State):
    """Law: a row is there as often as its weights add up to, or not at all where that is less than 0.

    State: rows with their counts. Rows that only came are not compared with anything; when one is taken away
    for the first time since, they are: then each different row is at one place, and found by all its columns.
    What was taken away and not there is owed: the next copies that come are nothing but that.
    Cost: O(changes), while rows only come; taking away costs look-ups, as by key.
    """

    def __init__(self, collection: Collection) -> None:
        self.rows = Rows(collection.schema, np.int64)
        self._index = Index()
        self._indexed = 0  # up to which place
        self._owed = ZSet.empty(collection.schema)

    @classmethod
    def _of(cls, rows: Rows, index: Index, indexed: int, owed: ZSet) -> Self:
        made = cls.__new__(cls)
        made.rows, made._index, made._indexed, made._owed = rows, index, indexed, owed
        return made

    @property
    def owed(self) -> int:
        return -self._owed.total_weight

    def told_by(self, changes: Changes) -> Int64s:
        return changes.weights

    def applied(self, batch: pa.RecordBatch, told: Int64s) -> Self:
        columns = [canonical(column) for column in batch.columns]
        change = ZSet(pa.RecordBatch.from_arrays(columns, schema=self.rows.schema), told)
        if len(self._owed):
            change = (change + self._owed).consolidate()
        come, go = change.split()
        rows = self.rows.appended(come.rows, come.weights) if len(come) else self.rows
        if not len(go):
            return self._of(rows, self._index, self._indexed, ZSet.empty(self.rows.schema))
        rows, index = self._all_indexed(rows)
        rows, owed = _taken(rows, index, go)
        if rows.is_sparse:
            rows, moved = rows.compacted()
            index = index.moved(moved)
        return self._of(rows, index, rows.end, owed)

    def _all_indexed(self, rows: Rows) -> tuple[Rows, Index]:
        """Each different row at one place, and entered."""
        names, index = rows.schema.names, self._index
        for start, batch, counts in list(rows.batches_from(self._indexed)):
            found = groups(batch.columns, row_hashes(batch.columns, len(batch)))
            sums = _sums(counts[found.order], found.starts)
            first = found.first()
            there, places = index.find(
                found.hashes, [it.take(pa.array(first)) for it in batch.columns], rows, names
            )
            known = np.zeros(len(first), np.bool_)
            known[there] = True
            news = np.zeros(len(batch), np.int64)
            news[first[~known]] = sums[~known]
            total = _added(rows.counts_at(places).astype(np.int64), sums[there])
            rows = rows.with_counts(
                np.concatenate([start + np.arange(len(batch)), places]), np.concatenate([news, total])
            )
            index = index.added(found.hashes[~known], start + first[~known], rows.counts_at)
        return rows, index


def _taken(rows: Rows, index: Index, go: ZSet) -> tuple[Rows, ZSet]:
    """Without the copies that are taken away, and those of them that were not there."""
    columns = go.rows.columns
    found = groups(columns, row_hashes(columns, len(go)))
    less = _sums(go.weights[found.order], found.starts)
    first = found.first()
    which, places = index.find(
        found.hashes, [it.take(pa.array(first)) for it in columns], rows, rows.schema.names
    )
    left = rows.counts_at(places) + less[which]
    less[which] = np.minimum(left, 0)
    owed = np.flatnonzero(less)
    rows = rows.with_counts(places, np.maximum(left, 0))
    return rows, ZSet(go.rows.take(pa.array(first[owed])), less[owed])


def _sums(weights: Int64s, starts: Int64s) -> Int64s:
    if not len(starts):
        return np.empty(0, np.int64)
    if np.abs(np.add.reduceat(weights.astype(np.float64), starts)).max() > 2.0**62:
        raise _overflow()
    return np.add.reduceat(weights, starts)


def _added(left: Int64s, right: Int64s) -> Int64s:
    total = left + right
    if (((left ^ total) & (right ^ total)) < 0).any():
        raise _overflow()
    return total


def _overflow() -> ArithmeticOverflow:
    return ArithmeticOverflow(
        "the copies of one row leave the range of 64 bits",
        subject="content",
        hint="No real bag holds so many: look for a change that is applied over and over.",
    )
