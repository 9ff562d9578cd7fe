"""Where sqlglot's DuckDB would answer otherwise than Spark, or not at all: one small rewrite for each.

Each takes a node of the tree and gives what to write instead, mostly the node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from penstock.sql.names import folded

__all__ = ["FIXES", "Kinds", "kinds_of", "of_whole_numbers"]

Kind = Literal["whole", "broken"]
Kinds = Mapping[str, Kind]
"""Of columns by name: whether their numbers are whole. Other columns are not there."""

_TYPES = {
    "bigint": "BIGINT",
    "int": "INT",
    "smallint": "SMALLINT",
    "tinyint": "TINYINT",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "string": "TEXT",
    "binary": "BLOB",
}
_WHOLE = ("BIGINT", "INT", "SMALLINT", "TINYINT")
_BROKEN = ("DOUBLE", "FLOAT", "DECIMAL")
_UNITS = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY"}


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _named(tree: exp.Expression, *names: str) -> str | None:
    """The name of a call that sqlglot does not know, if it is one of these."""
    name = folded(tree.name) if isinstance(tree, exp.Anonymous) else ""
    return name if name in names else None


def type_names(tree: exp.Expression) -> exp.Expression:
    """`bigint(x)` is a cast."""
    name = _named(tree, *_TYPES)
    if name is None or len(tree.expressions) != 1:
        return tree
    return exp.Cast(this=tree.expressions[0], to=exp.DataType.build(_TYPES[name]))


def every_and_any(tree: exp.Expression) -> exp.Expression:
    """EVERY, ANY and SOME are BOOL_AND and BOOL_OR."""
    name = _named(tree, "every", "some", "any")
    if name is not None and len(tree.expressions) == 1:
        return _call("BOOL_AND" if name == "every" else "BOOL_OR", *tree.expressions)
    if isinstance(tree, exp.Any) and not isinstance(tree.parent, exp.Binary):
        return _call("BOOL_OR", tree.this.unnest())
    return tree


def modulo(tree: exp.Expression) -> exp.Expression:
    """PMOD is never negative."""
    if _named(tree, "pmod") is None or len(tree.expressions) != 2:
        return tree
    value, by = (exp.Paren(this=it) for it in tree.expressions)
    again = exp.Add(this=exp.Mod(this=value, expression=by), expression=by.copy())
    return exp.Paren(this=exp.Mod(this=exp.Paren(this=again), expression=by.copy()))


def null_tests(tree: exp.Expression) -> exp.Expression:
    """ISNULL(x) and ISNOTNULL(x)."""
    name = _named(tree, "isnull", "isnotnull")
    if name is None or len(tree.expressions) != 1:
        return tree
    test = exp.Is(this=exp.Paren(this=tree.expressions[0]), expression=exp.Null())
    return exp.Paren(this=test if name == "isnull" else exp.Not(this=test))


def trims(tree: exp.Expression) -> exp.Expression:
    """BTRIM is TRIM."""
    return _call("TRIM", *tree.expressions) if _named(tree, "btrim") else tree


def formats(tree: exp.Expression) -> exp.Expression:
    """FORMAT_STRING is PRINTF; DuckDB's FORMAT has other placeholders."""
    return _call("PRINTF", tree.this, *tree.expressions) if isinstance(tree, exp.Format) else tree


def counts(tree: exp.Expression) -> exp.Expression:
    """COUNT of several columns counts the rows that have a value in each; COUNT_IF is a BIGINT."""
    if isinstance(tree, exp.CountIf):
        condition = tree.this
    elif isinstance(tree, exp.Count) and tree.expressions:
        condition = exp.and_(*(it.is_(exp.null()).not_() for it in (tree.this, *tree.expressions)))
    else:
        return tree
    one = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])
    return exp.Count(this=one)


def week_days(tree: exp.Expression) -> exp.Expression:
    """DAYOFWEEK counts from Sunday = 1, WEEKDAY from Monday = 0."""
    if isinstance(tree, exp.DayOfWeek):
        day = _call("DAYOFWEEK", tree.this)
        return exp.Paren(this=exp.Add(this=day, expression=exp.Literal.number(1)))
    if _named(tree, "weekday") and len(tree.expressions) == 1:
        day = _call("ISODOW", *tree.expressions)
        return exp.Paren(this=exp.Sub(this=day, expression=exp.Literal.number(1)))
    return tree


def days(tree: exp.Expression) -> exp.Expression:
    """A date and some days or months is a date, and the first of its month too; DuckDB makes timestamps."""
    if not isinstance(tree, exp.TsOrDsAdd | exp.AddMonths | exp.DateTrunc) or isinstance(
        tree.parent, exp.Cast
    ):
        return tree
    return exp.Cast(this=tree.copy(), to=exp.DataType.build("DATE"))


