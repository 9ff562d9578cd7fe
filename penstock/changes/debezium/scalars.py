"""JSON values of one column as an Arrow array: booleans, numbers, text, bytes, what is counted or spelled.

Each function takes the column's values (Python objects of one JSON parser, None for NULL) and the set of
their types, which is how a value of a wrong type is found without looking at each. The first value that does
not fit is a `Misfit`; nothing is ever rounded, wrapped or guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium import base64, times
from penstock.changes.debezium.buffers import slices, with_nulls
from penstock.changes.debezium.misfit import Misfit, shown
from penstock.changes.debezium.types import INTEGERS, NUMBERED, SPELLED, ConnectType, is_text, is_zoned

__all__ = ["check", "first", "integers", "scalars", "texts"]

Values = Sequence[Any]
Types = frozenset[type]

_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TYPE_HINT = "Check the column's type in schema= against the database's, and the connector's handling modes."


def scalars(values: Values, types: Types, kind: ConnectType, target: pa.DataType) -> pa.Array:
    """The values of a column of a type that is not nested, decimals apart.

    The result has the type nearest to the wire's, or ``target`` where that needs no conversion.
    """
    semantic = (kind.kind, kind.name)
    if semantic in NUMBERED:
        return _numbered(values, types, kind.kind, NUMBERED[semantic], target)
    if semantic in SPELLED and not is_text(target):
        return _spelled(values, types, SPELLED[semantic], target)
    return _READERS[kind.kind](values, types, kind)


def check(values: Values, types: Types, wanted: Types, what: str) -> None:
    """Refuse the first value of another type."""
    odd = types - wanted
    if odd:
        at = next(at for at, value in enumerate(values) if type(value) in odd)
        raise Misfit(at, f"{shown(values[at])} is not {what}", _TYPE_HINT)


def first(values: Values, wrong: Callable[[Any], bool]) -> int:
    """The place of the first value that is wrong; there must be one."""
    return next(at for at, value in enumerate(values) if value is not None and wrong(value))


def integers(values: Values, types: Types, width: str = "int64") -> pa.Array:
    """Integers of the width that Connect's type says."""
    check(values, types, frozenset([int]), "an integer")
    kind = INTEGERS[width]
    top = 2 ** (kind.bit_width - 1)
    try:
        array = pa.array(values, pa.int64())
        return array if width == "int64" else array.cast(kind)
    except (OverflowError, pa.ArrowInvalid):
        at = first(values, lambda value: not -top <= value < top)
        hint = "Give the column a wider type in schema=, such as decimal128(38, 0)."
        raise Misfit(at, f"{values[at]} does not fit {width}", hint) from None


def unsigned(values: Values, types: Types) -> pa.Array:
    """Integers of 64 bits without a sign."""
    check(values, types, frozenset([int]), "an integer")
    try:
        return pa.array(values, pa.uint64())
    except (OverflowError, pa.ArrowInvalid):
        at = first(values, lambda value: not 0 <= value < 2**64)
        raise Misfit(
            at,
            f"{values[at]} does not fit uint64",
            "MySQL's BIGINT UNSIGNED beyond 2⁶³ arrives negative by default: "
            "set bigint.unsigned.handling.mode=precise.",
        ) from None


def _booleans(values: Values, types: Types, _: ConnectType) -> pa.Array:
    check(values, types, frozenset([bool, int]), "true or false")
    if int in types:  # MySQL's BOOLEAN is a TINYINT(1)
        if any(type(value) is int and value not in (0, 1) for value in values):
            at = first(values, lambda value: value not in (0, 1))
            raise Misfit(at, f"{values[at]} is not true, false, 1 or 0", _TYPE_HINT)
        values = [None if value is None else bool(value) for value in values]
    return pa.array(values, pa.bool_())


def _integers(values: Values, types: Types, kind: ConnectType) -> pa.Array:
    return integers(values, types, kind.kind)


