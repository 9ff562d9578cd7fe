"""What the page of SQL shows can be done as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from penstock.plan import Keyed, Scan, schema_of
from penstock.sql import (
    CreateTable,
    CreateView,
    Delete,
    ExplainIncremental,
    Insert,
    Query,
    Relation,
    Update,
    explain,
    parse,
    plan_of,
    references,
    to_duckdb,
    to_duckdb_expression,
)
from tests.sql.catalog import Tables
from tests.sql.engine import Engine

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_every_statement_of_the_page_is_one() -> None:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    engine = Engine()
    relations: dict[str, Relation] = {}
    collections: dict[tuple[str, str], pa.Schema] = {}
    kinds = set()
    for statement in parse(";\n".join(blocks)):
        kinds.add(type(statement).__name__)
        match statement:
            case CreateTable(name=name, schema=schema, key=key):
                scan = Scan("main", name)
                relations[name] = Relation(Keyed(scan, key) if key else scan, schema)
                collections["main", name] = schema
            case CreateView(name=name, query=sql) | ExplainIncremental(query=str(sql), name=name):
                plan = plan_of(sql, Tables(relations), engine.types, view=name)
                assert explain(plan.node)
                schema = schema_of(plan.node, collections, engine.types)
                relations[name or "explained"] = Relation(plan.node, schema)
            case Insert(query=sql) | Query(text=sql):
                assert to_duckdb(sql)
                assert references(sql) <= relations.keys()
            case Update(assignments=assignments, where=where):
                assert all(map(to_duckdb_expression, [sql for _, sql in assignments]))
                assert to_duckdb_expression(str(where))
            case Delete(where=where):
                assert to_duckdb_expression(str(where))
    assert kinds == {
        *("CreateTable", "CreateView", "Drop", "Insert", "Update", "Delete"),
        *("Show", "Describe", "ExplainIncremental", "Query"),
    }
