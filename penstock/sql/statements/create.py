"""CREATE TABLE, CREATE MATERIALIZED VIEW, DROP."""

from __future__ import annotations

import pyarrow as pa

from penstock.changes.names import check_user_schema
from penstock.sql.names import candidates, folded
from penstock.sql.statements.column_types import read_type
from penstock.sql.statements.kinds import CreateTable, CreateView, Drop, Option
from penstock.sql.statements.reader import Reader
from penstock.sql.tree import check_query

__all__ = ["read_create", "read_drop"]


def read_create(reader: Reader) -> CreateTable | CreateView:
    """What follows CREATE."""
    if reader.sees("OR", "REPLACE"):
        raise reader.text.unsupported(
            "OR REPLACE would throw state and history away in passing",
            reader.place,
            "DROP it first, then CREATE it.",
        )
    if reader.take("TABLE"):
        return _table(reader)
    if reader.take("MATERIALIZED", "VIEW"):
        return _view(reader)
    if reader.sees("VIEW") or reader.sees("TEMPORARY") or reader.sees("TEMP"):
        raise reader.text.unsupported(
            "a view that is not kept is not made here",
            reader.place,
            "Write CREATE MATERIALIZED VIEW, or use a common table expression (WITH …).",
        )
    raise reader.bad("TABLE or MATERIALIZED VIEW is expected here", "Write CREATE TABLE name (…).")


def _table(reader: Reader) -> CreateTable:
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name("the table")
    if reader.sees("AS"):
        raise reader.text.unsupported(
            "CREATE TABLE … AS SELECT is not made here",
            reader.place,
            "Create the table with its columns, then INSERT INTO it … SELECT.",
        )
    reader.expect("(")
    fields: list[pa.Field] = []
    key: list[tuple[str, int]] = []
    keys = 0
    while True:
        place = reader.place
        if reader.take("PRIMARY", "KEY"):
            key += [(it, place) for it in reader.names("a key column")]
            keys += 1
        elif reader.take("CONSTRAINT"):
            reader.name("the constraint")
            reader.expect("PRIMARY", "KEY")
            key += [(it, place) for it in reader.names("a key column")]
            keys += 1
        else:
            field, is_key = _column(reader)
            if any(folded(it.name) == folded(field.name) for it in fields):
                raise reader.text.bad(f"two columns are called {field.name!r}", place, "Rename one of them.")
            fields.append(field)
            if is_key:
                key.append((field.name, place))
                keys += 1
        if not reader.take(","):
            break
    reader.expect(")")
    if keys > 1:
        raise reader.bad(
            "PRIMARY KEY is there more than once", "Say it once, after the columns: PRIMARY KEY (a, b)."
        )
    options = _options(reader)
    reader.done()
    schema, names = _with_key(reader, fields, key)
    check_user_schema(schema, name)
    return CreateTable(name, schema, names, options, if_not_exists)


def _column(reader: Reader) -> tuple[pa.Field, bool]:
    name = reader.name("a column")
    kind = read_type(reader)
    nullable, is_key = True, False
    while True:
        if reader.take("NOT", "NULL"):
            nullable = False
        elif reader.take("PRIMARY", "KEY"):
            is_key = True
        elif reader.take("NULL"):
            continue
        elif reader.take("COMMENT"):
            reader.skip()
        else:
            return pa.field(name, kind, nullable=nullable), is_key


def _with_key(
    reader: Reader, fields: list[pa.Field], key: list[tuple[str, int]]
) -> tuple[pa.Schema, tuple[str, ...]]:
    """A key's columns are never NULL; the key names them as they were declared."""
    by_name = {folded(it.name): at for at, it in enumerate(fields)}
    names: list[str] = []
    for name, place in key:
        at = by_name.get(folded(name))
        if at is None:
            known = [it.name for it in fields]
            raise reader.text.unknown(
                f"there is no column {name!r} for the key", place, candidates(name, known)
            )
        if fields[at].name in names:
            raise reader.text.bad(f"the key has {name!r} twice", place, "Name each column once.")
        names.append(fields[at].name)
        fields[at] = fields[at].with_nullable(False)
    return pa.schema(fields), tuple(names)


def _view(reader: Reader) -> CreateView:
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name("the view")
    columns = reader.names("a column") if reader.sees("(") else ()
    options = _options(reader)
    reader.expect("AS")
    begin, end = reader.rest()
    check_query(reader.text, begin, end)
    return CreateView(name, reader.text.sql[begin:end].strip(), columns, options, if_not_exists)


def _options(reader: Reader) -> dict[str, Option]:
    """WITH (name = value, …); names are compared without case."""
    found: dict[str, Option] = {}
    if not reader.take("WITH"):
        return found
    reader.expect("(")
    while True:
        place = reader.place
        name = folded(reader.skip().text)
        while reader.take("."):
            name += "." + folded(reader.skip().text)
        reader.expect("=")
        if name in found:
            raise reader.text.bad(f"the option {name!r} is there twice", place, "Give it once.")
        found[name] = _value(reader)
        if not reader.take(","):
            break
    reader.expect(")")
    return found


def _value(reader: Reader) -> Option:
    sign = -1 if reader.take("-") else 1
    word = reader.skip()
    if word.kind == "number":
        try:
            return sign * int(word.text)
        except ValueError:
            pass
        try:
            return sign * float(word.text)
        except ValueError:
            raise reader.text.bad(f"{word.text!r} is no number", word.begin, "Write it in digits.") from None
    if word.upper in ("TRUE", "FALSE"):
        return word.upper == "TRUE"
    if word.kind in ("string", "word"):
        return word.text
    raise reader.text.bad(
        "the value of an option is expected here", word.begin, "Write 'text', a number, or true."
    )


def read_drop(reader: Reader) -> Drop:
    """What follows DROP."""
    if reader.take("TABLE"):
        if_exists = reader.take("IF", "EXISTS")
        drop = Drop("table", reader.name("the table"), if_exists)
    else:
        reader.take("MATERIALIZED")
        reader.expect("VIEW")
        if_exists = reader.take("IF", "EXISTS")
        drop = Drop("view", reader.name("the view"), if_exists)
    reader.done()
    return drop
