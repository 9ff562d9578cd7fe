"""Changes as Debezium's messages, a whole batch at once.

Every column becomes a column of JSON texts (`json_columns`), rows are their columns' texts joined, and
messages are rows between constant texts. What is decided per message (which row is its before, which its
after, whether a tombstone follows) is decided by index arithmetic, so no row is ever visited in Python.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.json_columns import TEXT, column_text, join, object_pieces, quoted
from penstock.changes.debezium.schema import key_schema, struct_type, value_schema
from penstock.changes.debezium.source import Source
from penstock.changes.debezium.types import Decimals, check_decimals
from penstock.changes.names import LSN, OP, TS, WEIGHT, check_user_schema, user_columns
from penstock.changes.op import Op
from penstock.changes.pickable import pickable_rows
from penstock.changes.rows import same_rows
from penstock.errors import ArithmeticOverflow, InvalidArgument

__all__ = ["Encoded", "encode"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pieces = list[str | pa.Array]


class Encoded(NamedTuple):
    """Messages in the order of the changes: one JSON document each.

    ``values[i]`` is NULL for a tombstone, ``keys[i]`` is NULL when no key columns were given, and ``rows[i]``
    is the last row of the batch that message i tells of: once it is delivered, so is everything up to that
    row.
    """

    values: pa.Array
    keys: pa.Array
    rows: Int64s


def encode(
    batch: pa.RecordBatch,
    source: Source,
    *,
    key: Sequence[str] = (),
    schema: bool = False,
    decimals: Decimals = "precise",
    tombstones: bool = False,
    snapshot: bool = False,
    processed_ns: int | None = None,
) -> Encoded:
    """Write a batch of changes (columns, ``_op``, optionally ``_ts`` and ``_lsn``) as Debezium's messages.

    Law: an UPDATE_BEFORE directly followed by its UPDATE_AFTER is one ``u`` message with both images, or,
    when it changes the key, a ``d`` of the old key and a ``c`` of the new one; a lone UPDATE_AFTER is a ``u``
    whose before is unknown; INSERT is ``c``, or ``r`` with ``snapshot``; DELETE is ``d``, with ``tombstones``
    followed by one. `decode` gives back what was encoded.
    State: none.
    Cost: O(cells), some hundred nanoseconds a row, no Python per row.

    ``schema`` adds the Connect schema to each message, and ``processed_ns`` is the time of writing (default:
    now).

    >>> from penstock.changes.op import Op
    >>> batch = pa.record_batch({"id": [1], "_op": pa.array([Op.DELETE], pa.int8())})
    >>> encoded = encode(batch, Source("shop", "default", "orders"), key=["id"], tombstones=True)
    >>> encoded.values[0].as_py()[:37], encoded.values[1].as_py(), encoded.keys.to_pylist()
    ('{"before":{"id":1},"after":null,"sour', None, ['{"id":1}', '{"id":1}'])
    """
    check_decimals(decimals)
    batch = pickable_rows(batch)
    names = _check(batch, key)
    columns = [batch.column(name) for name in names]
    row_type = struct_type(pa.schema([batch.schema.field(name) for name in names]), decimals)
    plan = _plan(_ops(batch), _key_columns(batch, key), tombstones, snapshot)
    texts = [column_text(column, decimals) for column in columns]
    row = object_pieces(names, texts)

    pieces: Pieces = []
    if schema:
        pieces = ['{"schema":', _json(value_schema(source, row_type)), ',"payload":']
    if plan.is_rows_in_order:
        pieces += ['{"before":null,"after":', *row]
    else:
        rows = join(row, batch.num_rows)
        pieces += ['{"before":', _taken(rows, plan.before), ',"after":', _taken(rows, plan.after)]
    pieces += [',"source":', *_source(batch, source, plan, snapshot, processed_ns), "}" if schema else ""]
    values = join(pieces, len(plan.rows))
    if plan.tombstones.any():
        values = pc.if_else(pa.array(plan.tombstones), pa.scalar(None, TEXT), values)

    if not key:
        return Encoded(values, pa.nulls(len(values), TEXT), plan.rows)
    wanted = dict(zip(names, texts, strict=True))
    key_pieces = object_pieces(list(key), [wanted[name] for name in key])
    if schema:
        key_pieces = ['{"schema":', _json(key_schema(source, row_type, key)), ',"payload":', *key_pieces, "}"]
    keys = join(key_pieces, batch.num_rows)
    return Encoded(values, keys if plan.is_rows_in_order else keys.take(pa.array(plan.rows)), plan.rows)


def _json(document: object) -> str:
    return orjson.dumps(document).decode()


def _check(batch: pa.RecordBatch, key: Sequence[str]) -> list[str]:
    names = user_columns(batch.schema.names)
    check_user_schema(pa.schema([field for field in batch.schema if field.name in set(names)]), "encode")
    missing = [name for name in key if name not in names]
    if missing:
        raise InvalidArgument(
            f"the key column {missing[0]!r} is not a column of the batch",
            subject="encode",
            hint=f"The columns are {', '.join(names) or 'none'}.",
        )
    if len(set(key)) < len(key):
        raise InvalidArgument(
            f"the key {', '.join(map(repr, key))} names a column twice",
            subject="encode",
            hint="Name each column of the key once.",
        )
    for name in (*names, TS, LSN, OP):
        if batch.schema.names.count(name) != 1:
            continue
        column, needed = batch.column(name), name in (TS, LSN, OP)
        if column.null_count and (needed or not batch.schema.field(name).nullable):
            raise InvalidArgument(
                f"{column.null_count} values of the column {name!r} are NULL, and it does not allow that",
                subject="encode",
                hint="Fill them in, or declare the column nullable." if not needed else "Give every row one.",
            )
    return names


def _ops(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    if batch.schema.names.count(OP) != 1 or not pa.types.is_integer(batch.schema.field(OP).type):
        raise InvalidArgument(
            f"the batch has no column {OP!r} of integers",
            subject="encode",
            hint="Add it: an int8 column of penstock.changes.op.Op values.",
        )
    ops = batch.column(OP).to_numpy(zero_copy_only=False)
    odd = (ops < 0) | (ops > max(Op))
    if odd.any():
        raise InvalidArgument(
            f"the {OP} of row {odd.argmax()} is {ops[odd.argmax()]}",
            subject="encode",
            hint=f"Use the values of penstock.changes.Op: {', '.join(f'{op.name}={op.value}' for op in Op)}.",
        )
    if batch.schema.names.count(WEIGHT) == 1:
        weights = batch.column(WEIGHT).to_numpy(zero_copy_only=False)
        told = np.where((ops == Op.INSERT) | (ops == Op.UPDATE_AFTER), 1, -1)
        if (weights != told).any():
            at = int((weights != told).argmax())
            raise InvalidArgument(
                f"row {at} is {Op(int(ops[at])).name} with weight {weights[at]}",
                subject="encode",
                hint="A message tells of one copy of a row: give each copy a row of its own, with weight ±1.",
            )
    return np.asarray(ops, np.int8)


def _key_columns(batch: pa.RecordBatch, key: Sequence[str]) -> list[pa.Array]:
    return [batch.column(name) for name in key]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which messages there are: row numbers of their images (−1: none), their op, and their last row."""

    before: Int64s
    after: Int64s
    op: pa.Array | str
    rows: Int64s
    tombstones: Bools

    @property
    def is_rows_in_order(self) -> bool:
        """Whether message i is about row i alone and shows it as its after."""
        return self.before is _NONE


