"""Spark SQL → an incremental plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.changes.names import is_reserved
from penstock.errors import ReservedName
from penstock.plan import Named, Node, Select, SelectTypes
from penstock.sql.bind.query import bind_query
from penstock.sql.bind.scope import Bound, Environment
from penstock.sql.catalog import Catalog
from penstock.sql.facts import Facts
from penstock.sql.names import folded, quoted
from penstock.sql.rules import RULES
from penstock.sql.text import SqlText
from penstock.sql.tree import query_tree

__all__ = ["ViewPlan", "plan_of"]


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A view's plan. Its root has just the view's columns, in their order.

    ``reads``: the tables and views of its query, as it names them.
    """

    node: Node
    columns: tuple[str, ...]
    reads: tuple[str, ...]


def plan_of(
    query: str,
    catalog: Catalog,
    types: SelectTypes,
    *,
    view: str | None = None,
    columns: Sequence[str] = (),
) -> ViewPlan:
    """The plan that keeps the query's answer.

    ``types`` tells what an engine makes of expressions; it is asked only where types must be made to agree.
    ``view`` is the name of the view being made, which its query must not read; ``columns`` are names for its
    columns, where it was given any.
    """
    text = SqlText(query)
    facts = Facts({}, types)
    env = Environment(text, catalog, facts, view)
    try:
        bound = bind_query(query_tree(text), env).named(list(columns), view or "the view", text, 0)
        names = _columns(bound, text)
        node = bound.node
        if columns:
            pairs = zip(names, bound.fields, strict=True)
            node = Select(node, tuple(Named(name, quoted(it.inner)) for name, it in pairs))
        for rule in RULES:
            node = rule(node, facts)
    except RecursionError as error:
        raise text.bad("the query is nested too deeply", 0, "Part it into several views.") from error
    return ViewPlan(node, names, tuple(sorted(env.read)))


def _columns(bound: Bound, text: SqlText) -> tuple[str, ...]:
    """Every column of a view has a name of its own, which is the user's to give."""
    seen: set[str] = set()
    names: list[str] = []
    for number, field in enumerate(bound.fields, start=1):
        if field.name is None:
            raise text.bad(f"column {number} of the view has no name", 0, "Give it one, with AS.")
        if is_reserved(field.name):
            raise ReservedName(
                f"the column {field.name!r} begins with one underscore",
                subject="view",
                hint="Such names are Penstock's own: give the column another one, with AS.",
            )
        if folded(field.name) in seen:
            raise text.bad(
                f"two columns of the view are called {field.name!r}", 0, "Name one of them anew, with AS."
            )
        seen.add(folded(field.name))
        names.append(field.name)
    return tuple(names)
