"""The Arrow type of a column of JSON values that come without any schema.

JSON tells booleans, integers, floats, text, arrays and objects apart, and nothing more: base64 stays text and
dates stay integers. Give a schema to have them read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.changes.debezium.cells import laid_out, present
from penstock.changes.debezium.misfit import Misfit, of_field, of_item, shown
from penstock.changes.debezium.scalars import first
from penstock.changes.debezium.types import MAX_DEPTH

__all__ = ["infer"]

_HINT = "Give schema=, which says what the column is."
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def infer(values: Sequence[Any], depth: int = 0) -> pa.DataType:
    """The one type that all values have; NULLs have any.

    >>> infer([1, None]), infer([1.5, "NaN"]), infer([{"a": [True]}, {"b": "x"}])
    (DataType(int64), DataType(double), StructType(struct<a: list<item: bool>, b: string>))
    """
    types = present(values)
    if not types:
        return pa.null()
    if depth >= MAX_DEPTH:
        at = first(values, lambda _: True)
        raise Misfit(at, f"it is nested deeper than {MAX_DEPTH} levels", _HINT)
    if types == {bool}:
        return pa.bool_()
    if types == {int}:
        return _integer(values)
    if types == {float} or types == {float, int}:
        return pa.float64()
    if types == {str}:
        return pa.string()
    if types == {list}:
        flat, offsets = laid_out(values)
        with of_item(offsets):
            return pa.list_(infer(flat, depth + 1))
    if types == {dict}:
        names = dict.fromkeys(name for value in values if value is not None for name in value)
        return pa.struct([pa.field(name, _field(values, name, depth)) for name in names])
    if (
        types <= {float, int, str}
        and float in types
        and all(v in _NOT_FINITE for v in values if type(v) is str)
    ):
        return pa.float64()
    kind = next(type(value) for value in values if value is not None)
    like = {float, int} if kind in (float, int) else {kind}
    at = first(values, lambda value: type(value) not in like)
    raise Misfit(
        at,
        f"{shown(values[at])} is {_NAMES[type(values[at])]}, after {_NAMES[kind]} in the same column",
        _HINT,
    )


def _field(values: Sequence[Any], name: str, depth: int) -> pa.DataType:
    with of_field(name):
        return infer([None if value is None else value.get(name) for value in values], depth + 1)


_NAMES = {
    bool: "a truth value",
    int: "an integer",
    float: "a float",
    str: "text",
    list: "an array",
    dict: "an object",
}


def _integer(values: Sequence[Any]) -> pa.DataType:
    least = min(value for value in values if value is not None)
    most = max(value for value in values if value is not None)
    if least >= -(2**63) and most < 2**63:
        return pa.int64()
    if least >= 0 and most < 2**64:
        return pa.uint64()
    at = first(values, lambda value: not -(2**63) <= value < 2**63)
    raise Misfit(at, f"{values[at]} does not fit int64", _HINT)
