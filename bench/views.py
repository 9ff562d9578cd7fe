"""``python -m bench views``: views kept right, beside Spark's own ways of following a table.

Everything runs on one session, local[2], on the same data in the same run. PENSTOCK_BENCH_SCALE (default 1)
scales the tables; the deltas stay.
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.harness import Compared, compare
from bench.views_data import Facts
from bench.views_spark import Streaming
from bench.views_tpch import tpch
from penstock.log import LogOptions
from penstock.spark import session

SCALE = float(os.environ.get("PENSTOCK_BENCH_SCALE", "1"))
SUMS = "SELECT k, sum(v) AS total, count(*) AS n FROM facts GROUP BY k"
CHAIN = (
    "SELECT k, sum(v) AS total, count(*) AS n FROM facts GROUP BY k",
    "SELECT k % 100000 AS k, sum(total) AS total, sum(n) AS n FROM c1 GROUP BY k % 100000",
    "SELECT k % 10000 AS k, sum(total) AS total, sum(n) AS n FROM c2 GROUP BY k % 10000",
    "SELECT k % 1000 AS k, sum(total) AS total, sum(n) AS n FROM c3 GROUP BY k % 1000",
    "SELECT k % 100 AS k, sum(total) AS total, sum(n) AS n FROM c4 GROUP BY k % 100",
)


def main() -> None:
    spark = session("local[2]", {"spark.driver.memory": "8g"})
    results: list[Compared] = []
    remarks = [f"Spark {spark.version}, local[2]; tables at scale {SCALE:g}."]
    keys = int(10_000_000 * SCALE)
    for label, live, target in (("a. 10 M keys", keys, 5.0), ("b. 100 k keys", int(100_000 * SCALE), 3.0)):
        results += list(sums_by_key(spark, label, live, target))
    results += list(chain(spark, keys))
    results += list(extremes(spark, keys))
    results += list(growth(spark, keys))
    results += list(tpch(spark, SCALE))
    compare("views", results, remarks)


def database(folder: str, spark: object) -> ps.Database:
    return ps.connect(folder, spark=spark, log_options=LogOptions(fsync="interval"))  # type: ignore[arg-type]


def sums_by_key(spark: object, label: str, keys: int, target: float) -> Iterator[Compared]:
    """Deltas of a million changes over so many keys; then the floor of a tick."""
    rounds, small = 4, 20
    with tempfile.TemporaryDirectory() as folder, database(f"{folder}/db", spark) as db:
        facts = Facts(keys, 7)
        streaming = Streaming(spark, folder)
        db.sql(f"CREATE TABLE facts (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW sums AS {SUMS}")
        table = db.table("facts")
        for part in facts.load():
            table.append_changes(part)
            streaming.give(part)
        db.refresh()
        streaming.follow()
        ours, theirs = [], []
        for _ in range(rounds):
            delta = facts.delta(1_000_000)
            table.append_changes(delta)
            ours.append(delta.num_rows / timed(db.refresh))
            streaming.give(delta)
            theirs.append(delta.num_rows / streaming.follow())
        mine, its = statistics.median(ours), statistics.median(theirs)
        note = "retraction pairs written durably; Spark's emits no retractions"
        yield Compared(
            f"{label}: sums and counts, deltas of 1 M changes",
            f"{mine:,.0f} rows/s",
            f"Spark's streaming aggregation, RocksDB: {its:,.0f} rows/s",
            mine / its,
            target,
            note=note,
        )
        check(db, facts)
        ours, theirs = [], []
        for _ in range(small):
            delta = facts.delta(1_000)
            table.append_changes(delta)
            ours.append(timed(db.refresh))
            streaming.give(delta)
            theirs.append(streaming.follow())
        mine, its = statistics.median(ours), statistics.median(theirs)
        yield Compared(
            f"d. a tick of 1,000 rows over {keys:,} keys",
            f"{mine * 1e3:.0f} ms",
            f"a micro-batch of Spark's: {its * 1e3:.0f} ms",
            mine / its,
            0.3,
            at_most=True,
        )
        streaming.stop()


def check(db: ps.Database, facts: Facts) -> None:
    """The view is right: a quick one that is wrong would be worth nothing."""
    (row,) = db.query("SELECT count(*) AS k, sum(total) AS total, sum(n) AS n FROM sums").rows()
    assert row == facts.summary(), (row, facts.summary())


def chain(spark: object, keys: int) -> Iterator[Compared]:
    """Five views, each on the one before, and one."""
    with tempfile.TemporaryDirectory() as folder, database(folder, spark) as db:
        facts = Facts(keys, 11)
        db.sql("CREATE TABLE facts (k BIGINT, v BIGINT)")
        for part in facts.load():
            db.table("facts").append_changes(part)
        db.sql(f"CREATE MATERIALIZED VIEW one WITH (pipeline = 'one') AS {CHAIN[0]}")
        for number, sql in enumerate(CHAIN, 1):
            db.sql(f"CREATE MATERIALIZED VIEW c{number} WITH (pipeline = 'five') AS {sql}")
        db.refresh()
        one, five = ticks(db, facts, ["one", "five"], 15)
        yield Compared(
            "d. a chain of five views, ticks of 1,000 rows",
            f"{five * 1e3:.0f} ms",
            f"one view: {one * 1e3:.0f} ms",
            five / one,
            3.0,
            at_most=True,
        )


def extremes(spark: object, rows: int) -> Iterator[Compared]:
    """The current extremes are deleted, again and again."""
    views = {
        "sum": "SELECT sum(v) AS s FROM facts",
        "extreme": "SELECT min(v) AS lo, max(v) AS hi FROM facts",
        "distinct": "SELECT count(DISTINCT v) AS d FROM facts",
        "sum_by": "SELECT g, sum(v) AS s FROM facts GROUP BY g",
        "extreme_by": "SELECT g, min(v) AS lo, max(v) AS hi FROM facts GROUP BY g",
        "distinct_by": "SELECT g, count(DISTINCT v) AS d FROM facts GROUP BY g",
    }
    with tempfile.TemporaryDirectory() as folder, database(folder, spark) as db:
        db.sql("CREATE TABLE facts (g BIGINT, v BIGINT)")
        values = np.random.default_rng(3).permutation(rows).astype(np.int64)
        groups = values % 1000
        order = np.argsort(values)
        table = db.table("facts")
        for start in range(0, rows, 1_000_000):
            part = slice(start, start + 1_000_000)
            table.append_changes(pa.table({"g": groups[part], "v": values[part]}))
        for name, sql in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (pipeline = '{name}') AS {sql}")
        db.refresh()
        took: dict[str, list[float]] = {name: [] for name in views}
        for number in range(12):
            ends = np.concatenate(
                [order[number * 500 : number * 500 + 500], order[::-1][number * 500 : number * 500 + 500]]
            )
            gone = pa.table({"g": groups[ends], "v": values[ends], "_weight": np.full(len(ends), -1)})
            table.append_changes(gone)
            for name in views:
                took[name].append(timed(db._workspace.pipeline(name).refresh))
        found = {name: statistics.median(times[2:]) for name, times in took.items()}
        for name, base in (
            ("extreme", "sum"),
            ("distinct", "sum"),
            ("extreme_by", "sum_by"),
            ("distinct_by", "sum_by"),
        ):
            yield Compared(
                f"e. {views[name].removesuffix(' FROM facts')}, 1,000 rows of {rows:,}",
                f"{found[name] * 1e3:.0f} ms",
                f"SUM: {found[base] * 1e3:.0f} ms",
                found[name] / found[base],
                2.0,
                at_most=True,
            )


def growth(spark: object, keys: int) -> Iterator[Compared]:
    """Ten times the table at the same delta; and a thousand ticks."""
    medians = []
    for live in (keys // 10, keys):
        with tempfile.TemporaryDirectory() as folder, database(folder, spark) as db:
            facts = Facts(live, 5)
            db.sql(f"CREATE TABLE facts (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW sums AS {SUMS}")
            for part in facts.load():
                db.table("facts").append_changes(part)
            db.refresh()
            (median,) = ticks(db, facts, ["main"], 30)
            medians.append(median)
            if live == keys:
                yield from thousand(db, facts, Path(folder))
    yield Compared(
        "f. ten times the table, the same delta",
        f"{medians[1] * 1e3:.0f} ms",
        f"{medians[0] * 1e3:.0f} ms",
        medians[1] / medians[0],
        1.5,
        at_most=True,
    )


def thousand(db: ps.Database, facts: Facts, folder: Path) -> Iterator[Compared]:
    begun, wanted = 0.0, 1000
    for number in range(wanted):
        db.table("facts").append_changes(facts.delta(1_000))
        db.refresh()
        if number == 100:
            begun = memory()
    grown = memory()
    yield Compared(
        f"f. memory of the driver after {wanted} ticks",
        f"{grown:,.0f} MB",
        f"after 100: {begun:,.0f} MB",
        grown / begun,
        1.2,
        at_most=True,
    )
    state = sum(
        it.stat().st_size for it in (folder / "pipelines" / "main" / "runs").rglob("*") if it.is_file()
    )
    # What is live: a key, its sums and its count, in the widths that a spine keeps them in.
    live = facts.live * 8 * 6
    yield Compared(
        "f. state on disk after 1,000 ticks",
        f"{state / 1e6:,.0f} MB",
        f"live: {live / 1e6:,.0f} MB",
        state / live,
        3.0,
        at_most=True,
    )


def ticks(db: ps.Database, facts: Facts, pipelines: list[str], count: int) -> list[float]:
    """Median seconds of a tick of 1,000 rows, for each pipeline, in turns."""
    took: list[list[float]] = [[] for _ in pipelines]
    for _ in range(count):
        db.table("facts").append_changes(facts.delta(1_000))
        for name, times in zip(pipelines, took, strict=True):
            times.append(timed(db._workspace.pipeline(name).refresh))
    return [statistics.median(times[3:]) for times in took]


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def memory() -> float:
    """MB that this process has in memory now, but for files it has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
