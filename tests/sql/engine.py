"""A plan evaluated in the plainest way: each node as one query of DuckDB's over the nodes below it.

This is the law of each node, without any state. It also tells the types of expressions, as Spark does for the
engine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

from penstock.plan import Aggregate, Call, Distinct, Function, Join, Keyed, Node, Scan, Select, Union
from penstock.sql import to_duckdb, to_duckdb_expression
from tests.sql.catalog import TABLES

_FUNCTIONS = {
    Function.COUNT_COLUMN: "count({})",
    Function.COUNT_DISTINCT: "count(DISTINCT {})",
    Function.SUM: "sum({})",
    Function.AVG: "avg({})",
    Function.MIN: "min({})",
    Function.MAX: "max({})",
}


class Engine:
    """DuckDB with the tables in it."""

    def __init__(self) -> None:
        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'")
        for name, table in TABLES.items():
            self._duck.register(name, table.rows)

    def types(self, node: Select, below: pa.Schema) -> pa.Schema:
        """What a Select makes of columns of these types."""
        self._duck.register("types_of_input", below.empty_table())
        made = [f"{to_duckdb_expression(it.sql)} AS {_quoted(it.name)}" for it in node.columns]
        told = self._duck.sql(f"SELECT {', '.join(made)} FROM types_of_input").to_arrow_table().schema
        self._duck.unregister("types_of_input")
        return told

    def plan(self, node: Node) -> Counter[Any]:
        """The rows of a plan, and how often each is there."""
        return self._rows(_sql(node))

    def query(self, sql: str) -> Counter[Any]:
        """The rows of a query of Spark SQL."""
        return self._rows(to_duckdb(sql))

    def _rows(self, sql: str) -> Counter[Any]:
        return Counter(tuple(map(_plain, row)) for row in self._duck.execute(sql).fetchall())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(it)) for key, it in value.items()))
    return 0.0 if isinstance(value, float) and value == 0 else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql(node: Node) -> str:
    match node:
        case Scan(collection=name):
            return f"SELECT * FROM {name}"
        case Keyed(input=below):
            return _sql(below)
        case Select(input=below, columns=columns, where=where):
            made = [f"{to_duckdb_expression(it.sql)} AS {_quoted(it.name)}" for it in columns]
            kept = "" if where is None else f" WHERE {to_duckdb_expression(where)}"
            return f"SELECT {', '.join(made)} FROM ({_sql(below)}){kept}"
        case Union(inputs=inputs):
            return " UNION ALL ".join(f"({_sql(it)})" for it in inputs)
        case Join(left=left, right=right, on=on):
            equal = {True: "IS NOT DISTINCT FROM", False: "="}
            pairs = [f"l.{_quoted(it.left)} {equal[it.null_safe]} r.{_quoted(it.right)}" for it in on]
            return f"SELECT * FROM ({_sql(left)}) l JOIN ({_sql(right)}) r ON {' AND '.join(pairs) or 'TRUE'}"
        case Distinct(input=below):
            return f"SELECT DISTINCT * FROM ({_sql(below)})"
        case Aggregate(input=below, keys=keys, calls=calls):
            made = [*map(_quoted, keys), *map(_call, calls)]
            by = f" GROUP BY {', '.join(map(_quoted, keys))}" if keys else ""
            return f"SELECT {', '.join(made)} FROM ({_sql(below)}){by}"


def _call(call: Call) -> str:
    if call.column is None:
        return f"count(*) AS {_quoted(call.name)}"
    return f"{_FUNCTIONS[call.function].format(_quoted(call.column))} AS {_quoted(call.name)}"
