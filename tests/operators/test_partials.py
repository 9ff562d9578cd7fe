"""What Spark adds up before a step is a way to feed the same state."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.changes.names import WEIGHT
from penstock.operators import operator_of, partial_sql
from penstock.operators.arguments import Argument, arguments_of
from penstock.plan import Aggregate, Call, Function, Scan
from penstock.spine import HASH
from tests.arrow_strategies import values
from tests.operators.one_step import Stepper
from tests.operators.partials_model import is_plain, partial_inputs_of, pieces

TABLE = Scan("main", "t")
EXACT = Context(prec=100)
KINDS = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(18, 18),
    pa.decimal128(19, 0),
    pa.decimal128(28, 10),
    pa.decimal128(38, 0),
    pa.decimal128(38, 18),
    pa.decimal128(38, 38),
]


def node_over(*functions: Function) -> Aggregate:
    return Aggregate(TABLE, ("g",), tuple(Call(it.value, it, "x") for it in functions))


def sum_of(kind: pa.DataType) -> Argument:
    (argument,) = arguments_of(node_over(Function.SUM), pa.schema([("x", kind)]))
    return argument


@pytest.mark.parametrize("kind", KINDS[:-1], ids=str)
@given(data=st.data())
def test_the_pieces_of_a_plain_value_add_up_to_it_and_are_short(
    kind: pa.DataType, data: st.DataObject
) -> None:
    value = data.draw(values(kind, nullable=False))
    argument = sum_of(kind)
    assume(is_plain(argument, value))
    told = pieces(argument, value)
    assert all(abs(piece) <= 2**32 for piece in told.values())
    units = {f"limb{i}": Fraction(2) ** (32 * i) for i in range(6)}
    if argument.is_double:
        units = {f"limb{i}": Fraction(2) ** (32 * i - 1074) for i in range(30, 36)}
    if pa.types.is_decimal(kind):
        units = {name: unit / 10**kind.scale for name, unit in units.items()}
        units |= {f"fraction{i}": Fraction(2) ** (32 * i) / 10**kind.scale for i in range(2)}
        units |= {f"whole{i}": Fraction(2) ** (32 * i) for i in range(2)}
    assert sum(piece * units[name] for name, piece in told.items()) == Fraction(value)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_what_is_yielded_and_kept_does_not_tell_how_a_step_was_fed(
    kind: pa.DataType, data: st.DataObject
) -> None:
    below = pa.schema([("g", pa.string()), ("x", kind)])
    functions = [Function.SUM, Function.AVG, Function.COUNT_COLUMN, Function.MIN, Function.COUNT_DISTINCT]
    fits = [it for it in functions if it is not Function.AVG or not pa.types.is_decimal(kind)]
    node = node_over(*fits)
    direct = Stepper(operator_of(node, [below]))
    indirect = Stepper(operator_of(node, [below], partial=True))
    if pa.types.is_decimal(kind):
        top = 10 ** max(kind.precision - 6, 1)
        some = st.integers(-top, top).map(lambda units: Decimal(units).scaleb(-kind.scale, EXACT))
    else:
        some = st.integers(-(2**50), 2**50) if kind == pa.int64() else values(kind, nullable=False)
    one = st.one_of(st.none(), some)
    row = st.tuples(st.sampled_from(["a", "b"]), one, st.sampled_from([1, 1, -1, 2, 1000]))
    for _ in range(2):
        rows = [{"g": g, "x": x, WEIGHT: weight} for g, x, weight in data.draw(st.lists(row, max_size=8))]
        changes = pa.RecordBatch.from_pylist(rows, schema=below.append(pa.field(WEIGHT, pa.int64())))
        parts = partial_inputs_of(node, indirect.operator, changes)
        told = indirect.tick(**{name: part.to_pylist() for name, part in parts.items()})
        assert repr(direct.tick(changes=rows)) == repr(told)
        assert direct.operator.layouts == indirect.operator.layouts
        for spine in direct.operator.layouts:
            assert repr(direct.kept(spine)) == repr(indirect.kept(spine))


@pytest.mark.parametrize("kind", [it for it in KINDS if pa.types.is_decimal(it)], ids=str)
def test_the_widest_decimals_come_through_both_ways(kind: pa.DataType) -> None:
    below = pa.schema([("g", pa.string()), ("x", kind)])
    node = node_over(Function.COUNT_COLUMN, Function.SUM)
    direct = Stepper(operator_of(node, [below]))
    indirect = Stepper(operator_of(node, [below], partial=True))
    top = 10**kind.precision - 1
    for units in ([top, -top, top // 10**7, 1], [-(top // 10**7), -1, -1], [-top, -top // 10**11, top]):
        rows = [{"g": "a", "x": Decimal(it).scaleb(-kind.scale, EXACT), WEIGHT: 1} for it in units]
        changes = pa.RecordBatch.from_pylist(rows, schema=below.append(pa.field(WEIGHT, pa.int64())))
        parts = partial_inputs_of(node, indirect.operator, changes)
        told = indirect.tick(**{name: part.to_pylist() for name, part in parts.items()})
        assert direct.tick(changes=rows) == told
        assert direct.kept("sums") == indirect.kept("sums")


def test_the_inputs_that_sql_makes_are_those_that_the_step_wants() -> None:
    below = pa.schema([("g", pa.string()), *((f"x{i}", kind) for i, kind in enumerate(KINDS))])
    every = [Call(f"s{i}", Function.SUM, f"x{i}") for i in range(len(KINDS))]
    for calls in (
        [Call("n", Function.COUNT)],
        every[:2],
        every,
        [Call("m", Function.MAX, "x1"), *every[4:5]],
    ):
        node = Aggregate(TABLE, ("g",), tuple(calls))
        operator = operator_of(node, [below], partial=True)
        told = partial_sql(node, [below])
        assert [it.name for it in told] == list(operator.inputs)
        for it in told:
            wanted = [name for name in operator.inputs[it.name].names if name != HASH]
            assert sorted(wanted) == sorted(some.name for some in (*it.by, *it.sums))


def test_rows_that_are_not_plain_are_told_from_the_others() -> None:
    (argument,) = arguments_of(node_over(Function.SUM), pa.schema([("x", pa.float64())]))
    wild = [math.nan, math.inf, -math.inf, 2.0**66, -(2.0**66), np.nextafter(2.0**-62, 0), 5e-324]
    tame = [0.0, -0.0, 2.0**-62, -(2.0**-62), np.nextafter(2.0**66, 0), 0.1, None]
    assert not any(is_plain(argument, value) for value in wild)
    assert all(is_plain(argument, value) for value in tame)
