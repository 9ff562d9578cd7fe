"""Counts, sums and averages over many groups at once, for integers and decimals."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.aggregates import (
    GroupedAggregate,
    GroupedAvg,
    GroupedCount,
    GroupedCountColumn,
    GroupedMax,
    GroupedMin,
    GroupedSum,
)
from penstock.errors import ArithmeticOverflow, InvalidArgument, SchemaMismatch, Unsupported

GROUPS = 4
TOP = 2**63 - 1
EXACT = Context(prec=200)
INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
DECIMALS = [
    pa.decimal128(p, s)
    for p, s in [(5, 2), (9, 0), (12, 2), (18, 18), (19, 3), (28, 10), (37, 36), (38, 0), (38, 10), (38, 38)]
]
NUMBERS = [*INTEGERS, *DECIMALS]
Rows = list[tuple[int, int | None, int]]
"""Group, value (of a decimal: its units), weight."""


def limits(kind: pa.DataType) -> tuple[int, int]:
    if kind in INTEGERS:
        return -(2 ** INTEGERS[kind]), 2 ** INTEGERS[kind] - 1
    return 1 - 10**kind.precision, 10**kind.precision - 1


def units(kind: pa.DataType) -> st.SearchStrategy[int | None]:
    low, high = limits(kind)
    edges = st.sampled_from([low, high, low + 1, high - 1, 0, 1, -1])
    return st.one_of(st.none(), edges, st.integers(low, high), st.integers(max(low, -99), min(high, 99)))


def rows(kind: pa.DataType, weights: st.SearchStrategy[int], most: int = 12) -> st.SearchStrategy[Rows]:
    return st.lists(st.tuples(st.integers(0, GROUPS - 1), units(kind), weights), max_size=most)


def spell(kind: pa.DataType, value: int | None) -> Any:
    if value is None or kind in INTEGERS:
        return value
    return Decimal((value < 0, Decimal(abs(value)).as_tuple().digits, -kind.scale))


def array(kind: pa.DataType, values: list[int | None]) -> pa.Array:
    return pa.array([spell(kind, value) for value in values], kind)


def feed(state: GroupedAggregate, some: Rows, sign: int = 1) -> None:
    ids = np.array([group for group, _, _ in some], np.int64)
    weights = np.array([sign * weight for _, _, weight in some], np.int64)
    values = array(state.kind, [value for _, value, _ in some])
    state.update(ids, values, None if (weights == 1).all() else weights)


def state_of(kind: type[GroupedAggregate], values: pa.DataType, *parts: Rows) -> GroupedAggregate:
    state = kind(values)
    state.grow(GROUPS)
    for part in parts:
        feed(state, part)
    return state


def totals(some: Rows) -> list[tuple[int, int]]:
    """Sum and count of what is not NULL, per group."""
    result = []
    for group in range(GROUPS):
        mine = [(value, weight) for owner, value, weight in some if owner == group and value is not None]
        result.append((sum(value * weight for value, weight in mine), sum(weight for _, weight in mine)))
    return result


def expected_sums(kind: pa.DataType, some: Rows) -> list[Any]:
    """What SUM should be; an ArithmeticError when the type cannot hold it."""
    result: list[Any] = []
    for total, count in totals(some):
        if total == 0 and count == 0:
            result.append(None)
        elif kind in INTEGERS:
            if not -(2**63) <= total < 2**63:
                raise ArithmeticError(total)
            result.append(total)
        else:
            if abs(total) >= 10 ** min(38, kind.precision + 10):
                raise ArithmeticError(total)
            result.append(spell(kind, total))
    return result


def expected_averages(kind: pa.DataType, some: Rows) -> list[Any]:
    result: list[Any] = []
    for total, count in totals(some):
        if count == 0:
            result.append(None)
        elif kind in INTEGERS:
            result.append(float(total) / count)
        else:
            scale = min(38, kind.scale + 4)
            number = 2 * abs(total) * 10 ** (scale - kind.scale)
            quotient = (number + abs(count)) // (2 * abs(count))
            if quotient >= 10 ** min(38, kind.precision + 4):
                raise ArithmeticError(total)
            result.append(
                spell(pa.decimal128(38, scale), quotient if (total < 0) == (count < 0) else -quotient)
            )
    return result


def check(state: GroupedAggregate, some: Rows) -> None:
    oracle = expected_sums if isinstance(state, GroupedSum) else expected_averages
    try:
        expected = oracle(state.kind, some)
    except ArithmeticError:
        with pytest.raises(ArithmeticOverflow, match="cannot hold"):
            state.finalize()
        return
    result = state.finalize()
    assert result.type == state.result_type
    result.validate(full=True)
    assert result.to_pylist() == expected


one_kind = st.sampled_from(NUMBERS)
summing = st.sampled_from([GroupedSum, GroupedAvg])
small_weights = st.integers(-3, 3)
any_weights = st.one_of(small_weights, st.integers(-(2**59), 2**59), st.integers(2**31 - 2, 2**33))


@settings(deadline=None, max_examples=600)
@given(summing, one_kind.flatmap(lambda kind: st.tuples(st.just(kind), rows(kind, small_weights))))
def test_a_sum_is_the_sum_and_an_average_the_quotient_rounded_once(
    aggregate: type[GroupedAggregate], drawn: tuple[pa.DataType, Rows]
) -> None:
    kind, some = drawn
    check(state_of(aggregate, kind, some), some)


@settings(deadline=None, max_examples=600)
@given(summing, one_kind.flatmap(lambda kind: st.tuples(st.just(kind), rows(kind, any_weights))), st.data())
def test_weights_of_any_size_and_any_split_give_the_same(
    aggregate: type[GroupedAggregate], drawn: tuple[pa.DataType, Rows], data: st.DataObject
) -> None:
    kind, some = drawn
    cut = data.draw(st.integers(0, len(some)))
    state = state_of(aggregate, kind, some[:cut])
    state.merge(state_of(aggregate, kind, some[cut:]))
    check(state, some)
    feed(state, some[::-1], -1)
    assert state.finalize().to_pylist() == [None] * GROUPS


@settings(deadline=None, max_examples=300)
@given(
    summing,
    one_kind.flatmap(
        lambda kind: st.tuples(st.just(kind), rows(kind, st.just(1)), rows(kind, small_weights))
    ),
)
def test_after_any_history_the_result_is_that_of_the_rows_that_are_left(
    aggregate: type[GroupedAggregate], drawn: tuple[pa.DataType, Rows, Rows]
) -> None:
    kind, left, passing = drawn
    state = state_of(aggregate, kind, passing, left)
    feed(state, passing, -1)
    check(state, left)
    fresh = state_of(aggregate, kind, left)
    assert state.state_columns() == fresh.state_columns()


@settings(deadline=None, max_examples=300)
@given(
    summing,
    one_kind.flatmap(lambda kind: st.tuples(st.just(kind), rows(kind, any_weights), rows(kind, any_weights))),
)
def test_merging_is_commutative_and_states_come_back_as_they_were_exported(
    aggregate: type[GroupedAggregate], drawn: tuple[pa.DataType, Rows, Rows]
) -> None:
    kind, some, more = drawn
    first, second = state_of(aggregate, kind, some), state_of(aggregate, kind, more)
    columns, others = first.state_columns(), second.state_columns()
    first.merge(second)
    second.merge(aggregate.from_state(kind, columns))
    assert first.state_columns() == second.state_columns()
    # and the sum of the columns is the same state, only not yet in canonical form
    added = pa.RecordBatch.from_arrays(
        [pa.array(a.to_numpy() + b.to_numpy()) for a, b in zip(columns.columns, others.columns, strict=True)],
        names=columns.schema.names,
    )
    back = aggregate.from_state(kind, added)
    assert back.state_columns() == first.state_columns()
    check(back, some + more)


@settings(deadline=None, max_examples=200)
@given(one_kind.flatmap(lambda kind: st.tuples(st.just(kind), rows(kind, any_weights))))
def test_the_state_of_what_is_taken_away_is_the_negative_state(drawn: tuple[pa.DataType, Rows]) -> None:
    kind, some = drawn
    plus = state_of(GroupedSum, kind, some).state_columns()
    minus = state_of(
        GroupedSum, kind, [(group, value, -weight) for group, value, weight in some]
    ).state_columns()
    for name in plus.schema.names:
        assert plus.column(name).to_pylist() == [-digit for digit in minus.column(name).to_pylist()]


@settings(deadline=None, max_examples=200)
@given(rows(pa.int64(), st.just(1)))
def test_truncating_division_makes_the_digits_of_a_state(some: Rows) -> None:
    def digits(value: int) -> list[int]:
        sign, size = (-1 if value < 0 else 1), abs(value)
        return [sign * (size % 2**32), sign * (size >> 32), 0]

    columns = {"count": [0] * GROUPS, "limb0": [0] * GROUPS, "limb1": [0] * GROUPS, "limb2": [0] * GROUPS}
    for group, value, _ in some:
        if value is not None:
            for name, digit in zip(columns, [1, *digits(value)], strict=True):
                columns[name][group] += digit
    back = GroupedSum.from_state(pa.int64(), pa.RecordBatch.from_pydict(columns))
    assert back.state_columns() == state_of(GroupedSum, pa.int64(), some).state_columns()


@settings(deadline=None, max_examples=100)
@given(rows(pa.int64(), any_weights), st.permutations(range(GROUPS)))
def test_groups_of_a_loaded_state_take_their_new_numbers(some: Rows, order: list[int]) -> None:
    half = [number // 2 for number in order]
    columns = state_of(GroupedSum, pa.int64(), some).state_columns()
    back = GroupedSum.from_state(pa.int64(), columns, group_ids=np.array(half))
    back.grow(GROUPS)
    moved = [(half[group], value, weight) for group, value, weight in some]
    assert back.state_columns() == state_of(GroupedSum, pa.int64(), moved).state_columns()


def test_a_sum_that_leaves_int64_is_an_error_until_it_comes_back() -> None:
    total = GroupedSum(pa.int64())
    total.update(np.array([0, 1]), pa.array([TOP, -TOP - 1]))
    assert total.finalize().to_pylist() == [TOP, -TOP - 1]
    total.update(np.array([0, 1]), pa.array([1, -1]))
    with pytest.raises(ArithmeticOverflow, match="group 0, 9223372036854775808, gives") as caught:
        total.finalize()
    assert caught.value.subject == "SUM(int64)"
    total.update(np.array([0]), pa.array([5]), np.array([-1]))
    with pytest.raises(ArithmeticOverflow, match="group 1, -9223372036854775809"):
        total.finalize()
    total.update(np.array([1]), pa.array([1]))
    assert total.finalize().to_pylist() == [TOP - 4, -TOP - 1]


def test_a_sum_of_decimals_that_leaves_its_precision_is_an_error_until_it_comes_back() -> None:
    kind = pa.decimal128(38, 2)
    largest = array(kind, [10**38 - 1])
    total, average = GroupedSum(kind), GroupedAvg(kind)
    for state in (total, average):
        state.update(np.array([0]), largest, np.array([2]))
    with pytest.raises(ArithmeticOverflow, match="units of 10"):
        total.finalize()
    with pytest.raises(ArithmeticOverflow, match="decimal128\\(38, 6\\) cannot hold"):
        average.finalize()
    total.update(np.array([0]), largest, np.array([-1]))
    assert total.finalize() == largest


def test_an_average_needs_no_room_for_its_sum() -> None:
    kind = pa.decimal128(38, 38)
    average = GroupedAvg(kind)
    value = 10**38 - 1
    average.update(np.array([0]), array(kind, [value]), np.array([10**18]))
    assert average.finalize().to_pylist() == [spell(kind, value)]


@settings(deadline=None, max_examples=200)
@given(
    st.integers(-(10**12), 10**12), st.sampled_from([2**31 - 1, 2**31, 2**31 + 1, 2**62, -(2**31), -(2**62)])
)
def test_averages_over_billions_of_rows_are_divided_exactly(value: int, count: int) -> None:
    kind = pa.decimal128(12, 2)
    bounded = max(min(value, 10**12 - 1), 1 - 10**12)
    some: Rows = [(0, bounded, count - (1 if count > 0 else -1)), (0, 1, 1 if count > 0 else -1)]
    check(state_of(GroupedAvg, kind, some), some)


@pytest.mark.parametrize(
    ("kind", "sum_type", "average_type"),
    [
        (pa.int8(), pa.int64(), pa.float64()),
        (pa.int64(), pa.int64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.float64(), pa.float64()),
        (pa.decimal128(12, 2), pa.decimal128(22, 2), pa.decimal128(16, 6)),
        (pa.decimal128(38, 10), pa.decimal128(38, 10), pa.decimal128(38, 14)),
        (pa.decimal128(37, 36), pa.decimal128(38, 36), pa.decimal128(38, 38)),
        (pa.decimal128(38, 38), pa.decimal128(38, 38), pa.decimal128(38, 38)),
    ],
)
def test_result_types_are_those_of_spark(
    kind: pa.DataType, sum_type: pa.DataType, average_type: pa.DataType
) -> None:
    assert GroupedSum(kind).result_type == sum_type
    assert GroupedAvg(kind).result_type == average_type
    for state in (GroupedSum(kind), GroupedAvg(kind)):
        state.grow(2)
        assert state.finalize() == pa.nulls(2, state.result_type)


@pytest.mark.parametrize("kind", [pa.bool_(), pa.string(), pa.uint64(), pa.date32(), pa.decimal256(40, 2)])
def test_what_cannot_be_added_up_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(Unsupported, match="cannot be added up"):
        GroupedSum(kind)


@settings(deadline=None, max_examples=200)
@given(st.lists(rows(pa.int32(), any_weights), max_size=4))
def test_counts_are_sums_of_weights_and_count_of_a_column_leaves_nulls_out(parts: list[Rows]) -> None:
    every, valued = GroupedCount(), GroupedCountColumn(pa.int32())
    for part in parts:
        ids = np.array([group for group, _, _ in part], np.int64)
        weights = np.array([weight for _, _, weight in part], np.int64)
        every.update(ids, weights=weights)
        feed(valued, part)
    every.grow(GROUPS)
    valued.grow(GROUPS)
    some = [row for part in parts for row in part]
    counts = [sum(weight for owner, _, weight in some if owner == group) for group in range(GROUPS)]
    assert every.finalize().to_pylist() == counts
    assert valued.finalize().to_pylist() == [count for _, count in totals(some)]
    for state, again in ((every, GroupedCount(None)), (valued, GroupedCountColumn(pa.int32()))):
        again.merge(type(state).from_state(again.kind, state.state_columns()))
        again.merge(again)
        assert again.finalize().to_pylist() == [2 * count for count in state.finalize().to_pylist()]
        state.reset()
        assert (state.groups, len(state.finalize())) == (0, 0)


def test_a_count_may_come_close_to_the_end_of_int64_but_not_go_beyond() -> None:
    count = GroupedCount()
    for _ in range(3):
        count.update(np.array([0, 0]), weights=np.array([TOP, -TOP]))
    count.update(np.array([0, 1]), weights=np.array([TOP, -TOP]))
    assert count.finalize().to_pylist() == [TOP, -TOP]
    with pytest.raises(ArithmeticOverflow, match="group 0 leaves the 64 bits"):
        count.update(np.array([1, 0, 2]), weights=np.array([1, 1, 1]))
    assert count.finalize().to_pylist() == [TOP, -TOP]
    count.update(np.array([0]), weights=np.array([-1]))
    assert count.finalize().to_pylist() == [TOP - 1, -TOP]


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 2), pa.float64()])
def test_an_update_that_fails_changes_nothing(kind: pa.DataType) -> None:
    total = GroupedSum(kind)
    values = pa.array([7, 7]).cast(pa.decimal128(38, 2) if pa.types.is_decimal(kind) else kind)
    total.update(np.array([0, 0]), values, np.array([TOP, -1]))
    before = total.state_columns(), total.sparse_state()
    with pytest.raises(ArithmeticOverflow):
        total.update(np.array([3, 0]), values, np.array([1, 2]))
    assert (total.state_columns(), total.sparse_state(), total.groups) == (*before, 1)


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.int64(), pa.decimal128(9, 0), pa.decimal128(18, 0), pa.decimal128(38, 0)]
)
def test_a_sum_never_leaves_its_state_before_the_count_does(kind: pa.DataType) -> None:
    for value in limits(kind):
        total = state_of(GroupedSum, kind, [(0, value, TOP)])
        check(total, [(0, value, TOP)])
        feed(total, [(0, value, 1 - TOP)])
        check(total, [(0, value, 1)])
        with pytest.raises(ArithmeticOverflow, match="64 bits"):
            feed(total, [(0, value, TOP)])


def test_slices_and_nulls_with_anything_beneath_are_read_right() -> None:
    ids = np.array([0, 1, 1])
    decimals = pa.array([Decimal("9.99"), Decimal("1.25"), None, Decimal("-1.50")], pa.decimal128(5, 2))
    total = GroupedSum(decimals.type)
    total.update(ids, decimals.slice(1))
    assert total.finalize().to_pylist() == [Decimal("1.25"), Decimal("-1.50")]
    hidden = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([1.0, np.nan, 2.0]))]
    )
    doubles = GroupedSum(pa.float64())
    doubles.update(ids, hidden)
    assert doubles.finalize().to_pylist() == [1.0, 2.0]
    wide = GroupedSum(pa.decimal128(38, 0))
    wide.update(ids, array(wide.kind, [7, 10**37, -(10**37), -1]).slice(1))
    assert wide.finalize().to_pylist() == [Decimal(10**37), Decimal(-(10**37) - 1)]


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from([pa.int64(), pa.decimal128(12, 2), pa.decimal128(38, 0)]), st.integers(1, 5), st.randoms()
)
def test_small_batches_into_many_groups_agree_with_one_large_batch(
    kind: pa.DataType, size: int, random: Any
) -> None:
    low, high = limits(kind)
    some: Rows = [
        (
            random.randrange(300),
            random.randint(low, high) >> random.randrange(100),
            random.choice([1, -1, 2**40]),
        )
        for _ in range(200)
    ]
    whole, pieces = GroupedSum(kind), GroupedSum(kind)
    feed(whole, some)
    for start in range(0, len(some), size):
        feed(pieces, some[start : start + size])
    assert whole.state_columns() == pieces.state_columns()


EVERY: list[Any] = [GroupedCountColumn, GroupedSum, GroupedAvg, GroupedMin, GroupedMax]


@pytest.mark.parametrize("aggregate", EVERY)
def test_batches_that_do_not_fit_are_refused(aggregate: type[GroupedAggregate]) -> None:
    state = aggregate(pa.int64())
    one = pa.array([1])
    ids = np.array([0])
    with pytest.raises(InvalidArgument, match="group id -2 is negative"):
        state.update(np.array([-2]), one)
    with pytest.raises(InvalidArgument, match="1 group ids and 2 weights"):
        state.update(ids, one, np.array([1, 1]))
    with pytest.raises(InvalidArgument, match="1 group ids and 2 values"):
        state.update(ids, pa.array([1, 2]))
    with pytest.raises(InvalidArgument, match="array of float64"):
        state.update(np.array([0.0]), one)
    with pytest.raises(InvalidArgument, match="which int64 cannot hold"):
        state.update(ids, one, np.array([2**63], np.uint64))
    with pytest.raises(InvalidArgument, match="2 dimensions"):
        state.update(np.array([[0]]), one)
    with pytest.raises(SchemaMismatch, match="the values are int32, the aggregate is over int64"):
        state.update(ids, one.cast(pa.int32()))
    with pytest.raises(InvalidArgument, match="ChunkedArray, not a pyarrow Array"):
        state.update(ids, pa.chunked_array([one]))
    with pytest.raises(InvalidArgument, match="NoneType, not a pyarrow Array"):
        state.update(ids, None)
    assert state.groups == 0


def test_only_states_of_the_same_aggregate_and_type_merge() -> None:
    with pytest.raises(SchemaMismatch, match=r"the other state is AVG\(int64\)"):
        GroupedSum(pa.int64()).merge(GroupedAvg(pa.int64()))  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatch, match=r"the other state is SUM\(int32\)"):
        GroupedSum(pa.int64()).merge(GroupedSum(pa.int32()))
    with pytest.raises(SchemaMismatch, match=r"COUNT\(\*\)"):
        GroupedCountColumn(pa.null()).merge(GroupedCount())  # type: ignore[arg-type]


def test_an_empty_batch_and_an_empty_state_change_nothing() -> None:
    for aggregate in EVERY:
        state = aggregate(pa.int64())
        state.update(np.array([], np.int64), pa.array([], pa.int64()))
        state.merge(aggregate(pa.int64()))
        assert (state.groups, len(state.finalize())) == (0, 0)
        back = aggregate.from_state(pa.int64(), state.state_columns(), sparse=state.sparse_state())
        assert back.groups == 0
