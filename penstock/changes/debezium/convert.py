"""From the type the wire has to the type the caller asked for: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.decimals import from_text
from penstock.changes.debezium.misfit import Misfit, shown
from penstock.changes.debezium.types import is_bytes, is_text, is_zoned

__all__ = ["convert"]

Step = Callable[[pa.Array, pa.DataType], pa.Array]
Holds = Callable[[pa.DataType], bool]


def convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values with type ``target``; the first one that does not fit is a `Misfit`.

    >>> convert(pa.array([1, 2]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('1.00'), Decimal('2.00')]
    """
    if array.type == target:
        return array
    if pa.types.is_dictionary(target):
        return convert(array, target.value_type).dictionary_encode().cast(target)
    if isinstance(target, pa.BaseExtensionType):
        return target.wrap_array(convert(array, target.storage_type))
    step = next((step for have, want, step in _STEPS if have(array.type) and want(target)), None)
    if step is None:
        at = int(pc.index(array.is_valid(), True).as_py())
        raise Misfit(
            max(at, 0),
            f"{_told(array, max(at, 0))} arrives as {array.type}, which is not read as {target}",
            "Give the column another type in schema=, or leave schema= out to see what arrives.",
        )
    try:
        return step(array, target)
    except (pa.ArrowException, OverflowError) as error:
        at = _first_bad(array, target, step)
        raise Misfit(
            at,
            f"{_told(array, at)} does not fit {target}: {error}",
            "Give the column a wider type in schema=.",
        ) from None


def _told(array: pa.Array, at: int) -> str:
    try:
        value: Any = array[at].as_py()
    except (ValueError, OverflowError):  # Python's own dates end with the year 9999
        value = array.view(pa.int64())[at].as_py() if array.type.bit_width == 64 else "the value"
    return shown(value)


def _first_bad(array: pa.Array, target: pa.DataType, step: Step) -> int:
    """Halve the array until one value is left that does not convert."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(array[low:middle], target)
            low = middle
        except (pa.ArrowException, OverflowError):
            high = middle
    return low


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.decimal128(20, 0)).cast(target)


def _integer_to_boolean(array: pa.Array, target: pa.DataType) -> pa.Array:
    odd = pc.and_(pc.not_equal(array, 0), pc.not_equal(array, 1))
    if pc.any(odd).as_py():
        raise pa.ArrowInvalid("only 1 and 0 are truth values")
    return array.cast(target)


def _float_to_float(array: pa.Array, target: pa.DataType) -> pa.Array:
    narrow = array.cast(target)
    back = narrow.cast(array.type)
    if not pc.all(pc.or_(pc.equal(back, array), pc.is_nan(array))).as_py() and len(array) > array.null_count:
        raise pa.ArrowInvalid("the float has more digits")
    return narrow


def _float_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target.precision > 15 and array.null_count < len(array):
        raise pa.ArrowInvalid(
            "a JSON number is exact to 15 digits only; set decimal.handling.mode=precise or string"
        )
    return from_text(array.cast(pa.large_string()), target)


def _float_to_uint64(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pc.any(pc.greater(pc.abs(array), 2.0**53)).as_py():
        raise pa.ArrowInvalid("a JSON number is exact up to 2⁵³ only")
    return array.cast(target)


def _text_to_uint64(array: pa.Array, target: pa.DataType) -> pa.Array:
    return from_text(array, pa.decimal128(20, 0)).cast(target)


def _text_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    if target.bit_width < 128:
        return from_text(array, pa.decimal128(target.precision, target.scale)).cast(target)
    return from_text(array, target)


def _fixed(array: pa.Array, target: pa.DataType) -> pa.Array:
    lengths = pc.binary_length(array)
    if pc.any(pc.not_equal(lengths, target.byte_width)).as_py():
        raise pa.ArrowInvalid(f"it does not have {target.byte_width} bytes")
    if not array.null_count:
        return array.cast(target)
    padding = pa.scalar(bytes(target.byte_width), array.type)
    return pc.if_else(array.is_valid(), pc.fill_null(array, padding).cast(target), pa.scalar(None, target))


def _is_uint64(kind: pa.DataType) -> bool:
    return bool(kind == pa.uint64())


def _is_local(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


_STEPS: tuple[tuple[Holds, Holds, Step], ...] = (
    (is_text, is_text, _cast),
    (is_text, pa.types.is_decimal, _text_to_decimal),
    (is_text, _is_uint64, _text_to_uint64),
    (is_bytes, pa.types.is_fixed_size_binary, _fixed),
    (is_bytes, is_bytes, _cast),
    (pa.types.is_integer, pa.types.is_integer, _cast),
    (pa.types.is_integer, pa.types.is_decimal, _integer_to_decimal),
    (pa.types.is_integer, pa.types.is_boolean, _integer_to_boolean),
    (pa.types.is_integer, pa.types.is_floating, _cast),
    (pa.types.is_floating, pa.types.is_floating, _float_to_float),
    (pa.types.is_floating, pa.types.is_decimal, _float_to_decimal),
    (pa.types.is_floating, _is_uint64, _float_to_uint64),
    (pa.types.is_decimal, pa.types.is_decimal, _cast),
    (pa.types.is_decimal, pa.types.is_integer, _cast),
    (pa.types.is_date, pa.types.is_date, _cast),
    (pa.types.is_time, pa.types.is_time, _cast),
    (_is_local, _is_local, _cast),
    (is_zoned, is_zoned, _cast),
    (pa.types.is_duration, pa.types.is_duration, _cast),
)
