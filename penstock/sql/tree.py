"""Spark SQL → sqlglot's tree, in which every expression knows where it stands in the text.

sqlglot tells the structure (what is a column, what an aggregate, where AND parts a condition); the words stay
the user's. So all functions but those with a grammar of their own are read as just names with arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from penstock.errors import BadSql
from penstock.sql.text import SPARK, SqlText

__all__ = [
    "Parser",
    "begin_of",
    "check_query",
    "end_of",
    "expression_tree",
    "parsed",
    "query_tree",
    "span_of",
    "walk",
]

_LEVELS = (
    "expression",
    "assignment",
    "disjunction",
    "conjunction",
    "equality",
    "comparison",
    "range",
    "bitwise",
    "term",
    "factor",
    "unary",
    "type",
    "column",
    "select_or_expression",
)
"""From OR down to a column: each level of sqlglot's grammar of expressions."""

_OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "OVERLAY", "CEIL", "FLOOR")

_parser_class: Any = Spark.parser_class
_TYPES = _parser_class.TYPE_TOKENS - {TokenType.INTERVAL}


class Parser(_parser_class):  # type: ignore[misc]
    """Spark's, which says what it cannot read instead of writing it to a log."""

    def _warn_unsupported(self) -> None:
        self.raise_error("this cannot be read as SQL")


class _Parser(Parser):
    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    ARRAY_CONSTRUCTORS: dict[str, Any] = {}  # noqa: RUF012 - array(a)[0] takes one of array(a), and is none
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: how for name, how in _parser_class.NO_PAREN_FUNCTION_PARSERS.items() if name != "ANY"
    }  # ANY(x) is an aggregate like every other
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: how for name, how in _parser_class.FUNCTION_PARSERS.items() if name in _OWN_GRAMMAR
    }

    def _parse_type(self, *args: Any, **kwargs: Any) -> Any:
        # array(a)[0], date(a): functions have these names, and no type has arguments in an expression.
        word, following = self._curr, self._next
        if word and following and following.token_type == TokenType.L_PAREN and word.token_type in _TYPES:
            return self._parse_column()
        return super()._parse_type(*args, **kwargs)


def _remembering(method: str) -> Callable[..., Any]:
    inherited = getattr(_Parser, method)

    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin = self._curr.start if self._curr else None
        made = inherited(self, *args, **kwargs)
        if isinstance(made, exp.Expression) and begin is not None and self._prev:
            made.meta["begin"], made.meta["finish"] = begin, self._prev.end + 1
        return made

    return parse


class _Placed(_Parser):
    """Remembers of each expression where it stands."""


for _level in _LEVELS:
    setattr(_Placed, f"_parse_{_level}", _remembering(f"_parse_{_level}"))


def query_tree(text: SqlText, begin: int = 0, end: int | None = None) -> exp.Expression:
    """The query in that piece of the text."""
    tree = parsed(text, _Placed, _Placed._parse_statement, begin, end)
    if not isinstance(tree, exp.Query | exp.Values):
        raise text.bad("a query is missing here", begin, _QUERY)
    return tree


def check_query(text: SqlText, begin: int, end: int) -> None:
    """Refuse what is no query. Cheaper than its tree: nobody needs to know where each part stands."""
    tree = parsed(text, _Parser, _Parser._parse_statement, begin, end)
    if not isinstance(tree, exp.Query | exp.Values):
        raise text.bad("a query is missing here", begin, _QUERY)


def expression_tree(text: SqlText, begin: int = 0, end: int | None = None) -> exp.Expression:
    """The expression in that piece of the text."""
    end = len(text.sql) if end is None else end
    if not text.between(begin, end):
        raise text.bad("an expression is missing here", begin, "Write one, for instance a column's name.")
    return parsed(text, _Placed, _Placed._parse_expression, begin, end)


def parsed(
    text: SqlText, parser: Any, how: Callable[[Any], Any], begin: int = 0, end: int | None = None
) -> exp.Expression:
    """What one of sqlglot's parsers makes of that piece; however it stumbles, the error is ours."""
    end = len(text.sql) if end is None else end
    tokens = text.between(begin, end)
    if not tokens:
        raise text.bad("there is nothing here", begin, _QUERY)
    try:
        found = parser(dialect=SPARK)._parse(how, tokens, text.sql)
    except ParseError as error:
        raise _misread(text, error, begin) from error
    except RecursionError as error:
        raise text.bad("this is nested too deeply", begin, "Part it into several views.") from error
    except (SqlglotError, ValueError, TypeError, AttributeError, LookupError) as error:
        # Some texts that are not SQL are noticed by sqlglot only in that it stumbles.
        raise text.bad("this cannot be read as SQL", begin, _LOOK) from error
    if len(found) != 1 or found[0] is None:
        raise text.bad("one query is expected here", begin, "Part statements by ';'.")
    tree = found[0]
    assert isinstance(tree, exp.Expression)
    if isinstance(tree, exp.Command):
        raise text.bad("this cannot be read as SQL", begin, _LOOK)
    return tree


_QUERY = "Write a query: SELECT … FROM …"
_LOOK = "Look for a missing word, comma or bracket before this place."


def _misread(text: SqlText, error: ParseError, begin: int) -> BadSql:
    told = error.errors[0] if error.errors else {}
    what = str(told.get("description") or "").rstrip(".")
    if not what or "<class" in what:
        what = "something is missing here"
    at = begin
    if told.get("start_context") is not None and told.get("highlight"):
        at = _offset(text, int(told.get("line") or 1), int(told.get("col") or 1), str(told["highlight"]))
    near = str(told.get("highlight") or "").strip()
    return text.bad(f"{what[:1].lower()}{what[1:]}" + (f" (at {near!r})" if near else ""), at, _LOOK)


def _offset(text: SqlText, line: int, column: int, highlight: str) -> int:
    """sqlglot tells the column of a token's end."""
    begins = [0]
    for at, character in enumerate(text.sql):
        if character == "\n":
            begins.append(at + 1)
    return max(begins[min(line, len(begins)) - 1] + column - len(highlight), 0)


def span_of(tree: exp.Expression) -> tuple[int, int]:
    """Where an expression begins and ends in its text."""
    begin, end = tree.meta.get("begin"), tree.meta.get("finish")
    if begin is None or end is None:
        begin, end = begin_of(tree), end_of(tree)
    return begin, end


def begin_of(tree: exp.Expression) -> int:
    """Where it begins, as far as its parts tell."""
    told = [_told(it, "begin", "start") for it in walk(tree)]
    return min((at for at in told if at is not None), default=0)


def end_of(tree: exp.Expression) -> int:
    """Where it ends, as far as its parts tell."""
    told = [
        it.meta["finish"] if "finish" in it.meta else it.meta["end"] + 1
        for it in walk(tree)
        if it.meta.get("finish") is not None or it.meta.get("end") is not None
    ]
    return max(told, default=0)


def walk(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The tree and all its parts, but nothing below a query inside it."""
    parts = tree.walk(prune=lambda it: isinstance(it, exp.Query))
    return (it for it in parts if isinstance(it, exp.Expression))


def _told(tree: exp.Expression, *names: str) -> int | None:
    return next((tree.meta[name] for name in names if tree.meta.get(name) is not None), None)
