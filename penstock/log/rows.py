"""Between the rows that people append and read, and the bodies of frames.

A body holds the user's columns, `_op`, and only those other columns that cannot be told from the frame's
header: an ordinary frame stores one byte per row beside the user's own. LSNs are counted, weights follow
from operations, times from the commit; so they are made when read, and only when asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.names import LSN, META_FIELDS, OP, TS, WEIGHT, is_reserved
from penstock.changes.op import Op
from penstock.changes.rows import same_rows
from penstock.errors import InvalidArgument, SchemaMismatch
from penstock.log.format import Flag, Frame, Kind, crc32c, padding
from penstock.log.meta import Collection
from penstock.lsn import LsnRange

__all__ = ["CHANGED", "CHANGED_FIELD", "Body", "Part", "Stored", "event_ends", "prepare"]

CHANGED = "_changed"
CHANGED_FIELD = pa.field(CHANGED, pa.list_(pa.string()))
_OP_FIELD, _WEIGHT_FIELD, _LSN_FIELD, _TS_FIELD = META_FIELDS
_ACCEPTED = {OP, WEIGHT, TS, CHANGED}

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]


class Body(NamedTuple):
    """The rows of one frame to be, serialised. The checksum covers the padding that follows them, too."""

    data: pa.Buffer
    crc: int
    flags: int
    events: int
    rows: int


class Part(NamedTuple):
    """One frame to be: rows of one collection within a transaction."""

    collection: Collection
    body: Body
    kind: Kind = Kind.CHANGES

    @property
    def events(self) -> int:
        return 1 if self.kind is Kind.REFRESH else self.body.events


def prepare(batch: pa.RecordBatch, collection: Collection) -> Body:
    """Check a batch against its collection and serialise it.

    Beside the user's columns the batch may have `_op` (default: all inserts, or by the sign of `_weight`),
    `_weight`, `_ts` and `_changed`. A row UPDATE_BEFORE and the UPDATE_AFTER that follows it are one event.
    """
    if batch.schema.equals(collection.schema) and not any(
        batch.column(i).null_count for i in collection.required
    ):  # as it is to be, and all inserts: nothing has to be looked at column by column
        return _body(batch.add_column(batch.num_columns, _OP_FIELD, _inserts(batch.num_rows)), 0)
    subject = f"collection {collection.name!r}"
    names = batch.schema.names
    columns = [_column(batch, field, subject) for field in collection.schema]
    if len(names) != len(columns):
        _check_extra(names, collection, subject)
    ops, flags, weights = _operations(batch, names, subject)
    events = batch.num_rows
    columns.append(pa.array(ops))
    if flags & Flag.UPDATES:
        starts = _starts(ops, weights, subject)
        events = int(np.count_nonzero(starts))
        if events == len(ops):  # every new side came without its old one
            flags &= ~Flag.UPDATES
    if weights is not None:
        if not weights.all():
            return prepare(batch.filter(pa.array(weights != 0)), collection)
        columns.append(pa.array(weights))
        flags |= Flag.WEIGHTS
    for name, field, flag in ((TS, _TS_FIELD, Flag.TIMES), (CHANGED, CHANGED_FIELD, Flag.CHANGED)):
        if name in names:
            columns.append(_cast(batch.column(names.index(name)), field, subject))
            flags |= flag
    stored = pa.RecordBatch.from_arrays(columns, schema=_layout(collection, flags & _OPTIONAL))
    return _body(stored, flags, events)


def _body(stored: pa.RecordBatch, flags: int, events: int | None = None) -> Body:
    data = stored.serialize()
    rows = stored.num_rows
    return Body(data, crc32c(data, padding(data.size)), flags, rows if events is None else events, rows)


_FEW = 1 << 16
_INSERTS = pa.array(np.full(_FEW, Op.INSERT, np.int8))


def _inserts(rows: int) -> pa.Array:
    """The operation INSERT so many times."""
    return _few_inserts(rows) if rows <= _FEW else pa.array(np.full(rows, Op.INSERT, np.int8))


@lru_cache
def _few_inserts(rows: int) -> pa.Array:
    return _INSERTS.slice(0, rows)


class Stored:
    """The rows of a frame, decoded without copying the user's columns; the rest is made when asked for."""

    __slots__ = (
        "_changed",
        "_op_column",
        "_ops",
        "_times",
        "_weights",
        "collection",
        "commit_time",
        "data",
        "first_lsn",
        "flags",
    )

    def __init__(
        self,
        collection: Collection,
        flags: int,
        first_lsn: int,
        commit_time: int,
        data: pa.RecordBatch,
        ops: pa.Array,
        weights: pa.Array | None,
        times: pa.Array | None,
        changed: pa.Array | None,
    ) -> None:
        self.collection = collection
        self.flags = flags
        self.first_lsn = first_lsn
        self.commit_time = commit_time
        self.data = data
        self._op_column = ops
        self._ops: Int8s | None = None
        self._weights = weights
        self._times = times
        self._changed = changed

    @classmethod
    def decode(cls, collection: Collection, body: pa.Buffer, frame: Frame) -> Stored:
        """Read a body that was checked before."""
        flags = frame.flags & _OPTIONAL
        batch = pa.ipc.read_record_batch(body, _layout(collection, flags))
        width = len(collection.schema)
        ops = batch.column(width)
        extra: list[pa.Array | None] = [None, None, None]
        if flags:  # beside the operation, which is always there
            told = (batch.column(i) for i in range(width + 1, batch.num_columns))
            extra = [next(told) if flags & flag else None for flag, _ in _OPTIONAL_FIELDS]
            data = batch.select(range(width))
        else:
            data = batch.remove_column(width)
        return cls(collection, frame.flags, frame.first_lsn, frame.commit_time, data, ops, *extra)

    @property
    def ops(self) -> Int8s:
        """`Op` of each row."""
        if self._ops is None:
            self._ops = self._op_column.to_numpy()
        return self._ops

    def events(self, wanted: LsnRange) -> Stored:
        """Only these events: slices of everything."""
        rows = self.data.num_rows
        starts = np.append(self.event_starts(), rows) if self.flags & Flag.UPDATES else None
        low, high = wanted.first - self.first_lsn, wanted.last - self.first_lsn + 1
        start, stop = (low, high) if starts is None else (int(starts[low]), int(starts[high]))
        if (start, stop) == (0, rows):
            return self

        def cut(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column.slice(start, stop - start)

        return Stored(
            self.collection,
            self.flags,
            wanted.first,
            self.commit_time,
            self.data.slice(start, stop - start),
            self._op_column.slice(start, stop - start),
            cut(self._weights),
            cut(self._times),
            cut(self._changed),
        )

    @property
    def weights(self) -> Int64s:
        return _UNIT[self.ops] if self._weights is None else self._weights.to_numpy()

    @property
    def times(self) -> Int64s:
        """Microseconds since 1970, of each row."""
        if self._times is None:
            return np.full(len(self.ops), self.commit_time, np.int64)
        times: Int64s = self._times.view(pa.int64()).to_numpy()
        return times

    def event_starts(self) -> Int64s:
        """The first row of each event."""
        return np.flatnonzero(_begins(self.ops))

    def event_of_row(self) -> Int64s:
        """Which event each row is of, from 0."""
        if self.flags & Flag.UPDATES:
            return np.cumsum(_begins(self.ops)) - 1
        return np.arange(len(self.ops))

    def rows(self, refresh: bool = False) -> pa.RecordBatch:
        """The user's columns, then `_op`, `_weight`, `_lsn`, `_ts`."""
        lsn = np.full(len(self.ops), self.first_lsn) if refresh else self.first_lsn + self.event_of_row()
        times = pa.array(self.times).view(_TS_FIELD.type)
        columns = [*self.data.columns, pa.array(self.ops), pa.array(self.weights), pa.array(lsn), times]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*self.collection.schema, *META_FIELDS]))

    def changed_columns(self) -> list[list[str] | None]:
        """As the writer said; else as both sides of an update differ; else None."""
        starts = self.event_starts()
        told: list[list[str] | None] = [None] * len(starts)
        if self._changed is not None:
            last = np.append(starts[1:], len(self.ops)) - 1
            told = self._changed.take(pa.array(last)).to_pylist()
        if self.flags & Flag.UPDATES:
            pairs = np.flatnonzero(np.diff(np.append(starts, len(self.ops))) == 2)
            old, new = self.data.take(pa.array(starts[pairs])), self.data.take(pa.array(starts[pairs] + 1))
            differs = [
                ~same_rows([a], [b], len(pairs)) for a, b in zip(old.columns, new.columns, strict=True)
            ]
            names = self.data.schema.names
            for i, event in enumerate(pairs.tolist()):
                if told[event] is None:
                    told[event] = [name for name, mask in zip(names, differs, strict=True) if mask[i]]
        return told


