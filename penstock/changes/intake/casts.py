"""Columns of flat types into other flat types, a column at a time and nothing lost.

`cast` answers None where it cannot answer for every value: because one does not fit, or because telling so
costs more than looking at each. Whatever it answers, `scalars` would have answered, value by value.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.intake.scalars import NANOS, Clock, Moment
from penstock.changes.intake.texts import from_texts

__all__ = ["cast", "from_python", "is_flat", "python_values", "unwrapped"]

_EXACT_DIGITS = 22  # 10**22 is the last power of ten that a double holds exactly


def is_flat(kind: pa.DataType) -> bool:
    """Whether values of the type have no parts."""
    return not pa.types.is_nested(kind)


_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def unwrapped(array: pa.Array) -> pa.Array:
    """The values without the way they are stored: no dictionary, no run ends, no extension but UUIDs."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        plain = _PLAIN.get(kind.value_type)
        if plain is not None:  # Arrow takes no values from a dictionary of views
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(plain))
        return unwrapped(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return unwrapped(pc.run_end_decode(array))
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name not in ("arrow.uuid", "arrow.bool8"):
        return unwrapped(array.storage)
    return array


def cast(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The array as this flat type, or None. Shares buffers where the types are the same."""
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    try:
        return _cast(array, kind)
    except (pa.ArrowException, OverflowError):
        return None


def from_python(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Python values as this flat type, or None: where all are of one class that Arrow takes as it is."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if not kinds:
            return pa.nulls(len(values), kind)
        if kinds == {float, int} and pa.types.is_float64(kind):
            return pa.array(values, kind)
        if len(kinds) > 1:
            return None
        found = _gather(values, kinds.pop(), kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    return cast(found, kind) if isinstance(found, pa.Array) else None  # of 2 GiB of text it is in chunks


def _gather(values: list[Any], one: type, kind: pa.DataType) -> pa.Array | None:
    """An array of the type that such values have of themselves."""
    if one is int and pa.types.is_integer(kind):
        return pa.array(values, kind)
    if one is dt.datetime:
        zones = {value.tzinfo is None for value in values if value is not None}
        if len(zones) == 2 and not (pa.types.is_timestamp(kind) and kind.tz):
            return None
        return pa.array(values, pa.timestamp("us", None if zones == {True} else "UTC"))
    if one is dt.time and any(value is not None and value.tzinfo is not None for value in values):
        return None
    if one is Decimal:
        return pa.array(values)  # with as many digits as there are, so that nothing is cut
    natural = _NATURAL.get(one)
    return None if natural is None else pa.array(values, natural)


_NATURAL = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.time: pa.time64("us"),
    dt.timedelta: pa.duration("us"),
}


def python_values(array: pa.Array) -> list[Any]:
    """The values for `scalars`: as Python has them, and times as exact as they are."""
    kind, t = array.type, pa.types
    if t.is_timestamp(kind) or t.is_date(kind):
        width = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "day": 86_400 * 10**9}[
            "day" if t.is_date32(kind) else "ms" if t.is_date64(kind) else kind.unit
        ]
        zoned = t.is_timestamp(kind) and kind.tz is not None
        return [None if it is None else Moment(it * width, zoned) for it in _integers(array)]
    if t.is_time(kind):
        width = NANOS[kind.unit]
        return [None if it is None else Clock(it * width) for it in _integers(array)]
    if t.is_duration(kind):
        return list(array.to_numpy(zero_copy_only=False))
    if t.is_float16(kind) or t.is_float32(kind):  # as NumPy has them: a double would have more digits
        return [
            v if ok else None
            for v, ok in zip(array.to_numpy(zero_copy_only=False), array.is_valid().to_pylist(), strict=True)
        ]
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.bool8":
        return [None if it is None else bool(it) for it in array.storage.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def _integers(array: pa.Array) -> list[int | None]:
    width = pa.int32() if array.type.bit_width == 32 else pa.int64()
    found: list[int | None] = array.view(width).to_pylist()
    return found


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    t, source = pa.types, array.type
    if _is_text(source):
        if _is_text(kind):
            return array.cast(kind)
        if t.is_string_view(source):
            array = array.cast(pa.large_string())
        return from_texts(array, kind)
    if _is_bytes(source) and _is_bytes(kind):
        return array.cast(kind)
    if t.is_decimal(kind):
        return _to_decimal(array, kind)
    if t.is_integer(kind) and (t.is_integer(source) or t.is_floating(source) or t.is_decimal(source)):
        if t.is_float16(source):
            array = array.cast(pa.float32())
        return array.cast(kind)
    if t.is_floating(kind):
        return _to_floating(array, kind)
    if t.is_timestamp(kind):
        return _to_timestamp(array, kind)
    if t.is_date(kind) and (t.is_date(source) or t.is_timestamp(source)):
        return _to_date(array, kind)
    if (t.is_time(kind) and t.is_time(source)) or (t.is_duration(kind) and t.is_duration(source)):
        return array.cast(kind)
    return None


# -- numbers ----------------------------------------------------------------------------------------


def _to_decimal(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    source = array.type
    if pa.types.is_floating(source):
        return _decimals_of_floats(array, kind)
    if pa.types.is_integer(source):
        digits = 20 if source.bit_width == 64 else 10
        array = array.cast(pa.decimal128(digits, 0))
    elif not pa.types.is_decimal(source):
        return None
    # Arrow does not notice every overflow when it moves the point: the type between has room for all digits.
    source = array.type
    room = source.precision + max(kind.scale - source.scale, 0)
    if room > 76:
        return None
    if room > 38 or source.bit_width > 128:
        array = array.cast(pa.decimal256(76, source.scale)).cast(pa.decimal256(76, kind.scale))
    return array.cast(kind)


def _decimals_of_floats(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The decimals that are nearest to no other float, where their digits fit into a double.

    u/10ˢ of two integers that doubles hold exactly is rounded once. Below 2⁵² no two u give one double; so if
    the double is the one given, u has its shortest digits. What is wider is looked at one by one.
    """
    if kind.bit_width != 128 or not 0 <= kind.scale <= _EXACT_DIGITS or array.type != pa.float64():
        return None
    floats = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    power = 10.0**kind.scale
    with np.errstate(over="ignore", invalid="ignore"):
        unscaled = np.rint(floats * power)
        good = (np.abs(unscaled) < min(2.0**51, 10.0**kind.precision)) & (unscaled / power == floats)
    if not good.all():
        return None
    return _decimals(unscaled.astype(np.int64), kind, array)


def _decimals(unscaled: npt.NDArray[np.int64], kind: pa.DataType, like: pa.Array) -> pa.Array:
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    words[:, 1] = unscaled >> 63
    if not like.null_count:
        return pa.Array.from_buffers(kind, len(like), [None, pa.py_buffer(words)])
    valid = np.packbits(like.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return pa.Array.from_buffers(kind, len(like), [pa.py_buffer(valid), pa.py_buffer(words)])


def _to_floating(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    t, source = pa.types, array.type
    if t.is_integer(source):
        return None if t.is_float16(kind) else array.cast(kind)  # Arrow rounds to those, and says nothing
    if not t.is_floating(source):
        return None  # each decimal has to be compared with the digits of its double
    if source.bit_width <= kind.bit_width:
        return array.cast(kind)
    narrow = array.cast(kind)
    if pc.sum(pc.is_inf(array)).as_py() != pc.sum(pc.is_inf(narrow)).as_py():
        return None
    return narrow


# -- times ------------------------------------------------------------------------------------------


def _to_timestamp(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    source = array.type
    if pa.types.is_date(source):
        return array.cast(pa.timestamp(kind.unit)).view(pa.int64()).view(kind)
    if not pa.types.is_timestamp(source) or (source.tz is not None and kind.tz is None):
        return None
    # A time without a zone is UTC, and one with a zone is kept in UTC anyway.
    in_unit = array.view(pa.timestamp(source.unit)).cast(pa.timestamp(kind.unit))
    return in_unit.view(kind)


def _to_date(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    if pa.types.is_timestamp(array.type):
        naive = array.view(pa.timestamp(array.type.unit))
        days = naive.cast(pa.date32(), safe=False)
        back = days.cast(naive.type)
        if not pc.all(pc.equal(naive, back)).as_py():
            return None
        return days if pa.types.is_date32(kind) else days.cast(kind)
    return array.cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind)
    )