def units(tree: exp.Expression) -> exp.Expression:
    """TRUNC(day, 'MM') and its like: Spark has short names for units."""
    if isinstance(tree, exp.DateTrunc | exp.TimestampTrunc):
        unit = tree.args.get("unit")
        name = str(unit.name).upper() if isinstance(unit, exp.Expression) else ""
        if name in _UNITS:
            tree.set("unit", exp.Literal.string(_UNITS[name]))
    return tree


def escapes(tree: exp.Expression) -> exp.Expression:
    """A backslash in a pattern of LIKE takes the next sign as it is, also where nobody says ESCAPE."""
    if not isinstance(tree, exp.Like | exp.ILike) or isinstance(tree.parent, exp.Escape):
        return tree
    pattern = tree.expression
    if isinstance(pattern, exp.Literal) and "\\" not in pattern.name:
        return tree
    if isinstance(pattern, exp.Any | exp.All | exp.Tuple | exp.Paren):
        return tree
    return exp.Escape(this=tree.copy(), expression=exp.Literal.string("\\"))


def divisions(tree: exp.Expression) -> exp.Expression:
    """Dividing by zero is an error, and not NULL, as Spark 4 has it by default."""
    if isinstance(tree, exp.Div):
        tree.set("safe", False)
    return tree


def first_place(tree: exp.Expression) -> exp.Expression:
    """SUBSTRING(s, 0, n) begins where SUBSTRING(s, 1, n) does."""
    if isinstance(tree, exp.Substring):
        start = tree.args.get("start")
        if isinstance(start, exp.Literal) and start.name == "0":
            tree.set("start", exp.Literal.number(1))
    return tree


FIXES: tuple[Callable[[exp.Expression], exp.Expression], ...] = (
    type_names,
    every_and_any,
    modulo,
    null_tests,
    trims,
    formats,
    counts,
    week_days,
    days,
    units,
    escapes,
    divisions,
    first_place,
)


def kinds_of(*schemas: pa.Schema) -> dict[str, Kind]:
    """What is known of the columns of these tables, by folded name."""
    found: dict[str, set[Kind | None]] = {}
    for schema in schemas:
        for field in schema:
            found.setdefault(folded(field.name), set()).add(_kind_of_type(field.type))
    told = {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1}
    return {name: kind for name, kind in told.items() if kind is not None}


def _kind_of_type(kind: pa.DataType) -> Kind | None:
    if pa.types.is_integer(kind):
        return "whole"
    return "broken" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else None


def of_whole_numbers(tree: exp.Expression, kinds: Kinds) -> exp.Expression:
    """A cast to whole numbers cuts off, where DuckDB rounds; a sum of whole numbers is a BIGINT."""
    if isinstance(tree, exp.Cast) and tree.to.this.name in _WHOLE and _kind(tree.this, kinds) == "broken":
        if not isinstance(tree.this, exp.Trunc) and not (
            isinstance(tree.this, exp.Anonymous) and tree.this.name == "TRUNC"
        ):
            tree.set("this", _call("TRUNC", tree.this))
        return tree
    if isinstance(tree, exp.Sum) and _kind(tree.this.unnest(), kinds) == "whole":
        top: exp.Expression = tree
        if isinstance(tree.parent, exp.Cast | exp.Filter | exp.Window):
            return top
        return exp.Cast(this=tree.copy(), to=exp.DataType.build("BIGINT"))
    return tree


_SAME = (
    exp.Paren,
    exp.Neg,
    exp.Abs,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Mod,
    exp.Coalesce,
    exp.Min,
    exp.Max,
    exp.Sum,
)


def _kind(tree: exp.Expression, kinds: Kinds) -> Kind | None:
    """Whether an expression makes whole numbers, as far as its words tell."""
    match tree:
        case exp.Column():
            return kinds.get(folded(tree.name))
        case exp.Literal():
            return None if tree.is_string else "whole" if tree.name.isdigit() else "broken"
        case exp.Cast():
            name = tree.to.this.name
            return "whole" if name in _WHOLE else "broken" if name in _BROKEN else None
        case exp.Div() | exp.Avg():
            return "broken"
        case exp.IntDiv() | exp.Count() | exp.Length():
            return "whole"
        case exp.Distinct(expressions=[only]):
            return _kind(only, kinds)
    if not isinstance(tree, _SAME):
        return None
    parts = {_kind(it, kinds) for it in tree.iter_expressions() if isinstance(it, exp.Expression)}
    return "broken" if "broken" in parts else "whole" if parts == {"whole"} else None
