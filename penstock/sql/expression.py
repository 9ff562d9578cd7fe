"""Expressions as plans hold them: Spark SQL text over the columns of one node.

Rules that rewrite plans ask here what a text reads, and put other texts in the place of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from sqlglot import exp

from penstock.sql.columns import columns_of, exchanges, function_name, parameters, parts_of
from penstock.sql.names import folded, quoted
from penstock.sql.text import SqlText
from penstock.sql.tree import expression_tree, span_of

__all__ = [
    "conjoined",
    "conjuncts",
    "enclosed",
    "equality",
    "is_cheap",
    "plain_column",
    "reads",
    "same_words",
    "substituted",
]


@lru_cache(maxsize=4096)
def _read(sql: str) -> tuple[SqlText, exp.Expression]:
    text = SqlText(sql)
    return text, expression_tree(text)


@lru_cache(maxsize=4096)
def reads(sql: str) -> tuple[str, ...]:
    """The columns it reads, each as often as it does.

    >>> reads("a + s.x + timestampdiff(HOUR, `b c`, a)")
    ('a', 's', 'b c', 'a')
    """
    return tuple(parts_of(column)[0].name for column in columns_of(_read(sql)[1]))


def substituted(sql: str, texts: Mapping[str, str]) -> str | None:
    """With a text in place of each column; None where it would come to mean something else.

    >>> substituted("a * 2 + s.x", {"a": "b + 1", "s": "t"})
    '(b + 1) * 2 + t.x'
    >>> substituted("struct(a)", {"a": "b"})
    'struct(b AS a)'
    >>> substituted("transform(c, x -> x + a)", {"a": "x", "c": "c"}) is None
    True
    """
    text, tree = _read(sql)
    used = reads(sql)
    hidden = parameters(tree)
    if hidden and any(folded(it) in hidden for name in used for it in reads(texts[name])):
        return None
    if _names_fields(tree) and any(texts[name] != quoted(name) for name in used):
        return None
    if plain_column(sql) is not None:
        return texts[used[0]]

    def found(column: exp.Column) -> tuple[str, int]:
        return enclosed(texts[parts_of(column)[0].name]), 1

    return text.spelled(*_whole(text), exchanges(tree, found))


def _names_fields(tree: exp.Expression) -> bool:
    """`arrays_zip` names the fields of its result by the columns it is given."""
    return any(function_name(it) == "arrays_zip" for it in tree.find_all(exp.Anonymous))


def _whole(text: SqlText) -> tuple[int, int]:
    return 0, len(text.sql)


_CLOSED = (exp.Literal, exp.Paren, exp.Anonymous, exp.Func, exp.Null, exp.Boolean)
_PREDICATES = (
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
)
_OF_AND = (*_CLOSED, *_PREDICATES, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Column, exp.And)


def enclosed(sql: str) -> str:
    """The text so that any operator may stand beside it.

    >>> enclosed("a"), enclosed("upper(a)"), enclosed("a + 1"), enclosed("-1"), enclosed("(a) + (b)")
    ('a', 'upper(a)', '(a + 1)', '(-1)', '((a) + (b))')
    """
    text, tree = _read(sql)
    if isinstance(tree, exp.Column):
        return sql if plain_column(sql) is not None else f"({sql})"
    begins = text.tokens[0].token_type.name
    closed = isinstance(tree, _CLOSED) and not isinstance(tree, exp.Connector | exp.Binary)
    return (
        sql if closed and begins not in ("DASH", "PLUS", "TILDE", "NOT") and sql[-1:] != "'" else f"({sql})"
    )


def plain_column(sql: str) -> str | None:
    """The column, where the text is nothing but its name."""
    text, tree = _read(sql)
    if isinstance(tree, exp.Column) and len(text.tokens) == 1:
        return parts_of(tree)[0].name
    return None


def is_cheap(sql: str) -> bool:
    """Whether computing it twice costs nothing: a column, one of its fields, or a literal."""
    return isinstance(_read(sql)[1], exp.Column | exp.Literal | exp.Null | exp.Boolean)


def conjuncts(sql: str | None) -> list[str]:
    """The conditions that must all hold.

    >>> conjuncts("a > 1 AND (b = 2 AND (c OR d)) AND e BETWEEN 1 AND 2")
    ['a > 1', 'b = 2', 'c OR d', 'e BETWEEN 1 AND 2']
    """
    if sql is None:
        return []
    text, tree = _read(sql)
    return [text.spelled(*span_of(it)) for it in flat(tree)]


def flat(tree: exp.Expression) -> list[exp.Expression]:
    """The parts of a condition that AND holds together, without parentheses around them."""
    inner = tree
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if not isinstance(inner, exp.And):
        return [inner]
    found: list[exp.Expression] = []
    while isinstance(inner, exp.And):  # a long chain leans to the left
        found[:0] = flat(inner.expression)
        inner = inner.this
    return flat(inner) + found


def conjoined(parts: Iterable[str]) -> str | None:
    """One condition of several, each said once; None of none.

    >>> conjoined(["a > 1", "c OR d", "a > 1"])
    'a > 1 AND (c OR d)'
    """
    told = list(dict.fromkeys(parts))
    if len(told) < 2:
        return told[0] if told else None
    return " AND ".join(it if _stands_beside_and(_read(it)[1]) else f"({it})" for it in told)


def _stands_beside_and(tree: exp.Expression) -> bool:
    return isinstance(tree, _OF_AND) and not isinstance(tree, exp.Or | exp.Xor)


def equality(sql: str) -> tuple[str, str, bool] | None:
    """Both sides of `=` or `<=>`, and whether NULL equals NULL; None where it is something else.

    Spark reads `a = b IS NULL` as `(a = b) IS NULL`, and others do not: such is left alone.

    >>> equality("o.a + 1 <=> b"), equality("a = b IS NULL"), equality("a > b")
    (('o.a + 1', 'b', True), None, None)
    """
    text, tree = _read(sql)
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return None
    sides = (tree.this, tree.expression)
    if any(isinstance(side, exp.Predicate | exp.Not | exp.Connector) for side in sides):
        return None
    left, right = (text.spelled(*span_of(side)) for side in sides)
    return left, right, isinstance(tree, exp.NullSafeEQ)


@lru_cache(maxsize=4096)
def same_words(sql: str) -> tuple[str, ...]:
    """The words of an expression, alike for texts that say the same but for case, spaces and outer brackets.

    >>> same_words("UPPER(a)  + 1") == same_words("((upper(A) + 1))")
    True
    """
    text, tree = _read(sql)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    told = []
    for token in text.between(*span_of(tree)):
        word = text.sql[token.start : token.end + 1]
        literal = token.token_type.name.endswith("STRING")
        told.append(word if literal else folded(token.text) if word[:1] == "`" else folded(word))
    return tuple(told)
