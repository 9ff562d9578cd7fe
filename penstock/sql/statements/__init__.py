"""Statements: what each says, as a value, and how it is read.

`kinds` has the values; `reader` walks the words of a text; each other file reads one family of statements;
`parse` puts them together.
"""

from penstock.sql.statements.kinds import (
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
)
from penstock.sql.statements.parse import parse

__all__ = [
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "Drop",
    "ExplainIncremental",
    "Insert",
    "Query",
    "Show",
    "Statement",
    "Update",
    "parse",
]
