"""Events that are not about one row: truncates, logical messages, transactions, schema changes, heartbeats.

Each function reads all events of its kind into one record batch, whose first column ``index`` is the
message's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.cells import cells
from penstock.changes.debezium.misfit import Misfit, of_field, shown
from penstock.changes.debezium.positions import MOMENT, POSITION, collection_of, moments, positions
from penstock.changes.debezium.types import connect_type

__all__ = [
    "HEARTBEATS",
    "LOGICAL",
    "SCHEMA_CHANGES",
    "TRANSACTIONS",
    "TRUNCATES",
    "heartbeats",
    "logical",
    "schema_changes",
    "transactions",
    "truncates",
]

Json = dict[str, Any]

_INDEX = pa.field("index", pa.int64(), nullable=False)
_HINT = "Check what wrote the message."

TRUNCATES = pa.schema(
    [_INDEX, *(pa.field(name, pa.string()) for name in ("name", "db", "schema", "table")), *POSITION]
)
"""A table lost all its rows."""

LOGICAL = pa.schema([_INDEX, pa.field("prefix", pa.string()), pa.field("content", pa.binary()), *POSITION])
"""What somebody wrote with ``pg_logical_emit_message``."""

TRANSACTIONS = pa.schema(
    [
        _INDEX,
        pa.field("status", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("event_count", pa.int64()),
        pa.field(
            "data_collections",
            pa.list_(pa.struct([("data_collection", pa.string()), ("event_count", pa.int64())])),
        ),
        pa.field("ts", MOMENT),
    ]
)
"""BEGIN and END of transactions; an END tells how many events there were, in all and by collection."""

_COLUMN = pa.struct(
    [
        ("name", pa.string()),
        ("jdbcType", pa.int32()),
        ("nativeType", pa.int32()),
        ("typeName", pa.string()),
        ("typeExpression", pa.string()),
        ("charsetName", pa.string()),
        ("length", pa.int32()),
        ("scale", pa.int32()),
        ("position", pa.int32()),
        ("optional", pa.bool_()),
        ("autoIncremented", pa.bool_()),
        ("generated", pa.bool_()),
        ("comment", pa.string()),
        ("defaultValueExpression", pa.string()),
        ("enumValues", pa.list_(pa.string())),
    ]
)
_TABLE = pa.struct(
    [
        ("defaultCharsetName", pa.string()),
        ("primaryKeyColumnNames", pa.list_(pa.string())),
        ("columns", pa.list_(_COLUMN)),
        ("comment", pa.string()),
    ]
)

SCHEMA_CHANGES = pa.schema(
    [
        _INDEX,
        pa.field("db", pa.string()),
        pa.field("schema", pa.string()),
        pa.field("ddl", pa.string(), nullable=False),
        pa.field(
            "changes", pa.list_(pa.struct([("type", pa.string()), ("id", pa.string()), ("table", _TABLE)]))
        ),
        *POSITION,
    ]
)
"""DDL that was run, and what each table it touched is like afterwards (NULL: the table is gone)."""

HEARTBEATS = pa.schema([_INDEX, pa.field("ts", MOMENT)])
"""The connector lives."""


def truncates(payloads: Sequence[Json], index: Sequence[int]) -> pa.RecordBatch:
    collections = list(map(collection_of, payloads))
    named = [
        pa.array([getattr(collection, name) for collection in collections], pa.string())
        for name in ("name", "db", "schema", "table")
    ]
    return _batch(TRUNCATES, index, [*named, *positions(payloads).columns])


def logical(payloads: Sequence[Json], index: Sequence[int]) -> pa.RecordBatch:
    message = _column(payloads, "message", pa.struct([LOGICAL.field("prefix"), LOGICAL.field("content")]))
    _check_told(message, "message")
    return _batch(LOGICAL, index, [*message.flatten(), *positions(payloads).columns])


def transactions(payloads: Sequence[Json], index: Sequence[int]) -> pa.RecordBatch:
    names = ("status", "id", "event_count", "data_collections")
    columns = [_column(payloads, name, TRANSACTIONS.field(name).type) for name in names]
    _check_told(columns[0], "status")
    _check_told(columns[1], "id")
    odd = pc.invert(pc.is_in(columns[0], pa.array(["BEGIN", "END"])))
    if pc.any(odd).as_py():
        at = int(pc.index(odd, True).as_py())
        raise Misfit(at, f"{shown(columns[0][at].as_py())} is not BEGIN or END", _HINT, ".status")
    return _batch(TRANSACTIONS, index, [*columns, moments(payloads)])


def schema_changes(payloads: Sequence[Json], index: Sequence[int]) -> pa.RecordBatch:
    told = (("db", "databaseName"), ("schema", "schemaName"), ("ddl", "ddl"), ("changes", "tableChanges"))
    columns = [_column(payloads, name, SCHEMA_CHANGES.field(column).type) for column, name in told]
    _check_told(columns[2], "ddl")
    return _batch(SCHEMA_CHANGES, index, [*columns, *positions(payloads).columns])


def heartbeats(payloads: Sequence[Json], index: Sequence[int]) -> pa.RecordBatch:
    return _batch(HEARTBEATS, index, [moments(payloads)])


def _batch(schema: pa.Schema, index: Sequence[int], columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(index, pa.int64()), *columns], schema=schema)


def _column(payloads: Sequence[Json], name: str, kind: pa.DataType) -> pa.Array:
    with of_field(name):
        return cells([payload.get(name) for payload in payloads], connect_type(kind), kind, lenient=True)


def _check_told(column: pa.Array, name: str) -> None:
    if column.null_count:
        raise Misfit(int(pc.index(column.is_null(), True).as_py()), "it is missing", _HINT, f".{name}")
