"""A hash for rows of any columns: equal rows, as `penstock.changes.rows` says, have equal hashes.

`xxhash64` covers the types Spark hashes. The others are put before it as columns of such types that are
equal exactly when the values are: a map, whose entries have no order, as the sum of its entries' hashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.hashing import UInt64s, can_hash, unsigned, xxhash64
from penstock.errors import Unsupported

__all__ = ["row_hashes"]


def row_hashes(columns: Sequence[pa.Array], length: int) -> UInt64s:
    """The hash of each row. NaNs have one hash, zeros have one, and so have maps of the same entries.

    >>> kind = pa.map_(pa.string(), pa.int64())
    >>> column = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]], kind)
    >>> one, same, other = row_hashes([column], 3)
    >>> bool(one == same), bool(one == other)
    (True, False)
    """
    return unsigned(xxhash64([_hashable(column) for column in columns], length))


def _hashable(array: pa.Array) -> pa.Array:
    kind, t = array.type, pa.types
    if can_hash(kind) and not t.is_dictionary(kind):
        return array
    if t.is_map(kind):
        return _of_map(array)
    if t.is_struct(kind):
        # A struct without a part hashes as NULL does, which costs time where it matters and never an answer.
        parts = [_hashable(part) for part in array.flatten()]
        fields = [pa.field(str(i), part.type) for i, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields) if parts else pa.nulls(len(array))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _of_list(array)
    if t.is_float16(kind):
        return array.cast(pa.float32())
    if t.is_time(kind) or t.is_timestamp(kind) or t.is_date(kind) or t.is_duration(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if t.is_integer(kind):
        return array.view({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width])
    if t.is_decimal(kind) or kind == pa.month_day_nano_interval():
        return array.view(pa.binary(kind.bit_width // 8))
    if t.is_dictionary(kind):
        return _hashable(array.dictionary_decode())
    if t.is_run_end_encoded(kind):
        return _hashable(pc.run_end_decode(array))
    if isinstance(kind, pa.BaseExtensionType):
        return _hashable(array.storage)
    raise Unsupported(
        f"rows with a column of type {kind} cannot be compared",
        subject="content",
        hint="Cast it to another type, or leave the column out.",
    )


def _of_list(array: pa.Array) -> pa.Array:
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), _hashable(array.flatten()), mask=array.is_null())


def _of_map(array: pa.Array) -> pa.Array:
    whole = array.take(pa.array(np.arange(len(array))))  # so that its entries begin at 0
    offsets = whole.offsets.to_numpy()
    entries = row_hashes([whole.keys, whole.items], len(whole.keys))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
    told = sums[offsets[1:]] - sums[offsets[:-1]]  # modulo 2⁶⁴
    return pa.array(told.view(np.int64), mask=array.is_null().to_numpy(zero_copy_only=False))
