from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spine.order import before, has_order, ranks, sorting_of
from tests.arrow_strategies import values
from tests.row_model import identity
from tests.spine.spine_model import ORDERED, spark_order

KINDS = [
    *ORDERED,
    pa.large_string(),
    pa.large_binary(),
    pa.uint8(),
    pa.float16(),
    pa.time64("us"),
    pa.duration("us"),
]


@st.composite
def columns(draw: st.DrawFn, count: int = 1) -> list[pa.Array]:
    kind = draw(st.sampled_from(KINDS))
    size = draw(st.integers(0, 8))
    drawn = []
    for _ in range(count):
        skipped = draw(st.integers(0, 2))
        items = st.lists(values(kind, nullable=False), min_size=size + skipped, max_size=size + skipped)
        drawn.append(pa.array(draw(items), kind).slice(skipped))
    return drawn


def told(column: pa.Array) -> list[Any]:
    """Python values that compare as Spark does."""
    return [spark_order(identity(value, column.type), column.type) for value in column.to_pylist()]


@given(columns())
def test_sorting_is_sparks_and_keeps_equal_values_in_their_order(drawn: list[pa.Array]) -> None:
    (column,) = drawn
    expected = sorted(range(len(column)), key=told(column).__getitem__)
    assert sorting_of(column).tolist() == expected


@given(columns())
def test_ranks_compare_as_the_values_do(drawn: list[pa.Array]) -> None:
    (column,) = drawn
    plain, found = told(column), ranks(column).tolist()
    for i in range(len(plain)):
        for j in range(len(plain)):
            assert (plain[i] < plain[j]) == (found[i] < found[j])


@given(columns(2))
def test_before_is_less_pair_by_pair(drawn: list[pa.Array]) -> None:
    left, right = drawn
    assert before(left, right).tolist() == [a < b for a, b in zip(told(left), told(right), strict=True)]


def test_the_ends_of_64_bits_are_in_order() -> None:
    unsigned = pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())
    assert np.argsort(ranks(unsigned)).tolist() == [0, 1, 2, 3]
    doubles = pa.array([float("-inf"), -1e-308, -5e-324, 0.0, 5e-324, float("inf"), float("nan")])
    assert (np.diff(ranks(doubles)) > 0).all()


def test_null_has_no_place_in_an_order() -> None:
    with pytest.raises(InvalidArgument, match="NULL"):
        sorting_of(pa.array([1, None]))


def test_what_has_no_order_is_known() -> None:
    assert not any(
        has_order(kind)
        for kind in (pa.list_(pa.int8()), pa.struct([]), pa.null(), pa.month_day_nano_interval())
    )
    assert all(has_order(kind) for kind in KINDS)