def _floats(values: Values, types: Types, kind: ConnectType) -> pa.Array:
    if str in types:
        at = next(
            (at for at, value in enumerate(values) if type(value) is str and value not in _SPECIAL), None
        )
        if at is not None:
            raise Misfit(
                at, f"{shown(values[at])} is not a number, 'NaN', 'Infinity' or '-Infinity'", _TYPE_HINT
            )
        values = [_SPECIAL[value] if type(value) is str else value for value in values]
    check(values, types - {str}, frozenset([float, int]), "a number")
    try:
        array = pa.array(values, pa.float64())
    except pa.ArrowInvalid:
        at = first(values, lambda value: type(value) is int and abs(value) > 2**53)
        raise Misfit(
            at, f"{values[at]} is no float exactly", "Give the column an integer or decimal type."
        ) from None
    if kind.kind == "double":
        return array
    with np.errstate(over="ignore"):
        narrow = array.to_numpy(zero_copy_only=False).astype(np.float32)
    single = pa.array(narrow, pa.float32(), mask=array.is_null().to_numpy(zero_copy_only=False))
    return _same_range(array, single)


def _same_range(wide: pa.Array, narrow: pa.Array) -> pa.Array:
    """The narrower floats, unless a finite number became infinite."""
    over = pc.and_not(pc.is_inf(narrow), pc.is_inf(wide))
    if pc.any(over).as_py():
        at = int(pc.index(over, True).as_py())
        raise Misfit(
            at, f"{wide[at].as_py()} does not fit {narrow.type}", "Give the column the type float64."
        )
    return narrow


def texts(values: Values, types: Types, what: str = "text") -> pa.Array:
    """Strings as they are."""
    check(values, types, frozenset([str]), what)
    array = pa.array(values, pa.string())
    # More than 2³¹ bytes come in chunks.
    return array if isinstance(array, pa.Array) else pa.array(values, pa.large_string())


def _texts(values: Values, types: Types, _: ConnectType) -> pa.Array:
    return texts(values, types)


def _bytes(values: Values, types: Types, _: ConnectType) -> pa.Array:
    return binary(texts(values, types, "base64 text"))


def binary(encoded: pa.Array) -> pa.Array:
    """The bytes that base64 texts stand for."""
    data, offsets, bad = base64.decode(*slices(encoded))
    if bad.any():
        bad &= encoded.is_valid().to_numpy(zero_copy_only=False)
    if bad.any():
        at = int(bad.argmax())
        hint = "Set binary.handling.mode=base64 and decimal.handling.mode=precise, or say what the column is."
        raise Misfit(at, f"{shown(encoded[at].as_py())} is not base64", hint)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return with_nulls(pa.Array.from_buffers(pa.large_binary(), len(encoded), buffers), encoded)


_READERS: dict[str, Callable[[Values, Types, ConnectType], pa.Array]] = {
    "boolean": _booleans,
    "int8": _integers,
    "int16": _integers,
    "int32": _integers,
    "int64": _integers,
    "float": _floats,
    "double": _floats,
    "string": _texts,
    "bytes": _bytes,
}


def _numbered(
    values: Values, types: Types, width: str, natural: pa.DataType, target: pa.DataType
) -> pa.Array:
    """Dates, times, timestamps and durations, which arrive as counts."""
    array = integers(values, types, width)
    if pa.types.is_integer(target):  # the caller wants the count itself
        return array
    if pa.types.is_time(natural):
        if pa.types.is_duration(target):
            return array.cast(pa.int64()).view(pa.duration(natural.unit))
        day = 86_400 * times.PER_SECOND[natural.unit]
        least_most = pc.min_max(array).as_py()
        if (least_most["min"] or 0) < 0 or (least_most["max"] or 0) >= day:
            at = first(values, lambda value: not 0 <= value < day)
            raise Misfit(
                at,
                f"{values[at]} is no time of day: a day has {day} {natural.unit}",
                "PostgreSQL's 24:00 and MySQL's longer TIMEs are durations: "
                "give the column the type duration in schema=.",
            )
    return array.view(natural)


def _spelled(values: Values, types: Types, natural: pa.DataType, target: pa.DataType) -> pa.Array:
    """Instants, dates, times and intervals, which arrive as text."""
    array = texts(values, types)
    if is_zoned(natural):
        return times.parse_instants(array, target if is_zoned(target) else natural)
    for same in (pa.types.is_date32, pa.types.is_time, pa.types.is_timestamp):
        if same(natural):
            return times.parse(array, target if same(target) and not is_zoned(target) else natural)
    return times.parse(array, natural)
