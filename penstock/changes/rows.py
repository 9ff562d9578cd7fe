"""When two rows are the same row, for batches of any Arrow type.

Rows are told apart as Spark's GROUP BY tells them apart: NULL is one value, every NaN is one value,
−0.0 is 0.0, a map is the set of its entries, and this holds at any depth of nesting. The *canonical*
form of a row is the one Spark's grouping keys have: 0.0 for −0.0, one quiet NaN, maps sorted by key.

Nested columns are numbered from the inside out: the numbers of a list's items, laid side by side, are
a byte string, and byte strings can be grouped. So every type costs a few passes of Arrow's hash tables
over its leaves and never a Python object per row. Numbers are good within one call only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.nested import entries, is_list, lengths, list_like, map_like
from penstock.changes.pickable import decoded
from penstock.errors import SchemaMismatch, Unsupported

__all__ = ["Grouping", "canonical", "check_same_schema", "group", "same_rows"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FLOATS: dict[pa.DataType, type[Any]] = {
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


@dataclass(frozen=True, slots=True)
class Grouping:
    """Rows by group: groups are numbered by first appearance.

    ``ids[i]`` is the group of row i; ``first[g]`` is the first row of group g.
    """

    ids: Int64s
    first: Int64s

    @property
    def count(self) -> int:
        return len(self.first)


def group(columns: Sequence[pa.Array], length: int) -> Grouping:
    """Number the groups of equal rows. O(rows) hashing; no column at all is one group.

    >>> nan = float("nan")
    >>> group([pa.array([0.0, -0.0, nan, None, nan])], 5).ids.tolist()
    [0, 0, 1, 2, 1]
    """
    if length == 0:
        none = np.empty(0, np.int64)
        return Grouping(none, none)
    if not columns:
        return Grouping(np.zeros(length, np.int64), np.zeros(1, np.int64))
    keys = {f"k{i}": groupable(column) for i, column in enumerate(columns)}
    table = pa.table({**keys, "row": np.arange(length)})
    listed = table.group_by(list(keys), use_threads=False).aggregate([("row", "list")]).column("row_list")
    members = listed.combine_chunks() if isinstance(listed, pa.ChunkedArray) else listed
    rows = members.flatten().to_numpy()
    counts = pc.list_value_length(members).to_numpy()
    starts = np.cumsum(counts) - counts
    first = rows[starts]
    number = np.arange(len(first))
    if (first[1:] < first[:-1]).any():  # Arrow numbers NULL last where the key is one integer column
        order = np.argsort(first)
        number[order] = np.arange(len(first))
        first = first[order]
    ids = np.empty(length, np.int64)
    ids[rows] = np.repeat(number, counts)
    return Grouping(ids, first)


def same_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Bools:
    """Row by row, whether left and right hold the same row."""
    same = np.ones(length, np.bool_)
    for a, b in zip(left, right, strict=True):
        a, b = decoded(a), decoded(b)
        if is_flat(a.type):
            a, b = groupable(a), groupable(b)
            # NaN is the one value that differs from itself; after `groupable` there is one kind of it.
            equal = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
            if a.type in _FLOATS:
                equal |= _true(pc.is_nan(a)) & _true(pc.is_nan(b))
            nulls = _true(pc.is_null(a)) & _true(pc.is_null(b))
            same &= equal | nulls
        else:
            ids = group([pa.concat_arrays([a, b])], 2 * length).ids
            same &= ids[:length] == ids[length:]
    return same


def check_same_schema(left: pa.Schema, right: pa.Schema, subject: str) -> None:
    """Refuse two schemas that differ in a column's name, place or type."""
    if left.equals(right) or (left.names == right.names and left.types == right.types):
        return
    raise SchemaMismatch(
        f"the columns are ({_spell(left)}) on one side and ({_spell(right)}) on the other",
        subject=subject,
        hint="Select and cast the columns so that names, order and types agree.",
    )


def _spell(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _true(mask: pa.Array) -> Bools:
    filled: Bools = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return filled


def is_flat(kind: pa.DataType) -> bool:
    """Whether Arrow's own hash tables take the type as it is."""
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_dictionary(kind)
        or pa.types.is_run_end_encoded(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_null(kind)
        or _has_no_bytes(kind)  # all of which Arrow counts as one with NULL, and with whatever comes next
    )


def _has_no_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind) and kind.byte_width == 0)


