"""A query's plan means what the query means."""

from __future__ import annotations

import pytest

from penstock.plan import in_order, schema_of
from penstock.sql import plan_of
from tests.sql.catalog import TABLES, Tables
from tests.sql.engine import Engine
from tests.sql.queries import QUERIES, Case

COLLECTIONS = {("main", name): table.schema for name, table in TABLES.items()}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_there_are_many_queries_and_no_two_of_one_name() -> None:
    assert len({case.name for case in QUERIES}) == len(QUERIES) >= 60


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name)
def test_a_plan_gives_the_querys_answer(case: Case, engine: Engine) -> None:
    plan = plan_of(case.sql, Tables(), engine.types)
    expected = engine.query(case.sql)
    assert engine.plan(plan.node) == expected
    assert schema_of(plan.node, COLLECTIONS, engine.types).names == list(plan.columns)
    assert expected or "nothing" in case.name, "a query without rows tells little"


@pytest.mark.parametrize("case", QUERIES, ids=lambda case: case.name)
def test_the_same_words_make_the_same_plan(case: Case, engine: Engine) -> None:
    one, other = (plan_of(case.sql, Tables(), engine.types).node for _ in range(2))
    assert one == other
    assert [it.fingerprint for it in in_order([one])] == [it.fingerprint for it in in_order([other])]
