"""A SELECT: its tables, conditions, groups and columns, in the order in which SQL thinks of them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.plan import Distinct, Named, Node, Select
from penstock.sql.bind.grouping import Grouping, is_grouped
from penstock.sql.bind.items import Item, items_of
from penstock.sql.bind.refusals import check_expression, refuse_clauses
from penstock.sql.bind.scope import Bound, Environment, Field, Scope
from penstock.sql.bind.sources import BindQuery, bind_from, condition_texts
from penstock.sql.columns import parameters
from penstock.sql.expression import conjoined
from penstock.sql.names import Names, folded, quoted

__all__ = ["bind_select"]

_KNOWN = ("expressions", "from", "joins", "where", "group", "having", "distinct", "with")


def bind_select(select: exp.Select, env: Environment, bind: BindQuery) -> Bound:
    """One SELECT, without what stands around it."""
    refuse_clauses(env.text, select, _KNOWN)
    distinct = select.args.get("distinct")
    if distinct is not None:
        refuse_clauses(env.text, distinct, ())
    scope = Scope(env.text, Names(parameters(select)))
    node, conditions = bind_from(select, env, scope, bind)
    where = select.args.get("where")
    if where is not None:
        conditions += condition_texts(where.this, env, scope)
    items = items_of(select, env, scope)
    if is_grouped(select, items):
        bound = _grouped(select, items, node, conditions, env, scope)
    else:
        texts = [_written(item, env, scope) for item in items]
        bound = _columns(node, items, texts, conditions)
    return bound if distinct is None else Bound(Distinct(bound.node), bound.fields)


def _grouped(
    select: exp.Select, items: list[Item], node: Node, conditions: list[str], env: Environment, scope: Scope
) -> Bound:
    if conditions:
        columns = tuple(Named(it, quoted(it)) for it in env.facts.columns(node))
        node = Select(node, columns, conjoined(conditions))
    grouping = Grouping(select, items, env, scope)
    texts = [grouping.written(item) for item in items]
    having = select.args.get("having")
    kept = [] if having is None else grouping.conditions(having.this)
    return _columns(grouping.node(node), items, texts, kept)


def _written(item: Item, env: Environment, scope: Scope) -> str:
    if item.tree is None:
        assert item.field is not None
        return quoted(item.field.inner)
    check_expression(env.text, item.tree)
    text = scope.written(item.tree)
    if item.has_alias and item.name is not None:
        scope.aliases.setdefault(folded(item.name), text)  # what stands after it may use the name
    return text


def _columns(node: Node, items: list[Item], texts: Sequence[str], conditions: list[str]) -> Bound:
    names = Names()
    fields = [Field(item.name, names.new(item.name or "column")) for item in items]
    columns = tuple(Named(it.inner, text) for it, text in zip(fields, texts, strict=True))
    return Bound(Select(node, columns, conjoined(conditions)), tuple(fields))
