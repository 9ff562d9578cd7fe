"""What SQL has and a view does not yet maintain, each with its name and the way out."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from penstock.sql.columns import function_name
from penstock.sql.functions import (
    AGGREGATES,
    GENERATORS,
    NOT_REPEATABLE,
    OTHER_AGGREGATES,
    PINNED,
    TIME_WINDOWS,
    WINDOW_ONLY,
)
from penstock.sql.text import SqlText
from penstock.sql.tree import begin_of, span_of, walk

__all__ = ["NOT_YET", "check_expression", "refuse_clauses"]

NOT_YET = "is not maintained incrementally yet"

_CLAUSES = {
    "order": ("ORDER BY", "A view is a set of rows: order them when you read it, with db.query()."),
    "sort": ("SORT BY", "A view is a set of rows: order them when you read it, with db.query()."),
    "limit": ("LIMIT", "Take the first rows when you read the view, with db.query()."),
    "offset": ("OFFSET", "Skip rows when you read the view, with db.query()."),
    "cluster": ("CLUSTER BY", "Leave it out: Penstock places rows itself."),
    "distribute": ("DISTRIBUTE BY", "Leave it out: Penstock places rows itself."),
    "laterals": ("LATERAL VIEW", "Keep one row per element in the table instead."),
    "windows": ("a WINDOW clause", "Use GROUP BY, or compute windows when you read the view."),
    "qualify": ("QUALIFY", "Use GROUP BY, or compute windows when you read the view."),
    "pivots": ("PIVOT", "Write one aggregate with FILTER (WHERE …) for each column."),
    "sample": ("TABLESAMPLE", "Leave it out: a sample cannot be taken back."),
    "version": ("reading a table as of a version", "Read the table itself."),
    "when": ("reading a table as of a version", "Read the table itself."),
    "hint": ("a hint", "Leave it out."),
    "hints": ("a hint", "Leave it out."),
}


def refuse_clauses(text: SqlText, tree: exp.Expression, known: Collection[str]) -> None:
    """Refuse every part of the tree that is not known: what nobody looked at would be dropped in silence."""
    for name, value in tree.args.items():
        if not value or name.rstrip("_") in known:
            continue
        what, hint = _CLAUSES.get(name.rstrip("_"), (f"{name.strip('_').upper()} here", "Leave it out."))
        first = value[0] if isinstance(value, list) else value
        at = begin_of(first) if isinstance(first, exp.Expression) else 0
        raise text.unsupported(f"{what} {NOT_YET}", at or begin_of(tree), hint)


def check_expression(text: SqlText, tree: exp.Expression, aggregates: bool = False) -> None:
    """Refuse what an expression of a view must not contain."""
    for part in walk(tree):
        told = _refused(part, aggregates)
        if told is not None:
            raise text.unsupported(told[0], _place(part), told[1])
        name = function_name(part)
        if name in AGGREGATES and not aggregates:
            raise text.bad(
                f"the aggregate {name}() stands where rows are looked at one by one",
                _place(part),
                "Conditions on aggregates go into HAVING, aggregates of aggregates over a derived table.",
            )


def _place(part: exp.Expression) -> int:
    return part.meta["start"] if part.meta.get("start") is not None else span_of(part)[0]


def _refused(part: exp.Expression, aggregates: bool) -> tuple[str, str] | None:
    match part:
        case exp.Query() | exp.Exists():
            return f"a query inside an expression {NOT_YET}", "Write it as a JOIN."
        case exp.Window():
            return f"a window function (OVER) {NOT_YET}", "Use GROUP BY, or a JOIN with a grouped query."
        case exp.Placeholder() | exp.Parameter() | exp.SessionParameter():
            return "a parameter has no value in a view", "Write the value."
        case exp.CurrentDate() | exp.CurrentTimestamp() | exp.CurrentTime() | exp.CurrentUser():
            return _pinned(part.key.replace("current", "current_"))
        case exp.Cast(this=exp.Literal(is_string=True) as literal) if str(literal.this).strip().lower() in (
            "now",
            "today",
            "tomorrow",
            "yesterday",
        ):
            return _pinned(f"the literal {literal.this!r}")
        case exp.WithinGroup():
            return f"WITHIN GROUP {NOT_YET}", "Compute it when you read the view."
        case exp.Star() if not _is_counted(part):
            return f"a star inside an expression {NOT_YET}", "Name the columns."
    name = function_name(part)
    return None if name is None else _refused_function(name, part)


def _is_counted(star: exp.Star) -> bool:
    parent = star.parent
    return isinstance(parent, exp.Anonymous) and function_name(parent) == "count"


def _refused_function(name: str, part: exp.Expression) -> tuple[str, str] | None:
    if name in NOT_REPEATABLE:
        return (
            f"{name}() gives another answer each time, so what a view said could not be taken back",
            "Compute it once, when you insert the row, and store it in a column.",
        )
    if name in PINNED and not (name == "unix_timestamp" and part.expressions):
        return _pinned(f"{name}()")
    if name in OTHER_AGGREGATES:
        return (
            f"the aggregate {name}() {NOT_YET}",
            "COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR and COUNT_IF are.",
        )
    if name in GENERATORS:
        return (
            f"{name}(), which makes several rows of one, {NOT_YET}",
            "Keep one row per element in the table.",
        )
    if name in TIME_WINDOWS:
        return f"the time window {name}() {NOT_YET}", "Group by date_trunc('HOUR', ts), for instance."
    if name in WINDOW_ONLY:
        return f"the window function {name}() {NOT_YET}", "Use GROUP BY, or a JOIN with a grouped query."
    return None


def _pinned(what: str) -> tuple[str, str]:
    return (
        f"{what} tells of the moment or the session, and {NOT_YET}",
        "Store the time in a column, and compare with it when you read the view.",
    )
