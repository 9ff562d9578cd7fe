"""INSERT, UPDATE, DELETE."""

from __future__ import annotations

from penstock.sql.names import folded
from penstock.sql.statements.kinds import Delete, Insert, Update
from penstock.sql.statements.reader import Reader
from penstock.sql.tree import check_query, expression_tree

__all__ = ["read_delete", "read_insert", "read_update"]


def read_insert(reader: Reader) -> Insert:
    """What follows INSERT."""
    if reader.sees("OVERWRITE"):
        raise reader.text.unsupported(
            "INSERT OVERWRITE is not done here", reader.place, "DELETE FROM the table, then INSERT INTO it."
        )
    reader.expect("INTO")
    reader.take("TABLE")
    table = reader.name("the table")
    columns: tuple[str, ...] = ()
    if reader.sees("(") and not _is_query(reader):
        place = reader.place
        columns = reader.names("a column")
        if len({folded(it) for it in columns}) < len(columns):
            raise reader.text.bad("a column is named twice", place, "Name each column once.")
    begin, end = reader.rest()
    check_query(reader.text, begin, end)
    return Insert(table, reader.text.sql[begin:end].strip(), columns)


def _is_query(reader: Reader) -> bool:
    return any(reader.sees("(", word) for word in ("SELECT", "WITH", "VALUES", "FROM", "("))


def read_update(reader: Reader) -> Update:
    """What follows UPDATE."""
    table = reader.name("the table")
    reader.expect("SET")
    assignments: list[tuple[str, str]] = []
    while True:
        place = reader.place
        column = reader.name("a column")
        if any(folded(column) == folded(it) for it, _ in assignments):
            raise reader.text.bad(f"{column!r} is set twice", place, "Set each column once.")
        reader.expect("=")
        assignments.append((column, _expression(reader, *reader.until(",", "WHERE"))))
        if not reader.take(","):
            break
    where = _where(reader)
    reader.done()
    return Update(table, tuple(assignments), where)


def read_delete(reader: Reader) -> Delete:
    """What follows DELETE."""
    reader.expect("FROM")
    table = reader.name("the table")
    where = _where(reader)
    reader.done()
    return Delete(table, where)


def _where(reader: Reader) -> str | None:
    return _expression(reader, *reader.rest()) if reader.take("WHERE") else None


def _expression(reader: Reader, begin: int, end: int) -> str:
    expression_tree(reader.text, begin, end)
    return reader.text.spelled(begin, end)
