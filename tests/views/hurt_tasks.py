"""Tasks that are killed or fail, each once, and that Spark tries again: run by the tests as a program.

It has a session of its own, which gives each task four attempts. ``expressions``: a function that the views'
SQL calls is where it happens. ``stores``: it happens before and after each operation of a task on its store.
Prints how often it happened.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock as ps
from penstock.spark import session
from penstock.store import LocalStore
from penstock.store.faulty import When
from tests.views.hurt import DriverStore, TaskStore, Trap
from tests.views.script import Script

__all__ = ["scripted"]

DEEDS = 10
MOST = 22  # operations of a task, and some more


def scripted(mode: str) -> Script:
    """In tasks is what needs Spark: so each view does."""
    amount = "hurt(amount)" if mode == "expressions" else "amount + 0"
    views = {
        "sums": f"SELECT upper(customer) AS customer, SUM({amount}) AS total, COUNT(*) AS n FROM orders"
        " GROUP BY upper(customer)",
        "large": "SELECT customer, total * 2 AS doubled FROM sums WHERE n > 1",
    }
    return Script(DEEDS if mode == "expressions" else 2 * MOST, views, {})


def hurt_expressions(spark: SparkSession, folder: Path, script: Script) -> int:
    trap = Trap(folder / "trap")
    register(spark, trap)
    times = 0
    with ps.connect(folder / "db", spark=spark) as db:
        script.go_on(db, 2)
        for number in range(2, len(script.deeds)):
            trap.set("kill" if number % 2 else "fail")
            script.go_on(db, number + 1)
            assert not trap.is_set
            times += 1
    return times


def register(spark: SparkSession, trap: Trap) -> None:
    def hurt(amount: Any) -> Any:
        trap()
        return amount

    spark.udf.register("hurt", hurt, "decimal(12, 2)")


def hurt_stores(spark: SparkSession, folder: Path, script: Script) -> int:
    trap = Trap(folder / "trap")
    place = LocalStore(folder / "db", fsync=False)
    done = times = 0
    ways: list[When] = ["before", "after"]
    for when in ways:
        for at in itertools.count(1):
            state = DriverStore(place, in_tasks=TaskStore(place, trap, at, when))
            trap.set("fail" if at % 4 == 0 else "kill")
            done += 1
            with ps.connect(folder / "db", state=state, spark=spark) as db:
                script.go_on(db, done)
            if trap.is_set:  # no task has so many operations
                break
            times += 1
    with ps.connect(folder / "db", spark=spark) as db:
        script.go_on(db)
    return times


def main(folder: str, mode: str) -> None:
    spark = session("local[2,4]", {"spark.sql.shuffle.partitions": "2"})
    script = scripted(mode)
    path = Path(folder)
    register(spark, Trap(path / "never set"))
    with ps.connect(path / "calm", spark=spark) as db:
        script.go_on(db)
    (path / "hurt").mkdir()
    act = {"expressions": hurt_expressions, "stores": hurt_stores}[mode]
    print(act(spark, path / "hurt", script))
    with ps.connect(path / "hurt" / "db", spark=spark) as db:
        assert db.refresh() == []  # takes over


if __name__ == "__main__":
    main(*sys.argv[1:])
