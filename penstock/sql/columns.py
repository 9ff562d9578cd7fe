"""Which columns an expression reads, and the expression with others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from penstock.sql.names import folded, quoted
from penstock.sql.text import Exchange
from penstock.sql.tree import span_of

__all__ = ["Found", "bare", "columns_of", "exchanges", "function_name", "parameters", "parts_of"]

Found = Callable[[exp.Column], tuple[str, int]]
"""What stands for a column, and how many of its dotted parts that takes: the rest are fields of a struct."""

_WITH_UNIT = frozenset(
    ("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff", "timediff")
)
"""Functions whose first of three arguments is a unit of time, a word and no column."""


def function_name(tree: exp.Expression) -> str | None:
    """The name of a plain function call, in lower case."""
    if not isinstance(tree, exp.Anonymous):
        return None
    return str(tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this).lower()


def columns_of(tree: exp.Expression) -> Iterator[exp.Column]:
    """The columns it reads, each as often as it stands there."""
    if isinstance(tree, exp.Column):
        yield tree
        return
    for child in _read_by(tree):
        yield from columns_of(child)


def _read_by(tree: exp.Expression) -> Iterator[exp.Expression]:
    unit = None
    if function_name(tree) in _WITH_UNIT and len(tree.expressions) == 3:
        unit = tree.expressions[0]
    for child in tree.iter_expressions():
        if child is not unit and isinstance(child, exp.Expression):
            yield child


def parts_of(column: exp.Column) -> list[exp.Identifier]:
    """Its dotted parts as written, from the left."""
    return [it for it in column.parts if isinstance(it, exp.Identifier)]


def parameters(tree: exp.Expression) -> set[str]:
    """Names that its lambdas give to their arguments: no column of such a name can be read inside."""
    return {folded(it.name) for each in tree.find_all(exp.Lambda) for it in each.expressions}


def bare(tree: exp.Expression) -> exp.Column | None:
    """The column, where the expression is nothing else."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
        return None
    parts = parts_of(tree)
    begin, end = span_of(tree)
    return tree if (parts[0].meta.get("start"), parts[-1].meta.get("end", -2) + 1) == (begin, end) else None


def exchanges(
    tree: exp.Expression, found: Found, instead: Callable[[exp.Expression], str | None] | None = None
) -> Iterator[Exchange]:
    """What to write in place of each column, and of every part for which ``instead`` gives a text."""
    if instead is not None:
        new = instead(tree)
        if new is not None:
            yield *span_of(tree), new
            return
    if isinstance(tree, exp.Column):
        yield _exchange(tree, found)
        return
    names = function_name(tree) == "struct"
    for child in _read_by(tree):
        column = bare(child) if names else None
        if column is None:
            yield from exchanges(child, found, instead)
        else:
            yield _named(child, column, found, instead)


def _named(
    child: exp.Expression,
    column: exp.Column,
    found: Found,
    instead: Callable[[exp.Expression], str | None] | None,
) -> Exchange:
    """`struct(a)` has a field `a`, which must stay its name whatever the column is called by then."""
    begin, end = span_of(child)
    kept = quoted(column.name)
    new = None if instead is None else instead(column)
    if new is None:
        new, used = found(column)
        rest = [quoted(it.name) for it in parts_of(column)[used:]]
        if rest:  # a field of a struct: its name stays anyway
            return begin, end, ".".join((new, *rest))
    return begin, end, new if new == kept else f"{new} AS {kept}"


def _exchange(column: exp.Expression, found: Found) -> Exchange:
    assert isinstance(column, exp.Column)
    new, used = found(column)
    parts = parts_of(column)
    return parts[0].meta["start"], parts[used - 1].meta["end"] + 1, new
