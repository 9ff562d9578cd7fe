"""Corners of look-ups that a random history seldom comes to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ArithmeticOverflow, DamagedBytes
from penstock.spine import Layout, Runs, Spine, arrange, write_run
from penstock.spine.pieces import pieces_of
from penstock.store import MemoryStore

TOP = 2**63 - 1
SUMS = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")
PAIRS = Layout(pa.schema([("v", pa.int64()), ("data", pa.int64())]), (), "bag", "v")
WIDE = Layout(
    pa.schema(
        [
            ("k", pa.int64()),
            ("text", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("flag", pa.bool_()),
            ("none", pa.null()),
            ("empty", pa.string()),
        ]
    ),
    ("k",),
    "bag",
)


def one_sum(amount: int) -> pa.RecordBatch:
    return pa.record_batch({"_hash": [7], "k": ["a"], "n": pa.array([amount], pa.int64())})


@pytest.mark.parametrize("amounts", [[TOP, 1], [-TOP, -2], [TOP, TOP, -TOP], [TOP, TOP, 5]])
def test_sums_over_runs_are_exact_or_an_error(amounts: list[int]) -> None:
    spine = Spine.empty(SUMS)
    for amount in amounts:
        spine = spine.plus(one_sum(amount))
    key = one_sum(0).select(["_hash", "k"])
    if abs(sum(amounts)) <= TOP:
        assert spine.sums(key).to_pylist() == [{"n": sum(amounts)}]
    else:
        with pytest.raises(ArithmeticOverflow, match="64 bits"):
            spine.sums(key)


def pairs(values: list[int], data: list[int], weight: int = 1) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "_hash": np.full(len(values), 42),
            "v": pa.array(values, pa.int64()),
            "data": pa.array(data, pa.int64()),
            "_weight": np.full(len(values), weight),
        }
    )


@pytest.mark.parametrize("greatest", [False, True])
def test_a_value_of_many_rows_is_decided_when_all_its_rows_are_read(greatest: bool) -> None:
    many = list(range(3000))
    sign = -1 if greatest else 1
    spine = Spine.empty(PAIRS)
    spine = spine.plus(pairs([5 * sign] * 3000, many)).plus(pairs([5 * sign] * 3000, many, -1))
    spine = spine.plus(pairs([6 * sign] * 3000 + [9 * sign], [*many, 0]))
    key = pa.record_batch({"_hash": [42]})
    assert spine.extremes(key, None, greatest).to_pylist() == [6 * sign]
    assert spine.extremes(key, pa.array([6 * sign]), greatest).to_pylist() == [6 * sign]
    assert spine.extremes(key, pa.array([7 * sign]), greatest).to_pylist() == [9 * sign]
    assert spine.extremes(key, pa.array([10 * sign]), greatest).to_pylist() == [None]


def test_the_greatest_value_may_be_the_least_of_all_and_the_least_the_greatest() -> None:
    low, high = -(2**63), TOP
    spine = (
        Spine.empty(PAIRS)
        .plus(pairs([low] * 20, list(range(20))))
        .plus(pairs([low] * 20, list(range(20, 40))))
    )
    key = pa.record_batch({"_hash": [42]})
    assert spine.extremes(key, None, True).to_pylist() == [low]
    spine = (
        Spine.empty(PAIRS)
        .plus(pairs([high] * 20, list(range(20))))
        .plus(pairs([high] * 20, list(range(20, 40))))
    )
    assert spine.extremes(key, None, False).to_pylist() == [high]


def test_a_value_that_fills_pieces_is_cut_by_its_rows() -> None:
    rng = np.random.default_rng(1)
    spine = Spine.empty(PAIRS)
    expected: dict[tuple[int, int], int] = {}
    for weight in (1, 2, -1):
        values = [*([5] * 900), *rng.integers(0, 12, 300).tolist()]
        data = rng.permutation(2000)[:1200].tolist()
        spine = spine.plus(pairs(values, data, weight))
        for row in zip(values, data, strict=True):
            expected[row] = expected.get(row, 0) + weight
    expected = {row: weight for row, weight in expected.items() if weight}
    pieces = list(pieces_of(PAIRS, spine._runs, 64))
    assert max(piece.num_rows for piece in pieces) <= 256
    found = [row for piece in pieces for row in piece.to_pylist()]
    assert [row["v"] for row in found] == sorted(row["v"] for row in found)
    assert {(row["v"], row["data"]): row["_weight"] for row in found} == expected
    assert len(found) == len(expected)


def wide(count: int) -> pa.RecordBatch:
    keys = np.arange(count)
    return pa.record_batch(
        {
            "_hash": keys * (2**64 // count // 2),
            "k": keys,
            "text": [None if i % 9 == 0 else f"{i} " * (i % 700) for i in range(count)],
            "tags": [None if i % 4 == 0 else ["a", str(i)] for i in range(count)],
            "flag": [i % 3 == 0 for i in range(count)],
            "none": pa.nulls(count),
            "empty": [""] * count,
            "_weight": np.ones(count, np.int64),
        }
    )


def test_rows_far_apart_are_trusted_one_by_one_and_never_wrong() -> None:
    """Strings longer than a block among them; each flip is found, or not met."""
    store = MemoryStore()
    count = 1500
    rows = wide(count)
    it = write_run(store, "r", WIDE, arrange(WIDE, rows))
    good = store.get("r")
    wanted = pa.array([3, 699, 1400])
    keys = rows.take(wanted).select(["_hash", "k"])
    expected = rows.take(wanted).select(WIDE.stored.names).to_pylist()

    def look() -> list[dict[str, object]]:
        return [
            row for _, batch in Spine.open(WIDE, [it], Runs(store)).matches(keys) for row in batch.to_pylist()
        ]

    assert look() == expected
    found = 0
    flips = range(11, len(good), 2017)
    for at in flips:
        bad = bytearray(good)
        bad[at] ^= 128
        store.put("r", bytes(bad))
        try:
            assert look() == expected
        except DamagedBytes:
            found += 1
    assert 20 < found < len(flips) / 2