_NONE: Int64s = np.empty(0, np.int64)


def _plan(ops: npt.NDArray[np.int8], key: list[pa.Array], tombstones: bool, snapshot: bool) -> _Plan:
    length = len(ops)
    rows = np.arange(length)
    if (ops == Op.INSERT).all():
        return _Plan(_NONE, rows, "r" if snapshot else "c", rows, np.zeros(length, np.bool_))
    if snapshot:
        raise InvalidArgument(
            f"row {int((ops != Op.INSERT).argmax())} of a snapshot is not an INSERT",
            subject="encode",
            hint="A snapshot says what is there: encode changes without snapshot=True.",
        )
    old, new = ops == Op.UPDATE_BEFORE, ops == Op.UPDATE_AFTER
    follows = np.append(new[1:], False)
    if (old & ~follows).any():
        raise InvalidArgument(
            f"row {int((old & ~follows).argmax())} is an UPDATE_BEFORE that no UPDATE_AFTER follows",
            subject="encode",
            hint="Keep both sides of an update together, or make it a DELETE.",
        )
    paired = np.append(False, old[:-1]) & new
    moved = np.zeros(length, np.bool_)  # the new side of an update that changes the key
    after = np.flatnonzero(paired)
    if key and len(after):
        sides = [(column.take(pa.array(after - 1)), column.take(pa.array(after))) for column in key]
        same = same_rows([left for left, _ in sides], [right for _, right in sides], len(after))
        moved[after[~same]] = True
    kept = paired & ~moved
    gone = (ops == Op.DELETE) | (old & np.append(moved[1:], False))
    said = ~old | gone
    copies = said + (gone & tombstones).astype(np.int64)
    which = np.repeat(rows, copies)
    second = np.zeros(len(which), np.bool_)
    second[1:] = which[1:] == which[:-1]
    letters = np.where(gone, 2, np.where(new & ~moved, 1, 0))
    before = np.where(gone, rows, np.where(kept, rows - 1, -1))
    return _Plan(
        before[which],
        np.where(gone, -1, rows)[which],
        pa.array(["c", "u", "d"], TEXT).take(pa.array(letters[which])),
        which,
        second,
    )


