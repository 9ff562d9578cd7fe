"""What Spark adds up is what Python's own numbers add up, column by column, for values of every size."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes.names import WEIGHT
from penstock.operators import InputSql, operator_of, partial_sql
from penstock.plan import Aggregate, Call, Function, Scan
from penstock.spark.session import session
from penstock.spine import HASH
from tests.operators.model import plain
from tests.operators.partials_model import partial_inputs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXACT = Context(prec=100)
ROWS = 400
KINDS = {
    "tiny": pa.int8(),
    "small": pa.int32(),
    "big": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "money": pa.decimal128(12, 2),
    "narrow": pa.decimal128(18, 18),
    "whole": pa.decimal128(19, 0),
    "usual": pa.decimal128(28, 10),
    "wide": pa.decimal128(38, 0),
    "spark's": pa.decimal128(38, 18),
    "fine": pa.decimal128(38, 38),
}
BELOW = pa.schema([("a group", pa.string()), *KINDS.items()])


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    was_there = SparkSession.getActiveSession() is not None
    found = session() if was_there else session("local[2]")
    yield found
    if not was_there:
        found.stop()


def value(chance: random.Random, kind: pa.DataType) -> Any:
    """Any value that the type holds: NULLs, the ends, what is near a border, and what is usual."""
    if chance.random() < 0.1:
        return None
    if pa.types.is_integer(kind):
        top = 2 ** (kind.bit_width - 1)
        return chance.choice([-top, top - 1, 0, -1, 2**32 % top, chance.randrange(-top, top)])
    if pa.types.is_decimal(kind):
        top = 10**kind.precision - 1
        units = [-top, top, 0, -1, 10**18 % top, -(10 ** min(kind.scale, kind.precision - 1))]
        plain_top = min(10 ** (18 + kind.scale), top)  # the widest that is added up before
        drawn = [chance.randint(-it, it) for it in (top, plain_top, plain_top, min(10**6, top))]
        some = chance.choice([*units, plain_top, 1 - plain_top, *drawn])
        return Decimal(some).scaleb(-kind.scale, EXACT)
    wild = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, -1.7e308, 2.0**66, 2.0**-62]
    near = [np.nextafter(2.0**66, 0), -np.nextafter(2.0**-62, 0), 2.0**46 + 2.0**13, -(2.0**14) - 0.5]
    usual = chance.uniform(-1, 1) * 2.0 ** chance.randint(-70, 70)
    told = float(chance.choice([*wild, *near, usual, usual, usual, chance.randint(-100, 100) / 10]))
    return (
        float(np.float32(told))
        if kind == pa.float32() and abs(told) < 3e38
        else told
        if kind != pa.float32()
        else 0.5
    )


def changes_of(seed: int, names: list[str]) -> pa.RecordBatch:
    chance = random.Random(seed)
    rows = [
        {
            "a group": chance.choice(["x", "y", None]),
            **{name: value(chance, KINDS[name]) for name in names},
            WEIGHT: chance.choice([1, 1, -1, 3, 1000]),
        }
        for _ in range(ROWS)
    ]
    schema = pa.schema([BELOW.field("a group"), *(BELOW.field(name) for name in names), (WEIGHT, pa.int64())])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def made(changes: DataFrame, told: InputSql) -> DataFrame:
    """As `InputSql` says it."""
    changes.createOrReplaceTempView("changes_below")
    columns = ", ".join(f"{it.sql} AS `{it.name}`" for it in (*told.by, *told.sums))
    where = "" if told.where is None else f" WHERE {told.where}"
    by = f" GROUP BY {', '.join(it.sql for it in told.by)}" if told.sums and told.by else ""
    having = "" if told.having is None else f" HAVING {told.having}"
    return changes.sparkSession.sql(f"SELECT {columns} FROM changes_below{where}{by}{having}")


@pytest.mark.parametrize(
    "names",
    [
        ["tiny", "small", "big", "money", "narrow"],
        ["single", "double"],
        ["whole", "usual"],
        ["wide", "spark's", "fine"],
    ],
)
def test_spark_adds_up_what_python_does(spark: SparkSession, names: list[str]) -> None:
    keys = ("a group",)
    calls = [Call(f"of {name}", Function.SUM, name) for name in names]
    calls.append(Call("least", Function.MIN, names[0]))
    changes = changes_of(7, names)
    below = changes.schema.remove(changes.schema.get_field_index(WEIGHT))
    node = Aggregate(Scan("main", "t"), keys, tuple(calls))
    operator = operator_of(node, [below], partial=True)
    right = partial_inputs_of(node, operator, changes)
    frame = spark.createDataFrame(pa.Table.from_batches([changes]))
    for told in partial_sql(node, [below]):
        schema = operator.inputs[told.name]
        wanted = [it for it in schema.names if it != HASH]
        said = made(frame, told).toArrow().select(wanted)
        assert said.schema.types == [schema.field(it).type for it in wanted]
        rows = [tuple(map(plain, row.values())) for row in said.to_pylist()]
        expected = [tuple(map(plain, row.values())) for row in right[told.name].select(wanted).to_pylist()]
        assert len(rows) == len(expected) > 0
        assert sorted(rows, key=repr) == sorted(expected, key=repr)
