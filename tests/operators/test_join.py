"""Join: pairs of rows that agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ArithmeticOverflow, SchemaMismatch
from penstock.operators import operator_of
from penstock.operators.batches import BATCH_ROWS
from penstock.plan import Join, On, Scan
from penstock.spine import ShardState
from tests.operators.one_step import Stepper, content

LEFT = pa.schema([("a", pa.float64()), ("b", pa.int64())])
RIGHT = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("z", pa.int64())])


def joined(*on: On) -> Stepper:
    return Stepper(operator_of(Join(Scan("main", "l"), Scan("main", "r"), on), [LEFT, RIGHT]))


def left(a: float | None, b: int = 0, weight: int = 1) -> dict[str, Any]:
    return {"a": a, "b": b, "_weight": weight}


def right(x: float | None, y: float | None = None, z: int = 0, weight: int = 1) -> dict[str, Any]:
    return {"x": x, "y": y, "z": z, "_weight": weight}


def pairs(said: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """The columns a and x."""
    return content([{"a": it["a"], "x": it["x"], "_weight": it["_weight"]} for it in said])


def test_both_sides_may_change_in_one_tick() -> None:
    it = joined(On("a", "x"))
    assert pairs(it.tick(left=[left(1.0)], right=[])) == {}
    assert pairs(it.tick(left=[left(2.0)], right=[right(1.0), right(2.0)])) == {(1.0, 1.0): 1, (2.0, 2.0): 1}
    # −ΔA⋈B, A⋈ΔB and ΔA⋈ΔB at once
    said = it.tick(left=[left(1.0, weight=-1), left(2.0)], right=[right(2.0, weight=2)])
    assert pairs(said) == {(1.0, 1.0): -1, (2.0, 2.0): 1 + 2 + 2}


def test_null_matches_null_only_where_it_is_safe() -> None:
    it = joined(On("a", "x"))
    assert it.tick(left=[left(None)], right=[right(None)]) == []
    assert it.kept("left") == it.kept("right") == []
    assert pairs(joined(On("a", "x", True)).tick(left=[left(None)], right=[right(None)])) == {(None, None): 1}


def test_nan_is_nan_and_zero_has_no_sign() -> None:
    it = joined(On("a", "x"))
    said = it.tick(left=[left(math.nan), left(-0.0)], right=[right(-math.nan), right(0.0)])
    assert pairs(said) == {(math.nan, math.nan): 1, (0.0, 0.0): 1}


def test_what_goes_out_is_canonical_whichever_side_came_last() -> None:
    it = joined(On("b", "z"))
    (one,) = it.tick(left=[left(-0.0)], right=[right(-0.0)])
    (other,) = it.tick(left=[], right=[right(1.0)])
    assert [math.copysign(1, value) for value in (one["a"], one["x"], other["a"])] == [1, 1, 1]


def test_one_column_may_have_to_equal_two() -> None:
    it = joined(On("a", "x"), On("a", "y"))
    assert it.operator.keys == {"left": ("a",), "right": ("x",)}
    said = it.tick(left=[left(1.0)], right=[right(1.0, 1.0), right(1.0, 2.0), right(1.0, None)])
    assert pairs(said) == {(1.0, 1.0): 1}
    mixed = joined(On("a", "x", True), On("a", "y"))
    assert mixed.tick(left=[left(None)], right=[right(None, None)]) == []
    safe = joined(On("a", "x", True), On("a", "y", True))
    assert pairs(safe.tick(left=[left(None)], right=[right(None, None), right(None, 1.0)])) == {
        (None, None): 1
    }


def test_on_several_columns() -> None:
    it = joined(On("a", "x"), On("b", "z"))
    said = it.tick(left=[left(1.0, 1), left(1.0, 2)], right=[right(1.0, z=2), right(2.0, z=1)])
    assert pairs(said) == {(1.0, 1.0): 1}


def test_without_a_condition_all_pairs_match() -> None:
    it = joined()
    assert it.operator.keys == {"left": (), "right": ()}
    assert len(it.tick(left=[left(1.0), left(None)], right=[right(1.0), right(2.0), right(None)])) == 6
    assert len(it.tick(left=[], right=[right(3.0, weight=-1)])) == 2


def test_what_cancels_out_in_a_tick_is_not_multiplied() -> None:
    it = joined(On("a", "x"))
    it.tick(left=[], right=[right(1.0, z=z) for z in range(100)])
    assert it.batches(left=[left(1.0), left(1.0, weight=-1)], right=[]) == []


def test_rows_that_have_no_hash_cancel_out_too() -> None:
    columns = pa.schema([("a", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    node = Join(Scan("main", "l"), Scan("main", "r"), (On("a", "z"),))
    it = Stepper(operator_of(node, [columns, RIGHT]))
    it.tick(left=[], right=[right(1.0, z=7)])
    one = {"a": 7, "m": [("p", 1), ("q", 2)]}
    other = {"a": 7, "m": [("q", 2), ("p", 1)], "_weight": -1}
    assert it.batches(left=[one, other], right=[]) == []
    assert len(it.tick(left=[one, {**other, "_weight": 1}], right=[])) > 0


def test_a_hot_key_comes_in_bounded_batches_one_by_one() -> None:
    operator = joined(On("a", "x")).operator
    many = 1_000

    def side(name: str, key: str) -> pa.RecordBatch:
        schema = operator.inputs[name]
        ones = {it.name: pa.array(np.arange(many), it.type) for it in schema} | {
            key: pa.array(np.ones(many)),
            "_hash": pa.array(np.full(many, 5)),
            "_weight": pa.array(np.ones(many, np.int64)),
        }
        return pa.RecordBatch.from_arrays([ones[it.name] for it in schema], schema=schema)

    step = operator.step(
        {"left": [side("left", "a")], "right": [side("right", "x")]}, ShardState.in_memory(operator.layouts)
    )
    sizes = [batch.num_rows for batch in step]
    assert sum(sizes) == many * many
    assert max(sizes) <= BATCH_ROWS


def test_weights_that_leave_64_bits_are_refused() -> None:
    it = joined(On("a", "x"))
    with pytest.raises(ArithmeticOverflow, match="weight of a pair"):
        it.tick(left=[left(1.0, weight=2**32)], right=[right(1.0, weight=2**31)])
    assert pairs(it.tick(left=[left(2.0, weight=2**32)], right=[right(2.0, weight=-(2**31))])) == {
        (2.0, 2.0): -(2**63)
    }


def test_an_input_with_other_columns_is_refused() -> None:
    operator = joined(On("a", "x")).operator
    wrong = pa.record_batch({"a": ["text"], "b": [1], "_hash": [1], "_weight": [1]})
    with pytest.raises(SchemaMismatch, match="no column a double"):
        list(operator.step({"left": [wrong]}, ShardState.in_memory(operator.layouts)))
