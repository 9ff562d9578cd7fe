"""Kafka Connect schemas in JSON: what stands under ``schema`` where messages explain themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.changes.debezium.misfit import shown
from penstock.changes.debezium.source import Source
from penstock.changes.debezium.types import MAX_DEPTH, ConnectType, Decimals, connect_type
from penstock.errors import MalformedMessage

__all__ = ["key_schema", "parse_schema", "schema_json", "struct_type", "value_schema"]

Json = dict[str, Any]

_TEXT = ConnectType("string", optional=False)
_MAYBE_TEXT = ConnectType("string")
_LONG = ConnectType("int64", optional=False)
_MAYBE_LONG = ConnectType("int64")

_SNAPSHOT = ConnectType(
    "string",
    "io.debezium.data.Enum",
    (("allowed", "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"),),
    default="false",
)

SOURCE = ConnectType(
    "struct",
    "penstock.Source",
    fields=(
        ("version", _TEXT),
        ("connector", _TEXT),
        ("name", _TEXT),
        ("ts_ms", _LONG),
        ("snapshot", _SNAPSHOT),
        ("db", _TEXT),
        ("sequence", _MAYBE_TEXT),
        ("ts_us", _MAYBE_LONG),
        ("ts_ns", _MAYBE_LONG),
        ("schema", _MAYBE_TEXT),
        ("table", _TEXT),
        ("txId", _MAYBE_LONG),
        ("lsn", _MAYBE_LONG),
    ),
    optional=False,
)

TRANSACTION = ConnectType(
    "struct",
    "event.block",
    fields=(("id", _TEXT), ("total_order", _LONG), ("data_collection_order", _LONG)),
)


def struct_type(schema: pa.Schema, decimals: Decimals = "precise") -> ConnectType:
    """The rows of a table as one Connect struct."""
    return ConnectType(
        "struct",
        fields=tuple(
            (part.name, connect_type(part.type, optional=part.nullable, decimals=decimals)) for part in schema
        ),
    )


def value_schema(source: Source, row: ConnectType) -> Json:
    """The schema of the change messages of a table whose rows are of type ``row``."""
    image = ConnectType("struct", f"{source.prefix}.Value", fields=row.fields, version=None)
    fields = (
        ("before", image),
        ("after", image),
        ("source", SOURCE),
        ("transaction", TRANSACTION),
        ("op", _TEXT),
        ("ts_ms", _MAYBE_LONG),
        ("ts_us", _MAYBE_LONG),
        ("ts_ns", _MAYBE_LONG),
    )
    return schema_json(
        ConnectType("struct", f"{source.prefix}.Envelope", fields=fields, optional=False, version=2)
    )


def key_schema(source: Source, row: ConnectType, key: Sequence[str]) -> Json:
    """The schema of the key messages of a table."""
    types = dict(row.fields)
    fields = tuple((name, types[name]) for name in key)
    return schema_json(
        ConnectType("struct", f"{source.prefix}.Key", fields=fields, optional=False, version=None)
    )


def schema_json(kind: ConnectType, field: str | None = None) -> Json:
    """A Connect type as JSON, under the name of the field that has it.

    >>> schema_json(ConnectType("int32", "io.debezium.time.Date"), "d")
    {'type': 'int32', 'optional': True, 'name': 'io.debezium.time.Date', 'version': 1, 'field': 'd'}
    """
    told: Json = {"type": kind.kind}
    if kind.kind == "struct":
        told["fields"] = [schema_json(inner, name) for name, inner in kind.fields]
    if kind.items is not None:
        told["items"] = schema_json(kind.items)
    if kind.keys is not None and kind.values is not None:
        told["keys"] = schema_json(kind.keys)
        told["values"] = schema_json(kind.values)
    told["optional"] = kind.optional
    if kind.default is not None:
        told["default"] = kind.default
    if kind.name is not None:
        told["name"] = kind.name
        if kind.version is not None:
            told["version"] = kind.version
    if kind.parameters:
        told["parameters"] = dict(kind.parameters)
    if field is not None:
        told["field"] = field
    return told


def parse_schema(told: object, subject: str, path: str = "schema", depth: int = 0) -> ConnectType:
    """A Connect type from its JSON; `MalformedMessage` for anything else.

    >>> parse_schema({"type": "int64", "optional": False}, "message 0")
    ConnectType(kind='int64', name=None, parameters=(), ..., optional=False, default=None, version=1)
    """
    if not isinstance(told, Mapping) or depth > MAX_DEPTH:
        raise _malformed(subject, path, told)
    kind, name, optional = told.get("type"), told.get("name"), told.get("optional", False)
    parameters = told.get("parameters") or {}
    if (
        not isinstance(kind, str)
        or kind not in _KINDS
        or not isinstance(name, str | None)
        or not isinstance(optional, bool)
        or not isinstance(parameters, Mapping)
        or not all(isinstance(value, str) for value in parameters.values())
    ):
        raise _malformed(subject, path, told)

    def inner(of: str) -> ConnectType:
        return parse_schema(told.get(of), subject, f"{path}.{of}", depth + 1)

    return ConnectType(
        kind,
        name,
        tuple(sorted(parameters.items())),
        items=inner("items") if kind == "array" else None,
        keys=inner("keys") if kind == "map" else None,
        values=inner("values") if kind == "map" else None,
        fields=_fields(told.get("fields"), subject, path, depth) if kind == "struct" else (),
        optional=optional,
        default=told.get("default"),
    )


_KINDS = frozenset(
    [
        "boolean",
        "int8",
        "int16",
        "int32",
        "int64",
        "float",
        "double",
        "string",
        "bytes",
        "array",
        "map",
        "struct",
    ]
)


def _fields(told: object, subject: str, path: str, depth: int) -> tuple[tuple[str, ConnectType], ...]:
    if not isinstance(told, list):
        raise _malformed(subject, f"{path}.fields", told)
    fields: dict[str, ConnectType] = {}
    for number, part in enumerate(told):
        where = f"{path}.fields[{number}]"
        name = part.get("field") if isinstance(part, Mapping) else None
        if not isinstance(name, str) or name in fields:
            raise _malformed(subject, where, part)
        fields[name] = parse_schema(part, subject, where, depth + 1)
    return tuple(fields.items())


def _malformed(subject: str, path: str, told: object) -> MalformedMessage:
    return MalformedMessage(
        f"{path} is not a Kafka Connect schema: {shown(told)}",
        subject=subject,
        hint="Send the schema as Kafka's JsonConverter does, or set schemas.enable=false and give schema=.",
    )