_OPTIONAL_FIELDS = ((Flag.WEIGHTS, _WEIGHT_FIELD), (Flag.TIMES, _TS_FIELD), (Flag.CHANGED, CHANGED_FIELD))
_OPTIONAL = Flag.WEIGHTS | Flag.TIMES | Flag.CHANGED


def _layout(collection: Collection, flags: int) -> pa.Schema:
    """The columns of a body with these flags. Kept with the collection: every frame that is read asks."""
    found = collection.layouts.get(flags)
    if found is None:
        extra = (field for flag, field in _OPTIONAL_FIELDS if flags & flag)
        fields = [*collection.schema, _OP_FIELD, *extra]
        found = collection.layouts[flags] = pa.schema(fields, collection.schema.metadata)
    return found


def event_ends(ops: Int8s) -> Int64s:
    """For each event the row after its last: where a batch may be cut without splitting an event."""
    return np.append(np.flatnonzero(_begins(ops))[1:], len(ops)).astype(np.int64)


_UNIT = np.array([op.weight for op in sorted(Op)], np.int64)


def _begins(ops: Int8s) -> npt.NDArray[np.bool_]:
    """Whether each row begins an event: all but a new side right after its old one."""
    starts = np.ones(len(ops), np.bool_)
    starts[1:] = (ops[1:] != Op.UPDATE_AFTER) | (ops[:-1] != Op.UPDATE_BEFORE)
    return starts