def _taken(texts: pa.Array, rows: Int64s) -> pa.Array | str:
    none = rows < 0
    if none.all():
        return "null"
    return texts.take(pa.array(rows, mask=none))


def _source(
    batch: pa.RecordBatch, source: Source, plan: _Plan, snapshot: bool, processed_ns: int | None
) -> Pieces:
    """From the value of ``source`` to the end of the envelope."""
    now = time.time_ns() if processed_ns is None else processed_ns

    def column(name: str, kind: pa.DataType) -> pa.Array | None:
        if batch.schema.names.count(name) != 1:
            return None
        try:
            found = batch.column(name).cast(kind)
        except pa.ArrowException as error:
            raise InvalidArgument(
                f"the column {name!r}, of type {batch.schema.field(name).type}, is not {kind}: {error}",
                subject="encode",
                hint=f"Cast it to {kind}.",
            ) from None
        return found if plan.is_rows_in_order else found.take(pa.array(plan.rows))

    moments = column(TS, pa.timestamp("us", "UTC"))
    millis, micros, nanos = _moments(moments, now)
    lsn = column(LSN, pa.int64())
    lsn_text: str | pa.Array = "null" if lsn is None else lsn.cast(TEXT)
    sequence: Pieces = ["null" if source.sequence is None else quoted(str(source.sequence))]
    if lsn is not None:
        sequence = ['"[null,\\"', lsn_text, '\\"]"']
    return [
        f'{{"version":{quoted(source.told_version)},"connector":{quoted(source.connector)}',
        f',"name":{quoted(source.name)},"ts_ms":',
        millis,
        f',"snapshot":"{"true" if snapshot else "false"}","db":{quoted(source.db)},"sequence":',
        *sequence,
        ',"ts_us":',
        micros,
        ',"ts_ns":',
        nanos,
        f',"schema":{"null" if source.schema is None else quoted(source.schema)}',
        f',"table":{quoted(source.table)},"txId":null,"lsn":',
        lsn_text,
        '},"transaction":null,"op":"',
        plan.op,
        f'","ts_ms":{now // 10**6},"ts_us":{now // 10**3},"ts_ns":{now}}}',
    ]


def _moments(moments: pa.Array | None, now: int) -> tuple[str | pa.Array, str | pa.Array, str | pa.Array]:
    """Commit times in milliseconds, microseconds and nanoseconds: the column's, else the time of writing."""
    if moments is None:
        return str(now // 10**6), str(now // 10**3), str(now)
    micros = moments.view(pa.int64())
    # Commit times repeat within a batch: spell each once.
    coded = micros.dictionary_encode()
    distinct = coded.dictionary
    try:
        nanos = pc.multiply_checked(distinct, 1000)
    except pa.ArrowInvalid:
        raise ArithmeticOverflow(
            f"a time in {TS} is outside the years 1677 to 2262, and messages tell nanoseconds",
            subject="encode",
            hint="Give every row the time of its commit.",
        ) from None
    millis = pa.array(distinct.to_numpy() // 1000)
    spelled = [values.cast(TEXT).take(coded.indices) for values in (millis, distinct, nanos)]
    return spelled[0], spelled[1], spelled[2]
