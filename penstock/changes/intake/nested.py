"""Lists, structs and maps taken apart into columns, and put together again as the types that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.intake.refused import NoRoom, Refused, closest, listed
from penstock.changes.intake.scalars import is_missing

__all__ = ["Column", "Convert", "convert_nested"]

Column: TypeAlias = pa.Array | list[Any]
"""Values of one column: as Arrow has them, or as Python has them."""
Convert: TypeAlias = Callable[[Column, pa.Field], pa.Array]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
_MOST = 2**31 - 1


def convert_nested(values: Column, kind: pa.DataType, convert: Convert) -> pa.Array:
    """The values as a list, struct or map; ``convert`` does the same for the columns inside."""
    if pa.types.is_struct(kind):
        return _struct(values, kind, convert)
    if pa.types.is_map(kind):
        return _map(values, kind, convert)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _list(values, kind, convert)
    if isinstance(values, pa.Array) and values.type == kind:
        return values
    raise Refused(0, values, kind, "for which nothing is taken but Arrow data of that very type")


# -- lists ------------------------------------------------------------------------------------------


def _list(values: Column, kind: pa.DataType, convert: Convert) -> pa.Array:
    valid, lengths, items = _list_parts(values, kind)
    starts = np.cumsum(lengths) - lengths
    field = kind.value_field
    size = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    if size is not None:
        wrong = valid & (lengths != size)
        if wrong.any():
            row = int(np.argmax(wrong))
            why = f"for it has {lengths[row]} items and not {size}"
            raise Refused(row, _shown(values, row), kind, why)
    try:
        inside = convert(items, field)
    except Refused as refused:
        row, at = _row_of(refused.row, starts)
        raise refused.moved(row, f"[{at}]") from None
    if size is not None:
        if not valid.all():  # NULL rows of a list of fixed size hold items, too
            index = np.repeat(starts, size) + np.tile(np.arange(size), len(valid))
            inside = inside.take(pa.array(index, mask=~np.repeat(valid, size)))
        return pa.FixedSizeListArray.from_arrays(inside, type=kind, mask=pa.array(~valid))
    offsets, mask = _offsets(lengths, pa.types.is_large_list(kind)), pa.array(~valid)
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(offsets, inside, type=kind, mask=mask)


def _list_parts(values: Column, kind: pa.DataType) -> tuple[Bools, Int64s, Column]:
    if isinstance(values, list):
        rows = [None if is_missing(it) else _sequence(it, i, kind) for i, it in enumerate(values)]
        valid = np.array([it is not None for it in rows], np.bool_)
        lengths = np.array([0 if it is None else len(it) for it in rows], np.int64)
        return valid, lengths, list(chain.from_iterable(it for it in rows if it is not None))
    t, source = pa.types, values.type
    if not (t.is_list(source) or t.is_large_list(source) or t.is_fixed_size_list(source) or _is_view(source)):
        raise _not_taken(values, kind, "which takes lists")
    valid = _valid(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return valid, np.where(valid, lengths, 0), values.flatten()


def _sequence(value: Any, row: int, kind: pa.DataType) -> Any:
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value)
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.to_pylist()
    raise Refused(row, value, kind, "which takes lists")


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


# -- structs ----------------------------------------------------------------------------------------


def _struct(values: Column, kind: pa.DataType, convert: Convert) -> pa.Array:
    names = [field.name for field in kind]
    if isinstance(values, list):
        valid = np.array([not is_missing(it) for it in values], np.bool_)
        rows = [_by_name(it, i, kind, names) if valid[i] else {} for i, it in enumerate(values)]
        given: dict[str, Column] = {name: [row.get(name) for row in rows] for name in names}
    else:
        if not pa.types.is_struct(values.type):
            raise _not_taken(values, kind, "which takes structs")
        valid = _valid(values)
        there = [field.name for field in values.type]
        _check_names(there, names, values, kind)
        given = dict(zip(there, values.flatten(), strict=True))
    children = []
    for field in kind:
        part = given.get(field.name)
        try:
            child = convert([None] * len(values) if part is None else part, field.with_nullable(True))
        except Refused as refused:
            raise refused.moved(refused.row, f".{field.name}") from None
        if not field.nullable and child.null_count:
            gone = valid & ~_valid(child)
            if gone.any():
                raise Refused(
                    int(np.argmax(gone)), None, field.type, "which may not be NULL", f".{field.name}"
                )
        children.append(child)
    if not children:
        return pa.array([{} if ok else None for ok in valid.tolist()], kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(~valid))


def _by_name(value: Any, row: int, kind: pa.DataType, names: list[str]) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        for name in value:
            if name not in names:
                why = f"for it has no field {name!r}. {closest(name, names)}The fields are {listed(names)}"
                raise Refused(row, value, kind, why)
        return value
    if isinstance(value, list | tuple):
        if len(value) != len(names):
            raise Refused(row, value, kind, f"for it has {len(value)} values and not {len(names)}")
        return dict(zip(names, value, strict=True))
    raise Refused(row, value, kind, "which takes dictionaries")


def _check_names(there: list[str], names: list[str], values: pa.Array, kind: pa.DataType) -> None:
    if not len(values):
        return
    for name in there:
        if name not in names or there.count(name) > 1:
            why = f"for it has no field {name!r}" if name not in names else f"for it has two fields {name!r}"
            raise Refused(0, _shown(values, 0), kind, f"{why}. {closest(name, names)}".rstrip())


# -- maps -------------------------------------------------------------------------------------------


def _map(values: Column, kind: pa.DataType, convert: Convert) -> pa.Array:
    valid, lengths, keys, items = _map_parts(values, kind)
    starts = np.cumsum(lengths) - lengths
    sides = []
    for part, field, side in ((keys, kind.key_field, "key"), (items, kind.item_field, "value")):
        try:
            sides.append(convert(part, field))
        except Refused as refused:
            row, at = _row_of(refused.row, starts)
            raise refused.moved(row, f"[{side} {at}]") from None
    offsets = _offsets(lengths, large=False)
    return pa.MapArray.from_arrays(offsets, *sides, type=kind, mask=pa.array(~valid))


def _map_parts(values: Column, kind: pa.DataType) -> tuple[Bools, Int64s, Column, Column]:
    if isinstance(values, list):
        rows = [[] if is_missing(it) else _pairs(it, i, kind) for i, it in enumerate(values)]
        valid = np.array([not is_missing(it) for it in values], np.bool_)
        lengths = np.array([len(it) for it in rows], np.int64)
        pairs = list(chain.from_iterable(rows))
        return valid, lengths, [key for key, _ in pairs], [item for _, item in pairs]
    if not pa.types.is_map(values.type):
        raise _not_taken(values, kind, "which takes maps")
    valid, offsets = _valid(values), values.offsets.to_numpy()
    lengths = np.diff(offsets).astype(np.int64)
    if lengths[~valid].any():  # entries that nobody sees
        values = values.take(pa.array(np.arange(len(values))))
        offsets = values.offsets.to_numpy()
        lengths = np.diff(offsets).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    return valid, lengths, values.keys.slice(first, count), values.items.slice(first, count)


def _pairs(value: Any, row: int, kind: pa.DataType) -> list[tuple[Any, Any]]:
    found: Iterable[Any]
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        found = value
        if all(isinstance(it, tuple | list) and len(it) == 2 for it in found):
            return [(key, item) for key, item in found]
    raise Refused(row, value, kind, "which takes dictionaries, and lists of pairs")


# -- all --------------------------------------------------------------------------------------------


def _valid(array: pa.Array) -> Bools:
    mask: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _offsets(lengths: Int64s, large: bool) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if large:
        return pa.array(offsets, pa.int64())
    if offsets[-1] > _MOST:
        raise NoRoom
    return pa.array(offsets.astype(np.int32))


def _row_of(item: int, starts: Int64s) -> tuple[int, int]:
    """Which row an item is of, and the how-manieth there. Empty rows begin where the next one does."""
    row = int(np.searchsorted(starts, item, side="right")) - 1
    return row, item - int(starts[row])


def _shown(values: Column, row: int) -> Any:
    if isinstance(values, list):
        return values[row]
    try:
        return values[row].as_py()
    except (ValueError, OverflowError, ImportError):  # a time beyond what Python has
        return f"a {values.type}"


def _not_taken(values: pa.Array, kind: pa.DataType, why: str) -> Refused:
    row = int(np.argmax(_valid(values)))
    return Refused(row, _shown(values, row), kind, why)
