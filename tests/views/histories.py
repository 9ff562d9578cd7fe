"""Random histories over the tables of `tests.sql.catalog`, and the oracle: Spark over their content."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock as ps
from penstock.changes import ZSet
from penstock.spark.types import arrow_schema, spark_schema, without_promises
from tests.sql.catalog import CREATE, TABLES

__all__ = ["History", "batch_answer", "check_views", "made"]


class History:
    """Changes drawn at random: rows repeat one another, keys come again and go, and NULL is everywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._pools = {
            name: {it: table.rows.column(it).to_pylist() for it in table.schema.names}
            for name, table in TABLES.items()
        }
        self._items: list[dict[str, Any]] = []

    def begin(self, db: ps.Database) -> None:
        """The tables as the catalog has them, or some of their rows."""
        for name, table in TABLES.items():
            rows = table.rows.to_pylist()
            some = [row for row in rows if self.random.random() < 0.6]
            db.table(name).insert(some)
            if name == "items":
                self._items = some

    def go_on(self, db: ps.Database) -> None:
        """A few transactions over one table or several."""
        for _ in range(self.random.randint(1, 5)):
            if self.random.random() < 0.3:
                with db.transaction():
                    for name in self.random.sample(sorted(TABLES), 2):
                        self._change(db, name)
            else:
                self._change(db, self.random.choice(sorted(TABLES)))

    def _change(self, db: ps.Database, name: str) -> None:
        table, draw = db.table(name), self.random
        if name == "items":
            if draw.random() < 0.5 and self._items:
                gone = [
                    self._items.pop(draw.randrange(len(self._items))) for _ in range(min(3, len(self._items)))
                ]
                table.delete(gone)
            else:
                new = [self._row(name) for _ in range(draw.randint(1, 6))]
                new += [draw.choice(new)]
                self._items += new
                table.insert(new)
            return
        ids = [draw.randint(1, 45) for _ in range(draw.randint(1, 8))]
        if draw.random() < 0.35:
            table.delete([{"id": it} for it in ids])
        else:
            table.upsert([{**self._row(name), "id": it} for it in ids])

    def _row(self, name: str) -> dict[str, Any]:
        return {it: self.random.choice(pool) for it, pool in self._pools[name].items()}


def made(folder: str, spark: SparkSession, views: Mapping[str, str]) -> ps.Database:
    """A database with the catalog's tables and these views."""
    db = ps.connect(folder, spark=spark)
    db.sql(CREATE)
    for name, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    return db


def batch_answer(spark: SparkSession, sql: str) -> pa.Table:
    """What Spark says of the query over the temporary views of now."""
    frame = spark.sql(sql)
    names = frame.columns
    assert len(set(names)) == len(names)
    return frame.toArrow()


def check_views(
    db: ps.Database,
    spark: SparkSession,
    views: Mapping[str, str],
    told: dict[str, ZSet],
    seen: dict[str, int],
) -> None:
    """Each view is Spark's answer over the tables as of the frontier, and what its changes add up to."""
    log = db.log("views/main")
    manifest = db._workspace.pipeline("main").log.newest()
    assert manifest is not None
    for name in TABLES:
        table = db._workspace.catalog.read().table(name)
        rows = db._workspace.reader(table).table_at(manifest.frontier.get("main", 0))
        frame = spark.createDataFrame(rows if rows.num_rows else [], spark_schema(rows.schema))
        frame.createOrReplaceTempView(name)
    for name, sql in views.items():
        view = db.view(name)
        content = view.snapshot()
        expected = batch_answer(spark, sql)
        assert _types(content.schema) == _types(expected.schema), name
        found = ZSet.from_arrow(content)
        wanted = ZSet.from_arrow(expected.cast(content.schema))
        assert found == wanted, f"{name}: {sql}\n{(found - wanted).consolidate()!r}"
        for changes in view.changes(seen.get(name, 0)):
            some = changes.zset()
            told[name] = some if name not in told else (told[name] + some).consolidate()
        seen[name] = log.current_lsn
        if name in told:
            assert told[name] == found, f"{name}: the changes do not add up to the content"
        else:
            assert found.is_zero(), name


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    plain = without_promises(arrow_schema(spark_schema(schema)))
    return [(it.name, it.type) for it in plain]


def in_groups(items: Iterable[Any], size: int) -> list[list[Any]]:
    """Parts of so many."""
    listed = list(items)
    return [listed[i : i + size] for i in range(0, len(listed), size)]
