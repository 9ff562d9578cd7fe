"""The buffers under Arrow arrays as NumPy arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["elements", "slices", "with_nulls"]

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


def elements(array: pa.Array, form: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of an array of fixed width, one element each; under a NULL, any.

    >>> elements(pa.array([7, 8, 9])[1:], np.int64).tolist()
    [8, 9]
    """
    dtype = np.dtype(form)
    if not len(array):  # the buffer may then be missing, or of any size
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def slices(array: pa.Array) -> tuple[Bytes, Int64s]:
    """The bytes under a string or binary column and its offsets into them; under a NULL, any."""
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    wide = array if array.type in (pa.large_binary(), pa.large_string()) else array.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    where = np.frombuffer(offsets, np.int64, len(wide) + 1, wide.offset * 8)
    return np.frombuffer(data if data is not None else b"", np.uint8), where


def with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    """The values, NULL where ``like`` is NULL. ``values`` must be no slice and of a flat type."""
    if not like.null_count:
        return values
    valid = np.packbits(like.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    buffers: list[Any] = values.buffers()
    return pa.Array.from_buffers(values.type, len(values), [pa.py_buffer(valid), *buffers[1:]])
