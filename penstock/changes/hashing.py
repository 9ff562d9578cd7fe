"""A stable 64-bit hash of rows that is, bit for bit, Spark's ``xxhash64(column, ...)``.

So a plan that Spark partitions, a run that Penstock sorts and a range that a reader follows agree on where
a key lies, and none of them needs a JVM to find out.

Law: the hash of a row begins as 42 and each column's value is hashed with the hash so far as its seed; NULL
leaves it as it is. −0.0 hashes as 0.0, all NaNs as one. A value hashes by Spark's type: an INT 1 and a
BIGINT 1 differ, a decimal hashes by its unscaled number, a struct or an array as its parts one after another.
Cost: a few passes of NumPy per column; texts take one pass per 32 bytes of the longest, lists one per item of
the longest, over the rows that are so long. Never a Python object per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidArgument, Unsupported

__all__ = ["HASH_BITS", "can_hash", "unsigned", "xxhash64"]

HASH_BITS = 64

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_SEED = 42
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_P5_4, _P5_8 = np.uint64(0x27D4EB2F165667C5 + 4), np.uint64(0x27D4EB2F165667C5 + 8)
_LANES = np.array([0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579], np.uint64)
"""P1 + P2, P2, 0 and −P1: what each of the four lanes adds to the seed."""
_STRIPE = 32
_BLOCK = 1 << 14  # rows at a time: what a pass leaves is still in the processor's cache for the next
_LONG_DECIMAL = 18  # digits; from 19 on Spark keeps a decimal as a big integer


def xxhash64(columns: Sequence[pa.Array | pa.ChunkedArray], length: int | None = None) -> Int64s:
    """The hash of each row over these columns, as Spark gives it: a signed BIGINT.

    ``length`` is needed only where there is no column; then every hash is 42.

    >>> xxhash64([pa.array([1, 2, None], pa.int64()), pa.array(["ada", None, None])]).tolist()
    [-2559697859488137175, -3341702809300393011, 42]
    """
    if length is None:
        if not columns:
            raise InvalidArgument(
                "there is no column and no length", subject="xxhash64", hint="Give the number of rows."
            )
        length = len(columns[0])
    hashes = np.full(length, _SEED, np.uint64)
    for column in columns:
        if len(column) != length:
            raise InvalidArgument(
                f"a column has {len(column)} rows and not {length}",
                subject="xxhash64",
                hint="Give columns of one batch.",
            )
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for start in range(0, length, _BLOCK):
            block = slice(start, start + _BLOCK)
            hashes[block] = _hash(array.slice(start, _BLOCK), hashes[block])
    return hashes.view(np.int64)


def unsigned(hashes: Int64s) -> UInt64s:
    """The same 64 bits as numbers from 0 to 2⁶⁴ − 1, in the order that ranges and shards use.

    >>> unsigned(np.array([-1, 0, 42])).tolist()
    [18446744073709551615, 0, 42]
    """
    return hashes.view(np.uint64)


def can_hash(kind: pa.DataType) -> bool:
    """Whether `xxhash64` takes columns of this type.

    >>> can_hash(pa.list_(pa.string())), can_hash(pa.map_(pa.string(), pa.int64()))
    (True, False)
    """
    t = pa.types
    if t.is_struct(kind):
        return all(can_hash(field.type) for field in kind)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind) or t.is_dictionary(kind):
        return can_hash(kind.value_type)
    if t.is_timestamp(kind) or t.is_duration(kind):
        return bool(kind.unit != "ns")
    return bool(kind in _SIMPLE or t.is_decimal128(kind) or t.is_fixed_size_binary(kind))


def _hash(array: pa.Array, seeds: UInt64s) -> UInt64s:
    """The hash so far of each row, with this column's value taken in."""
    kind = array.type
    t = pa.types
    if t.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if not can_hash(kind):
        raise _unsupported(kind)
    if t.is_null(kind) or len(array) == 0:
        return seeds
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _hash_items(array, seeds)
    if t.is_struct(kind):
        hashes = seeds
        for child in array.flatten():  # which is NULL where the struct is
            hashes = _hash(child, hashes)
        return hashes
    if t.is_decimal128(kind):
        hashes = _decimals(array, seeds)
    elif t.is_timestamp(kind) or t.is_duration(kind):
        hashes = _longs(_micros(array), seeds)
    elif t.is_fixed_size_binary(kind):
        hashes = _fixed_bytes(array, seeds)
    else:
        hashes = _SIMPLE[kind](array, seeds)
    return np.where(_valid(array), hashes, seeds) if array.null_count else hashes


