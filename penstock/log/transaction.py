"""Several appends, of any collections of one log, that become visible together or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.changes.names import OP, TS, WEIGHT
from penstock.changes.op import Op
from penstock.changes.record import ChangeOperation
from penstock.errors import Closed, DidNotHappen, InvalidArgument, SchemaMismatch, Unsupported
from penstock.log.format import Kind
from penstock.log.meta import Collection
from penstock.log.rows import CHANGED_FIELD, Part, event_ends, prepare
from penstock.lsn import LsnRange

__all__ = ["Appendable", "Row", "Transaction", "parts_of_batch", "parts_of_event", "parts_of_refresh"]

Appendable: TypeAlias = pa.RecordBatch | pa.Table
Row: TypeAlias = Mapping[str, Any]

_FRAME_TARGET = 32 << 20


class Transaction:
    """Gathers appends and commits them at the end of its ``with`` block; an error there rolls all back.

    Nothing is written before the commit, so a rollback costs nothing. Used by one thread.
    """

    def __init__(
        self, find: Callable[[str], Collection], commit: Callable[[Sequence[Part]], LsnRange], subject: str
    ) -> None:
        self._find = find
        self._commit = commit
        self._subject = subject
        self._parts: list[Part] = []
        self._open = True
        self.lsns: LsnRange | None = None

    def append(self, collection: str, data: Appendable) -> None:
        """See `Log.append`."""
        self._add(parts_of_batch(self._find(collection), data))

    def emit(
        self,
        operation: ChangeOperation | str,
        collection: str,
        *,
        before: Row | None = None,
        after: Row | None = None,
        changed_columns: Iterable[str] | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        """See `Log.emit`."""
        self._add(
            parts_of_event(self._find(collection), operation, before, after, changed_columns, timestamp)
        )

    def refresh(self, collection: str, data: Appendable) -> None:
        """See `Log.refresh`."""
        self._add(parts_of_refresh(self._find(collection), data))

    def commit(self) -> LsnRange:
        """Make everything visible; the end of the block calls it. May be repeated where it did not happen."""
        self._check_open()
        self._open = False
        try:
            self.lsns = self._commit(self._parts)
        except DidNotHappen:
            self._open = True
            raise
        return self.lsns

    def rollback(self) -> None:
        """Forget everything. Idempotent."""
        self._open = False
        self._parts = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self._open:
            self.commit()

    def _add(self, parts: list[Part]) -> None:
        self._check_open()
        self._parts += parts

    def _check_open(self) -> None:
        if not self._open:
            raise Closed(
                "the transaction was committed or rolled back", subject=self._subject, hint="Begin a new one."
            )


def parts_of_batch(collection: Collection, data: Appendable) -> list[Part]:
    """The frames for a batch or table: one, but large ones are cut between events."""
    bodies = [prepare(piece, collection) for piece in _pieces(collection, data)]
    return [Part(collection, body) for body in bodies if body.rows]


def parts_of_refresh(collection: Collection, data: Appendable) -> list[Part]:
    """One frame that replaces the collection's content."""
    for name in (OP, WEIGHT):
        if name in data.schema.names:
            raise InvalidArgument(
                f"the new content has a column {name!r}",
                subject=f"collection {collection.name!r}",
                hint="A refresh gives the rows that are to be there: drop the column.",
            )
    return [Part(collection, prepare(_joined(collection, data), collection), Kind.REFRESH)]


def parts_of_event(
    collection: Collection,
    operation: ChangeOperation | str,
    before: Row | None,
    after: Row | None,
    changed_columns: Iterable[str] | None,
    timestamp: datetime | None,
) -> list[Part]:
    """The frame for one event."""
    subject = f"collection {collection.name!r}"
    given = _sides(operation, before, after, subject)
    batch = _rows(collection, [row for _, row in given])
    batch = batch.append_column(OP, pa.array([int(op) for op, _ in given], pa.int8()))
    if timestamp is not None:
        if timestamp.tzinfo is None:
            raise InvalidArgument(
                f"{timestamp} has no time zone",
                subject=subject,
                hint="Give one, for instance datetime.now(UTC).",
            )
        stamp = pa.array([timestamp] * len(given), pa.timestamp("us", tz="UTC"))
        batch = batch.append_column(pa.field(TS, stamp.type, nullable=False), stamp)
    if changed_columns is not None:
        changed = list(changed_columns)
        for name in changed:
            if name not in collection.schema.names:
                raise InvalidArgument(
                    f"the changed column {name!r} is not a column",
                    subject=subject,
                    hint=f"The columns are {', '.join(collection.schema.names)}.",
                )
        batch = batch.append_column(CHANGED_FIELD, pa.array([changed] * len(given), CHANGED_FIELD.type))
    return [Part(collection, prepare(batch, collection))]


