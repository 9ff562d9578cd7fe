"""The least and the greatest value per group, of every type that has an order."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.aggregates import GroupedAggregate, GroupedMax, GroupedMin, Max, Min
from penstock.errors import ArithmeticOverflow, SchemaMismatch, Unsupported
from tests.arrow_strategies import values

GROUPS = 4
KINDS = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3)),
    *(pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.time64("us"), pa.duration("us")),
    *(pa.decimal128(5, 2), pa.decimal128(18, 0), pa.decimal128(19, 3), pa.decimal128(38, 10)),
]
Rows = list[tuple[int, Any, int]]
"""Group, value, weight."""


@st.composite
def histories(draw: st.DrawFn, count: int = 1) -> tuple[pa.DataType, *tuple[Rows, ...]]:
    kind = draw(st.sampled_from(KINDS))
    # Few distinct values, so that they meet again and cancel out.
    pool = draw(st.lists(values(kind), min_size=1, max_size=6))
    row = st.tuples(
        st.integers(0, GROUPS - 1), st.one_of(st.none(), st.sampled_from(pool)), st.integers(-2, 2)
    )
    return kind, *(draw(st.lists(row, max_size=15)) for _ in range(count))


def feed(state: GroupedAggregate, rows: Rows, sign: int = 1) -> None:
    ids = np.array([group for group, _, _ in rows], np.int64)
    weights = np.array([sign * weight for _, _, weight in rows], np.int64)
    state.update(ids, pa.array([value for _, value, _ in rows], state.kind), weights)


def state_of(kind: pa.DataType, *parts: Rows) -> tuple[GroupedMin, GroupedMax]:
    states = GroupedMin(kind), GroupedMax(kind)
    for state in states:
        state.grow(GROUPS)
        for part in parts:
            feed(state, part)
    return states


def results(states: tuple[GroupedMin, GroupedMax]) -> list[str]:
    found = [state.finalize() for state in states]
    for array, state in zip(found, states, strict=True):
        assert array.type == state.result_type == state.kind
        array.validate(full=True)
    return [repr(array.to_pylist()) for array in found]


def rows_of(state: GroupedAggregate) -> str:
    """The state as text, because NaN equals nothing."""
    return repr(state.state_columns().to_pylist())


def expected(kind: pa.DataType, rows: Rows) -> list[str]:
    """The same, one value at a time."""
    found = []
    for one in (Min, Max):
        groups: list[Any] = []
        for group in range(GROUPS):
            state = one()
            mine = [(value, weight) for owner, value, weight in rows if owner == group]
            for value, weight in zip(
                pa.array([v for v, _ in mine], kind).to_pylist(), [w for _, w in mine], strict=True
            ):
                state.accumulate(value, weight)
            groups.append(state.finalize())
        found.append(repr(groups))
    return found


@settings(deadline=None, max_examples=500)
@given(histories())
def test_the_extremes_are_those_of_the_values_with_positive_weight(drawn: tuple[pa.DataType, Rows]) -> None:
    kind, rows = drawn
    assert results(state_of(kind, rows)) == expected(kind, rows)


@settings(deadline=None, max_examples=300)
@given(histories(2), st.integers(1, 4))
def test_retracting_a_history_leaves_no_trace(drawn: tuple[pa.DataType, Rows, Rows], size: int) -> None:
    kind, left, passing = drawn
    states = state_of(kind, passing, left)
    for state in states:
        state.finalize()
        for start in range(0, len(passing), size):
            feed(state, passing[start : start + size], -1)
    assert results(states) == expected(kind, left)
    pairs = [state.state_columns().num_rows for state in states]
    assert pairs == [state.state_columns().num_rows for state in state_of(kind, left)]


@settings(deadline=None, max_examples=300)
@given(histories(3))
def test_merging_is_commutative_and_associative_and_is_recomputing(
    drawn: tuple[pa.DataType, Rows, Rows, Rows],
) -> None:
    kind, *parts = drawn
    whole = expected(kind, [row for part in parts for row in part])
    for order in ((0, 1, 2), (2, 1, 0)):
        left = state_of(kind, parts[order[0]])
        right = state_of(kind, parts[order[1]])
        for a, b, c in zip(left, right, state_of(kind, parts[order[2]]), strict=True):
            b.merge(c)
            a.merge(b)
        assert results(left) == whole


@settings(deadline=None, max_examples=200)
@given(histories(), st.permutations(range(GROUPS)))
def test_a_state_comes_back_as_it_was_exported_also_with_groups_renumbered(
    drawn: tuple[pa.DataType, Rows], order: list[int]
) -> None:
    kind, rows = drawn
    states = state_of(kind, rows)
    for state in states:
        columns = state.state_columns()
        back = type(state).from_state(kind, columns)
        back.grow(GROUPS)
        assert rows_of(back) == rows_of(state)
        assert repr(back.finalize().to_pylist()) == repr(state.finalize().to_pylist())
        moved = type(state).from_state(kind, columns, group_ids=np.array(order))
        moved.grow(GROUPS)
        there = moved.finalize().to_pylist()
        assert repr([there[group] for group in order]) == repr(state.finalize().to_pylist())
        twice = type(state).from_state(kind, pa.concat_batches([columns, columns]))
        state.merge(state)  # type: ignore[arg-type]
        assert rows_of(twice) == rows_of(state)


def test_nan_is_the_greatest_and_one_value_and_zeros_are_equal() -> None:
    nans = np.array([0x7FF8000000000001, 0xFFF0000000000123], np.uint64).view(np.float64)
    least, greatest = GroupedMin(pa.float64()), GroupedMax(pa.float64())
    for state in (least, greatest):
        state.update(np.zeros(4, np.int64), pa.array([nans[0], math.inf, -0.0, -1.0]))
        state.update(np.ones(2, np.int64), pa.array([-0.0, nans[1]]))
    assert repr(least.finalize().to_pylist()) == "[-1.0, 0.0]"
    assert repr(greatest.finalize().to_pylist()) == "[nan, nan]"
    for state in (least, greatest):  # another NaN, another zero: still the same values
        state.update(np.array([0, 1]), pa.array([nans[1], 0.0]), np.array([-1, -1]))
    assert repr(least.finalize().to_pylist()) == "[-1.0, nan]"
    assert repr(greatest.finalize().to_pylist()) == "[inf, nan]"


@pytest.mark.parametrize(
    ("kind", "ordered"),
    [
        (pa.string(), ["", "Z", "a", "é", "\uffff", "𝄞"]),
        (pa.binary(), [b"", b"\x00", b"\x00\xff", b"\x7f", b"\x80", b"\xff"]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        (pa.bool_(), [False, True]),
        (pa.uint32(), [0, 1, 2**31, 2**32 - 1]),
        (pa.large_binary(), [b"", b"\x80"]),
        (pa.uint64(), [0, 2**63 - 1, 2**63, 2**64 - 1]),
        (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
        (pa.float64(), [-math.inf, -1.0, -5e-324, 0.0, 5e-324, 1.0, math.inf]),
        (
            pa.decimal128(38, 0),
            [Decimal(n) for n in (-(10**37), -(2**64) - 1, -(2**64), -1, 0, 2**63, 2**64, 2**64 + 1, 10**37)],
        ),
    ],
)
def test_values_come_out_in_order_as_the_extremes_are_taken_away(
    kind: pa.DataType, ordered: list[Any]
) -> None:
    least, greatest = GroupedMin(kind), GroupedMax(kind)
    shuffled = ordered[::2] + ordered[1::2]
    for state in (least, greatest):
        state.update(np.zeros(len(shuffled), np.int64), pa.array(shuffled, kind))
    for low, high in zip(ordered, ordered[::-1], strict=True):
        assert least.finalize().to_pylist() == [low]
        assert greatest.finalize().to_pylist() == [high]
        least.update(np.array([0]), pa.array([low], kind), np.array([-1]))
        greatest.update(np.array([0]), pa.array([high], kind), np.array([-1]))
    assert least.finalize().to_pylist() == greatest.finalize().to_pylist() == [None]
    assert least.state_columns().num_rows == 0


def test_a_weight_beyond_int64_is_refused_at_once_and_changes_nothing() -> None:
    least = GroupedMin(pa.string())
    top = 2**63 - 1
    least.update(np.array([0, 0]), pa.array(["a", "b"]), np.array([top, -top]))
    least.update(np.array([0]), pa.array(["a"]), np.array([-1]))
    before = least.state_columns()
    with pytest.raises(ArithmeticOverflow):
        least.update(np.array([5, 0]), pa.array(["c", "a"]), np.array([1, 2]))
    assert (least.state_columns(), least.groups) == (before, 1)
    least.update(np.array([0]), pa.array(["a"]), np.array([1]))
    assert least.finalize().to_pylist() == ["a"]


def test_many_updates_of_a_few_rows_agree_with_one_of_many() -> None:
    rng = np.random.default_rng(3)
    ids, numbers = rng.integers(0, 50, 3_000), rng.integers(0, 40, 3_000)
    weights = rng.choice([1, 1, -1], 3_000)
    for aggregate in (GroupedMin, GroupedMax):
        whole, pieces = aggregate(pa.int64()), aggregate(pa.int64())
        whole.update(ids, pa.array(numbers), weights)
        for start in range(0, 3_000, 7):
            some = slice(start, start + 7)
            pieces.update(ids[some], pa.array(numbers[some]), weights[some])
        assert pieces.finalize() == whole.finalize()
        assert pieces.state_columns().num_rows == whole.state_columns().num_rows


def test_a_reset_state_is_new() -> None:
    least = GroupedMin(pa.int64())
    least.update(np.array([2]), pa.array([1]))
    least.reset()
    assert (least.groups, len(least.finalize())) == (0, 0)


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.int64()), pa.null(), pa.dictionary(pa.int32(), pa.string()), pa.month_day_nano_interval()],
)
def test_what_has_no_order_here_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="cannot be put in order"):
        GroupedMin(kind)


def test_a_state_that_is_not_one_is_refused() -> None:
    least = GroupedMin(pa.int64())
    least.update(np.array([0]), pa.array([1]))
    columns = least.state_columns()
    with pytest.raises(SchemaMismatch, match="no column 'weight'"):
        GroupedMin.from_state(pa.int64(), columns.select(["group", "value"]))
    with pytest.raises(SchemaMismatch, match="no column 'value'"):
        GroupedMin.from_state(pa.int64(), columns.select(["group", "weight"]))
    with pytest.raises(SchemaMismatch, match="over string"):
        GroupedMin.from_state(pa.string(), columns)
