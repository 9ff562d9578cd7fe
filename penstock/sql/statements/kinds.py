"""The statements, as values. Queries and expressions stand in them as Spark SQL text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa

__all__ = [
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "Drop",
    "ExplainIncremental",
    "Insert",
    "Option",
    "Query",
    "Show",
    "Statement",
    "Update",
]

Option: TypeAlias = str | int | float | bool


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE. Without a key the table is a multiset: the same row may be there several times."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW. ``columns``: names after the view's, which the query's columns take."""

    name: str
    query: str
    columns: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class Drop:
    """DROP TABLE or DROP [MATERIALIZED] VIEW."""

    kind: Literal["table", "view"]
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Insert:
    """INSERT INTO. ``query`` is a SELECT, or VALUES; ``columns`` is empty where none are named."""

    table: str
    query: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Update:
    """UPDATE … SET …: pairs of a column and an expression over the table's columns."""

    table: str
    assignments: tuple[tuple[str, str], ...]
    where: str | None = None


@dataclass(frozen=True)
class Delete:
    """DELETE FROM."""

    table: str
    where: str | None = None


@dataclass(frozen=True)
class Show:
    """SHOW TABLES | VIEWS | COLUMNS IN name | PIPELINES; ``like`` is a pattern with `*` and `|`."""

    what: Literal["tables", "views", "columns", "pipelines"]
    name: str | None = None
    like: str | None = None


@dataclass(frozen=True)
class Describe:
    """DESCRIBE [EXTENDED] name."""

    name: str
    extended: bool = False


@dataclass(frozen=True)
class ExplainIncremental:
    """EXPLAIN INCREMENTAL of a query, or of a view that is there. Just one of the two is given."""

    query: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Query:
    """A SELECT to be answered now."""

    text: str


Statement: TypeAlias = (
    CreateTable | CreateView | Drop | Insert | Update | Delete | Show | Describe | ExplainIncremental | Query
)