def canonical(array: pa.Array) -> pa.Array:
    """The same values in canonical form, with the same type. Shares buffers when nothing changes.

    >>> canonical(pa.array([-0.0, 1.5])).to_pylist()
    [0.0, 1.5]
    """
    kind = array.type
    if kind in _FLOATS:
        return _one_zero_one_nan(array)
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(canonical(array.storage))
    if pa.types.is_map(kind):
        return _sorted_map(array)
    if is_list(kind):
        return list_like(kind, array, canonical(array.flatten()))
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return array
        fields = [canonical(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_dictionary(kind):
        if not is_flat(kind.value_type):
            return pa.DictionaryArray.from_arrays(
                array.indices, canonical(array.dictionary), ordered=kind.ordered
            )
        # Two entries may fall together once canonical; decoding and encoding anew keeps that right.
        values = array.dictionary_decode()
        changed = canonical(values)
        return array if changed is values else changed.dictionary_encode().cast(kind)
    return array


def groupable(array: pa.Array) -> pa.Array:
    """A flat array that groups, and compares, exactly as ``array`` does."""
    array = decoded(array)
    kind = array.type
    if kind in _FLOATS:
        clean = _one_zero_one_nan(array)
        return clean.cast(pa.float32()) if kind == pa.float16() else clean
    if pa.types.is_interval(kind):
        return array.view(pa.binary(16))
    if is_flat(kind) or pa.types.is_null(kind):
        return array
    if _has_no_bytes(kind):
        return _as_numbers(array, np.zeros(len(array), np.int64))
    if pa.types.is_struct(kind):
        # Each child is NULL where the struct is; the mask tells such rows from structs of NULLs.
        return _as_numbers(array, group([pc.is_null(array), *array.flatten()], len(array)).ids)
    if pa.types.is_map(kind):
        keys, items = entries(array)
        row = np.repeat(np.arange(len(array)), lengths(array))
        numbers = group([keys], len(keys)).ids
        order = np.lexsort((numbers, row))
        pairs = np.column_stack([numbers, group([items], len(items)).ids])[order]
        return _as_bytes(array, np.ascontiguousarray(pairs).reshape(-1), width=16)
    if is_list(kind):
        items = array.flatten()
        return _as_bytes(array, group([items], len(items)).ids, width=8)
    raise Unsupported(
        f"rows with a column of type {kind} cannot be compared",
        subject="column",
        hint="Cast it to another type, or leave the column out.",
    )


def _one_zero_one_nan(array: pa.Array) -> pa.Array:
    """0.0 for −0.0, and one quiet NaN for all of them."""
    if not len(array):
        return array
    kind = np.dtype(_FLOATS[array.type])
    values = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)
    nan = np.isnan(values)
    if not (nan.any() or (np.signbit(values) & (values == 0)).any()):
        return array
    clean = values.copy()
    clean[values == 0] = 0.0
    clean[nan] = np.nan
    return pa.array(clean, type=array.type, mask=_true(pc.is_null(array)))


def _as_numbers(array: pa.Array, numbers: Int64s) -> pa.Array:
    """A number per row; NULL rows stay NULL."""
    return pa.array(numbers, mask=_true(pc.is_null(array)))


def _as_bytes(array: pa.Array, numbers: Int64s, width: int) -> pa.Array:
    """One byte string per row, made of the row's numbers; NULL rows stay NULL."""
    offsets = np.concatenate([[0], np.cumsum(lengths(array))]) * width
    flat = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(numbers)]
    )
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.large_binary()), flat)


def _sorted_map(array: pa.Array) -> pa.Array:
    """By key, where keys have an order; of equal maps with other keys, each stays as it is."""
    keys, items = map(canonical, entries(array))
    counts = lengths(array)
    if _has_order(keys.type) and (counts > 1).any():
        row = np.repeat(np.arange(len(array)), counts)
        order = pc.sort_indices(
            pa.table({"row": row, "key": keys}), sort_keys=[("row", "ascending"), ("key", "ascending")]
        )
        keys, items = keys.take(order), items.take(order)
    return map_like(array.type, array, keys, items)


def _has_order(kind: pa.DataType) -> bool:
    return is_flat(kind) and not pa.types.is_interval(kind) and kind != pa.float16()
