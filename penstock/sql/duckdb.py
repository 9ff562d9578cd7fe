"""Spark SQL → DuckDB's, for what is asked of contents now: queries, and the conditions of UPDATE and DELETE.

Here sqlglot does translate: the answer is read once and kept nowhere. Where the two engines differ by nature
is told in docs/sql.md; views are never computed this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from penstock.sql.duckdb_fixes import FIXES, Kinds, kinds_of, of_whole_numbers
from penstock.sql.names import folded
from penstock.sql.text import SqlText
from penstock.sql.tree import Parser, begin_of, parsed

__all__ = ["references", "to_duckdb", "to_duckdb_expression"]


class _Parser(Parser):
    # Spark 4 is ANSI by default: a CAST that cannot be done is an error, and not NULL.
    STRICT_CAST = True


def to_duckdb(query: str, tables: Mapping[str, pa.Schema] | None = None) -> str:
    """A query of Spark SQL as DuckDB runs it.

    ``tables`` are the schemas of what it reads: with them, sums of whole numbers stay BIGINT, and casts cut
    off.

    >>> to_duckdb("SELECT `customer`, id DIV 10 AS ten FROM orders WHERE amount <=> 0")
    'SELECT "customer", "id" // 10 AS "ten" FROM "orders" WHERE "amount" IS NOT DISTINCT FROM 0'
    """
    text = SqlText(query)
    tree = parsed(text, _Parser, _Parser._parse_statement)
    return _translated(text, tree, kinds_of(*(tables or {}).values()))


def to_duckdb_expression(expression: str, schema: pa.Schema | None = None) -> str:
    """A condition, or the right side of an assignment, as DuckDB reads it over a table's columns.

    >>> to_duckdb_expression("amount * 2 + nvl(bonus, 0)")
    '"amount" * 2 + COALESCE("bonus", 0)'
    """
    text = SqlText(expression)
    tree = parsed(text, _Parser, _Parser._parse_expression)
    return _translated(text, tree, kinds_of(*([] if schema is None else [schema])))


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


def _fixed(tree: exp.Expression, fix: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """The tree with each node fixed, the parts of a node before it."""
    nodes = [it for it in tree.walk() if isinstance(it, exp.Expression)]
    for node in reversed(nodes):
        new = fix(node)
        if new is not node and node is tree:
            tree = new
        elif new is not node:
            node.replace(new)
    return tree


def _translated(text: SqlText, tree: exp.Expression, kinds: Kinds) -> str:
    for fix in (lambda it: of_whole_numbers(it, kinds), *FIXES):
        tree = _fixed(tree, fix)
    try:
        return str(
            DuckDB().generate(
                tree, copy=False, comments=False, identify=True, unsupported_level=ErrorLevel.RAISE
            )
        )
    except RecursionError as error:
        raise text.bad("this is nested too deeply", 0, "Part it into several queries.") from error
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise text.unsupported(
            f"DuckDB, which answers queries here, has nothing for this: {error}",
            0,
            "Keep it as a view: Spark computes that.",
        ) from error
