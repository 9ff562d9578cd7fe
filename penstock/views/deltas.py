"""A tick's changes of one collection: from a log, between two cursors, to what the engine takes in.

A keyed table gives events (its columns, `_op`, `_lsn`), anything else gives changes (columns, `_weight`).
Each task reads its own part of the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes import Op
from penstock.changes.names import LSN, OP, WEIGHT
from penstock.changes.rows import canonical
from penstock.log import Changes, ReadableLog
from penstock.log.content import content
from penstock.log.keyed import key_ops
from penstock.spark import Pieces, Rows, Source

__all__ = ["DRIVER_EVENTS", "OpenLog", "delta"]

DRIVER_EVENTS = 200_000
"""Up to so many events are counted, and read by one task."""
_PIECE_EVENTS = 250_000

OpenLog = Callable[[], ReadableLog]
"""Opens a log to read, in whichever process it is called. Travels to tasks."""


def delta(
    log: ReadableLog, reopen: OpenLog, collection: str, schema: pa.Schema, since: int, upto: int, keyed: bool
) -> Source:
    """The changes after ``since`` up to ``upto``, which both lie between transactions."""
    form = _Form(collection, schema, keyed)
    if upto <= since:
        return Rows(form.empty())
    found = list(log.read(collection, since, upto)) if upto - since <= DRIVER_EVENTS else None
    if found is not None and not found:
        return Rows(form.empty())
    if found is not None and any(changes.is_refresh for changes in found):
        batches = [batch for changes in found for batch in form.rows(changes, log)]
        return Rows(pa.Table.from_batches(batches, schema=form.schema))
    edges = [since, upto] if found is not None else [*range(since, upto, _PIECE_EVENTS), upto]
    pieces = [_Piece(reopen, form, low, high) for low, high in itertools.pairwise(edges)]
    return Pieces(pieces, sum(map(len, found)) if found is not None else upto - since)


@dataclass(frozen=True)
class _Form:
    """How rows of a log become rows of the engine."""

    collection: str
    columns: pa.Schema
    keyed: bool

    @property
    def schema(self) -> pa.Schema:
        if self.keyed:
            return pa.schema([*self.columns, pa.field(OP, pa.int8()), pa.field(LSN, pa.int64())])
        return self.columns.append(pa.field(WEIGHT, pa.int64()))

    def empty(self) -> pa.Table:
        return self.schema.empty_table()

    def rows(self, changes: Changes, log: ReadableLog) -> Iterator[pa.RecordBatch]:
        if changes.is_refresh:
            yield from self._replaced(changes, log)
        elif self.keyed:
            ops = key_ops(changes)
            lsns = changes.rows.column(LSN).to_numpy()
            # Who keeps rows by key knows the old one; an old side under another key is a delete by now.
            yield self._events(changes.data, ops, lsns, ops != Op.UPDATE_BEFORE)
        else:
            yield self._changes(changes.data, changes.weights)

    def _replaced(self, changes: Changes, log: ReadableLog) -> Iterator[pa.RecordBatch]:
        """A refresh: what there was goes, and what it brings comes."""
        old = content(log, self.collection, changes.first_lsn - 1)
        for batch in old.to_batches():
            if self.keyed:
                yield self._events(
                    batch, np.full(len(batch), Op.DELETE), np.full(len(batch), changes.first_lsn)
                )
            else:
                yield self._changes(batch, np.full(len(batch), -1))
        new = changes.data
        if self.keyed:
            yield self._events(new, np.full(len(new), Op.INSERT), np.full(len(new), changes.first_lsn))
        else:
            yield self._changes(new, changes.weights)

    def _events(
        self,
        data: pa.RecordBatch,
        ops: np.ndarray[tuple[int], np.dtype[np.int8]],
        lsns: np.ndarray[tuple[int], np.dtype[np.int64]],
        keep: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
    ) -> pa.RecordBatch:
        columns = [*data.columns, pa.array(ops.astype(np.int8)), pa.array(lsns)]
        batch = self._batch(columns)
        return batch if keep is None or keep.all() else batch.filter(pa.array(keep))

    def _changes(
        self, data: pa.RecordBatch, weights: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> pa.RecordBatch:
        # What is taken back is to the last bit what was told: 0.0 for −0.0, one NaN.
        return self._batch([*map(canonical, data.columns), pa.array(weights)])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        kinds = zip(columns, self.schema.types, strict=True)
        fitted = [column if column.type == kind else column.cast(kind) for column, kind in kinds]
        return pa.RecordBatch.from_arrays(fitted, schema=self.schema)


@dataclass(frozen=True)
class _Piece:
    """Some of the changes, read by a task."""

    reopen: OpenLog
    form: _Form
    since: int
    upto: int

    def __call__(self) -> Iterator[pa.RecordBatch]:
        log = self.reopen()
        for changes in log.read(self.form.collection, self.since, self.upto):
            yield from self.form.rows(changes, log)
