"""Debezium's messages as Arrow: read, told apart, gathered by table, and decoded column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.debezium import notices
from penstock.changes.debezium.events import Decoded, RowEvents, Tombstones
from penstock.changes.debezium.identity import ReplicaIdentity
from penstock.changes.debezium.images import Column, OnNewColumn
from penstock.changes.debezium.keys import check_key, read_keys
from penstock.changes.debezium.messages import Kind, Raw, kind_of, listed, payload
from penstock.changes.debezium.misfit import Misfit
from penstock.changes.debezium.positions import Collection, collection_of
from penstock.changes.debezium.row_events import Options, RowMessages, row_events
from penstock.changes.debezium.types import ConnectType, Decimals, check_decimals, connect_type
from penstock.changes.debezium.unavailable import PLACEHOLDER
from penstock.errors import InvalidArgument, MalformedMessage

__all__ = ["decode"]

Json = dict[str, Any]
Int64s = npt.NDArray[np.int64]
Raws: TypeAlias = Iterable[Raw] | pa.Array | pa.ChunkedArray
Schemas: TypeAlias = pa.Schema | Mapping[str, pa.Schema]


def decode(
    messages: Raws,
    schema: Schemas | None = None,
    keys: Raws | None = None,
    *,
    decimals: Decimals = "precise",
    on_new_column: OnNewColumn = "error",
    replica_identity: ReplicaIdentity = "unknown",
    placeholder: str = PLACEHOLDER,
) -> Decoded:
    """Read messages of Debezium (JSON, with or without its ``schema`` wrapper; None is a tombstone).

    Law: nothing is guessed and nothing is dropped. Each message is in exactly one part of the result, and a
    value that is not exactly what its column's type allows is a `MalformedMessage` naming message, field and
    way out.
    State: none; a batch may be cut anywhere.
    Cost: one JSON parse per message, then a few passes per column.

    Columns are read by ``schema`` (one for all tables, or by collection id such as ``inv.customers``), else
    by the schema that messages carry, else as what JSON shows: then base64 stays text and dates stay
    integers. ``decimals`` is how decimals are written where no message says it. ``on_new_column`` is what
    becomes of a column that ``schema`` does not have; without ``schema`` all columns are taken in, nullable.
    ``replica_identity`` says what PostgreSQL puts into before images: see `RowEvents.key_only`.

    >>> source = '{"table":"t","lsn":7,"ts_ms":1}'
    >>> message = '{"before":null,"after":{"id":1},"source":%s,"op":"c","ts_ms":2}' % source
    >>> decode([message]).rows[0].changes().to_pylist()
    [{'id': 1, '_op': 0, '_weight': 1, '_lsn': 7, '_ts': datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, ...)}]
    """
    check_decimals(decimals)
    options = Options(schema, decimals, on_new_column, replica_identity, placeholder)
    raws = listed(messages, "messages")
    raw_keys = None if keys is None else listed(keys, "keys")
    if raw_keys is not None and len(raw_keys) != len(raws):
        raise InvalidArgument(
            f"there are {len(raws)} messages and {len(raw_keys)} keys",
            subject="decode",
            hint="Give one key per message, None where there is none.",
        )
    payloads: list[Any] = []
    schemas: list[ConnectType | None] = []
    for index, raw in enumerate(raws):
        document, told = payload(raw, index)
        payloads.append(document)
        schemas.append(told)
    kinds = np.array([kind_of(document, index) for index, document in enumerate(payloads)], np.int8)
    rows = tuple(
        _lifted(row_events, group, group.index, options)
        for group in _collections(np.flatnonzero(kinds == Kind.ROW), raws, payloads, schemas, raw_keys)
    )

    return Decoded(
        kinds=kinds,
        rows=rows,
        tombstones=_tombstones(np.flatnonzero(kinds == Kind.TOMBSTONE), raw_keys, rows),
        **{
            name: _noticed(np.flatnonzero(kinds == kind), payloads, read, schema)
            for name, (kind, read, schema) in _NOTICES.items()
        },
    )


_NOTICES: dict[str, tuple[Kind, Callable[..., pa.RecordBatch], pa.Schema]] = {
    "truncates": (Kind.TRUNCATE, notices.truncates, notices.TRUNCATES),
    "logical": (Kind.LOGICAL, notices.logical, notices.LOGICAL),
    "transactions": (Kind.TRANSACTION, notices.transactions, notices.TRANSACTIONS),
    "schema_changes": (Kind.SCHEMA_CHANGE, notices.schema_changes, notices.SCHEMA_CHANGES),
    "heartbeats": (Kind.HEARTBEAT, notices.heartbeats, notices.HEARTBEATS),
}


def _noticed(
    index: Int64s, payloads: list[Any], read: Callable[..., pa.RecordBatch], schema: pa.Schema
) -> pa.RecordBatch:
    """Events of one kind that are not about rows."""
    chosen = index.tolist()
    return _lifted(read, [payloads[at] for at in chosen], index, chosen) if chosen else _none(schema)


@cache
def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _malformed(misfit: Misfit, message: int) -> MalformedMessage:
    what = f"{misfit.path[1:]}: {misfit.what}" if misfit.path else misfit.what
    return MalformedMessage(what, subject=f"message {message}", hint=misfit.hint)


def _lifted(read: Callable[..., Any], messages: Any, index: Int64s, *rest: Any) -> Any:
    """Read some messages, turning a misfit among them into an error that names the message."""
    try:
        return read(messages, *rest)
    except Misfit as misfit:
        raise _malformed(misfit, int(index[misfit.at])) from None


def _key(raw_keys: list[bytes | None] | None, at: int) -> tuple[Any, ConnectType | None]:
    if raw_keys is None or raw_keys[at] is None:
        return None, None
    key, told = payload(raw_keys[at], at, "key")
    try:
        check_key(key)
    except Misfit as misfit:
        raise _malformed(misfit, at) from None
    return key, told


def _collections(
    index: Int64s,
    raws: list[bytes | None],
    payloads: list[Any],
    schemas: list[ConnectType | None],
    raw_keys: list[bytes | None] | None,
) -> Iterator[RowMessages]:
    """Row messages by collection, and by whether they carry their schema."""
    members: dict[tuple[Collection, bool], list[int]] = {}
    for at in index.tolist():
        try:
            form = (collection_of(payloads[at]), schemas[at] is not None)
        except Misfit as misfit:
            raise _malformed(misfit, at) from None
        members.setdefault(form, []).append(at)
    for (collection, _), numbers in members.items():
        keys = [] if raw_keys is None else [_key(raw_keys, at) for at in numbers]
        yield RowMessages(
            collection=collection,
            index=np.array(numbers, np.int64),
            raws=[raws[at] or b"" for at in numbers],
            payloads=[payloads[at] for at in numbers],
            schemas=[schemas[at] for at in numbers],
            keys=None if raw_keys is None else [key for key, _ in keys],
            key_schemas=[schema for _, schema in keys],
        )


def _tombstones(
    index: Int64s, raw_keys: list[bytes | None] | None, rows: tuple[RowEvents, ...]
) -> tuple[Tombstones, ...]:
    """Tombstones by the form of their keys. A key's columns have the types they have among the rows' keys."""
    groups: dict[tuple[Any, ...], tuple[list[int], list[Any], ConnectType | None]] = {}
    for at in index.tolist():
        key, told = _key(raw_keys, at)
        form = (None if key is None else tuple(key), told)
        numbers, keys, _ = groups.setdefault(form, ([], [], told))
        numbers.append(at)
        keys.append(key)
    known = _key_types(rows)
    parts = []
    for (names, told), (numbers, keys, _) in groups.items():
        ordered = np.array(numbers, np.int64)
        kinds = {} if told is None else dict(told.fields)
        parts.append(
            Tombstones(ordered, _lifted(read_keys, keys, ordered, kinds, known.get(names or (), {})))
        )
    return tuple(parts)


def _key_types(rows: tuple[RowEvents, ...]) -> dict[tuple[str, ...], dict[str, Column]]:
    """By the names of a key's columns, their types, where all collections with such a key agree."""
    types: dict[tuple[str, ...], list[pa.Schema]] = {}
    for part in rows:
        if part.key is not None:
            types.setdefault(tuple(part.key.schema.names), []).append(part.key.schema)
    return {
        names: {field.name: Column(field, connect_type(field.type), told=False) for field in schemas[0]}
        for names, schemas in types.items()
        if all(schema == schemas[0] for schema in schemas)
    }
