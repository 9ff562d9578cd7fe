"""Spark SQL → DuckDB's, for what is asked of contents now: queries, and the conditions of UPDATE and DELETE.

Here sqlglot does translate: the answer is read once and kept nowhere. Where the two engines differ by nature
is told in docs/sql.md; views are never computed this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from penstock.sql.names import folded
from penstock.sql.text import SqlText
from penstock.sql.tree import begin_of, parsed

__all__ = ["references", "to_duckdb", "to_duckdb_expression"]

_spark_parser: Any = Spark.parser_class


class _Parser(_spark_parser):  # type: ignore[misc]
    # Spark 4 is ANSI by default: a CAST that cannot be done is an error, and not NULL.
    STRICT_CAST = True


def to_duckdb(query: str) -> str:
    """A query of Spark SQL as DuckDB runs it.

    >>> to_duckdb("SELECT `customer`, id DIV 10 AS ten FROM orders WHERE amount <=> 0")
    'SELECT "customer", id // 10 AS ten FROM orders WHERE amount IS NOT DISTINCT FROM 0'
    """
    text = SqlText(query)
    return _translated(text, parsed(text, _Parser, _Parser._parse_statement))


def to_duckdb_expression(expression: str) -> str:
    """A condition, or the right side of an assignment, as DuckDB reads it over a table's columns.

    >>> to_duckdb_expression("amount * 2 + nvl(bonus, 0)")
    'amount * 2 + COALESCE(bonus, 0)'
    """
    text = SqlText(expression)
    return _translated(text, parsed(text, _Parser, _Parser._parse_expression))


def references(query: str) -> frozenset[str]:
    """The tables and views that a query reads, as it names them, without its own common table expressions.

    >>> sorted(references("WITH o AS (SELECT * FROM orders) SELECT * FROM o JOIN Customers USING (id)"))
    ['Customers', 'orders']
    """
    text = SqlText(query)
    return frozenset(_tables(text, parsed(text, _Parser, _Parser._parse_statement), frozenset()))


def _tables(text: SqlText, tree: exp.Expression, known: frozenset[str]) -> Iterator[str]:
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
        if tree.args.get("db"):
            raise text.unknown(
                f"there is no database {tree.args['db'].name!r}",
                begin_of(tree),
                f"Write the table's name alone: {tree.name}.",
            )
        if folded(tree.name) not in known:
            yield tree.name
    clause = tree.args.get("with_") or tree.args.get("with")
    if clause is not None:
        for cte in clause.expressions:
            inside = known | {folded(cte.alias)} if clause.args.get("recursive") else known
            yield from _tables(text, cte.this, inside)
            known = known | {folded(cte.alias)}
    for child in tree.iter_expressions():
        if child is not clause:
            yield from _tables(text, child, known)


def _translated(text: SqlText, tree: exp.Expression) -> str:
    for fix in _FIXES:
        tree = tree.transform(fix, copy=False)
    try:
        return str(DuckDB().generate(tree, copy=False, comments=False))
    except RecursionError as error:
        raise text.bad("this is nested too deeply", 0, "Part it into several queries.") from error
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise text.unsupported(
            f"DuckDB, which answers queries here, has nothing for this: {error}",
            0,
            "Keep it as a view: Spark computes that.",
        ) from error


def _every(tree: exp.Expression) -> exp.Expression:
    """EVERY, ANY and SOME are BOOL_AND and BOOL_OR."""
    name = tree.name.lower() if isinstance(tree, exp.Anonymous) else ""
    if name in ("every", "some", "any") and len(tree.expressions) == 1:
        return exp.Anonymous(this="BOOL_AND" if name == "every" else "BOOL_OR", expressions=tree.expressions)
    if isinstance(tree, exp.Any) and not isinstance(tree.parent, exp.Binary):
        return exp.Anonymous(this="BOOL_OR", expressions=[tree.this.unnest()])
    return tree


def _pmod(tree: exp.Expression) -> exp.Expression:
    """PMOD is never negative."""
    if isinstance(tree, exp.Anonymous) and tree.name.lower() == "pmod" and len(tree.expressions) == 2:
        value, by = tree.expressions
        modulo = exp.Mod(this=exp.Paren(this=value), expression=exp.Paren(this=by))
        again = exp.Add(this=modulo, expression=exp.Paren(this=by.copy()))
        return exp.Paren(this=exp.Mod(this=exp.Paren(this=again), expression=exp.Paren(this=by.copy())))
    return tree


def _count(tree: exp.Expression) -> exp.Expression:
    """COUNT of several columns counts the rows that have a value in each."""
    if isinstance(tree, exp.Count) and tree.expressions:
        known = [it.is_(exp.null()).not_() for it in (tree.this, *tree.expressions)]
        return exp.Anonymous(this="COUNT_IF", expressions=[exp.and_(*known)])
    return tree


_FIXES: tuple[Callable[[exp.Expression], exp.Expression], ...] = (_every, _pmod, _count)
"""What sqlglot leaves as Spark says it."""
