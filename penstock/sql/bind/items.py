"""The items of a SELECT list: stars written out, and the name of each column."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.bind.refusals import NOT_YET, refuse_clauses
from penstock.sql.bind.scope import Environment, Field, Scope
from penstock.sql.names import candidates, folded
from penstock.sql.tree import begin_of, span_of

__all__ = ["Item", "items_of"]


@dataclass(frozen=True, slots=True)
class Item:
    """One column of a SELECT list: an expression, or a column that a star stands for."""

    name: str | None
    tree: exp.Expression | None = None
    field: Field | None = None
    has_alias: bool = False


def items_of(select: exp.Select, env: Environment, scope: Scope) -> list[Item]:
    """The columns in their order."""
    found: list[Item] = []
    for tree in select.expressions:
        if isinstance(tree, exp.Star):
            found += _star(tree, scope.shown, env)
        elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            found += _star(tree.this, _fields_of(tree, env, scope), env)
        elif isinstance(tree, exp.Alias):
            found.append(Item(tree.alias, tree.this, has_alias=True))
        elif isinstance(tree, exp.Aliases):
            raise env.text.unsupported(f"AS (…) {NOT_YET}", begin_of(tree), "Give one name to one column.")
        else:
            found.append(Item(_name_of(tree), tree))
    if not found:
        raise env.text.bad("there is no column", span_of(select)[0], "Name one, or write *.")
    return found


def _name_of(tree: exp.Expression) -> str | None:
    """The name that Spark gives a column, if it is one that anybody could write."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return str(tree.name)
    if isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Identifier):
        return str(tree.expression.name)
    return None


def _fields_of(tree: exp.Column, env: Environment, scope: Scope) -> list[Field]:
    for source in scope.sources:
        if folded(source.alias) == folded(tree.table):
            return list(source.fields)
    raise env.text.unknown(
        f"there is no table {tree.table!r} here",
        begin_of(tree),
        candidates(tree.table, [it.alias for it in scope.sources]),
    )


def _star(star: exp.Star, fields: list[Field], env: Environment) -> list[Item]:
    refuse_clauses(env.text, star, ("except",))
    left_out = star.args.get("except_") or star.args.get("except") or []
    there = {folded(it.name) for it in fields if it.name is not None}
    for name in left_out:
        if folded(name.name) not in there:
            known = [it.name for it in fields if it.name is not None]
            raise env.text.unknown(
                f"there is no column {name.name!r} to leave out", begin_of(name), candidates(name.name, known)
            )
    gone = {folded(name.name) for name in left_out}
    return [Item(it.name, field=it) for it in fields if it.name is None or folded(it.name) not in gone]
