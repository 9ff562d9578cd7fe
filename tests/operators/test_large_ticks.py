"""Ticks of more rows than a batch has: what comes out is cut, and nothing is lost or told twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes import Op, xxhash64
from penstock.changes.names import LSN, OP, WEIGHT
from penstock.operators import Operator, operator_of
from penstock.operators.batches import BATCH_ROWS
from penstock.plan import Aggregate, Call, Distinct, Function, Join, Keyed, On, Scan
from penstock.spine import HASH, ShardState

TABLE = Scan("main", "t")
COLUMNS = pa.schema([("k", pa.int64()), ("x", pa.int64())])
MANY = BATCH_ROWS + BATCH_ROWS // 2
EVERY = tuple(
    Call(it.value, it, "x")
    for it in (Function.COUNT_COLUMN, Function.SUM, Function.AVG, Function.MIN, Function.COUNT_DISTINCT)
)


def rows(x: int, weight: int) -> pa.RecordBatch:
    """Each key once."""
    keys = np.arange(MANY)
    ops = np.full(MANY, Op.INSERT if weight > 0 else Op.DELETE, np.int8)
    columns = {"k": keys, "x": np.full(MANY, x), WEIGHT: np.full(MANY, weight), OP: ops, LSN: keys}
    return pa.record_batch(columns)


def run(
    operator: Operator, state: ShardState, came: Mapping[str, Sequence[pa.RecordBatch]]
) -> list[pa.RecordBatch]:
    inputs = {}
    for name, batches in came.items():
        key = operator.keys[name]
        hashed = [it.append_column(HASH, pa.array(xxhash64([it[c] for c in key]))) for it in batches]
        inputs[name] = [piece for it in hashed for piece in cut(it)]
    return list(operator.step(inputs, state))


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """As Spark gives rows."""
    return (batch.slice(start, 10_000) for start in range(0, len(batch), 10_000))


@pytest.mark.parametrize(
    "node",
    [
        Keyed(TABLE, ("k",)),
        Distinct(TABLE),
        Aggregate(TABLE, ("k",), EVERY),
        Join(TABLE, Scan("main", "u"), (On("k", "j"),)),
    ],
    ids=lambda node: type(node).__name__,
)
def test_a_large_tick_is_cut_into_batches_and_can_be_taken_back(
    node: Keyed | Distinct | Aggregate | Join,
) -> None:
    other = pa.schema([("j", pa.int64()), ("z", pa.int64())])
    operator = operator_of(node, [COLUMNS, other] if isinstance(node, Join) else [COLUMNS])
    state = ShardState.in_memory(operator.layouts)
    total = 0
    for tick, (x, weight) in enumerate([(1, 1), (1, -1)]):
        first, *more = operator.inputs
        came = {first: [rows(x, weight)]}
        if more and not tick:
            came["right"] = [rows(x, weight).rename_columns(["j", "z", WEIGHT, OP, LSN])]
        said = run(operator, state, came)
        assert all(0 < len(batch) <= BATCH_ROWS for batch in said)
        assert sum(map(len, said)) == MANY
        total += sum(sum(batch[WEIGHT].to_pylist()) for batch in said)
        state = state.after(state.finish(), f"{tick}/")
    assert total == 0
    left = [name for name in operator.layouts if list(state.spine(name).scan())]
    assert left == (["right"] if isinstance(node, Join) else [])