def _unsupported(kind: pa.DataType) -> Unsupported:
    if pa.types.is_map(kind):
        return Unsupported(
            "a map cannot be hashed, for equal maps may have their entries in another order",
            subject="xxhash64",
            hint="Hash its sorted entries, or a column beside it.",
        )
    return Unsupported(
        f"a column of type {kind} has no hash that Spark would give too",
        subject="xxhash64",
        hint="Cast it to a type that Spark has, for instance bigint, string or timestamp[us].",
    )


def _valid(array: pa.Array) -> Bools:
    mask: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _values(array: pa.Array, kind: Any) -> npt.NDArray[Any]:
    """The values as they lie in memory; anything at all where a row is NULL."""
    width = np.dtype(kind).itemsize
    data = array.buffers()[1]
    return np.frombuffer(data, kind, len(array), array.offset * width)


def _ints(values: npt.NDArray[Any], seeds: UInt64s) -> UInt64s:
    """Spark's hashInt: the 32 bits of a value."""
    hashes = seeds + _P5_4
    hashes ^= values.view(np.uint32) * _P1
    hashes = _rotate(hashes, 23)
    hashes *= _P2
    hashes += _P3
    return _mixed(hashes)


def _longs(values: npt.NDArray[Any], seeds: UInt64s) -> UInt64s:
    """Spark's hashLong: the 64 bits of a value."""
    return _mixed(_add_words(seeds + _P5_8, values.view(np.uint64)))


def _add_words(hashes: UInt64s, words: UInt64s) -> UInt64s:
    """Take in the next 8 bytes of each row."""
    hashes = _rotate(hashes ^ (_rotate(words * _P2, 31) * _P1), 27)
    hashes *= _P1
    hashes += _P4
    return hashes


def _rotate(values: UInt64s, bits: int) -> UInt64s:
    rotated = values << np.uint64(bits)
    rotated |= values >> np.uint64(64 - bits)
    return rotated


def _mixed(hashes: UInt64s) -> UInt64s:
    """The last step of every hash: each bit of it depends on all bits of the value."""
    hashes ^= hashes >> np.uint64(33)
    hashes *= _P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= _P3
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _floats(kind: Any, bits: Any, hash_bits: Callable[[npt.NDArray[Any], UInt64s], UInt64s]) -> _Hash:
    def hash_floats(array: pa.Array, seeds: UInt64s) -> UInt64s:
        values = _values(array, kind).copy()
        with np.errstate(invalid="ignore"):  # a NULL may hide any bits, a signalling NaN's too
            values[values == 0] = 0.0
            values[np.isnan(values)] = np.nan
        return hash_bits(values.view(bits), seeds)

    return hash_floats


def _narrow(kind: Any) -> _Hash:
    return lambda array, seeds: _ints(_values(array, kind).astype(np.int32), seeds)


def _booleans(array: pa.Array, seeds: UInt64s) -> UInt64s:
    return _ints(array.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int32), seeds)


def _micros(array: pa.Array) -> Int64s:
    kind = array.type
    if kind.unit != "us":
        array = array.cast(pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("us"))
    return _values(array, np.int64)


def _texts(array: pa.Array, seeds: UInt64s) -> UInt64s:
    plain = array.cast(pa.large_binary())
    offsets = np.frombuffer(plain.buffers()[1], np.int64, len(plain) + 1, plain.offset * 8)
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    return _bytes(data, offsets[:-1], np.diff(offsets), seeds)


def _fixed_bytes(array: pa.Array, seeds: UInt64s) -> UInt64s:
    width = array.type.byte_width
    starts = (array.offset + np.arange(len(array))) * width
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    return _bytes(data, starts, np.full(len(array), width), seeds)


def _bytes(data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s, seeds: UInt64s) -> UInt64s:
    """Spark's hashUnsafeBytes of ``lengths[i]`` bytes from ``starts[i]``: xxHash64 itself."""
    hashes = seeds + _P5
    longs = np.flatnonzero(lengths >= _STRIPE)
    if len(longs):
        hashes[longs] = _stripes(data, starts[longs], lengths[longs], seeds[longs])
    hashes += lengths.astype(np.uint64)
    at = starts + lengths // _STRIPE * _STRIPE
    words, halves = _view(data, np.uint64), _view(data, np.uint32)
    left = lengths % _STRIPE
    for word in range(3):
        rows = np.flatnonzero(left >= 8 * (word + 1))
        hashes[rows] = _add_words(hashes[rows], words[at[rows] + 8 * word])
    at = at + left // 8 * 8
    rows = np.flatnonzero(left % 8 >= 4)
    if len(rows):
        some = hashes[rows] ^ (halves[at[rows]] * _P1)
        hashes[rows] = _rotate(some, 23) * _P2 + _P3
        at[rows] += 4
    left = lengths % 4
    for byte in range(3):
        rows = np.flatnonzero(left > byte)
        some = hashes[rows] ^ (data[at[rows] + byte] * _P5)
        hashes[rows] = _rotate(some, 11) * _P1
    return _mixed(hashes)


