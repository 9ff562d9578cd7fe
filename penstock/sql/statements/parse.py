"""A text → its statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.sql.statements.ask import QUERY_WORDS, read_describe, read_explain, read_query, read_show
from penstock.sql.statements.create import read_create, read_drop
from penstock.sql.statements.kinds import Statement
from penstock.sql.statements.reader import Reader
from penstock.sql.statements.write import read_delete, read_insert, read_update
from penstock.sql.text import SqlText

__all__ = ["parse"]

_READ: dict[str, Callable[[Reader], Statement]] = {
    "CREATE": read_create,
    "DROP": read_drop,
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE": read_delete,
    "SHOW": read_show,
    "DESCRIBE": read_describe,
    "DESC": read_describe,
    "EXPLAIN": read_explain,
}


def parse(sql: str) -> list[Statement]:
    """The statements of a text, which `;` parts. Nothing is looked up yet: names need not exist.

    >>> parse("DELETE FROM orders WHERE id = 7; SHOW TABLES")
    [Delete(table='orders', where='id = 7'), Show(what='tables', name=None, like=None)]
    """
    text = SqlText(sql)
    try:
        found = [_statement(Reader(text, begin, end)) for begin, end in _pieces(text)]
    except RecursionError as error:
        raise text.bad("the text is nested too deeply", 0, "Part it into several statements.") from error
    if not found:
        raise text.bad("there is no statement", 0, "Write one, for instance SHOW TABLES.")
    return found


def _pieces(text: SqlText) -> Iterator[tuple[int, int]]:
    begin = None
    end = 0
    for token in text.tokens:
        if token.token_type.name == "SEMICOLON":
            if begin is not None:
                yield begin, end
            begin = None
            continue
        begin = token.start if begin is None else begin
        end = token.end + 1
    if begin is not None:
        yield begin, end


def _statement(reader: Reader) -> Statement:
    if any(reader.sees(word) for word in QUERY_WORDS):
        return read_query(reader)
    word = reader.word
    read = _READ.get("" if word is None else word.upper)
    if read is None:
        raise reader.bad(
            f"no statement begins with {'nothing' if word is None else repr(word.text)}",
            f"These do: {', '.join(_READ)}, SELECT, WITH.",
        )
    reader.skip()
    return read(reader)