_NEEDED = {"insert": "after", "update": "after", "delete": "before"}


def _sides(
    operation: ChangeOperation | str, before: Row | None, after: Row | None, subject: str
) -> list[tuple[Op, Row]]:
    """The rows of one event with their operations, or an error that tells which row is wanted."""
    needed = _NEEDED.get(str(operation))
    if needed is None:
        raise InvalidArgument(
            f"{str(operation)!r} is not an event of one row",
            subject=subject,
            hint='Use "insert", "update" or "delete"; a whole collection is replaced by refresh().',
        )
    sides = {"before": before, "after": after}
    if sides[needed] is None:
        raise InvalidArgument(
            f"the event has no row {needed!r}", subject=subject, hint=f"{operation} needs it."
        )
    if operation == ChangeOperation.UPDATE:
        both = [(Op.UPDATE_BEFORE, before), (Op.UPDATE_AFTER, after)]
        return [(op, row) for op, row in both if row is not None]
    if before is not None and after is not None:
        raise InvalidArgument(
            f"an event {str(operation)!r} has a row 'before' and a row 'after'",
            subject=subject,
            hint=f"Give {needed!r} only, or use 'update'.",
        )
    op = Op.INSERT if operation == ChangeOperation.INSERT else Op.DELETE
    return [(op, row) for row in (before, after) if row is not None]


def _rows(collection: Collection, rows: list[Row]) -> pa.RecordBatch:
    for row in rows:
        unknown = [name for name in row if name not in collection.schema.names]
        if unknown:
            raise SchemaMismatch(
                f"the column {unknown[0]!r} is not in the collection",
                subject=f"collection {collection.name!r}",
                hint=f"The columns are {', '.join(collection.schema.names)}.",
            )
    columns = []
    for field in collection.schema:
        try:
            columns.append(pa.array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaMismatch(
                f"the value of column {field.name!r} does not fit {field.type} ({error})",
                subject=f"collection {collection.name!r}",
                hint="Give a value of that type.",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=collection.schema)


def _pieces(collection: Collection, data: Appendable) -> list[pa.RecordBatch]:
    if data.get_total_buffer_size() <= _FRAME_TARGET:  # told at once, where `nbytes` has to add up slices
        return [_joined(collection, data)]
    count = -(-data.nbytes // _FRAME_TARGET)
    if count <= 1:
        return [_joined(collection, data)]
    ends = np.arange(1, data.num_rows + 1)
    if OP in data.schema.names:
        column = data.column(data.schema.get_field_index(OP))
        ends = event_ends(column.to_numpy(zero_copy_only=False))
    wanted = np.linspace(0, data.num_rows, count + 1)[1:-1]
    cuts = [0, *np.unique(ends[np.searchsorted(ends, wanted)]).tolist(), data.num_rows]
    return [_joined(collection, data.slice(a, b - a)) for a, b in itertools.pairwise(cuts) if b > a]


def _joined(collection: Collection, data: Appendable) -> pa.RecordBatch:
    if isinstance(data, pa.RecordBatch):
        return data
    batches = data.to_batches()
    if len(batches) > 1:
        batches = data.combine_chunks().to_batches()
    if len(batches) > 1:
        raise Unsupported(
            "the rows are too many for one frame: a column has more than 2 GiB of text or lists",
            subject=f"collection {collection.name!r}",
            hint="Append them in several batches, or make the column large_string or large_list.",
        )
    if batches:
        return batches[0]
    empty = [pa.array([], field.type) for field in data.schema]
    return pa.RecordBatch.from_arrays(empty, schema=data.schema)
