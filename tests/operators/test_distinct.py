"""Distinct: rows go out when they come above 0, and back."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import xxhash64
from penstock.errors import InvalidArgument
from penstock.operators import operator_of
from penstock.plan import Distinct, Scan, Union
from tests.operators.one_step import Stepper, content, one_for_all

COLUMNS = pa.schema([("x", pa.float64()), ("y", pa.list_(pa.string()))])


def distinct(one_hash: bool = False) -> Stepper:
    return Stepper(operator_of(Distinct(Scan("main", "t")), [COLUMNS]), one_for_all if one_hash else xxhash64)


def row(x: float | None, weight: int, y: Any = None) -> dict[str, Any]:
    return {"x": x, "y": y, "_weight": weight}


def test_only_crossings_are_told() -> None:
    it = distinct()
    assert it.tick(changes=[row(1.0, 2), row(2.0, 1), row(2.0, -1)]) == [row(1.0, 1)]
    assert it.tick(changes=[row(1.0, -1)]) == []
    assert it.tick(changes=[row(1.0, -1)]) == [row(1.0, -1)]
    assert it.kept("counts") == []


def test_rows_are_one_as_spark_groups_them() -> None:
    it = distinct()
    same = [row(-0.0, 1, ["a"]), row(0.0, 1, ["a"]), row(math.nan, 1), row(-math.nan, 1), row(None, 1)]
    assert len(it.tick(changes=same)) == 3
    assert sorted(some["_count"] for some in it.kept("counts")) == [1, 2, 2]


def test_less_than_none_is_remembered_and_not_told() -> None:
    it = distinct()
    assert it.tick(changes=[row(1.0, -1)]) == []
    assert it.tick(changes=[row(1.0, 1)]) == []
    assert it.tick(changes=[row(1.0, 1)]) == [row(1.0, 1)]


@pytest.mark.parametrize("one_hash", [False, True])
@settings(deadline=None)
@given(ticks=st.lists(st.lists(st.tuples(st.sampled_from([1.0, 2.0, None]), st.integers(-2, 3)))))
def test_content_is_the_support(one_hash: bool, ticks: list[list[tuple[Any, int]]]) -> None:
    it = distinct(one_hash)
    sums: Counter[Any] = Counter()
    said: list[dict[str, Any]] = []
    for tick in ticks:
        rows = [row(x, weight, ["q"]) for x, weight in tick if weight]
        for some in rows:
            sums[some["x"]] += some["_weight"]
        told = it.tick(changes=rows)
        assert len({some["x"] for some in told}) == len(told)
        said += [{"x": some["x"], "_weight": some["_weight"]} for some in told]
        assert content(said) == {(x,): 1 for x, total in sums.items() if total > 0}


def test_other_nodes_have_no_operator() -> None:
    with pytest.raises(InvalidArgument, match="keeps no state"):
        operator_of(Union((Scan("main", "t"),)), [COLUMNS])  # type: ignore[arg-type]
