"""How Arrow types and Kafka Connect's types stand for one another.

A Connect type is a plain type (``int64``, ``bytes``, ``struct``…) with, often, a *semantic name* that
says what the plain value means: ``io.debezium.time.MicroTimestamp`` on an ``int64``. `connect_type` says
how Penstock spells an Arrow type, `arrow_type` what Penstock reads a Connect type as. Going there and
back widens a type and never narrows it: unsigned integers become the next signed type, or a decimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import pyarrow as pa

from penstock.changes.nested import is_list
from penstock.changes.pickable import pickable_type
from penstock.errors import InvalidArgument, Unsupported

__all__ = [
    "ConnectType",
    "Decimals",
    "arrow_type",
    "check_decimals",
    "check_readable",
    "connect_type",
    "plain_type",
]

Decimals = Literal["precise", "string", "double"]
"""How a decimal is written: base64 of its unscaled bytes (exact), text (exact), or a JSON number."""

MAX_DEPTH = 100
"""Types nested deeper than this are refused: nobody means them, and Arrow's own limit is near."""


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A type of Kafka Connect. Two are equal when their values are spelled alike."""

    kind: str
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    items: ConnectType | None = None
    keys: ConnectType | None = None
    values: ConnectType | None = None
    fields: tuple[tuple[str, ConnectType], ...] = ()
    optional: bool = field(default=True, compare=False)
    default: object = field(default=None, compare=False)
    version: int | None = field(default=1, compare=False)

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)


def decimal(precision: int, scale: int, *, optional: bool = True) -> ConnectType:
    """Connect's exact decimal: the unscaled value's big-endian two's complement bytes."""
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(precision)))
    return ConnectType("bytes", DECIMAL, parameters, optional=optional)


DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
DATE = "io.debezium.time.Date"
ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
ZONED_TIME = "io.debezium.time.ZonedTime"
ISO_DATE = "io.debezium.time.IsoDate"
ISO_TIME = "io.debezium.time.IsoTime"
ISO_TIMESTAMP = "io.debezium.time.IsoTimestamp"
INTERVAL = "io.debezium.time.Interval"
UUID = "io.debezium.data.Uuid"

NUMBERED: dict[tuple[str, str | None], pa.DataType] = {
    ("int32", DATE): pa.date32(),
    ("int32", "org.apache.kafka.connect.data.Date"): pa.date32(),
    ("int32", "io.debezium.time.Time"): pa.time32("ms"),
    ("int32", "org.apache.kafka.connect.data.Time"): pa.time32("ms"),
    ("int64", "io.debezium.time.MicroTime"): pa.time64("us"),
    ("int64", "io.debezium.time.NanoTime"): pa.time64("ns"),
    ("int64", "io.debezium.time.Timestamp"): pa.timestamp("ms"),
    ("int64", "org.apache.kafka.connect.data.Timestamp"): pa.timestamp("ms"),
    ("int64", "io.debezium.time.MicroTimestamp"): pa.timestamp("us"),
    ("int64", "io.debezium.time.NanoTimestamp"): pa.timestamp("ns"),
    ("int64", "io.debezium.time.MicroDuration"): pa.duration("us"),
    ("int64", "io.debezium.time.NanoDuration"): pa.duration("ns"),
}
"""Semantic types whose JSON is an integer, and the Arrow type that has the same integer inside."""

SPELLED: dict[tuple[str, str | None], pa.DataType] = {
    ("string", ZONED_TIMESTAMP): pa.timestamp("us", "UTC"),
    ("string", ZONED_TIME): pa.time64("us"),
    ("string", ISO_DATE): pa.date32(),
    ("string", ISO_TIME): pa.time64("us"),
    ("string", ISO_TIMESTAMP): pa.timestamp("us"),
    ("string", INTERVAL): pa.month_day_nano_interval(),
    # A numeric column without a scale has one per value; only text holds every one of them exactly.
    ("struct", VARIABLE_DECIMAL): pa.string(),
}
"""Semantic types whose JSON is text (or an object) in a form of its own."""

INTEGERS = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}

