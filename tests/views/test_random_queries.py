"""Random queries over random histories cut into random ticks: always Spark's batch answer. 160 cases."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import Phase, given, seed, settings
from pyspark.sql import SparkSession

from penstock.changes import ZSet
from tests.sql.random_queries import queries
from tests.views.histories import History, check_views, made

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

VIEWS = 16


@pytest.mark.parametrize("number", range(10))
def test_a_random_query_is_right_after_every_tick(tmp_path: Path, spark: SparkSession, number: int) -> None:
    history = History(number)
    views = {f"r{i}": sql for i, sql in enumerate(_drawn(number))}
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


def _drawn(number: int) -> list[str]:
    """So many different queries, the same ones in every run."""
    drawn: dict[str, None] = {}

    @seed(number)
    @settings(max_examples=100, database=None, deadline=None, phases=[Phase.generate])
    @given(queries())
    def draw(sql: str) -> None:
        drawn[sql] = None

    draw()
    return random.Random(number).sample(sorted(drawn), VIEWS)
