"""Spark's types as SQL writes them ↔ Arrow's."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import Unsupported
from penstock.sql.statements.reader import Reader

__all__ = ["read_type", "spark_type"]

_PLAIN = {
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BINARY": pa.binary(),
}

_DECIMAL = ("DECIMAL", "DEC", "NUMERIC")
_TEXT = ("VARCHAR", "CHAR", "CHARACTER")
_NAMES = {kind: name for name, kind in reversed(_PLAIN.items())}


def read_type(reader: Reader) -> pa.DataType:
    """The type that comes next."""
    word = reader.word
    name = "" if word is None else word.upper
    if name in _PLAIN:
        reader.skip()
        return _PLAIN[name]
    if name in _DECIMAL:
        return _decimal(reader)
    if name in _TEXT:
        # Spark pads CHAR and checks lengths when a table is written; a view cannot tell them from strings.
        reader.skip()
        if reader.take("("):
            _number(reader)
            reader.expect(")")
        return pa.string()
    if name == "ARRAY":
        reader.skip()
        reader.expect("<")
        element = read_type(reader)
        reader.expect(">")
        return pa.list_(pa.field("element", element))
    if name == "MAP":
        reader.skip()
        reader.expect("<")
        key = read_type(reader)
        reader.expect(",")
        value = read_type(reader)
        reader.expect(">")
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    if name == "STRUCT":
        return _struct(reader)
    raise reader.bad(
        "a column type of Spark's is expected here" + ("" if word is None else f", not {word.text!r}"),
        "BIGINT, INT, STRING, DOUBLE, DECIMAL(p, s), BOOLEAN, DATE, TIMESTAMP, ARRAY<…> … are.",
    )


def _decimal(reader: Reader) -> pa.DataType:
    place = reader.place
    reader.skip()
    precision, scale = 10, 0
    if reader.take("("):
        precision = _number(reader)
        scale = _number(reader) if reader.take(",") else 0
        reader.expect(")")
    if not (1 <= precision <= 38 and scale <= precision):
        raise reader.text.bad(
            f"DECIMAL({precision}, {scale}) is not a type",
            place,
            "The first number is at most 38, and the second at most the first.",
        )
    return pa.decimal128(precision, scale)


def _number(reader: Reader) -> int:
    word = reader.word
    if word is None or word.kind != "number" or not word.text.isdigit():
        raise reader.bad("a whole number is expected here", "Write it in digits.")
    reader.skip()
    return int(word.text[:9])


def _struct(reader: Reader) -> pa.DataType:
    reader.skip()
    if reader.take("<>"):
        return pa.struct([])
    reader.expect("<")
    fields: list[pa.Field] = []
    while not reader.take(">"):
        if fields:
            reader.expect(",")
        name = reader.name("a field")
        reader.take(":")
        kind = read_type(reader)
        fields.append(pa.field(name, kind, nullable=not reader.take("NOT", "NULL")))
    return pa.struct(fields)


def spark_type(kind: pa.DataType) -> str:
    """The type as Spark SQL writes it.

    >>> spark_type(pa.list_(pa.struct([("a b", pa.decimal128(4, 1))])))
    'ARRAY<STRUCT<`a b`: DECIMAL(4, 1)>>'
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_large_string(kind):
        return "STRING"
    if pa.types.is_large_binary(kind):
        return "BINARY"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        parts = [f"`{it.name.replace('`', '``')}`: {spark_type(it.type)}" for it in kind]
        return f"STRUCT<{', '.join(parts)}>"
    if pa.types.is_null(kind):
        return "VOID"
    raise Unsupported(
        f"Spark SQL has no name for the type {kind}",
        subject="types",
        hint="Cast the column to a type it has.",
    )
