"""A query → its columns and a first plan."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.plan import Distinct, Union
from penstock.sql.bind.refusals import NOT_YET, refuse_clauses
from penstock.sql.bind.scope import Bound, Environment, Field
from penstock.sql.bind.select import bind_select
from penstock.sql.names import folded
from penstock.sql.tree import begin_of

__all__ = ["bind_query"]


def bind_query(tree: exp.Expression, env: Environment) -> Bound:
    """Any query: a SELECT, a UNION of queries, or one of these in brackets."""
    env = _with(tree, env)
    match tree:
        case exp.Select():
            return bind_select(tree, env, bind_query)
        case exp.Union():
            return _union(tree, env)
        case exp.Subquery():
            refuse_clauses(env.text, tree, ("this", "with"))
            return bind_query(tree.this, env)
        case exp.Except() | exp.Intersect():
            raise env.text.unsupported(
                f"{tree.key.upper()} {NOT_YET}",
                begin_of(tree),
                "Write it as a JOIN, or with UNION ALL and GROUP BY.",
            )
        case exp.Values():
            raise env.text.unsupported(
                f"a query of constants (VALUES) {NOT_YET}",
                begin_of(tree),
                "Insert the rows into a table, and read that.",
            )
        case _:
            raise env.text.bad("a query is missing here", begin_of(tree), "Write SELECT … FROM …")


def _with(tree: exp.Expression, env: Environment) -> Environment:
    """Common table expressions: each is bound once, however often it is read."""
    clause = tree.args.get("with_") or tree.args.get("with")
    if clause is None:
        return env
    if clause.args.get("recursive"):
        raise env.text.unsupported(
            f"WITH RECURSIVE {NOT_YET}", begin_of(clause), "Write out as many joins as there are levels."
        )
    ctes = dict(env.ctes)
    seen: set[str] = set()
    for cte in clause.expressions:
        if folded(cte.alias) in seen:
            raise env.text.bad(
                f"two common table expressions are called {cte.alias!r}", begin_of(cte), "Rename one."
            )
        seen.add(folded(cte.alias))
        bound = bind_query(cte.this, replace(env, ctes=dict(ctes)))
        names = [it.name for it in cte.args["alias"].args.get("columns") or []]
        ctes[folded(cte.alias)] = bound.named(names, cte.alias, env.text, begin_of(cte))
    return replace(env, ctes=ctes)


def _union(tree: exp.Union, env: Environment) -> Bound:
    """UNION ALL adds up; UNION, without ALL, keeps each row once."""
    parts: list[tuple[exp.Expression, bool]] = []
    left: exp.Expression = tree
    while isinstance(left, exp.Union) and (left is tree or not _has_with(left)):  # long ones lean to the left
        refuse_clauses(env.text, left, ("this", "expression", "distinct", "with"))
        parts.append((left.expression, bool(left.args.get("distinct"))))
        left = left.this
    bound = bind_query(left, env)
    for right, distinct in reversed(parts):
        other = bind_query(right, env)
        if len(other.fields) != len(bound.fields):
            raise env.text.bad(
                f"one side of UNION has {len(bound.fields)} columns, the other {len(other.fields)}",
                begin_of(right),
                "Give both sides the same columns, in the same order.",
            )
        node = Union((bound.node, other.node))
        fields = tuple(
            Field(it.name, inner) for it, inner in zip(bound.fields, env.facts.columns(node), strict=True)
        )
        bound = Bound(Distinct(node) if distinct else node, fields)
    return bound


def _has_with(tree: exp.Expression) -> bool:
    return bool(tree.args.get("with_") or tree.args.get("with"))
