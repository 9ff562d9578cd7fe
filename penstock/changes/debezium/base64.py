"""Base64 of whole columns, in NumPy, both ways.

Three bytes are four characters. So a column is cut into groups of three bytes, each group is looked up as two
12-bit halves in a table of character pairs, and the groups are laid side by side: a few passes over flat
arrays, whatever the number of values. Decoding is strict: RFC 4648's alphabet, full padding, no stray bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.debezium.buffers import slices, with_nulls

__all__ = ["decode", "encode", "text"]

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PAD = np.uint8(ord("="))
_PAIRS = (
    np.stack([np.repeat(_ALPHABET, 64), np.tile(_ALPHABET, 64)], axis=1).copy().view(np.uint16).reshape(-1)
)
_NONE = np.uint8(255)
_SEXTETS = np.full(256, _NONE)
_SEXTETS[_ALPHABET] = np.arange(64)
_SEXTETS[_PAD] = 0


def encode(data: Bytes, starts: Int64s, lengths: Int64s) -> pa.Array:
    """The base64 text of each slice ``data[start : start + length]``.

    >>> data = np.frombuffer(b"hello msg", np.uint8)
    >>> encode(data, np.array([0, 6, 9]), np.array([9, 2, 0])).to_pylist()
    ['aGVsbG8gbXNn', 'bXM=', '']
    """
    groups = (lengths + 2) // 3
    ends = np.cumsum(groups)
    total = int(ends[-1]) if len(ends) else 0
    chars = np.empty((total, 4), np.uint8)
    if total:
        padded = np.concatenate([data, np.zeros(2, np.uint8)])
        at = np.repeat(starts - 3 * (ends - groups), groups) + 3 * np.arange(total)
        last = ends[groups > 0] - 1
        over = (3 * groups - lengths)[groups > 0]  # how many of the last group's bytes are not the value's
        words = padded[at].astype(np.uint32) << 16
        words |= padded[at + 1].astype(np.uint32) << 8
        words |= padded[at + 2]
        words[last] &= np.array([0xFFFFFF, 0xFFFF00, 0xFF0000], np.uint32)[over]
        pairs = chars.view(np.uint16)
        pairs[:, 0] = _PAIRS[words >> 12]
        pairs[:, 1] = _PAIRS[words & 0xFFF]
        chars[last[over > 0], 3] = _PAD
        chars[last[over > 1], 2] = _PAD
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(4 * groups, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chars)]
    return pa.LargeStringArray.from_buffers(len(lengths), buffers[1], buffers[2])


def decode(chars: Bytes, offsets: Int64s) -> tuple[Bytes, Int64s, Bools]:
    """The bytes of each text ``chars[offsets[i] : offsets[i + 1]]``, laid end to end, with their offsets.

    The third array says which texts are bad; the bytes of a bad one mean nothing.

    >>> data, ends, bad = decode(np.frombuffer(b"bXM=AJY=??", np.uint8), np.array([0, 4, 8, 10]))
    >>> bytes(data[ends[0]:ends[1]]), bytes(data[ends[1]:ends[2]]), bad.tolist()
    (b'ms', b'\\x00\\x96', [False, False, True])
    """
    lengths = np.diff(offsets)
    bad = lengths % 4 != 0
    if bad.any():  # cut such texts down to whole groups, so that all groups stay aligned
        keep = np.arange(len(chars)) < 0
        for_each = np.repeat(lengths - lengths % 4, lengths)
        inside = np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], lengths)
        keep[offsets[0] : offsets[-1]] = inside < for_each
        chars, lengths = chars[keep], lengths - lengths % 4
    else:
        chars = chars[offsets[0] : offsets[-1]]
    ends = np.cumsum(lengths) // 4
    some = lengths > 0
    sextets = _SEXTETS[chars]
    pads = np.zeros(len(lengths), np.int64)
    last = 4 * ends[some] - 1
    pads[some] = (chars[last] == _PAD).astype(np.int64) + ((chars[last] == _PAD) & (chars[last - 1] == _PAD))
    wrong = sextets == _NONE
    stray = chars == _PAD
    stray[last[pads[some] > 0]] = False
    stray[last[pads[some] > 1] - 1] = False
    wrong |= stray
    if wrong.any():
        bad[np.searchsorted(4 * ends, np.flatnonzero(wrong), side="right")] = True
    quads = sextets.reshape(-1, 4).astype(np.uint32)
    words = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    bad[some] |= (words[ends[some] - 1] & np.array([0, 0xFF, 0xFFFF], np.uint32)[pads[some]]) != 0
    triples = words[:, None].view(np.uint8).reshape(-1, 4)[:, 2::-1].reshape(-1)
    if pads.any():
        kept = np.ones(len(triples), np.bool_)
        kept[3 * ends[pads > 0] - 1] = False
        kept[3 * ends[pads > 1] - 2] = False
        triples = triples[kept]
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(3 * (lengths // 4) - pads, out=starts[1:])
    return np.ascontiguousarray(triples), starts, bad


def text(array: pa.Array) -> pa.Array:
    """A binary column as base64; NULL stays NULL.

    >>> text(pa.array([b"hello msg", None, b""])).to_pylist()
    ['aGVsbG8gbXNn', None, '']
    """
    data, offsets = slices(array)
    return with_nulls(encode(data, offsets[:-1], np.diff(offsets)), array)