_PLAIN = {
    **INTEGERS,
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}


def arrow_type(kind: ConnectType) -> pa.DataType:
    """The Arrow type a Connect type is read as when nobody asks for another.

    An unknown semantic name is no reason to stop: the value is then what its plain type says.

    >>> arrow_type(ConnectType("int32", "io.debezium.time.Date")), arrow_type(decimal(10, 2))
    (DataType(date32[day]), Decimal128Type(decimal128(10, 2)))
    >>> arrow_type(ConnectType("array", items=ConnectType("string", "io.debezium.data.Uuid")))
    ListType(list<item: string>)
    """
    semantic = (kind.kind, kind.name)
    if semantic in NUMBERED:
        return NUMBERED[semantic]
    if semantic in SPELLED:
        return SPELLED[semantic]
    if semantic == ("bytes", DECIMAL):
        return _decimal_type(kind)
    if kind.kind in _PLAIN:
        return _PLAIN[kind.kind]
    if kind.kind == "array" and kind.items is not None:
        return pa.list_(pa.field("item", arrow_type(kind.items), kind.items.optional))
    if kind.kind == "map" and kind.keys is not None and kind.values is not None:
        return pa.map_(
            pa.field("key", arrow_type(kind.keys), nullable=False),
            pa.field("value", arrow_type(kind.values), kind.values.optional),
        )
    if kind.kind == "struct":
        return pa.struct([pa.field(name, arrow_type(inner), inner.optional) for name, inner in kind.fields])
    raise Unsupported(
        f"there is no Connect type {kind.kind!r}",
        subject="Debezium",
        hint="The types are boolean, int8 to int64, float, double, string, bytes, array, map and struct.",
    )


def _decimal_type(kind: ConnectType) -> pa.DataType:
    told, scale = kind.parameter("connect.decimal.precision"), kind.parameter("scale") or "0"
    try:
        precision = 38 if told is None else int(told)
        if abs(int(scale)) > 76:
            raise ValueError(scale)
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, int(scale))
    except ValueError:
        raise Unsupported(
            f"a decimal of precision {told} and scale {scale} is outside what Arrow holds",
            subject="Debezium",
            hint="Set decimal.handling.mode=string, or give the column a type of your own in schema=.",
        ) from None


def check_decimals(decimals: str) -> None:
    """Refuse a spelling of decimals that does not exist."""
    if decimals not in ("precise", "string", "double"):
        raise InvalidArgument(
            f"decimals={decimals!r} is not a way to write decimals",
            subject="Debezium",
            hint="Use 'precise', 'string' or 'double', as Debezium's decimal.handling.mode does.",
        )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whatever way Arrow stores them: dictionaries, runs and extensions resolved."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return kind


@lru_cache(maxsize=4096)
def connect_type(
    kind: pa.DataType, *, optional: bool = True, decimals: Decimals = "precise", depth: int = 0
) -> ConnectType:
    """How an Arrow type is spelled on the wire.

    >>> connect_type(pa.timestamp("us")).name, connect_type(pa.uint16()).kind
    ('io.debezium.time.MicroTimestamp', 'int32')
    """
    kind = plain_type(kind)
    if depth > MAX_DEPTH:
        raise Unsupported(
            f"the type is nested deeper than {MAX_DEPTH} levels",
            subject="Debezium",
            hint="Flatten it, or carry the value as JSON text.",
        )
    if pa.types.is_decimal(kind) or kind == pa.uint64():
        digits, scale = (20, 0) if kind == pa.uint64() else (kind.precision, kind.scale)
        if decimals == "precise":
            return decimal(digits, scale, optional=optional)
        return ConnectType(decimals, optional=optional)
    if pa.types.is_nested(kind):
        return _nested(kind, optional, decimals, depth + 1)
    for holds, plain, name in _SPELLING:
        if holds(kind):
            return ConnectType(plain, name, optional=optional)
    raise Unsupported(
        f"a column of type {kind} has no form in Debezium's messages",
        subject="Debezium",
        hint="Cast it to another type, or leave the column out.",
    )


