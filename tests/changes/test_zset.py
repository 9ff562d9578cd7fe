from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.zset import ZSet
from penstock.errors import ArithmeticOverflow, InvalidArgument, ReservedName, SchemaMismatch
from tests.arrow_strategies import batches, schemas
from tests.row_model import multiset

TOP = 2**63 - 1


@st.composite
def zsets(draw: st.DrawFn, schema: pa.Schema | None = None) -> ZSet:
    batch = draw(batches(schema))
    weights = draw(st.lists(st.integers(-3, 3), min_size=batch.num_rows, max_size=batch.num_rows))
    return ZSet(batch, np.array(weights, np.int64))


@st.composite
def several(draw: st.DrawFn, count: int) -> list[ZSet]:
    schema = draw(schemas())
    return [draw(zsets(schema)) for _ in range(count)]


def content(z: ZSet) -> dict[tuple[Any, ...], int]:
    return multiset(z.rows, z.weights)


def added(*bags: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
    total: dict[tuple[Any, ...], int] = {}
    for bag in bags:
        for row, weight in bag.items():
            total[row] = total.get(row, 0) + weight
    return {row: weight for row, weight in total.items() if weight}


def ints(*pairs: tuple[int, int]) -> ZSet:
    return ZSet.from_arrow(pa.record_batch({"x": [x for x, _ in pairs]}), [w for _, w in pairs])


@settings(deadline=None, max_examples=300)
@given(zsets())
def test_consolidating_keeps_the_multiset_and_doing_it_twice_changes_nothing(z: ZSet) -> None:
    once = z.consolidate()
    assert content(once) == content(z)
    assert len(once) == len(content(z))
    again = ZSet(once.rows, once.weights).consolidate()
    assert repr(again.rows.to_pylist()) == repr(once.rows.to_pylist())
    assert again.weights.tolist() == once.weights.tolist()
    assert once == z


@settings(deadline=None, max_examples=200)
@given(several(3))
def test_z_sets_are_a_commutative_group(parts: list[ZSet]) -> None:
    a, b, c = parts
    assert content(a + b) == added(content(a), content(b))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + ZSet.empty(a.schema) == a
    assert (a + -a).is_zero()
    assert a - b == a + -b


@settings(deadline=None, max_examples=200)
@given(several(2), st.integers(-4, 4))
def test_multiplying_is_linear(parts: list[ZSet], factor: int) -> None:
    a, b = parts
    assert (a + b) * factor == a * factor + b * factor
    assert content(factor * a) == {row: w * factor for row, w in content(a).items() if factor}


@settings(deadline=None, max_examples=200)
@given(several(2))
def test_projecting_is_linear(parts: list[ZSet]) -> None:
    a, b = parts
    names = a.schema.names[:1]
    assert (a + b).project(names) == a.project(names) + b.project(names)


@settings(deadline=None, max_examples=200)
@given(zsets())
def test_both_halves_of_a_split_make_the_whole(z: ZSet) -> None:
    plus, minus = z.split()
    assert (plus.weights > 0).all()
    assert (minus.weights < 0).all()
    assert plus + minus == z


@settings(deadline=None, max_examples=200)
@given(zsets())
def test_arrow_and_back_is_the_same_z_set(z: ZSet) -> None:
    assert ZSet.from_arrow(z.to_arrow()) == z
    assert ZSet.from_arrow(pa.Table.from_batches([z.to_arrow()])) == z


@settings(deadline=None, max_examples=200)
@given(several(2))
def test_equality_is_equality_of_multisets(parts: list[ZSet]) -> None:
    a, b = parts
    assert (a == b) is (content(a) == content(b))


@settings(deadline=None, max_examples=200)
@given(zsets(), st.randoms(use_true_random=False))
def test_order_does_not_matter(z: ZSet, random: Any) -> None:
    order = list(range(len(z)))
    random.shuffle(order)
    index = pa.array(order, pa.int64())
    assert ZSet(z.rows.take(index), z.weights[order]) == z


def test_an_update_is_minus_old_plus_new() -> None:
    assert (ints((2, 1)) - ints((1, 1))).to_dict() == {(2,): 1, (1,): -1}


def test_negative_zero_and_nan_cancel_as_spark_groups_them() -> None:
    added_rows = ZSet.from_arrow(pa.table({"x": [-0.0, float("nan")]}))
    removed = ZSet.from_arrow(pa.table({"x": [float("nan"), 0.0]}), -1)
    assert (added_rows + removed).is_zero()


def test_a_z_set_without_columns_still_counts() -> None:
    z = ints((1, 2), (2, 3)).project([])
    assert len(z) == 2
    assert z.total_weight == 5
    assert z.consolidate().weights.tolist() == [5]


def test_weights_that_leave_64_bits_are_an_error_and_never_wrap() -> None:
    with pytest.raises(ArithmeticOverflow):
        ints((1, TOP), (1, 1)).consolidate()
    with pytest.raises(ArithmeticOverflow):
        ints((1, TOP), (2, 1)) * 2
    with pytest.raises(ArithmeticOverflow):
        -ints((1, -TOP - 1))
    assert ints((1, TOP), (1, 1), (1, -1)).consolidate().to_dict() == {(1,): TOP}
    assert ints((1, TOP), (2, TOP)).total_weight == 2 * TOP


def test_many_large_weights_are_summed_exactly() -> None:
    weights = np.full(4096, 2**62, np.int64)
    weights[1::2] = -(2**62) + 1
    z = ZSet(pa.record_batch({"x": np.zeros(4096, np.int64)}), weights)
    assert z.consolidate().weights.tolist() == [2048]


def test_additions_of_other_columns_are_refused() -> None:
    with pytest.raises(SchemaMismatch):
        ints((1, 1)) + ZSet.from_arrow(pa.table({"y": [1]}))


def test_weights_must_be_integers_one_per_row_and_not_null() -> None:
    rows = pa.record_batch({"x": [1, 2]})
    for bad in ([1], [1.5, 2.0], [[1], [2]], np.array([2**63, 1], np.uint64)):
        with pytest.raises(InvalidArgument):
            ZSet.from_arrow(rows, bad)
    with pytest.raises(InvalidArgument, match="NULL"):
        ZSet.from_arrow(pa.table({"x": [1], "_weight": pa.array([None], pa.int64())}))


def test_a_users_column_may_not_take_a_reserved_name() -> None:
    with pytest.raises(ReservedName, match="_mine"):
        ZSet.from_arrow(pa.table({"_mine": [1]}))


def test_a_z_set_has_no_truth_and_no_hash() -> None:
    with pytest.raises(InvalidArgument, match="ambiguous"):
        bool(ints((1, 1)))
    with pytest.raises(TypeError):
        hash(ints((1, 1)))


def test_the_weights_cannot_be_written_through() -> None:
    weights = np.array([1, 2], np.int64)
    z = ZSet(pa.record_batch({"x": [1, 2]}), weights)
    with pytest.raises(ValueError, match="read-only"):
        z.weights[0] = 9


def test_the_repr_shows_a_few_rows_and_counts_the_rest() -> None:
    assert repr(ints((1, 2), (2, -1))) == "ZSet(2 rows: +2 (x=1), −1 (x=2))"
    assert repr(ints(*[(i, 1) for i in range(7)])).endswith("… 2 more)")


def test_filtering_takes_null_for_not_true() -> None:
    z = ints((1, 1), (2, 1), (3, 1))
    assert z.filter(pa.array([True, None, False])).to_dict() == {(1,): 1}


def test_an_unknown_column_is_named_with_the_ones_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"'y'.*columns are x"):
        ints((1, 1)).project(["y"])
