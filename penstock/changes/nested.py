"""Lists and maps taken apart into their items, and put together again.

Arrow keeps a list's items end to end in one child array, wherever the list itself begins and whatever a NULL
hides. These functions give the items of the rows that are there, and only those, so that what is done to
them is a few passes over flat arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["entries", "fixed_lists", "is_list", "lengths", "list_like", "map_like"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def is_list(kind: pa.DataType) -> bool:
    """Whether the type is a list whose items lie one after the other; those of list views need not."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def lengths(array: pa.Array) -> Int64s:
    """Items per row of a list or map, 0 where the row is NULL.

    >>> lengths(pa.array([[7, 8], None, []])).tolist()
    [2, 0, 0]
    """
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        return np.where(_nulls(array), 0, kind.list_size).astype(np.int64)
    if pa.types.is_map(kind):
        return np.where(_nulls(array), 0, np.diff(_map_offsets(array))).astype(np.int64)
    counted: Int64s = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    return counted


def entries(
    array: pa.Array, keys: pa.Array | None = None, items: pa.Array | None = None
) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of the maps that are not NULL, in order.

    ``keys`` and ``items`` stand in for the whole children of the map, where these have been made anew.
    """
    offsets = _map_offsets(array)
    keys = array.keys if keys is None else keys  # all of them, whatever slice ``array`` is
    items = array.items if items is None else items
    if array.null_count or offsets[0] != 0 or len(keys) != offsets[-1]:
        counts = lengths(array)
        skipped = offsets[:-1] - (np.cumsum(counts) - counts)
        take = pa.array(np.repeat(skipped, counts) + np.arange(counts.sum()))
        keys, items = keys.take(take), items.take(take)
    return keys, items


def list_like(kind: pa.DataType, array: pa.Array, items: pa.Array) -> pa.Array:
    """Lists of type ``kind`` that have ``array``'s NULLs and lengths, and these items end to end."""
    mask, counts = pc.is_null(array), lengths(array)
    if pa.types.is_fixed_size_list(kind):
        return fixed_lists(kind, items, _nulls(array))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets), items, type=kind, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items, type=kind, mask=mask)


def fixed_lists(kind: pa.FixedSizeListType, items: pa.Array, missing: Bools) -> pa.Array:
    """Lists of one length, NULL where ``missing``; ``items`` are those of the other rows, end to end.

    >>> fixed_lists(pa.list_(pa.int64(), 2), pa.array([7, 8]), np.array([True, False])).to_pylist()
    [None, [7, 8]]
    """
    size = kind.list_size
    if not size:  # of no items Arrow cannot tell how many lists they are
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
        return pa.Array.from_buffers(kind, len(missing), [valid], children=[items])
    if missing.any():
        # A NULL row has items too, whatever they are.
        place = size * (np.cumsum(~missing) - ~missing)
        index = np.repeat(place, size) + np.tile(np.arange(size), len(missing))
        items = items.take(pa.array(index, mask=np.repeat(missing, size)))
    return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=pa.array(missing))


def map_like(kind: pa.DataType, array: pa.Array, keys: pa.Array, items: pa.Array) -> pa.Array:
    """Maps of type ``kind`` that have ``array``'s NULLs and lengths, and these entries end to end."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths(array))]).astype(np.int32))
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=pc.is_null(array))


def _map_offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    if not len(array):  # the buffer may then be missing, or of any size
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def _nulls(array: pa.Array) -> Bools:
    mask: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return mask