def _nested(kind: pa.DataType, optional: bool, decimals: Decimals, depth: int) -> ConnectType:
    def inner(part: pa.Field) -> ConnectType:
        return connect_type(part.type, optional=part.nullable, decimals=decimals, depth=depth)

    if pa.types.is_struct(kind):
        _check_names([part.name for part in kind], kind)
        return ConnectType(
            "struct", fields=tuple((part.name, inner(part)) for part in kind), optional=optional
        )
    if pa.types.is_map(kind):
        return ConnectType(
            "map", keys=inner(kind.key_field), values=inner(kind.item_field), optional=optional
        )
    if is_list(kind):
        return ConnectType("array", items=inner(kind.value_field), optional=optional)
    raise Unsupported(
        f"a column of type {kind} has no form in Debezium's messages",
        subject="Debezium",
        hint="Cast it to a list, a map or a struct.",
    )


def _check_names(names: list[str], where: object) -> None:
    if len(set(names)) < len(names):
        raise Unsupported(
            f"{where} has two fields of one name, and a JSON object would keep one of them only",
            subject="Debezium",
            hint="Give each field a name of its own.",
        )


def check_readable(schema: object) -> None:
    """Refuse a schema that messages cannot be read into."""
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument(
            f"{type(schema).__name__} is not an Arrow schema",
            subject="decode",
            hint="Give a pyarrow.Schema, or a mapping of them by collection id such as 'inv.customers'.",
        )
    _check_names(schema.names, "the schema")
    for part in schema:
        connect_type(part.type)
        _check_storage(part.type, part.name)


def _check_storage(kind: pa.DataType, name: str) -> None:
    """Arrow 26 cannot pick rows out of views and runs, nor make a dictionary of nested values."""
    nested = pa.types.is_dictionary(kind) and pa.types.is_nested(kind.value_type)
    if nested or pickable_type(kind) != kind:
        raise Unsupported(
            f"the column {name!r} is to be read as {kind}",
            subject="decode",
            hint="Ask for string, binary or the type of the values, and cast afterwards.",
        )
    for number in range(kind.num_fields):
        _check_storage(kind.field(number).type, name)


def is_text(kind: pa.DataType) -> bool:
    """Whether the type is one of Arrow's strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether the type is one of Arrow's byte strings."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_zoned(kind: pa.DataType) -> bool:
    """Whether the type is a timestamp that names an instant rather than a clock's face."""
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _exactly(*kinds: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda kind: kind in kinds


_SPELLING: tuple[tuple[Callable[[pa.DataType], bool], str, str | None], ...] = (
    (is_text, "string", None),
    (is_bytes, "bytes", None),
    (pa.types.is_boolean, "boolean", None),
    (_exactly(pa.int8()), "int8", None),
    (_exactly(pa.int16(), pa.uint8()), "int16", None),
    (_exactly(pa.int32(), pa.uint16()), "int32", None),
    (_exactly(pa.int64(), pa.uint32()), "int64", None),
    (_exactly(pa.float16(), pa.float32()), "float", None),
    (_exactly(pa.float64()), "double", None),
    (pa.types.is_date, "int32", DATE),
    (is_zoned, "string", ZONED_TIMESTAMP),
    (_exactly(pa.timestamp("s"), pa.timestamp("ms")), "int64", "io.debezium.time.Timestamp"),
    (_exactly(pa.timestamp("us")), "int64", "io.debezium.time.MicroTimestamp"),
    (_exactly(pa.timestamp("ns")), "int64", "io.debezium.time.NanoTimestamp"),
    (pa.types.is_time32, "int32", "io.debezium.time.Time"),
    (_exactly(pa.time64("us")), "int64", "io.debezium.time.MicroTime"),
    (_exactly(pa.time64("ns")), "int64", "io.debezium.time.NanoTime"),
    (_exactly(pa.duration("ns")), "int64", "io.debezium.time.NanoDuration"),
    (pa.types.is_duration, "int64", "io.debezium.time.MicroDuration"),
    (pa.types.is_interval, "string", INTERVAL),
    (pa.types.is_null, "string", None),
)
