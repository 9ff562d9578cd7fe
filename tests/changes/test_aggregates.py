"""Aggregates one value at a time."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.aggregates import Aggregate, Avg, Count, CountColumn, Max, Min, Sum
from penstock.errors import InvalidArgument, SchemaMismatch

KINDS: list[type[Aggregate]] = [Count, CountColumn, Sum, Avg, Min, Max]

decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=4)
columns = st.sampled_from([st.integers(), decimals, st.floats(allow_nan=True, allow_infinity=True)]).flatmap(
    lambda values: st.lists(st.tuples(st.one_of(st.none(), values), st.integers(-3, 3)), max_size=12)
)


def fed(kind: Callable[[], Aggregate], rows: list[tuple[Any, int]]) -> Aggregate:
    state = kind()
    for value, weight in rows:
        state.accumulate(value, weight)
    return state


def result(state: Aggregate) -> str:
    return repr(state.finalize())


def test_a_count_follows_retractions() -> None:
    count = Count()
    for _ in range(3):
        count.accumulate()
    assert count.finalize() == 3
    count.retract()
    assert count.finalize() == 2
    assert count.supports_efficient_retraction


def test_a_sum_follows_retractions() -> None:
    total = Sum()
    for value in (10, 20, 30):
        total.accumulate(value)
    assert total.finalize() == 60
    total.retract(20)
    assert total.finalize() == 40
    assert total.supports_efficient_retraction


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_a_sum_is_what_was_added_minus_what_was_taken_away(inserts: list[int], deletes: list[int]) -> None:
    total = Sum()
    for value in inserts:
        total.accumulate(value)
    for value in deletes:
        total.retract(value)
    assert (total.finalize() or 0) == sum(inserts) - sum(deletes)


@pytest.mark.parametrize("kind", [Sum, Avg, Min, Max])
def test_an_aggregate_of_nothing_is_null(kind: type[Aggregate]) -> None:
    state = kind()
    assert state.finalize() is None
    state.accumulate(None)
    assert state.finalize() is None
    state.accumulate(5)
    state.retract(5)
    assert state.finalize() is None


def test_only_count_counts_nulls() -> None:
    rows = [(None, 1), ("a", 2), (None, 3)]
    assert fed(Count, rows).finalize() == 6
    assert fed(CountColumn, rows).finalize() == 2


@settings(deadline=None)
@given(st.sampled_from(KINDS), columns)
def test_retracting_is_the_inverse_of_accumulating(
    kind: type[Aggregate], rows: list[tuple[Any, int]]
) -> None:
    state = fed(kind, rows)
    before = result(state)
    for value, _ in rows:
        state.accumulate(value)
        state.finalize()
    for value, _ in reversed(rows):
        state.retract(value)
    assert result(state) == before


@settings(deadline=None)
@given(st.sampled_from(KINDS), columns, st.data())
def test_merging_is_commutative_and_associative_and_is_recomputing(
    kind: type[Aggregate], rows: list[tuple[Any, int]], data: st.DataObject
) -> None:
    first, second = (data.draw(st.integers(0, len(rows))) for _ in range(2))
    cuts = sorted((first, second))
    parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
    expected = result(fed(kind, rows))

    def merged(*order: int) -> str:
        state = kind()
        for i in order:
            state.merge(fed(kind, parts[i]))
        return result(state)

    assert {merged(0, 1, 2), merged(2, 1, 0), merged(1, 2, 0)} == {expected}
    right = fed(kind, parts[1])
    right.merge(fed(kind, parts[2]))
    left = fed(kind, parts[0])
    left.merge(right)
    assert result(left) == expected


@settings(deadline=None)
@given(st.sampled_from(KINDS), columns, st.lists(st.integers(1, 3), min_size=12, max_size=12))
def test_after_any_history_the_result_is_that_of_the_rows_that_are_left(
    kind: type[Aggregate], rows: list[tuple[Any, int]], copies: list[int]
) -> None:
    state = kind()
    left = []
    for (value, keep), n in zip(rows, copies, strict=False):
        if keep > 0:
            left.append((value, n))
            state.accumulate(value, n)
        else:
            state.accumulate(value, -n)
            state.finalize()
    for (value, keep), n in zip(rows, copies, strict=False):
        if keep <= 0:
            state.accumulate(value, n)
    assert result(state) == result(fed(kind, left))


@settings(deadline=None)
@given(st.sampled_from(KINDS), columns)
def test_a_state_can_be_merged_with_itself(kind: type[Aggregate], rows: list[tuple[Any, int]]) -> None:
    state = fed(kind, rows)
    state.merge(state)
    assert result(state) == result(fed(kind, [*rows, *rows]))


@settings(deadline=None)
@given(st.sampled_from(KINDS), columns)
def test_a_reset_state_is_new(kind: type[Aggregate], rows: list[tuple[Any, int]]) -> None:
    state = fed(kind, rows)
    state.finalize()
    state.reset()
    assert result(state) == result(kind())
    state.accumulate(Decimal("1.5"))  # whatever the values were before
    assert result(state) == result(fed(kind, [(Decimal("1.5"), 1)]))


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan])), st.integers(-2, 2)))
)
def test_min_and_max_are_those_of_the_values_with_positive_weight_in_sparks_order(
    rows: list[tuple[float, int]],
) -> None:
    least, greatest = Min(), Max()
    weights: dict[Any, int] = {}
    for value, weight in rows:
        least.accumulate(value, weight)
        greatest.accumulate(value, weight)
        key = "nan" if math.isnan(value) else value
        weights[key] = weights.get(key, 0) + weight
        order = sorted((math.inf, 1) if k == "nan" else (k, 0) for k, w in weights.items() if w > 0)
        seen = [math.nan if is_nan else k for k, is_nan in order]
        expected = (seen[0], seen[-1]) if seen else (None, None)
        assert repr((least.finalize(), greatest.finalize())) == repr(expected).replace("-0.0", "0.0")


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "é", "𝄞", "\uffff"],
        [b"\x00\xff", b"\xff", b""],
        [dt.date(2024, 2, 29), dt.date(1, 1, 1)],
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
        [True, False],
        [np.int64(3), 2, np.int8(1)],
    ],
)
def test_min_and_max_take_whatever_has_an_order(values: list[Any]) -> None:
    least, greatest = fed(Min, [(v, 1) for v in values]), fed(Max, [(v, 1) for v in values])
    key = (lambda v: v.encode()) if isinstance(values[0], str) else None  # Spark compares UTF-8
    order = sorted(values, key=key)
    assert (least.finalize(), greatest.finalize()) == (order[0], order[-1])
    least.retract(order[0])
    greatest.retract(order[-1])
    assert (least.finalize(), greatest.finalize()) == (order[1], order[-2])
    assert not least.supports_efficient_retraction


def test_a_value_taken_away_before_it_came_is_no_extreme_and_cancels_on_arrival() -> None:
    least = Min()
    least.retract(1)
    least.accumulate(2)
    assert least.finalize() == 2
    least.accumulate(1)
    assert least.finalize() == 2
    least.accumulate(1)
    assert least.finalize() == 1


@settings(deadline=None)
@given(st.lists(decimals, min_size=1, max_size=20))
def test_decimals_are_exact_and_their_average_is_rounded_half_up_once(values: list[Decimal]) -> None:
    rows = [(value, 1) for value in values]
    total, average = fed(Sum, rows).finalize(), fed(Avg, rows).finalize()
    units = sum(int(Fraction(value) * 10**4) for value in values)
    assert repr(total) == repr(Decimal((units < 0, Decimal(abs(units)).as_tuple().digits, -4)))
    quotient = (2 * abs(units) * 10**4 + len(values)) // (2 * len(values))
    assert average == Decimal((units < 0, Decimal(quotient).as_tuple().digits, -8))


def test_the_scale_of_a_decimal_sum_forgets_values_that_are_gone() -> None:
    total, average = Sum(), Avg()
    for state in (total, average):
        state.accumulate(Decimal("1.5"))
        state.accumulate(Decimal("1.12345678901234567890"))
        state.retract(Decimal("1.12345678901234567890"))
    assert repr(total.finalize()) == "Decimal('1.5')"
    assert repr(average.finalize()) == "Decimal('1.50000')"
    total.accumulate(Decimal("1E+3"))
    assert repr(total.finalize()) == "Decimal('1001.5')"


def test_an_average_of_integers_is_the_nearest_double_of_the_sum_by_the_count() -> None:
    assert fed(Avg, [(1, 1), (2, 2)]).finalize() == 5 / 3
    assert fed(Avg, [(2**63 - 1, 1), (2**63 - 2, 1)]).finalize() == float(2**64 - 3) / 2
    assert fed(Avg, [(10**400, 1)]).finalize() == math.inf
    assert fed(Avg, [(-(10**400), 1)]).finalize() == -math.inf


@pytest.mark.parametrize("kind", [Sum, Avg, Min, Max])
@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (Decimal(1), 1), (1.0, Decimal(1))])
def test_kinds_of_numbers_do_not_mix(kind: type[Aggregate], first: Any, second: Any) -> None:
    state = fed(kind, [(first, 1)])
    with pytest.raises(SchemaMismatch, match="the values so far are"):
        state.accumulate(second)
    with pytest.raises(SchemaMismatch, match="the values so far are"):
        state.merge(fed(kind, [(second, 1)]))
    assert repr(state.finalize()) == result(fed(kind, [(first, 1)]))


@pytest.mark.parametrize("value", [True, "1", Decimal("NaN"), Decimal("Infinity"), 1j, object()])
def test_what_cannot_be_added_up_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="not an int, a float or a finite Decimal"):
        Sum().accumulate(value)


@pytest.mark.parametrize("value", [1j, [1], {"a": 1}])
def test_what_has_no_order_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="cannot be put in order"):
        Max().accumulate(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [1.0, True, "1"])
def test_a_weight_that_is_no_integer_is_refused(kind: type[Aggregate], weight: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not an integer"):
        kind().accumulate(1, weight)


def test_only_states_of_the_same_aggregate_merge() -> None:
    with pytest.raises(SchemaMismatch, match="the other state is a Avg"):
        Sum().merge(Avg())
    with pytest.raises(SchemaMismatch, match="the other state is a CountColumn"):
        Count().merge(CountColumn())
