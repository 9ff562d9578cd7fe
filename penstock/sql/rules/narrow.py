"""Columns that nobody reads are left out, above all from what joins keep."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import Aggregate, Call, Function, Join, Node, Select
from penstock.sql.expression import conjuncts, reads
from penstock.sql.facts import Facts
from penstock.sql.rules.walk import over, plain

__all__ = ["narrow"]


def narrow(root: Node, facts: Facts) -> Node:
    """A node read twice has what either reader needs. The root keeps all its columns.

    >>> from penstock.plan import Named, On
    >>> from penstock.sql.rules.example import CUSTOMERS, FACTS, ORDERS, show
    >>> show(narrow(Select(Join(ORDERS, CUSTOMERS, (On("customer", "name"),)), (Named("c", "city"),)), FACTS))
    Select c = city
      Join on customer = name
        Select customer
          orders
        Select name, city
          customers
    """
    needed = _needed(root, facts)
    made: dict[Node, Node] = {}
    for node in facts.order(root):
        below = facts.below(node)
        inputs = [made[it] for it in below]
        if isinstance(node, Join):
            wanted = _read_of(node, needed[node], facts)
            inputs = [_only(it, names, facts) for it, (_, names) in zip(inputs, wanted, strict=False)]
        made[node] = _narrowed(over(node, inputs), needed[node]) if below else node
    return made[root]


def _needed(root: Node, facts: Facts) -> dict[Node, set[str]]:
    needed: dict[Node, set[str]] = {root: set(facts.columns(root))}
    for node in reversed(facts.order(root)):
        mine = needed[node]
        if isinstance(node, Select | Join | Aggregate):
            _keep_one(node, mine, facts)
        for child, names in _read_of(node, mine, facts):
            needed.setdefault(child, set()).update(names)
    return needed


def _keep_one(node: Node, mine: set[str], facts: Facts) -> None:
    """Rows without any column are no rows that could be counted."""
    if not mine:
        mine.add(facts.columns(node)[0])


def _read_of(node: Node, mine: set[str], facts: Facts) -> list[tuple[Node, set[str]]]:
    """What each input has to have."""
    if facts.is_leaf(node):
        return []
    match node:
        case Select():
            said = [it.sql for it in node.columns if it.name in mine] + conjuncts(node.where)
            return [(node.input, {name for sql in said for name in reads(sql)})]
        case Aggregate():
            calls = _calls(node, mine)
            return [(node.input, {*node.keys, *(it.column for it in calls if it.column is not None)})]
        case Join():
            left, right = set(facts.columns(node.left)), set(facts.columns(node.right))
            return [
                (node.left, (mine & left) | {it.left for it in node.on}),
                (node.right, (mine & right) | {it.right for it in node.on}),
            ]
    return [(it, set(facts.columns(it))) for it in facts.below(node)]


def _narrowed(node: Node, needed: set[str]) -> Node:
    match node:
        case Select():
            return replace(node, columns=tuple(it for it in node.columns if it.name in needed))
        case Aggregate():
            return replace(node, calls=_calls(node, needed))
        case _:
            return node


def _calls(node: Aggregate, needed: set[str]) -> tuple[Call, ...]:
    """Where only the groups themselves are needed, they are counted."""
    kept = tuple(it for it in node.calls if it.name in needed)
    return kept or (Call(node.calls[0].name, Function.COUNT),)


def _only(node: Node, needed: set[str], facts: Facts) -> Node:
    there = facts.columns(node)
    kept = [it for it in there if it in needed] or [there[0]]
    return node if len(kept) == len(there) else Select(node, plain(kept))
