"""Shards: with 2ᵏ of them, shard i owns the hashes whose top k bits are i."""

from __future__ import annotations

import numpy as np

from penstock.errors import InvalidArgument
from penstock.spine.layout import Int64s, UInt64s

__all__ = ["MOST_SHARDS", "shard_of", "shard_range"]

MOST_SHARDS = 1 << 16


def shard_range(shard: int, shards: int) -> tuple[int, int]:
    """The hashes of a shard: first, and end (exclusive).

    >>> [hex(edge) for edge in shard_range(3, 4)]
    ['0xc000000000000000', '0x10000000000000000']
    """
    bits = _bits(shards)
    if not 0 <= shard < shards:
        raise InvalidArgument(
            f"there is no shard {shard} of {shards}", subject="shard_range", hint="Count shards from 0."
        )
    return shard << (64 - bits), (shard + 1) << (64 - bits)


def shard_of(hashes: UInt64s | Int64s, shards: int) -> Int64s:
    """The shard of each hash.

    >>> shard_of(np.array([-1, 0, 42]), 4).tolist()
    [3, 0, 0]
    """
    bits = _bits(shards)
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes.view(np.uint64) >> np.uint64(64 - bits)).view(np.int64)


def _bits(shards: int) -> int:
    if not 1 <= shards <= MOST_SHARDS or shards & (shards - 1):
        raise InvalidArgument(
            f"{shards} is no number of shards", subject="shards", hint="Give a power of two, 1 to 65,536."
        )
    return shards.bit_length() - 1
