from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.op import Op
from penstock.changes.zset import ZSet
from penstock.errors import ArithmeticOverflow, InvalidArgument, ReservedName, SchemaMismatch, Unsupported
from tests.arrow_strategies import any_types, batches, schemas
from tests.row_model import multiset

TOP = 2**63 - 1


@st.composite
def zsets(draw: st.DrawFn, schema: pa.Schema | None = None) -> ZSet:
    batch = draw(batches(schema or draw(schemas(kinds=any_types()))))
    weights = draw(st.lists(st.integers(-3, 3), min_size=batch.num_rows, max_size=batch.num_rows))
    return ZSet(batch, np.array(weights, np.int64))


@st.composite
def several(draw: st.DrawFn, count: int) -> list[ZSet]:
    schema = draw(schemas(kinds=any_types()))
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


@settings(deadline=None, max_examples=200)
@given(zsets())
def test_consolidating_keeps_the_multiset_and_doing_it_twice_changes_nothing(z: ZSet) -> None:
    once = z.consolidate()
    assert content(once) == content(z)
    assert len(once) == len(content(z))
    again = ZSet(once.rows, once.weights).consolidate()
    assert repr(again.rows.to_pylist()) == repr(once.rows.to_pylist())
    assert again.weights.tolist() == once.weights.tolist()
    assert once == z


@settings(deadline=None, max_examples=100)
@given(several(3))
def test_z_sets_are_a_commutative_group(parts: list[ZSet]) -> None:
    a, b, c = parts
    assert content(a + b) == added(content(a), content(b))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + ZSet.empty(a.schema) == a
    assert (a + -a).is_zero()
    assert a - b == a + -b


@settings(deadline=None, max_examples=100)
@given(several(2), st.integers(-4, 4))
def test_multiplying_is_linear(parts: list[ZSet], factor: int) -> None:
    a, b = parts
    assert (a + b) * factor == a * factor + b * factor
    assert content(factor * a) == {row: w * factor for row, w in content(a).items() if factor}


@settings(deadline=None, max_examples=100)
@given(several(2))
def test_projecting_is_linear(parts: list[ZSet]) -> None:
    a, b = parts
    names = a.schema.names[:1]
    assert (a + b).project(names) == a.project(names) + b.project(names)


@settings(deadline=None, max_examples=100)
@given(zsets())
def test_both_halves_of_a_split_make_the_whole(z: ZSet) -> None:
    plus, minus = z.split()
    assert (plus.weights > 0).all()
    assert (minus.weights < 0).all()
    assert plus + minus == z


@settings(deadline=None, max_examples=100)
@given(zsets())
def test_arrow_and_back_is_the_same_z_set(z: ZSet) -> None:
    assert ZSet.from_arrow(z.to_arrow()) == z
    assert ZSet.from_arrow(pa.Table.from_batches([z.to_arrow()])) == z


@settings(deadline=None, max_examples=100)
@given(several(2))
def test_equality_is_equality_of_multisets(parts: list[ZSet]) -> None:
    a, b = parts
    assert (a == b) is (content(a) == content(b))


@settings(deadline=None, max_examples=100)
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


def nullable(allowed: bool, values: list[int | None]) -> ZSet:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=allowed)])
    return ZSet.from_arrow(pa.record_batch([pa.array(values, pa.int64())], schema=schema))


def test_a_column_that_may_be_null_in_one_part_may_be_null_in_the_sum() -> None:
    strict, loose = nullable(False, [1]), nullable(True, [None, 1])
    for total in (strict + loose, loose + strict):
        assert total.schema.field("x").nullable
        assert content(total) == {(1,): 2, (None,): 1}
    assert strict + strict == nullable(True, [1, 1])
    assert not (strict + strict).schema.field("x").nullable
    assert loose - strict == nullable(True, [None])
    assert strict != loose


def test_dictionaries_are_joined_and_refused_where_their_indexes_are_too_small() -> None:
    def coded(values: range) -> ZSet:
        kind = pa.dictionary(pa.int8(), pa.string())
        return ZSet.from_arrow(
            pa.table({"x": pa.array([str(value) for value in values]).dictionary_encode()}).cast(
                pa.schema([("x", kind)])
            )
        )

    assert len((coded(range(100)) - coded(range(90, 110))).consolidate()) == 100
    with pytest.raises(Unsupported, match="dictionaries"):
        _ = coded(range(100)) + coded(range(100, 200))


def test_the_least_weight_is_a_weight_like_any_other() -> None:
    least = ints((7, -TOP - 1))
    assert least == ints((7, -TOP - 1))
    assert least != ints((7, -TOP))
    assert least != ints((8, -TOP - 1))
    assert least.total_weight == -TOP - 1
    assert ints((7, 1)) * (-TOP - 1) == least
    for overflowing in (lambda: -least, lambda: least * -1, lambda: (least + least).consolidate()):
        with pytest.raises(ArithmeticOverflow):
            overflowing()


@settings(deadline=None, max_examples=100)
@given(zsets())
def test_changelog_form_and_back_is_the_same_z_set(z: ZSet) -> None:
    batch = z.to_changelog()
    batch.validate(full=True)
    assert batch.schema.names[-2:] == ["_op", "_weight"]
    assert ZSet.from_changelog(batch) == z
    assert set(batch.column("_op").to_pylist()) <= {Op.INSERT, Op.DELETE}
    assert (
        ZSet.from_changelog(pa.Table.from_batches([batch])).weights.tolist()
        == z.weights[z.weights != 0].tolist()
    )


