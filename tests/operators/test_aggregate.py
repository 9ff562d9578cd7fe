"""Aggregate: what stands in no random plan, and what must not be left to chance."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import xxhash64
from penstock.errors import ArithmeticOverflow, Unsupported
from penstock.operators import operator_of
from penstock.plan import Aggregate, Call, Function, Scan
from penstock.spine import ShardState, shard_of, shard_range
from tests.operators.model import answers, plain
from tests.operators.one_step import Stepper, content, one_for_all

TABLE = Scan("main", "t")


def aggregate(columns: Mapping[str, pa.DataType], keys: Sequence[str], *calls: Call, **more: Any) -> Stepper:
    operator = operator_of(Aggregate(TABLE, tuple(keys), calls), [pa.schema(list(columns.items()))])
    return Stepper(operator, **more)


def call(function: Function, column: str | None = "x") -> Call:
    return Call(function.value, function, column)


def rows(*values: Any, weight: int = 1, g: Any = None) -> list[dict[str, Any]]:
    return [{"g": g, "x": value, "_weight": weight} for value in values]


COUNT = call(Function.COUNT, None)


def test_without_keys_there_is_one_row_always() -> None:
    it = aggregate({"x": pa.int64()}, (), COUNT, call(Function.SUM), call(Function.MIN))
    nothing = {"count": 0, "sum": None, "min": None}
    assert it.tick(changes=[]) == [{**nothing, "_weight": 1}]
    assert it.tick(changes=[]) == []
    one = {"count": 1, "sum": 5, "min": 5}
    assert it.tick(changes=[{"x": 5}]) == [{**nothing, "_weight": -1}, {**one, "_weight": 1}]
    assert it.tick(changes=[{"x": 5, "_weight": -1}]) == [{**one, "_weight": -1}, {**nothing, "_weight": 1}]


def test_only_the_shard_that_owns_it_tells_the_row_over_nothing() -> None:
    operator = aggregate({"x": pa.int64()}, (), COUNT).operator
    told = []
    for shard in range(4):
        state = ShardState.in_memory(operator.layouts, *shard_range(shard, 4))
        told += [row for batch in operator.step({}, state) for row in batch.to_pylist()]
    assert told == [{"count": 0, "_weight": 1}]


def test_a_first_tick_with_rows_tells_one_row() -> None:
    it = aggregate({"x": pa.int64()}, (), COUNT)
    assert it.tick(changes=[{"x": 1}, {"x": 2}]) == [{"count": 2, "_weight": 1}]


def test_a_group_whose_results_stay_says_nothing() -> None:
    it = aggregate({"g": pa.string(), "x": pa.int64()}, ["g"], call(Function.SUM), call(Function.MAX))
    it.tick(changes=rows(1, 2, 9))
    assert it.tick(changes=[*rows(1, weight=-1), *rows(0, 1)]) == []
    assert it.tick(changes=[*rows(5), *rows(5, weight=-1)]) == []


def test_a_group_that_is_nothing_but_null_is_a_group() -> None:
    it = aggregate({"g": pa.string(), "x": pa.int64()}, ["g"], *map(call, _over_x()))
    (said,) = it.tick(changes=rows(None, None))
    assert [said[function.value] for function in _over_x()] == [0, 0, None, None, None, None]
    assert it.tick(changes=rows(None, None, weight=-1)) == [{**said, "_weight": -1}]
    assert it.kept("sums") == it.kept("extremes") == it.kept("bag0") == it.kept("distinct0") == []


def _over_x() -> list[Function]:
    return [
        Function.COUNT_COLUMN,
        Function.COUNT_DISTINCT,
        Function.SUM,
        Function.AVG,
        Function.MIN,
        Function.MAX,
    ]


def test_keys_are_told_apart_as_spark_groups_them() -> None:
    it = aggregate({"g": pa.float64(), "x": pa.int64()}, ["g"], COUNT)
    keys = [0.0, -0.0, math.nan, -math.nan, None]
    said = content(it.tick(changes=[{"g": key, "x": 1} for key in keys]))
    assert said == {(0.0, 2): 1, (math.nan, 2): 1, (None, 1): 1}


def test_keys_and_extremes_go_out_in_canonical_form() -> None:
    it = aggregate({"g": pa.float64(), "x": pa.float64()}, ["g"], call(Function.MIN))
    (said,) = it.tick(changes=rows(-0.0, g=-0.0))
    assert [math.copysign(1, said[name]) for name in ("g", "min")] == [1, 1]


# -- sums -------------------------------------------------------------------------------------------


def test_an_overflow_names_the_call_and_the_group_and_leaves_all_as_it_was() -> None:
    it = aggregate({"g": pa.string(), "x": pa.int64()}, ["g"], call(Function.SUM))
    it.tick(changes=[*rows(2**63 - 1, g="ada"), *rows(7, g="bob")])
    with pytest.raises(
        ArithmeticOverflow, match=r"SUM\(x\) AS sum: .* of the group \('ada'\) does not fit int64"
    ):
        it.tick(changes=[*rows(1, g="ada"), *rows(1, g="bob")])
    said = it.tick(changes=[*rows(1, -1, g="ada"), *rows(1, g="bob")])
    assert content(said) == {("bob", 7): -1, ("bob", 8): 1}


def test_an_overflow_over_all_rows_says_so() -> None:
    it = aggregate({"x": pa.decimal128(38, 0)}, (), call(Function.AVG))
    with pytest.raises(ArithmeticOverflow, match="of all rows does not fit decimal128"):
        it.tick(changes=[{"x": Decimal(10**37)}])


def test_a_sum_may_pass_beyond_its_type_and_come_back_within_a_tick() -> None:
    it = aggregate({"x": pa.int64()}, (), call(Function.SUM))
    top = 2**63 - 1
    assert it.tick(changes=[{"x": top}, {"x": top}, {"x": -top}]) == [{"sum": top, "_weight": 1}]


def test_doubles_leave_no_trace() -> None:
    it = aggregate({"g": pa.string(), "x": pa.float64()}, ["g"], call(Function.SUM))
    wild = [1e300, -1e-300, math.nan, math.inf, -math.inf, 5e-324, 2.0**66, 3.14]
    it.tick(changes=rows(0.1, 0.2, *wild))
    said = it.tick(changes=rows(*wild, weight=-1))
    assert [row["sum"] for row in said if row["_weight"] == 1] == [math.fsum([0.1, 0.2])]
    assert it.kept("sparse0") == []


def test_an_average_has_no_negative_zero() -> None:
    it = aggregate({"x": pa.float64()}, (), call(Function.AVG))
    (said,) = it.tick(changes=[{"x": -5e-324}, {"x": 0.0}])
    assert math.copysign(1, said["avg"]) == 1


def test_state_stays_short_however_many_ticks_there_are() -> None:
    it = aggregate({"x": pa.int64()}, (), call(Function.SUM))
    for _ in range(10):
        it.tick(changes=[{"x": 2**62}])
        it.tick(changes=[{"x": -(2**62)}])
    it.tick(changes=[{"x": 2**31}])
    (row,) = it.kept("sums")
    assert row == {"_rows": 21, "_count0": 21, "_sum0_limb0": 2**31, "_sum0_limb1": 0, "_sum0_limb2": 0}


# -- extremes ---------------------------------------------------------------------------------------


def test_a_deleted_extreme_is_replaced_by_the_next_live_one() -> None:
    it = aggregate({"x": pa.int64()}, (), call(Function.MIN), call(Function.MAX))
    it.tick(changes=[{"x": value} for value in range(100)])
    gone = [{"x": value, "_weight": -1} for value in (0, 1, 3, 99, 97)]
    assert it.tick(changes=gone)[-1] == {"min": 2, "max": 98, "_weight": 1}
    again = [{"x": 2, "_weight": -1}, {"x": 98, "_weight": -1}]
    assert it.tick(changes=again)[-1] == {"min": 4, "max": 96, "_weight": 1}


def test_extremes_hold_for_any_history_of_weights() -> None:
    it = aggregate({"x": pa.int64()}, (), call(Function.MIN))
    assert it.tick(changes=[{"x": 1, "_weight": -1}]) == [{"min": None, "_weight": 1}]
    assert it.tick(changes=[{"x": 1}, {"x": 2}])[-1] == {"min": 2, "_weight": 1}
    assert it.tick(changes=[{"x": 1}])[-1] == {"min": 1, "_weight": 1}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [-math.inf, -1.5, 0.0, 1e-300, 1.5, math.inf, math.nan]),
        (pa.string(), ["", "A", "B", "a", "ä", "€", "😀"]),
        (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff"]),
        (pa.bool_(), [False, True]),
        (pa.decimal128(38, 4), [Decimal(-(10**33)), Decimal("-0.0001"), Decimal(0), Decimal(10**33)]),
        (pa.decimal128(9, 2), [Decimal("-10.50"), Decimal("0.01")]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
        (
            pa.timestamp("us", "UTC"),
            [dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
        ),
    ],
    ids=str,
)
def test_extremes_are_in_sparks_order(kind: pa.DataType, values: list[Any]) -> None:
    """Values are given in order. They come in another one, and leave from both ends."""
    it = aggregate({"x": kind}, (), call(Function.MIN), call(Function.MAX))
    said = it.tick(changes=[{"x": value} for value in [*values[1::2], *values[::2], None]])
    left, from_below = list(values), True
    while left:
        assert [plain(said[-1][name]) for name in ("min", "max")] == [plain(left[0]), plain(left[-1])]
        said = it.tick(changes=[{"x": left.pop(0 if from_below else -1), "_weight": -1}])
        from_below = not from_below
    assert said[-1] == {"min": None, "max": None, "_weight": 1}


# -- count distinct ---------------------------------------------------------------------------------


def test_values_lie_in_the_shard_of_their_group() -> None:
    it = aggregate({"g": pa.string(), "x": pa.string()}, ["g"], call(Function.COUNT_DISTINCT))
    it.tick(changes=[row for g in "abcdefgh" for row in rows(*"uvwxyz", g=g)])
    for shards in (2, 64, 1 << 16):
        for batch in it.state.spine("distinct0").scan():
            of_group = xxhash64([batch["g"]])
            assert (shard_of(batch["_hash"].to_numpy(), shards) == shard_of(of_group, shards)).all()


@pytest.mark.parametrize("hashing", [xxhash64, one_for_all])
@settings(deadline=None, max_examples=50)
@given(
    ticks=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.integers(-1, 2)
            ),
            max_size=10,
        ),
        max_size=6,
    )
)
def test_every_call_at_once_is_right_also_where_hashes_collide(
    hashing: Any, ticks: list[list[tuple[Any, Any, int]]]
) -> None:
    calls = [COUNT, *map(call, _over_x())]
    it = aggregate({"g": pa.string(), "x": pa.int64()}, ["g"], *calls, hashing=hashing)
    below = pa.schema([("g", pa.string()), ("x", pa.int64())])
    said: list[dict[str, Any]] = []
    there: dict[tuple[Any, Any], int] = {}
    for tick in ticks:
        changes = []
        for g, x, weight in tick:
            weight = max(weight, -there.get((g, x), 0))
            there[g, x] = there.get((g, x), 0) + weight
            if weight:
                changes += rows(x, weight=weight, g=g)
        said += it.tick(changes=changes)
        table = content([{"g": g, "x": x, "_weight": weight} for (g, x), weight in there.items()])
        schemas = {TABLE: below, it.operator.node: it.operator.output}
        right = answers([it.operator.node], {("main", "t"): table}, schemas, {})
        assert content(said) == right[it.operator.node]


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "kind", "told"),
    [
        (Function.SUM, pa.string(), "string"),
        (Function.MIN, pa.list_(pa.int64()), "list"),
        (Function.COUNT_DISTINCT, pa.map_(pa.string(), pa.int64()), "map"),
    ],
)
def test_a_type_that_cannot_be_aggregated_is_named_at_once(
    function: Function, kind: pa.DataType, told: str
) -> None:
    with pytest.raises(Unsupported, match=told):
        aggregate({"x": kind}, (), call(function))


def test_weights_that_leave_64_bits_are_refused() -> None:
    it = aggregate({"x": pa.int64()}, (), COUNT)
    it.tick(changes=[{"x": 1, "_weight": 2**62}])
    with pytest.raises(ArithmeticOverflow):
        it.tick(changes=[{"x": 1, "_weight": 2**62}])
    with pytest.raises(ArithmeticOverflow):
        it.tick(changes=[{"x": 1, "_weight": 2**62}] * 4)
    assert np.array([row["_rows"] for row in it.kept("sums")]).tolist() == [2**62]
