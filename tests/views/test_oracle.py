"""After every tick each view is what Spark's batch answer over the tables is: for every query there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.changes import ZSet
from penstock.views import Ticked
from tests.sql.queries import QUERIES, Case
from tests.views.histories import History, check_views, in_groups, made

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("cases", in_groups(QUERIES, 14), ids=lambda it: it[0].name)
def test_every_query_is_right_after_every_tick(
    tmp_path: Path, spark: SparkSession, cases: list[Case]
) -> None:
    history = History(len(cases[0].sql))
    views = {f"v{i}": case.sql for i, case in enumerate(cases)}
    early = dict(list(views.items())[: len(views) // 2])
    with made(str(tmp_path), spark, early) as db:
        told: dict[str, ZSet] = {}
        seen: dict[str, int] = {}
        history.begin(db)
        db.refresh()
        check_views(db, spark, early, told, seen)
        for name, sql in views.items():  # the others come later, and find the tables full
            if name not in early:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        for _ in range(2):
            history.go_on(db)
        ticks: list[Ticked] = []

        def check(ticked: Ticked) -> None:
            ticks.append(ticked)
            check_views(db, spark, views, told, seen)

        db.refresh(max_rows_per_tick=history.random.choice([4, 9, 1000]), progress=check)
        assert ticks
