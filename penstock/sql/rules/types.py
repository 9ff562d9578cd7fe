"""What the engine would make of two types that meet."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import PenstockError, SchemaMismatch
from penstock.plan import Named, Node, Select
from penstock.sql.facts import Facts
from penstock.sql.names import quoted
from penstock.sql.rules.walk import plain
from penstock.sql.statements.column_types import spark_type

__all__ = ["cast", "common_type", "with_columns"]


def cast(name: str, kind: pa.DataType) -> str:
    """The column, of another type.

    >>> cast("rank", pa.int64())
    'CAST(rank AS BIGINT)'
    """
    return f"CAST({quoted(name)} AS {spark_type(kind)})"


def common_type(kinds: Sequence[pa.DataType], what: str, facts: Facts) -> pa.DataType:
    """The one type for all of these, as the engine chooses it."""
    common = kinds[0]
    for kind in kinds[1:]:
        if kind == common:
            continue
        try:
            common = facts.common_type(common, kind)
        except PenstockError as error:
            raise SchemaMismatch(
                f"{what}: {spark_type(common)} and {spark_type(kind)} have no type in common",
                subject="query",
                hint="CAST one of them.",
            ) from error
    return common


def with_columns(node: Node, more: dict[str, str], facts: Facts) -> Node:
    """The node's columns and some more: names by expression."""
    added = tuple(Named(name, sql) for sql, name in more.items())
    return Select(node, (*plain(facts.columns(node)), *added)) if added else node