def _view(data: npt.NDArray[np.uint8], kind: type[np.generic]) -> npt.NDArray[Any]:
    """The number of this type that begins at each byte."""
    count = max(len(data) - np.dtype(kind).itemsize + 1, 0)
    return (
        np.ndarray(count, np.dtype(kind).newbyteorder("<"), data, strides=(1,))
        if count
        else np.empty(0, kind)
    )


def _stripes(data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s, seeds: UInt64s) -> UInt64s:
    """All whole 32 bytes of each row, in four lanes of 8 bytes."""
    counts = lengths // _STRIPE
    order = np.argsort(-counts, kind="stable")  # so that the rows that still have a stripe come first
    counts, starts = counts[order], starts[order]
    lanes = seeds[order, None] + _LANES
    words = _view(data, np.uint64)
    offsets = starts[:, None] + np.arange(0, _STRIPE, 8)
    more = np.searchsorted(-counts, -np.arange(counts[0]), side="left")  # rows with more than i stripes
    for stripe, rows in enumerate(more.tolist()):
        some = lanes[:rows]
        some += words[offsets[:rows] + _STRIPE * stripe] * _P2
        lanes[:rows] = _rotate(some, 31) * _P1
    hashes = _rotate(lanes[:, 0], 1) + _rotate(lanes[:, 1], 7)
    hashes += _rotate(lanes[:, 2], 12) + _rotate(lanes[:, 3], 18)
    for lane in range(4):
        hashes ^= _rotate(lanes[:, lane] * _P2, 31) * _P1
        hashes = hashes * _P1 + _P4
    back = np.empty_like(hashes)
    back[order] = hashes
    return back


def _decimals(array: pa.Array, seeds: UInt64s) -> UInt64s:
    """Up to 18 digits as a long; else the fewest big-endian bytes that hold the number and its sign."""
    raw = _values(array, np.dtype("V16")).view(np.uint8).reshape(-1, 16)
    if array.type.precision <= _LONG_DECIMAL:
        return _longs(np.ascontiguousarray(raw[:, :8]).view(np.int64)[:, 0], seeds)
    digits = raw[:, ::-1]
    magnitude = np.where(digits[:, :1] >= 128, ~digits, digits)
    magnitude = np.concatenate([magnitude, np.ones((len(raw), 1), np.uint8)], axis=1)
    first = np.argmax(magnitude != 0, axis=1)  # the column of ones ends the search
    top = magnitude[np.arange(len(raw)), first]
    lengths = np.maximum(16 - first + (top >= 128), 1)
    starts = np.arange(1, len(raw) + 1) * 16 - lengths
    return _bytes(np.ascontiguousarray(digits).reshape(-1), starts, lengths, seeds)


def _hash_items(array: pa.Array, seeds: UInt64s) -> UInt64s:
    """Each item in turn, over the rows that have so many."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    items = array.flatten()  # without those of NULL rows
    starts = np.cumsum(lengths) - lengths
    hashes = seeds.copy()
    order = np.argsort(-lengths, kind="stable")
    longest = int(lengths[order[0]])
    more = np.searchsorted(-lengths[order], -np.arange(longest), side="left")
    for i, rows in enumerate(more.tolist()):
        some = order[:rows]
        hashes[some] = _hash(items.take(pa.array(starts[some] + i)), hashes[some])
    return hashes


_Hash = Callable[[pa.Array, UInt64s], UInt64s]

_SIMPLE: dict[pa.DataType, _Hash] = {
    pa.null(): lambda array, seeds: seeds,
    pa.bool_(): _booleans,
    pa.int8(): _narrow(np.int8),
    pa.int16(): _narrow(np.int16),
    pa.int32(): _narrow(np.int32),
    pa.date32(): _narrow(np.int32),
    pa.int64(): lambda array, seeds: _longs(_values(array, np.int64), seeds),
    pa.time64("ns"): lambda array, seeds: _longs(_values(array, np.int64), seeds),
    pa.float32(): _floats(np.float32, np.uint32, _ints),
    pa.float64(): _floats(np.float64, np.uint64, _longs),
    pa.string(): _texts,
    pa.large_string(): _texts,
    pa.string_view(): _texts,
    pa.binary(): _texts,
    pa.large_binary(): _texts,
    pa.binary_view(): _texts,
}
