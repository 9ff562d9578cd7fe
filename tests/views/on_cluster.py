"""A scripted run gone on with on a cluster of several processes: run by the tests as a program.

Spark's own ``local-cluster``: executors are processes of their own, which share nothing with the driver but
the state's address. A tick has as many shards as asked for, however few rows it has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

import penstock as ps
from penstock.spark import session
from penstock.views import pipeline
from tests.sql.queries import QUERIES
from tests.views.histories import History, check_views, made
from tests.views.script import Script

__all__ = ["DEEDS", "force_shards"]

DEEDS = 7
MASTER = "local-cluster[2,1,1024]"


def force_shards(shards: int) -> None:
    """From now on each tick of this process has so many."""
    pipeline.shards_for = lambda rows, parallelism: shards


def go_on(folder: str, state: str, upto: int, shards: int) -> None:
    force_shards(shards)
    with ps.connect(folder, state=state) as db:
        Script(DEEDS).go_on(db, upto)


def answer(folder: str) -> None:
    """Some queries of all kinds, against Spark's own answers on this cluster."""
    views = {f"v{i}": case.sql for i, case in enumerate(QUERIES[::20])}
    history = History(3)
    spark = session()
    force_shards(4)
    with made(folder, spark, views) as db:
        told: dict[str, object] = {}
        seen: dict[str, int] = {}
        for act in (history.begin, history.go_on):
            act(db)
            db.refresh()
            check_views(db, spark, views, told, seen)  # type: ignore[arg-type]


def main(folder: str, state: str, upto: str, shards: str) -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_SCALA_VERSION"] = "2.13"
    spark = session(MASTER, {"spark.sql.shuffle.partitions": "2"})
    go_on(folder, state, int(upto), int(shards))
    answer(f"{folder}-queries")
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # less the driver
    print(executors)


if __name__ == "__main__":
    main(*sys.argv[1:])
