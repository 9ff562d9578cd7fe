"""The order of values within one hash: Spark's, as unsigned integers or as ranks.

NaN is the greatest double and −0.0 equals 0.0; strings and binaries compare byte by byte; false < true.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes import rows
from penstock.errors import InvalidArgument

__all__ = ["before", "has_order", "ranks", "sorting_of"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_SIGN = -(1 << 63)
_GREATEST = (1 << 63) - 1


def has_order(kind: pa.DataType) -> bool:
    """Whether values of this type can be sorted within a hash."""
    t = pa.types
    return bool(
        t.is_integer(kind)
        or t.is_floating(kind)
        or t.is_decimal128(kind)
        or t.is_boolean(kind)
        or (t.is_temporal(kind) and not t.is_interval(kind))
        or _is_bytes(kind)
    )


def sorting_of(values: pa.Array) -> Int64s:
    """The positions of the values, the least first; equal ones in their order. Refuses NULL.

    >>> sorting_of(pa.array([2.0, float("nan"), -1.5, -0.0, 0.0])).tolist()
    [2, 3, 4, 0, 1]
    """
    if values.null_count:
        raise InvalidArgument(
            f"{values.null_count} values are NULL",
            subject="order of a bag",
            hint="A bag in the order of a column holds no NULL there: leave such rows out.",
        )
    if _is_bytes(values.type):
        ranks: Int64s = pc.sort_indices(values).to_numpy().astype(np.int64)
        return ranks
    words = _words(values)
    if len(words) == 1:
        return np.argsort(words[0], kind="stable")
    return np.lexsort((words[1], words[0]))


def ranks(values: pa.Array) -> Int64s:
    """Integers that compare among themselves as the values do. Refuses NULL nowhere: what is NULL has any.

    >>> ranks(pa.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """
    if not _is_bytes(values.type):
        words = _words(values)
        if len(words) == 1:
            return words[0]
        order = np.lexsort((words[1], words[0]))
        differ = np.zeros(len(order), np.bool_)
        for word in words:
            differ[1:] |= word[order[1:]] != word[order[:-1]]
    else:
        order = pc.sort_indices(values).to_numpy().astype(np.int64)
        sorted_values = values.take(pa.array(order))
        differ = np.zeros(len(order), np.bool_)
        differ[1:] = _true(
            pc.not_equal(sorted_values.slice(1), sorted_values.slice(0, max(len(order) - 1, 0)))
        )
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(differ)
    return found


def before(left: pa.Array, right: pa.Array) -> Bools:
    """Pair by pair, whether the value on the left is less. No value is NULL.

    >>> before(pa.array([1.0, float("nan"), 1.0]), pa.array([float("nan"), 1.0, 1.0])).tolist()
    [True, False, False]
    """
    if _is_bytes(left.type):
        return _true(pc.less(left, right))
    a, b = _words(left), _words(right)
    less: Bools = a[0] < b[0]
    return less if len(a) == 1 else less | ((a[0] == b[0]) & (a[1] < b[1]))


def _true(mask: pa.Array) -> Bools:
    filled: Bools = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return filled


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_string(kind)
        or t.is_large_string(kind)
        or t.is_binary(kind)
        or t.is_large_binary(kind)
        or t.is_fixed_size_binary(kind)
    )


def _words(values: pa.Array) -> list[Int64s]:
    """Integers that are in the order of the values: one per value, or two, the weightier first."""
    kind = values.type
    if pa.types.is_floating(kind):
        # Read as integers, doubles of one sign are in order already; the negative ones run backwards.
        bits = rows.canonical(values).to_numpy().astype(np.float64).view(np.int64)
        return [bits ^ ((bits >> 63) & _GREATEST)]
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(values.buffers()[1] or b"", np.int64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))]
        low, high = words[::2], words[1::2]
        return [low] if kind.precision <= 18 else [high, low ^ _SIGN]
    if pa.types.is_boolean(kind):
        return [values.cast(pa.int8()).to_numpy().astype(np.int64)]
    if kind == pa.uint64():
        return [values.to_numpy().view(np.int64) ^ _SIGN]
    if pa.types.is_temporal(kind):
        values = values.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    return [values.to_numpy().astype(np.int64)]
