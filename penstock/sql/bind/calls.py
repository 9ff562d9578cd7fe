"""One aggregate as SQL writes it → a function the engine maintains, and the expression it reads.

FILTER (WHERE c) becomes CASE WHEN c THEN x END: every aggregate but COUNT(*) leaves NULLs out.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.plan import Function
from penstock.sql.bind.refusals import NOT_YET, check_expression
from penstock.sql.bind.scope import Scope
from penstock.sql.columns import function_name
from penstock.sql.expression import conjoined, enclosed
from penstock.sql.functions import AGGREGATES
from penstock.sql.text import SqlText
from penstock.sql.tree import span_of

__all__ = ["Argument", "argument_of", "is_call"]


@dataclass(frozen=True, slots=True)
class Argument:
    """What is aggregated. ``distinct``: each value of a group once (where that makes a difference)."""

    function: Function
    sql: str | None = None
    distinct: bool = False


def is_call(tree: exp.Expression) -> bool:
    """Whether it is an aggregate that is maintained, with its FILTER."""
    return function_name(tree.this if isinstance(tree, exp.Filter) else tree) in AGGREGATES


def argument_of(tree: exp.Expression, text: SqlText, scope: Scope) -> Argument:
    """The function and what it reads, FILTER included."""
    condition = None
    if isinstance(tree, exp.Filter):
        condition = _row_text(tree.expression.this, text, scope)
        tree = tree.this
    name = function_name(tree)
    assert name is not None
    arguments, distinct = list(tree.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = list(arguments[0].expressions), True
    at = tree.meta["start"]
    if name == "count":
        return _count(arguments, distinct, condition, text, scope, at)
    if len(arguments) != 1:
        raise text.bad(f"{name}() reads one column, not {len(arguments)}", at, f"Write {name}(column).")
    sql = _row_text(arguments[0], text, scope)
    if name == "count_if":
        if distinct:
            raise text.unsupported(f"count_if(DISTINCT …) {NOT_YET}", at, "Leave DISTINCT out.")
        return Argument(Function.COUNT_COLUMN, _when([sql, *([condition] if condition else [])], "1"))
    function = AGGREGATES[name]
    if condition is not None:
        sql = _when([condition], sql)
    return Argument(function, sql, distinct and function in (Function.SUM, Function.AVG))


def _count(
    arguments: list[exp.Expression],
    distinct: bool,
    condition: str | None,
    text: SqlText,
    scope: Scope,
    at: int,
) -> Argument:
    """COUNT leaves out rows in which any argument is NULL; a literal never is."""
    if not arguments:
        raise text.bad("count() has no argument", at, "Write count(*).")
    filtered = [condition] if condition else []
    if any(isinstance(it, exp.Star) for it in arguments):
        if distinct or len(arguments) > 1:
            raise text.unsupported(f"count(DISTINCT *) {NOT_YET}", at, "Name the columns.")
        arguments = []
    if not distinct and all(isinstance(it, exp.Literal) for it in arguments):
        return Argument(Function.COUNT_COLUMN, _when(filtered, "1")) if filtered else Argument(Function.COUNT)
    texts = [_row_text(it, text, scope) for it in arguments]
    known = [f"{enclosed(it)} IS NOT NULL" for it in texts]
    if distinct:
        one = texts[0] if len(texts) == 1 else _when(known, f"struct({', '.join(texts)})")
        return Argument(Function.COUNT_DISTINCT, _when(filtered, one) if filtered else one)
    if len(texts) > 1:
        return Argument(Function.COUNT_COLUMN, _when(known + filtered, "1"))
    return Argument(Function.COUNT_COLUMN, _when(filtered, texts[0]) if filtered else texts[0])


def _row_text(tree: exp.Expression, text: SqlText, scope: Scope) -> str:
    check_expression(text, tree)
    if isinstance(tree, exp.Star | exp.Distinct | exp.Order | exp.Limit):
        raise text.unsupported(
            f"{tree.key.upper()} inside this aggregate {NOT_YET}", span_of(tree)[0], "Leave it out."
        )
    return scope.written(tree)


def _when(conditions: list[str], then: str) -> str:
    return f"CASE WHEN {conjoined(conditions)} THEN {then} END"