def test_a_changelog_counts_as_its_operations_say_unless_it_has_weights() -> None:
    ops = pa.array([0, 1, 2, 3], pa.int8())
    extra = {"_lsn": [5, 6, 6, 7], "_ts": pa.array([1, 2, 2, 3], pa.timestamp("us", "UTC"))}
    by_op = ZSet.from_changelog(pa.record_batch({"x": [7, 7, 8, 9], "_op": ops, **extra}))
    assert by_op == ints((8, 1), (9, -1))
    assert by_op.schema.names == ["x"]
    by_weight = pa.record_batch({"x": [7, 7, 8, 9], "_op": ops, "_weight": [3, -1, 0, -2], **extra})
    assert ZSet.from_changelog(by_weight) == ints((7, 2), (9, -2))
    assert ZSet.from_changelog(by_weight.drop_columns(["_op"])) == ints((7, 2), (9, -2))


@pytest.mark.parametrize(
    "wrong",
    [
        pa.record_batch({"x": [7]}),
        pa.record_batch({"x": [7], "_op": pa.array([4], pa.int8())}),
        pa.record_batch({"x": [7], "_op": pa.array([None], pa.int8())}),
        pa.record_batch({"x": [7], "_op": ["c"]}),
        pa.record_batch({"x": [7], "_op": pa.array([0], pa.int8()), "_weight": [-1]}),
        pa.record_batch({"x": [7], "_op": pa.array([1], pa.int8()), "_weight": [2]}),
        pa.record_batch({"x": [7], "_weight": [1.0]}),
        pa.record_batch({"x": [7], "_weight": pa.array([2**63], pa.uint64())}),
        pa.RecordBatch.from_arrays([pa.array([1]), pa.array([1])], names=["_weight", "_weight"]),
        pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["x", "x", "_weight"]),
        [{"x": 7, "_weight": 1}],
    ],
)
def test_what_is_not_in_changelog_form_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        ZSet.from_changelog(wrong)


def test_rows_without_columns_are_split_and_told_apart_by_their_number_only() -> None:
    z = ZSet.from_arrow(pa.table({"_weight": [2, -1, 0]}))
    plus, minus = z.split()
    assert plus.to_arrow().to_pylist() == [{"_weight": 2}]
    assert minus.to_changelog().to_pylist() == [{"_op": 3, "_weight": -1}]
    assert (z + z).consolidate().to_arrow().to_pylist() == [{"_weight": 2}]


@pytest.mark.parametrize("weights", [[[1], [1, 2]], ["1"], [1.0], [True], [2**63], [None], [[1]], [1, 2]])
def test_weights_are_integers_of_64_bits_one_per_row(weights: Any) -> None:
    with pytest.raises(InvalidArgument, match="weights of"):
        ZSet(pa.record_batch({"x": [7]}), weights)


@pytest.mark.parametrize("rows", [[1], pa.table({"x": [7]}), None])
def test_rows_are_a_record_batch(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not Arrow data"):
        ZSet(rows, [1])


def test_rows_for_people_must_fit_their_schema() -> None:
    schema = pa.schema([("x", pa.int64())])
    assert ZSet.from_rows([{"x": 7}, {}], schema, [1, 2]).to_dict() == {(7,): 1, (None,): 2}
    with pytest.raises(SchemaMismatch, match="does not fit"):
        ZSet.from_rows([{"x": "seven"}], schema)


@pytest.mark.parametrize("mask", [[1, 0], ["a", "b"], pa.array([1, 0]), pa.nulls(2), [True], [[True, False]]])
def test_a_mask_holds_one_truth_value_per_row(mask: Any) -> None:
    with pytest.raises(InvalidArgument):
        ints((7, 1), (8, 1)).filter(mask)


@pytest.mark.parametrize("factor", [2**63, np.array([1.5, 1.0]), np.array([1, 2, 3])])
def test_what_cannot_multiply_weights_is_refused(factor: Any) -> None:
    with pytest.raises(InvalidArgument):
        _ = ints((7, 1), (8, 1)) * factor


def test_nothing_cannot_be_added_up() -> None:
    with pytest.raises(InvalidArgument, match="nothing to add up"):
        ZSet.concat([])


def test_a_repr_does_not_fail_on_times_that_python_cannot_tell() -> None:
    far = pa.record_batch({"x": pa.array([2**62], pa.timestamp("us"))})
    assert repr(ZSet(far, [1])) == "ZSet(1 row: +1 (x=<timestamp[us]>))"


def test_the_repr_shows_a_few_rows_and_counts_the_rest() -> None:
    assert repr(ints((1, 2), (2, -1))) == "ZSet(2 rows: +2 (x=1), −1 (x=2))"
    assert repr(ints(*[(i, 1) for i in range(7)])).endswith("… 2 more)")


def test_filtering_takes_null_for_not_true() -> None:
    z = ints((1, 1), (2, 1), (3, 1))
    assert z.filter(pa.array([True, None, False])).to_dict() == {(1,): 1}


def test_an_unknown_column_is_named_with_the_ones_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"'y'.*columns are x"):
        ints((1, 1)).project(["y"])
