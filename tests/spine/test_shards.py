from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spine import END, MOST_SHARDS, shard_of, shard_range

COUNTS = [1 << bits for bits in range(MOST_SHARDS.bit_length())]


@given(st.lists(st.integers(0, END - 1), max_size=20), st.sampled_from(COUNTS))
def test_each_hash_lies_in_the_range_of_its_shard(hashes: list[int], shards: int) -> None:
    for told in (np.array(hashes, np.uint64), np.array(hashes, np.uint64).view(np.int64)):
        for hash_, shard in zip(hashes, shard_of(told, shards).tolist(), strict=True):
            begin, end = shard_range(shard, shards)
            assert begin <= hash_ < end


@pytest.mark.parametrize("shards", [1, 2, 8])
def test_the_ranges_of_all_shards_lie_end_to_end(shards: int) -> None:
    edges = [shard_range(shard, shards) for shard in range(shards)]
    assert edges[0][0] == 0
    assert edges[-1][1] == END
    assert all(one[1] == other[0] for one, other in pairwise(edges))


@pytest.mark.parametrize("shards", [0, 3, -2, MOST_SHARDS * 2])
def test_a_number_of_shards_is_a_power_of_two(shards: int) -> None:
    with pytest.raises(InvalidArgument, match="power of two"):
        shard_range(0, shards)
    with pytest.raises(InvalidArgument, match="power of two"):
        shard_of(np.array([1], np.int64), shards)


@pytest.mark.parametrize("shard", [-1, 4])
def test_shards_are_counted_from_0(shard: int) -> None:
    with pytest.raises(InvalidArgument, match="no shard"):
        shard_range(shard, 4)
