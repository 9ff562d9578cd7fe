"""Spark SQL text → statements, and queries → incremental plans.

sqlglot reads the text; it is imported nowhere else. What a query computes goes into the plan in the user's
own words: only columns' names are exchanged, so an expression means in a view just what it means in Spark.
"""

from penstock.sql.catalog import Catalog, Relation
from penstock.sql.duckdb import references, to_duckdb, to_duckdb_expression
from penstock.sql.explain import Explained, explain
from penstock.sql.plan_of import ViewPlan, plan_of
from penstock.sql.statements import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    ExplainIncremental,
    Insert,
    Query,
    Show,
    Statement,
    Update,
    parse,
)

__all__ = [
    "Catalog",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "Drop",
    "ExplainIncremental",
    "Explained",
    "Insert",
    "Query",
    "Relation",
    "Show",
    "Statement",
    "Update",
    "ViewPlan",
    "explain",
    "parse",
    "plan_of",
    "references",
    "to_duckdb",
    "to_duckdb_expression",
]
