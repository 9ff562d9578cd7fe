"""Ticks of many rows: several shards, sums added up by Spark before, tasks that read the log themselves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.changes import ZSet
from penstock.spark import Registration
from penstock.views import pipeline as pipelines

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = 120_000
VIEWS = {
    # Right above the log: no expression is below the aggregate.
    "plain": "SELECT k, sum(d) AS d, sum(v) AS v, count(*) AS n, min(v) AS lo FROM facts GROUP BY k",
    # Spark computes, and adds up before the shuffle: many rows become few.
    "summed": (
        "SELECT k % 50 AS k, sum(d * 2) AS d, avg(v) AS v, max(d) AS hi, count(DISTINCT v) AS many, "
        "count(*) AS n FROM facts WHERE v <> 7 GROUP BY k % 50"
    ),
    # The same where nothing becomes fewer.
    "scattered": "SELECT i + 1 AS i, sum(v) AS v FROM facts GROUP BY i + 1",
    "total": "SELECT sum(d) AS d, count(*) AS n, max(v + 1) AS hi FROM facts",
    "joined": "SELECT a.k, count(*) AS n FROM plain a JOIN facts b ON a.k = b.k AND b.v < 3 GROUP BY a.k",
}


def facts(seed: int, start: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    doubles = draw.choice(
        [0.1, 0.2, 1e17, -3.5, 5e-324, 1e300, float("nan")], ROWS, p=[0.3, 0.3, 0.1, 0.28, 0.01, 0.005, 0.005]
    )
    return pa.table(
        {
            "i": np.arange(start, start + ROWS),
            "k": draw.integers(0, 300, ROWS),
            "v": pa.array(draw.integers(0, 40, ROWS), mask=draw.random(ROWS) < 0.1),
            "d": pa.array(doubles, mask=draw.random(ROWS) < 0.1),
        }
    )


def test_a_tick_of_many_rows_is_right_whichever_way_it_is_run(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[list[Registration]] = []
    run = pipelines.Executor.run
    monkeypatch.setattr(pipelines.Executor, "run", lambda self, job: told.append(run(self, job)) or told[-1])
    with ps.connect(tmp_path, spark=spark) as db:
        db.sql("CREATE TABLE facts (i BIGINT, k BIGINT, v BIGINT, d DOUBLE)")
        for name, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        table, first, second = db.table("facts"), facts(1, 0), facts(2, ROWS)
        table.insert(first)
        db.refresh()
        check(db, spark, first)
        gone = first.slice(0, ROWS // 2)
        with db.transaction():
            table.insert(second)
            table.delete(gone)
        db.refresh()
        check(db, spark, pa.concat_tables([first.slice(ROWS // 2), second]))
    assert {it.part for it in told[0] if not it.what.startswith("view-")} == {0, 1}
    fewest = [sum(it.told["rows"] for it in some if "rows" in it.told) for some in told]
    assert all(rows > ROWS for rows in fewest)


def check(db: ps.Database, spark: SparkSession, rows: pa.Table) -> None:
    spark.createDataFrame(rows).createOrReplaceTempView("facts")
    for name, sql in VIEWS.items():
        content = db.view(name).snapshot()
        # Spark adds doubles in any order, and so not exactly: those are compared with the exact sums.
        others = content.select([it for it in content.column_names if it != "d"])
        expected = spark.sql(sql).drop("d").toArrow().cast(others.schema)
        assert ZSet.from_arrow(others) == ZSet.from_arrow(expected), name
        if "d" in content.column_names:
            check_doubles(content, rows, name)
        if name == "plain":
            spark.createDataFrame(content).createOrReplaceTempView("plain")


def check_doubles(content: pa.Table, rows: pa.Table, name: str) -> None:
    """Each sum is what `math.fsum` gives over the rows that are left, doubled where the view doubles them."""
    keys = rows.column("k").to_numpy()
    doubles = rows.column("d").to_numpy()
    some = rows.column("d").is_valid().to_numpy()
    if name == "summed":
        values = rows.column("v")
        some &= values.is_valid().to_numpy() & (values.fill_null(7).to_numpy() != 7)
        keys, doubles = keys % 50, doubles * 2
    if name == "total":
        keys = np.zeros(len(keys), np.int64)
    for row in content.to_pylist():
        mine = doubles[(keys == row.get("k", 0)) & some]
        expected = math.fsum(mine) if not np.isnan(mine).any() else math.nan
        assert row["d"] == expected or (math.isnan(row["d"]) and math.isnan(expected)), (name, row)
