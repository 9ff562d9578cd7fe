"""SHOW, DESCRIBE, EXPLAIN INCREMENTAL, and queries."""

from __future__ import annotations

from penstock.sql.statements.kinds import Describe, ExplainIncremental, Query, Show
from penstock.sql.statements.reader import Reader
from penstock.sql.tree import check_query

__all__ = ["QUERY_WORDS", "read_describe", "read_explain", "read_query", "read_show"]

QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "(")
"""How a query begins."""


def read_show(reader: Reader) -> Show:
    """What follows SHOW."""
    if reader.take("TABLES"):
        show = Show("tables", like=_like(reader))
    elif reader.take("VIEWS") or reader.take("MATERIALIZED", "VIEWS"):
        show = Show("views", like=_like(reader))
    elif reader.take("PIPELINES"):
        show = Show("pipelines", like=_like(reader))
    elif reader.take("COLUMNS"):
        if not reader.take("IN"):
            reader.expect("FROM")
        show = Show("columns", reader.name("a table or view"))
    else:
        raise reader.bad(
            "this cannot be shown",
            "SHOW TABLES, SHOW VIEWS, SHOW PIPELINES, and SHOW COLUMNS IN name are there.",
        )
    reader.done()
    return show


def _like(reader: Reader) -> str | None:
    if not reader.take("LIKE") and (reader.word is None or reader.word.kind != "string"):
        return None
    word = reader.skip()
    if word.kind != "string":
        raise reader.text.bad("a pattern is expected here", word.begin, "Write LIKE 'order*'.")
    return word.text


def read_describe(reader: Reader) -> Describe:
    """What follows DESCRIBE or DESC."""
    for word in ("TABLE", "VIEW", "MATERIALIZED"):
        reader.take(word)
    extended = reader.take("EXTENDED")
    describe = Describe(reader.name("a table or view"), extended)
    reader.done()
    return describe


def read_explain(reader: Reader) -> ExplainIncremental:
    """What follows EXPLAIN."""
    if not reader.take("INCREMENTAL"):
        raise reader.text.unsupported(
            "plain EXPLAIN is Spark's or DuckDB's business",
            reader.place,
            "Write EXPLAIN INCREMENTAL to see how a view is kept.",
        )
    if any(reader.sees(word) for word in QUERY_WORDS):
        return ExplainIncremental(query=_query(reader))
    reader.take("MATERIALIZED")
    reader.take("VIEW")
    explain = ExplainIncremental(name=reader.name("the view"))
    reader.done()
    return explain


def read_query(reader: Reader) -> Query:
    """A statement that is a query."""
    return Query(_query(reader))


def _query(reader: Reader) -> str:
    begin, end = reader.rest()
    check_query(reader.text, begin, end)
    return reader.text.sql[begin:end].strip()
