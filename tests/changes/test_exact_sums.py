"""Sums of doubles: whatever happened before, they are `math.fsum` of what is left, bit for bit."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.aggregates import Avg, GroupedAvg, GroupedSum, Sum
from penstock.changes.aggregates.exact import FIRST, LAST, digits
from penstock.errors import InvalidArgument, SchemaMismatch, Unsupported

INF, NAN = math.inf, math.nan
LARGEST = 1.7976931348623157e308
EDGES = [
    *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, LARGEST, -LARGEST),
    *(2.0**-62, math.nextafter(2.0**-62, 0), 2.0**66, math.nextafter(2.0**66, 0), -(2.0**66)),
    *(1.0, -1.0, 2.0**53, 2.0**53 + 2, 0.5, 2.0**-53, 2.0**-54, 2.0**-1074 * 3, 1e16, 0.1, 3.14, 1e308),
]


def of_bits(bits: int) -> float:
    """The double with these bits; exponents of NaN and infinity become the largest finite one."""
    if bits >> 52 & 0x7FF == 0x7FF:
        bits ^= 1 << 52
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


doubles = st.one_of(
    st.integers(0, 2**64 - 1).map(of_bits),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
    st.sampled_from(EDGES),
)


def fsum(values: list[float]) -> float | None:
    """`math.fsum`, but NULL for nothing, and infinity where it gives up on an overflow."""
    if not values:
        return None
    try:
        return math.fsum(values) + 0.0  # a sum of zeros is 0.0
    except OverflowError:
        return nearest(sum(map(Fraction, values), Fraction()))


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return INF if exact > 0 else -INF


def same(left: list[float | None], right: list[float | None]) -> bool:
    def spell(values: list[float | None]) -> list[str]:
        return ["NULL" if value is None else value.hex() for value in values]

    return spell(left) == spell(right)


def add(total: GroupedSum, rows: list[tuple[float, int]], weight: int = 1) -> None:
    ids = np.array([group for _, group in rows], np.int64)
    values = pa.array([value for value, _ in rows], pa.float64())
    total.update(ids, values, None if weight == 1 else np.full(len(rows), weight))


GROUPS = 3
KEPT, INSERTED_THEN_DELETED, DELETED_THEN_INSERTED, ELSEWHERE = range(4)
FATES = [(group, fate) for fate in (KEPT, *range(4)) for group in range(GROUPS)]


@settings(deadline=None, max_examples=10_000)
@given(st.lists(st.tuples(doubles, st.sampled_from(FATES)), max_size=9))
def test_after_any_history_a_sum_is_fsum_of_the_rows_that_are_left(
    history: list[tuple[float, tuple[int, int]]],
) -> None:
    here, there = GroupedSum(pa.float64()), GroupedSum(pa.float64())
    here.grow(GROUPS)
    fates: list[list[tuple[float, int]]] = [[], [], [], []]
    for value, (group, fate) in history:
        fates[fate].append((value, group))
    add(here, fates[DELETED_THEN_INSERTED], -1)
    add(here, fates[KEPT] + fates[INSERTED_THEN_DELETED])
    add(there, fates[ELSEWHERE] + fates[DELETED_THEN_INSERTED])
    add(here, fates[ELSEWHERE][::-1], -1)
    here.merge(there)
    add(here, fates[INSERTED_THEN_DELETED][::-1], -1)
    left = [[value for value, owner in fates[KEPT] if owner == group] for group in range(GROUPS)]
    expected = [fsum(values) for values in left]
    assert same(here.finalize().to_pylist(), expected)


@settings(deadline=None, max_examples=2_500)
@given(st.lists(doubles, max_size=6), st.lists(doubles, max_size=3), st.lists(doubles, max_size=3))
def test_one_value_at_a_time_too(kept: list[float], passing: list[float], elsewhere: list[float]) -> None:
    here, there = Sum(), Sum()
    for value in (*passing, *kept):
        here.accumulate(value)
    for value in elsewhere:
        there.accumulate(value)
        here.retract(value)
    here.merge(there)
    for value in passing:
        here.retract(value)
    assert same([here.finalize()], [fsum(kept)])  # type: ignore[list-item]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(doubles, st.integers(0, 4), st.integers(-(2**59), 2**59)), max_size=12),
    st.integers(0, 12),
)
def test_weights_of_any_size_are_exact(rows: list[tuple[float, int, int]], cut: int) -> None:
    total = GroupedSum(pa.float64())
    total.grow(5)
    for some in (rows[:cut], rows[cut:]):
        values, ids, weights = ([row[i] for row in some] for i in range(3))
        total.update(np.array(ids, np.int64), pa.array(values, pa.float64()), np.array(weights, np.int64))
    exact = [sum((Fraction(v) * w for v, g, w in rows if g == group), Fraction()) for group in range(5)]
    counts = [sum(w for _, g, w in rows if g == group) for group in range(5)]
    expected = [None if not e and not n else nearest(e) for e, n in zip(exact, counts, strict=True)]
    assert same(total.finalize().to_pylist(), expected)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(doubles, st.integers(0, 5)), max_size=40), st.randoms(use_true_random=False))
def test_order_and_batches_do_not_matter(rows: list[tuple[float, int]], random: object) -> None:
    whole, pieces = GroupedSum(pa.float64()), GroupedSum(pa.float64())
    add(whole, rows)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for start in range(0, len(shuffled), 3):
        add(pieces, shuffled[start : start + 3])
    assert same(whole.finalize().to_pylist(), pieces.finalize().to_pylist())
    assert whole.state_columns() == pieces.state_columns()
    assert whole.sparse_state() == pieces.sparse_state()


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(doubles, st.integers(0, 5)), max_size=30), st.integers(-3, 3))
def test_a_state_comes_back_as_it_was_exported(rows: list[tuple[float, int]], weight: int) -> None:
    total = GroupedSum(pa.float64())
    total.grow(6)
    add(total, rows, weight)
    columns, sparse = total.state_columns(), total.sparse_state()
    back = GroupedSum.from_state(pa.float64(), columns, sparse=sparse)
    assert back.state_columns() == columns
    assert back.sparse_state() == sparse
    assert same(back.finalize().to_pylist(), total.finalize().to_pylist())


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.tuples(doubles, st.integers(0, 2)), max_size=10), min_size=1, max_size=5))
def test_states_that_were_added_up_elsewhere_column_by_column_are_states(
    parts: list[list[tuple[float, int]]],
) -> None:
    whole = GroupedSum(pa.float64())
    whole.grow(3)
    tables, entries = [], []
    for rows in parts:
        add(whole, rows)
        part = GroupedSum(pa.float64())
        part.grow(3)
        add(part, rows)
        tables.append(np.array([column.to_numpy() for column in part.state_columns().columns]))
        entries.append(part.sparse_state())
    names = whole.state_columns().schema.names
    added = pa.RecordBatch.from_arrays([pa.array(column) for column in np.sum(tables, axis=0)], names=names)
    sparse = pa.concat_batches(entries)
    back = GroupedSum.from_state(pa.float64(), added, sparse=sparse)
    assert same(back.finalize().to_pylist(), whole.finalize().to_pylist())


def test_many_groups_can_become_one_when_a_state_is_loaded() -> None:
    total = GroupedSum(pa.float64())
    add(total, [(1e300, 0), (0.1, 1), (-1e300, 2), (NAN, 3)])
    columns, sparse = total.state_columns(), total.sparse_state()
    back = GroupedSum.from_state(pa.float64(), columns, sparse=sparse, group_ids=np.array([1, 1, 1, 0]))
    assert same(back.finalize().to_pylist(), [NAN, 0.1])


@settings(deadline=None, max_examples=500)
@given(st.lists(doubles, min_size=1, max_size=50))
def test_digits_are_those_of_the_fixed_point_number(values: list[float]) -> None:
    bits = np.array(values).view(np.int64)
    limb, *parts = digits(bits)
    for row, value in enumerate(values):
        exact = sum(Fraction(int(part[row]) << 32 * (int(limb[row]) + j)) for j, part in enumerate(parts))
        assert exact / 2**1074 == abs(Fraction(value))
        assert all(0 <= part[row] < 2**32 for part in parts)
        assert 0 <= limb[row] <= 63


in_window = st.one_of(
    st.just(0.0),
    st.floats(2.0**-62, 2.0**66, exclude_max=True),
    st.sampled_from([2.0**-62, 1.0, 2.0**53 + 1]),
)


@settings(deadline=None, max_examples=500)
@given(st.lists(st.tuples(in_window, st.sampled_from([1.0, -1.0])), min_size=1, max_size=20))
def test_plain_arithmetic_on_doubles_finds_the_same_digits_in_the_window(
    signed: list[tuple[float, float]],
) -> None:
    x = np.array([value * sign for value, sign in signed])
    columns = {"count": np.array([len(x)])}
    rest = np.abs(x)
    for limb in range(LAST, FIRST - 1, -1):
        unit = 2.0 ** (32 * limb - 1074)
        digit = np.floor(rest * (1 / unit))
        rest = rest - digit * unit
        columns[f"limb{limb}"] = (np.sign(x).astype(np.int64) * digit.astype(np.int64)).sum(keepdims=True)
    assert not rest.any()
    total = GroupedSum(pa.float64())
    total.update(np.zeros(len(x), np.int64), pa.array(x))
    assert total.sparse_state().num_rows == 0
    back = GroupedSum.from_state(pa.float64(), pa.RecordBatch.from_pydict(columns))
    assert back.state_columns() == total.state_columns()


def test_what_is_outside_the_window_goes_beside_it() -> None:
    total = GroupedSum(pa.float64())
    add(
        total,
        [(math.nextafter(2.0**-62, 0), 0), (2.0**66, 1), (2.0**-62, 2), (math.nextafter(2.0**66, 0), 3)],
    )
    assert set(total.sparse_state().column("group").to_pylist()) == {0, 1}


def test_specials_are_counted_so_they_can_be_taken_back() -> None:
    total = GroupedSum(pa.float64())
    add(total, [(1.5, group) for group in range(6)])
    add(total, [(NAN, 0), (INF, 1), (-INF, 2), (INF, 3), (-INF, 3), (INF, 4), (NAN, 4)])
    assert same(total.finalize().to_pylist(), [NAN, INF, -INF, NAN, NAN, 1.5])
    add(total, [(INF, 3), (NAN, 4)], -1)
    assert same(total.finalize().to_pylist(), [NAN, INF, -INF, -INF, INF, 1.5])
    add(total, [(NAN, 0), (INF, 1), (-INF, 2), (-INF, 3), (INF, 4)], -1)
    assert same(total.finalize().to_pylist(), [1.5] * 6)
    assert total.sparse_state().num_rows == 0


@pytest.mark.parametrize("weight", [1, 2**40, 2**61, -(2**61)])
def test_specials_of_any_weight_cancel_only_with_their_own_kind(weight: int) -> None:
    total = GroupedSum(pa.float64())
    for value, group in ((INF, 0), (NAN, 1), (-INF, 2)):
        total.update(np.array([group]), pa.array([value]), np.array([weight]))
    up = INF if weight > 0 else -INF
    assert same(total.finalize().to_pylist(), [up, NAN, -up])
    total.update(np.array([2]), pa.array([INF]), np.array([weight]))
    assert same(total.finalize().to_pylist(), [up, NAN, NAN])


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.tuples(st.one_of(doubles, st.sampled_from([NAN, INF, -INF])), st.integers(-2, 2)), max_size=10
    )
)
def test_one_at_a_time_and_in_batches_agree_on_specials(rows: list[tuple[float, int]]) -> None:
    many, one = GroupedSum(pa.float64()), Sum()
    average, single = GroupedAvg(pa.float64()), Avg()
    many.grow(1)
    average.grow(1)
    for value, weight in rows:
        one.accumulate(value, weight)
        single.accumulate(value, weight)
        for state in (many, average):
            state.update(np.array([0]), pa.array([value]), np.array([weight]))
    assert same(many.finalize().to_pylist(), [one.finalize()])  # type: ignore[list-item]
    assert same(average.finalize().to_pylist(), [single.finalize()])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([LARGEST, LARGEST], INF),
        ([-LARGEST, -LARGEST], -INF),
        ([LARGEST, 2.0**969], LARGEST),  # less than half a step above the largest double
        ([LARGEST, 2.0**970], INF),  # exactly half a step: half to even goes up
        ([LARGEST, LARGEST, -LARGEST], LARGEST),
        ([5e-324, 5e-324, 5e-324], 1.5e-323),
        ([2.225073858507201e-308, 5e-324], 2.2250738585072014e-308),
        ([1.0, 2.0**-53], 1.0),
        ([1.0, 2.0**-53, 5e-324], math.nextafter(1.0, 2)),  # the sticky bit, 1,000 bits away
        ([1.0, 2.0**-52, 2.0**-53], 1.0 + 2.0**-51),
        ([-1.0, -(2.0**-53), -5e-324], -math.nextafter(1.0, 2)),
        ([-0.0, -0.0], 0.0),
        ([1e308, 3.14, -1e308], 3.14),
    ],
)
def test_a_sum_is_rounded_once_half_to_even(values: list[float], expected: float) -> None:
    many, one = GroupedSum(pa.float64()), Sum()
    add(many, [(value, 0) for value in values])
    for value in values:
        one.accumulate(value)
    assert same(many.finalize().to_pylist(), [expected])
    assert same([one.finalize()], [expected])  # type: ignore[list-item]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_are_added_up_as_the_doubles_they_are(values: list[float]) -> None:
    total = GroupedSum(pa.float32())
    total.update(np.zeros(len(values), np.int64), pa.array(values, pa.float32()))
    assert total.result_type == pa.float64()
    assert same(total.finalize().to_pylist(), [fsum(values)])


@settings(deadline=None, max_examples=300)
@given(st.lists(doubles, min_size=1, max_size=20))
def test_an_average_is_the_rounded_sum_by_the_count(values: list[float]) -> None:
    average = GroupedAvg(pa.float64())
    average.update(np.zeros(len(values), np.int64), pa.array(values))
    total = fsum(values)
    assert total is not None
    assert same(average.finalize().to_pylist(), [total / len(values)])


def test_a_window_that_runs_full_hands_over_and_stays_exact() -> None:
    total = GroupedSum(pa.float64())
    value = math.nextafter(2.0**66, 0)
    weight = 2**29  # as heavy as the window takes: every batch claims half of its room
    rounds = 32
    for _ in range(rounds):
        total.update(np.array([0, 1]), pa.array([value, -value]), np.array([weight, 2**20]))
        total.merge(total)
    copies = weight * (2 ** (rounds + 1) - 2)
    small = 2**20 * (2 ** (rounds + 1) - 2)
    assert total.sparse_state().num_rows
    exact = Fraction(value)
    assert same(total.finalize().to_pylist(), [nearest(exact * copies), nearest(-exact * small)])


@pytest.mark.parametrize("limb", [FIRST, FIRST + 2, LAST])
@pytest.mark.parametrize("amount", [2**63 - 1, -(2**63), 2**62, -(2**62) - 1])
def test_limbs_near_the_end_of_int64_are_loaded_exactly(limb: int, amount: int) -> None:
    names = [f"limb{i}" for i in range(FIRST, LAST + 1)]
    columns = {"count": [3, 3], **{name: [amount * (name == f"limb{limb}")] * 2 for name in names}}
    batch = pa.RecordBatch.from_pydict(columns)
    total = GroupedSum.from_state(pa.float64(), batch, group_ids=np.array([0, 0]))
    total.merge(GroupedSum.from_state(pa.float64(), batch))
    exact = Fraction(amount) * Fraction(2) ** (32 * limb - 1074)
    assert same(total.finalize().to_pylist(), [float(3 * exact), float(exact)])


def test_large_batches_and_many_groups_take_every_path_and_agree() -> None:
    rng = np.random.default_rng(7)
    rows, groups = 60_000, 20_000
    wild = rng.integers(0, 2**63, rows).view(np.float64)
    values = np.select(
        [rng.random(rows) < 0.5, np.isfinite(wild)],
        [rng.normal(size=rows), wild],
        rng.normal(size=rows) * 1e-30,
    )
    ids = rng.integers(0, groups, rows)
    gone = rng.random(rows) < 0.5
    total = GroupedSum(pa.float64())
    for _ in range(3):  # more entries each time, so that runs are merged
        total.update(ids, pa.array(values))
        total.update(ids[gone], pa.array(values[gone]), np.full(gone.sum(), -1))
    total.update(ids[~gone], pa.array(values[~gone]), np.full((~gone).sum(), -2))
    expected = GroupedSum(pa.float64())
    expected.grow(groups)
    expected.update(ids[~gone], pa.array(values[~gone]))
    assert same(total.finalize().to_pylist(), expected.finalize().to_pylist())
    left: list[list[float]] = [[] for _ in range(groups)]
    for group, value in zip(ids[~gone].tolist(), values[~gone].tolist(), strict=True):
        left[group].append(value)
    assert same(total.finalize().to_pylist(), [fsum(some) for some in left])


def test_group_numbers_too_large_to_pack_with_a_limb_are_sorted_all_the_same() -> None:
    from penstock.changes.aggregates.sparse import SparseLimbs

    side = SparseLimbs()
    ids = np.array([2**39, 3, 2**39, 5] * 2**18)
    limbs = np.array([60, 1, 60, 0] * 2**18)
    side.add(ids, limbs, [np.ones(len(ids), np.int64)], 2**20)
    entries = side.entries()
    assert entries.groups.tolist() == [5, 3, 2**39]
    assert entries.limbs.tolist() == [0, 1, 60]
    assert entries.amounts.tolist() == [2**18, 2**18, 2**19]


def test_a_state_that_is_not_one_is_refused() -> None:
    total = GroupedSum(pa.float64())
    add(total, [(1e300, 0)])
    columns, sparse = total.state_columns(), total.sparse_state()
    with pytest.raises(SchemaMismatch, match="no column 'limb30'"):
        GroupedSum.from_state(pa.float64(), columns.select(["count"]))
    with pytest.raises(SchemaMismatch, match="is double"):
        GroupedSum.from_state(pa.float64(), columns.set_column(0, "count", pa.array([1.0])))
    with pytest.raises(InvalidArgument, match="row 0, and the state has 0 rows"):
        GroupedSum.from_state(pa.float64(), columns.slice(0, 0), sparse=sparse)
    wrong = sparse.set_column(1, "limb", pa.array([400] * sparse.num_rows))
    with pytest.raises(InvalidArgument, match="limbs 400"):
        GroupedSum.from_state(pa.float64(), columns, sparse=wrong)
    with pytest.raises(InvalidArgument, match="one group id for each"):
        GroupedSum.from_state(pa.float64(), columns, group_ids=np.array([], np.int64))
    whole = GroupedSum(pa.int64())
    whole.update(np.array([0]), pa.array([1]))
    with pytest.raises(Unsupported, match="sparse entries"):
        GroupedSum.from_state(pa.int64(), whole.state_columns(), sparse=sparse)
