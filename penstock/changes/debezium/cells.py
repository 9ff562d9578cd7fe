"""The JSON values of a column, nested to any depth, as an Arrow array of the type that is wanted.

A nested column is read level by level: the items of all its lists laid end to end are a column again, and so
are the values of one field of all its structs. A value that does not fit is told with its path from the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.convert import convert
from penstock.changes.debezium.decimals import decimals, variable_decimals
from penstock.changes.debezium.misfit import Misfit, of_field, of_item, shown
from penstock.changes.debezium.scalars import check, scalars
from penstock.changes.debezium.types import DECIMAL, VARIABLE_DECIMAL, ConnectType, plain_type
from penstock.changes.nested import fixed_lists, is_list

__all__ = ["cells", "laid_out", "present"]

Int64s = npt.NDArray[np.int64]
_NONE_TYPE = type(None)
_SHAPE_HINT = "Check the column's type in schema= against what the database has."


def cells(
    values: Sequence[Any], kind: ConnectType, target: pa.DataType, *, lenient: bool = False
) -> pa.Array:
    """Read a column of JSON values spelled as ``kind`` says into an array of type ``target``.

    ``lenient`` lets structs have fields that nobody asked for.

    >>> items = ConnectType("array", items=ConnectType("bytes"))
    >>> cells([["AJY="], None], items, pa.list_(pa.binary())).to_pylist()
    [[b'\\x00\\x96'], None]
    """
    types = present(values)
    if not types:
        return pa.nulls(len(values), target)
    plain = plain_type(target)
    if (kind.name == DECIMAL and types == {dict}) or (
        kind.name == VARIABLE_DECIMAL and not pa.types.is_struct(plain)
    ):
        array = variable_decimals(values, types)  # a numeric column may lack a scale, and nobody told us
    elif kind.kind == "bytes" and kind.name == DECIMAL:
        array = decimals(values, types, kind, plain)
    elif kind.kind == "array":
        array = _lists(values, types, kind, plain, lenient)
    elif kind.kind == "map":
        array = _maps(values, types, kind, plain, lenient)
    elif kind.kind == "struct":
        array = _structs(values, types, kind, plain, lenient)
    else:
        array = scalars(values, types, kind, plain)
    return convert(array, target)


def present(values: Sequence[Any]) -> frozenset[type]:
    """The types of the values that are not NULL."""
    return frozenset(map(type, values)) - {_NONE_TYPE}


def laid_out(values: Sequence[Any]) -> tuple[list[Any], Int64s]:
    """The items of all lists end to end, and where each list begins."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    return list(chain.from_iterable(value for value in values if value is not None)), offsets


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _wrong_shape(values: Sequence[Any], kind: ConnectType, target: pa.DataType) -> Misfit:
    at = next(at for at, value in enumerate(values) if value is not None)
    return Misfit(
        at, f"{shown(values[at])} arrives as {kind.kind}, which is not read as {target}", _SHAPE_HINT
    )


def _check_nulls(items: pa.Array, nullable: bool, what: str) -> None:
    if items.null_count and not nullable:
        at = int(pc.index(items.is_null(), True).as_py())
        raise Misfit(at, f"it is NULL, and {what} not be", "Declare it nullable.")


def _lists(
    values: Sequence[Any], types: frozenset[type], kind: ConnectType, target: pa.DataType, lenient: bool
) -> pa.Array:
    if not is_list(target) or kind.items is None:
        raise _wrong_shape(values, kind, target)
    check(values, types, frozenset([list]), "an array")
    flat, offsets = laid_out(values)
    with of_item(offsets):
        items = cells(flat, kind.items, target.value_type, lenient=lenient)
        _check_nulls(items, target.value_field.nullable, "items may")
    mask = _nulls(values)
    if pa.types.is_large_list(target):
        return pa.LargeListArray.from_arrays(pa.array(offsets), items, type=target, mask=mask)
    if pa.types.is_list(target):
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items, type=target, mask=mask)
    size = target.list_size
    odd = next((at for at, value in enumerate(values) if value is not None and len(value) != size), None)
    if odd is not None:
        raise Misfit(odd, f"it has {len(values[odd])} items, and {target} has {size}", _SHAPE_HINT)
    return fixed_lists(target, items, mask.to_numpy(zero_copy_only=False))


def _maps(
    values: Sequence[Any], types: frozenset[type], kind: ConnectType, target: pa.DataType, lenient: bool
) -> pa.Array:
    if not pa.types.is_map(target) or kind.keys is None or kind.values is None:
        raise _wrong_shape(values, kind, target)
    flat_keys: list[Any]
    if kind.keys.kind == "string":
        check(values, types, frozenset([dict]), "an object")
        flat_keys, offsets = laid_out(values)
        flat_values = list(chain.from_iterable(value.values() for value in values if value is not None))
    else:
        check(values, types, frozenset([list]), "an array of [key, value] pairs")
        pairs, offsets = laid_out(values)
        with of_item(offsets):
            check(pairs, frozenset(map(type, pairs)), frozenset([list]), "a [key, value] pair")
            odd = next((at for at, pair in enumerate(pairs) if len(pair) != 2), None)
            if odd is not None:
                raise Misfit(odd, f"{shown(pairs[odd])} is not a [key, value] pair", _SHAPE_HINT)
        flat_keys, flat_values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    with of_item(offsets):
        keys = cells(flat_keys, kind.keys, target.key_type, lenient=lenient)
        _check_nulls(keys, False, "a map's keys may")
        items = cells(flat_values, kind.values, target.item_type, lenient=lenient)
        _check_nulls(items, target.item_field.nullable, "the map's values may")
    starts = pa.array(offsets.astype(np.int32))
    return pa.MapArray.from_arrays(starts, keys, items, type=target, mask=_nulls(values))


def _check_told(values: Sequence[Any], name: str, spelled: bool) -> None:
    """Refuse a struct without a field that may not be NULL; the NULLs of NULL structs are none."""
    for at, value in enumerate(values):
        if value is not None and (not spelled or value.get(name) is None):
            raise Misfit(at, "it is missing or NULL, and may not be", "Declare it nullable.")


def _structs(
    values: Sequence[Any], types: frozenset[type], kind: ConnectType, target: pa.DataType, lenient: bool
) -> pa.Array:
    if not pa.types.is_struct(target):
        raise _wrong_shape(values, kind, target)
    check(values, types, frozenset([dict]), "an object")
    spelled = dict(kind.fields)
    if not lenient:
        unknown = set().union(*(value for value in values if value is not None)) - {
            part.name for part in target
        }
        if unknown:
            at = next(
                at for at, value in enumerate(values) if value is not None and not unknown.isdisjoint(value)
            )
            name = next(name for name in values[at] if name in unknown)
            raise Misfit(at, f"the field {name!r} is not one of {target}", "Add it to the struct in schema=.")
    children = []
    for part in target:
        with of_field(part.name):
            inner = spelled.get(part.name)
            if inner is None:
                children.append(pa.nulls(len(values), part.type))
            else:
                column = [None if value is None else value.get(part.name) for value in values]
                children.append(cells(column, inner, part.type, lenient=lenient))
            if not part.nullable and children[-1].null_count:
                _check_told(values, part.name, inner is not None)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_nulls(values))
