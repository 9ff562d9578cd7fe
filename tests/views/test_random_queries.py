"""Random queries over random histories cut into random ticks: always Spark's batch answer. 160 cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.changes import ZSet
from tests.views.histories import History, check_views, made
from tests.views.random_queries import random_query

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

VIEWS = 16


@pytest.mark.parametrize("seed", range(10))
def test_a_random_query_is_right_after_every_tick(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    history = History(seed)
    views = {f"r{i}": random_query(1000 * seed + i) for i in range(VIEWS)}
    with made(str(tmp_path), spark, views) as db:
        told: dict[str, ZSet] = {}
        seen: dict[str, int] = {}
        history.begin(db)
        ticks = db.refresh()
        check_views(db, spark, views, told, seen)
        history.go_on(db)
        ticks += db.refresh(
            max_rows_per_tick=history.random.choice([7, 15, 1000]),
            progress=lambda _: check_views(db, spark, views, told, seen),
        )
        assert len(ticks) > 1
