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
    lengths = pc.list_value_length(members).to_numpy()
    starts = np.cumsum(lengths) - lengths
    first = rows[starts]
    number = np.arange(len(first))
    if (first[1:] < first[:-1]).any():  # Arrow numbers NULL last where the key is one integer column
        order = np.argsort(first)
        number[order] = np.arange(len(first))
        first = first[order]
    ids = np.empty(length, np.int64)
    ids[rows] = np.repeat(number, lengths)
    return Grouping(ids, first)


def same_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Bools:
    """Row by row, whether left and right hold the same row."""
    same = np.ones(length, np.bool_)
    for a, b in zip(left, right, strict=True):
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
    )


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
    if _is_list(kind):
        values = canonical(array.flatten())
        return _list_like(kind, array, values)
    if pa.types.is_struct(kind):
        fields = [canonical(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_dictionary(kind):
        # Two entries may fall together once canonical; decoding and encoding anew keeps that right.
        values = array.dictionary_decode()
        changed = canonical(values)
        return array if changed is values else changed.dictionary_encode().cast(kind)
    return array


def groupable(array: pa.Array) -> pa.Array:
    """A flat array that groups exactly as ``array`` does."""
    kind = array.type
    if kind in _FLOATS:
        return _one_zero_one_nan(array)
    if is_flat(kind) or pa.types.is_null(kind):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return groupable(array.storage)
    if pa.types.is_dictionary(kind):
        return groupable(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return groupable(pc.run_end_decode(array))
    if pa.types.is_struct(kind):
        # Each child is NULL where the struct is; the mask tells such rows from structs of NULLs.
        missing = pc.is_null(array)
        ids = group([missing, *array.flatten()], len(array)).ids
        return pa.array(ids, mask=missing.to_numpy(zero_copy_only=False))
    if pa.types.is_map(kind):
        entries = _entries(array)
        keys = group([entries.field(0)], len(entries)).ids
        items = group([entries.field(1)], len(entries)).ids
        row = np.repeat(np.arange(len(array)), _lengths(array))
        order = np.lexsort((keys, row))
        pairs = np.column_stack([keys, items])[order]
        return _as_bytes(array, np.ascontiguousarray(pairs).reshape(-1), width=16)
    if _is_list(kind):
        items = array.flatten()
        return _as_bytes(array, group([items], len(items)).ids, width=8)
    raise Unsupported(
        f"rows with a column of type {kind} cannot be compared",
        subject="column",
        hint="Cast it to another type, or leave the column out.",
    )


# List views are not here: Arrow 26 casts a slice of one to a list with broken offsets, and Spark has none.
def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _one_zero_one_nan(array: pa.Array) -> pa.Array:
    """0.0 for −0.0, and one quiet NaN for all of them."""
    kind = _FLOATS[array.type]
    values = np.frombuffer(array.buffers()[1] or b"", dtype=kind)[array.offset : array.offset + len(array)]
    nan = np.isnan(values)
    if not (nan.any() or (np.signbit(values) & (values == 0)).any()):
        return array
    clean = values.copy()
    clean[values == 0] = 0.0
    clean[nan] = np.nan
    return pa.array(clean, type=array.type, mask=_true(pc.is_null(array)))


def _lengths(array: pa.Array) -> Int64s:
    """Items per row, 0 where the row is NULL."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        return np.where(_true(pc.is_null(array)), 0, kind.list_size).astype(np.int64)
    if pa.types.is_map(kind):
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        return np.where(_true(pc.is_null(array)), 0, np.diff(offsets)).astype(np.int64)
    lengths: Int64s = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    return lengths


def _entries(array: pa.Array) -> pa.StructArray:
    """The entries of the rows that are not NULL, in order."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    keys, items = array.keys, array.items  # the whole child, whatever slice ``array`` is
    if array.null_count or offsets[0] != 0 or len(keys) != offsets[-1]:
        lengths = _lengths(array)
        skipped = offsets[:-1] - (np.cumsum(lengths) - lengths)
        take = np.repeat(skipped, lengths) + np.arange(lengths.sum())
        keys, items = keys.take(pa.array(take)), items.take(pa.array(take))
    return pa.StructArray.from_arrays([keys, items], names=["key", "value"])


def _as_bytes(array: pa.Array, numbers: Int64s, width: int) -> pa.Array:
    """One byte string per row, made of the row's numbers; NULL rows stay NULL."""
    offsets = np.concatenate([[0], np.cumsum(_lengths(array))]) * width
    flat = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(numbers)]
    )
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.large_binary()), flat)


def _list_like(kind: pa.DataType, array: pa.Array, values: pa.Array) -> pa.Array:
    mask = pc.is_null(array)
    if pa.types.is_fixed_size_list(kind):
        if array.null_count:
            # `flatten` left the NULL rows' items out; a fixed-size list needs them in place.
            spread = np.cumsum(_lengths(array)) - _lengths(array)
            index = np.repeat(spread, kind.list_size) + np.tile(np.arange(kind.list_size), len(array))
            gone = np.repeat(_true(mask), kind.list_size)
            values = values.take(pa.array(index, mask=gone))
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask)
    offsets = np.concatenate([[0], np.cumsum(_lengths(array))])
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets), values, type=kind, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=kind, mask=mask)


def _sorted_map(array: pa.Array) -> pa.Array:
    entries = _entries(array)
    keys, items = canonical(entries.field(0)), canonical(entries.field(1))
    lengths = _lengths(array)
    if is_flat(keys.type) and (lengths > 1).any():
        row = np.repeat(np.arange(len(array)), lengths)
        order = pc.sort_indices(
            pa.table({"row": row, "key": keys}), sort_keys=[("row", "ascending"), ("key", "ascending")]
        )
        keys, items = keys.take(order), items.take(order)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, keys, items, type=array.type, mask=pc.is_null(array))