def _starts(ops: Int8s, weights: Int64s | None, subject: str) -> npt.NDArray[np.bool_]:
    starts = _begins(ops)
    if weights is not None:
        new = np.flatnonzero(~starts)
        uneven = weights[new] != -weights[new - 1]
        if uneven.any():
            row = int(new[np.argmax(uneven)])
            raise InvalidArgument(
                f"the update in rows {row - 1} and {row} takes and gives different numbers of copies",
                subject=subject,
                hint="Give both sides the same weight but for the sign, or use DELETE and INSERT.",
            )
    alone = (ops == Op.UPDATE_BEFORE) & np.append(starts[1:], True)
    if alone.any():
        raise InvalidArgument(
            f"row {int(np.argmax(alone))} is UPDATE_BEFORE and no UPDATE_AFTER follows it",
            subject=subject,
            hint="Put the new side right after the old one, or use DELETE.",
        )
    return starts


def _operations(
    batch: pa.RecordBatch, names: Sequence[str], subject: str
) -> tuple[Int8s, int, Int64s | None]:
    """Operations, whether there are updates, and the weights where they say more than the operations do."""
    rows = batch.num_rows
    weights = None
    if WEIGHT in names:
        weights = _cast(batch.column(names.index(WEIGHT)), _WEIGHT_FIELD, subject).to_numpy()
    if OP in names:
        ops = _cast(batch.column(names.index(OP)), _OP_FIELD, subject).to_numpy()
        if rows and (ops.min() < 0 or ops.max() >= len(Op)):
            raise InvalidArgument(
                f"the column {OP!r} holds {int(ops.min())} to {int(ops.max())}",
                subject=subject,
                hint="Operations are 0 (insert), 1 (update before), 2 (update after) and 3 (delete).",
            )
        if weights is not None and ((weights > 0) != (_UNIT[ops] > 0))[weights != 0].any():
            raise InvalidArgument(
                "the sign of a weight is not that of its operation",
                subject=subject,
                hint="Leave one of them out.",
            )
    elif weights is not None:
        ops = np.where(weights > 0, Op.INSERT, Op.DELETE).astype(np.int8)
    else:
        return np.zeros(rows, np.int8), 0, None
    flags = Flag.UPDATES if ((ops == Op.UPDATE_BEFORE) | (ops == Op.UPDATE_AFTER)).any() else 0
    if weights is not None and (weights == _UNIT[ops]).all():
        weights = None
    return ops, flags, weights


def _column(batch: pa.RecordBatch, field: pa.Field, subject: str) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        raise SchemaMismatch(
            f"the column {field.name!r} is missing",
            subject=subject,
            hint=f"The batch has the columns {', '.join(batch.schema.names) or '(none)'}.",
        )
    return _cast(batch.column(index), field, subject)


def _cast(column: pa.Array, field: pa.Field, subject: str) -> pa.Array:
    """The column as its field wants it: only a dictionary is unpacked, nothing else is converted."""
    if column.type != field.type:
        if pa.types.is_dictionary(column.type) and column.type.value_type == field.type:
            return column.dictionary_decode()
        raise SchemaMismatch(
            f"the column {field.name!r} is of type {column.type} and not {field.type}",
            subject=subject,
            hint="Cast the column before appending.",
        )
    if not field.nullable and column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise SchemaMismatch(
            f"the column {field.name!r} is NULL in row {row}, and it may not be",
            subject=subject,
            hint="Give every row a value.",
        )
    return column


def _check_extra(names: Sequence[str], collection: Collection, subject: str) -> None:
    known = {*collection.schema.names, *_ACCEPTED}
    for name in names:
        if name in known:
            continue
        if name == LSN:
            raise InvalidArgument(
                "the batch has a column '_lsn'",
                subject=subject,
                hint="The log gives LSNs itself: drop the column.",
            )
        what = (
            "is Penstock's own and has no meaning here" if is_reserved(name) else "is not in the collection"
        )
        raise SchemaMismatch(
            f"the column {name!r} {what}",
            subject=subject,
            hint=f"The collection's columns are {', '.join(collection.schema.names)}.",
        )
