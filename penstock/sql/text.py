"""A text of SQL with its tokens: places for errors, and pieces of it word for word.

Expressions go into a plan as the user wrote them, with only the columns' names exchanged. Nothing is made
from a tree, so nothing changes its meaning on the way to Spark.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from penstock.errors import BadSql, NotFound, PenstockError, Unsupported

__all__ = ["SPARK", "Exchange", "SqlText"]

SPARK = Spark()

Exchange = tuple[int, int, str]
"""Where something begins and ends in a text, and what stands there instead."""


class _Tokenizer(Spark.Tokenizer):
    # Else SHOW, EXPLAIN … swallow the rest of their statement as one string.
    COMMANDS = set()  # noqa: RUF012


class SqlText:
    """SQL as written. Offsets count characters, from 0; lines and columns from 1."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.tokens = self._tokens()
        self._begins = [token.start for token in self.tokens]

    def _tokens(self) -> list[Token]:
        try:
            return _with_window_function(_Tokenizer(dialect=SPARK).tokenize(self.sql))
        except SqlglotError as error:
            at = getattr(error, "start", None) or 0
            raise self.bad("something here is not closed, or is no SQL at all", at, _QUOTES) from error
        except (ValueError, OverflowError) as error:  # escapes and numbers that are none
            raise self.bad(f"a literal cannot be read: {error}", 0, _QUOTES) from error

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of an offset."""
        before = self.sql[: max(at, 0)]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

    def _subject(self, at: int) -> str:
        line, column = self.place(at)
        return f"line {line}, column {column}"

    def bad(self, what: str, at: int, hint: str) -> BadSql:
        """The text is wrong at that offset."""
        line, column = self.place(at)
        return BadSql(what, subject=self._subject(at), hint=hint, line=line, column=column)

    def unsupported(self, what: str, at: int, hint: str) -> PenstockError:
        """What stands there is SQL, but nothing Penstock does."""
        return Unsupported(what, subject=self._subject(at), hint=hint)

    def unknown(self, what: str, at: int, hint: str) -> PenstockError:
        """What stands there names nothing."""
        return NotFound(what, subject=self._subject(at), hint=hint)

    def between(self, begin: int, end: int) -> list[Token]:
        """The tokens of that piece."""
        first = bisect.bisect_left(self._begins, begin)
        return self.tokens[first : bisect.bisect_left(self._begins, end)]

    def spelled(self, begin: int, end: int, instead: Iterable[Exchange] = ()) -> str:
        """That piece, word for word, on one line and without comments, but with some parts exchanged.

        >>> text = SqlText("a.x  +  -- so much\\n b.y*2")
        >>> text.spelled(0, len(text.sql), [(0, 3, "x"), (20, 23, "y_2")])
        'x + y_2*2'
        """
        parts: list[str] = []
        changes = sorted(instead)
        last = begin
        at = begin
        for token in self.between(begin, end):
            if token.start < at:
                continue  # inside what was exchanged, or one of several tokens made of one word
            if token.start > last and parts:
                parts.append(" ")
            while changes and changes[0][1] <= token.start:
                changes.pop(0)
            if changes and changes[0][0] == token.start:
                _, last, new = changes.pop(0)
                parts.append(new)
            else:
                last = token.end + 1
                parts.append(self.sql[token.start : last])
            at = last
        return "".join(parts)


def _with_window_function(tokens: list[Token]) -> list[Token]:
    """`window(` is Spark's function; sqlglot would take it for the clause where it begins a GROUP BY."""
    for word, following in pairwise(tokens):
        if word.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            word.token_type = TokenType.VAR
    return tokens


_QUOTES = "Close every quote, comment and bracket."
