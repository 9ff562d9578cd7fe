"""One column converted: as a whole if that is possible, else in blocks, and the odd block value by value.

So a column that needs no thought costs one cast, a column with a few odd values costs a little more, and a
value that is not taken is named by its row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changes.intake.casts import cast, from_python, is_flat, python_values, unwrapped
from penstock.changes.intake.nested import Column, convert_nested
from penstock.changes.intake.refused import NoRoom, Refused
from penstock.changes.intake.scalars import No, array_of, is_missing, plain

__all__ = ["convert", "convert_chunks"]

_BLOCK = 4096


def convert_chunks(values: pa.ChunkedArray | Column, field: pa.Field) -> pa.Array:
    """The column as its field wants it, or `Refused`, or `NoRoom`."""
    if not isinstance(values, pa.ChunkedArray):
        return convert(values, field)
    parts, row = [], 0
    for chunk in values.chunks:
        try:
            parts.append(convert(chunk, field))
        except Refused as refused:
            raise refused.moved(row + refused.row) from None
        row += len(chunk)
    return _joined(parts, field.type)


def convert(values: Column, field: pa.Field) -> pa.Array:
    """The values as the field's type. A NULL where the field has none is refused, too."""
    array = _converted(values, field.type)
    if not field.nullable and array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise Refused(row, None, field.type, "which may not be NULL")
    return array


def _converted(values: Column, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array) and values.type == kind and _promises_nothing(kind):
        return values
    if pa.types.is_dictionary(kind):
        return _converted(values, kind.value_type).cast(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_converted(values, kind.storage_type))
    if isinstance(values, pa.Array):
        values = unwrapped(values)
        if values.null_count == len(values):
            return pa.nulls(len(values), kind)
    elif not values:
        return pa.nulls(0, kind)
    if not is_flat(kind):
        return convert_nested(values, kind, convert)
    return _flat(values, kind)


def _flat(values: Column, kind: pa.DataType) -> pa.Array:
    found = _fast(values, kind)
    if found is not None:
        return found
    parts = []
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        part = _fast(block, kind) if len(values) > _BLOCK else None
        try:
            parts.append(_one_by_one(block, kind) if part is None else part)
        except Refused as refused:
            raise refused.moved(start + refused.row) from None
    return _joined(parts, kind)


def _fast(values: Column, kind: pa.DataType) -> pa.Array | None:
    return from_python(values, kind) if isinstance(values, list) else cast(values, kind)


def _one_by_one(values: Column, kind: pa.DataType) -> pa.Array:
    taken: list[Any] = []
    for row, value in enumerate(values if isinstance(values, list) else python_values(values)):
        try:
            taken.append(None if is_missing(value) else plain(value, kind))
        except No as no:
            raise Refused(row, value, kind, str(no)) from None
    try:
        return array_of(taken, kind)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise NoRoom from error


def _joined(parts: list[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise NoRoom from error


def _promises_nothing(kind: pa.DataType) -> bool:
    """Whether no part of the type, at any depth, is NOT NULL: then Arrow data of it is right as it is."""
    if pa.types.is_map(kind):  # whose keys are never NULL
        return _promises_nothing(kind.item_type) and kind.item_field.nullable and is_flat(kind.key_type)
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return all(it.nullable and _promises_nothing(it.type) for it in fields)
