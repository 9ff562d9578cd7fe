"""Random queries become plans that mean the same; nonsense becomes an error of ours, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.plan import in_order
from penstock.sql import parse, plan_of, references, to_duckdb
from tests.sql.catalog import CREATE, Tables
from tests.sql.engine import Engine
from tests.sql.queries import QUERIES
from tests.sql.random_queries import queries

ENGINE = Engine()


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
def test_a_random_query_and_its_plan_have_the_same_rows(sql: str) -> None:
    plan = plan_of(sql, Tables(), ENGINE.types)
    assert ENGINE.plan(plan.node) == ENGINE.query(sql)
    assert len(in_order([plan.node])) < 60
    assert references(sql) == set(plan.reads)


STATEMENTS = [
    *(case.sql for case in QUERIES),
    *CREATE.strip().split(";\n"),
    "CREATE MATERIALIZED VIEW v WITH (incremental = 'strict') AS SELECT id FROM orders",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)",
    "UPDATE t SET a = a + 1, b = concat(b, 'x') WHERE a IN (1, 2)",
    "DELETE FROM t WHERE a > 1",
    "EXPLAIN INCREMENTAL v; SHOW TABLES LIKE 'a*'; DESCRIBE t; DROP TABLE IF EXISTS t",
]
WORDS = sorted({word for sql in STATEMENTS for word in sql.replace("(", " ( ").replace(",", " , ").split()})
SIGNS = [
    *"()[]{}<>,;.*=!?:'\"`\\-+/%&|^~@#$\n\t\0 ",
    "--",
    "/*",
    "*/",
    "::",
    "=>",
    "->",
    "<=>",
    "0x",
    "1e",
    "é",
    "\u2028",
]


def mutated(chance: random.Random) -> str:
    """One of the statements with something lost, doubled, exchanged or put in."""
    sql = chance.choice(STATEMENTS)
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.choices(range(len(sql) + 1), k=2))
        to = min(to, at + 12)
        match chance.randint(0, 5):
            case 0:
                sql = sql[:at] + sql[to:]
            case 1:
                sql = sql[:to] + sql[at:]
            case 2:
                sql = sql[:at] + chance.choice(SIGNS) + sql[at:]
            case 3:
                sql = sql[:at] + f" {chance.choice(WORDS)} " + sql[at:]
            case 4:
                sql = sql[:at]
            case _:
                other = chance.choice(STATEMENTS)
                sql = sql[:at] + other[len(other) // 2 :]
    return sql


def refuses(ask: Callable[[str], Any], sql: str) -> bool:
    """Whether it is refused: by an error of ours, or the test fails."""
    try:
        ask(sql)
    except PenstockError:
        return True
    return False


def parsed(sql: str) -> Any:
    return parse(sql)


def planned(sql: str) -> Any:
    return plan_of(sql, Tables(), ENGINE.types)


@pytest.mark.parametrize("ask", [parsed, planned, to_duckdb, references], ids=lambda it: it.__name__)
def test_mutilated_sql_is_read_or_refused_by_an_error_of_ours(ask: Callable[[str], Any]) -> None:
    chance = random.Random(f"penstock {ask.__name__}")
    refused = 0
    for _ in range(2_500):
        sql = mutated(chance)
        refused += refuses(ask, sql)
    assert 100 < refused < 2_500


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, *SIGNS]), max_size=25).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_by_an_error_of_ours(sql: str) -> None:
    for ask in (parsed, planned, to_duckdb):
        refuses(ask, sql)
