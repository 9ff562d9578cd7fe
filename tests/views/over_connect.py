"""A scripted run through Spark Connect: run by the tests as a program, with what it is to do.

``serve`` starts a server and keeps it until its input ends; ``run`` is a driver that has no Java in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import QueryFailed
from penstock.spark import session
from tests.views.on_cluster import force_shards
from tests.views.script import Script, check_run, contents_by_frontier

DEEDS = 4


def serve(port: str) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    session("local[2]", settings)
    print("serving", flush=True)
    sys.stdin.read()


def run(port: str, folder: str) -> None:
    script, master = Script(DEEDS), f"sc://127.0.0.1:{port}"
    with ps.connect(Path(folder) / "calm", master=master) as db:
        script.go_on(db)
        expected = contents_by_frontier(db)
        db.sql("CREATE MATERIALIZED VIEW picky AS SELECT 1 / (n - n) AS x FROM sums")
        with pytest.raises(QueryFailed, match="'picky'"):
            db.refresh()
    force_shards(4)
    with ps.connect(Path(folder) / "other", master=master) as db:
        script.go_on(db)
        check_run(db, script, expected)


if __name__ == "__main__":
    {"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:])
