"""How rules go through a plan: each node once, leaves untouched, and what is shared known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from penstock.plan import Aggregate, Distinct, Join, Keyed, Named, Node, Scan, Select, Union
from penstock.sql.expression import conjoined
from penstock.sql.facts import Facts
from penstock.sql.names import quoted

__all__ = ["Shared", "bottom_up", "filtered", "over", "plain"]

Shared = Callable[[Node], bool]
"""Whether more than one other node reads this one: then it must stay one."""


def over(node: Node, inputs: Sequence[Node]) -> Node:
    """The same node over other inputs."""
    match node:
        case Scan():
            return node
        case Union():
            return node if node.inputs == tuple(inputs) else Union(tuple(inputs))
        case Join(left=left, right=right):
            return node if (left, right) == tuple(inputs) else Join(inputs[0], inputs[1], node.on)
        case Keyed(input=below) | Select(input=below) | Aggregate(input=below) | Distinct(input=below):
            return node if below == inputs[0] else replace(node, input=inputs[0])


def bottom_up(root: Node, facts: Facts, rewrite: Callable[[Node, Shared], Node]) -> Node:
    """Rewrites every node above the leaves, inputs first; what two others read is made once, for both."""
    parents = facts.parents(root)
    made: dict[Node, Node] = {}
    shared: set[Node] = set()
    for node in facts.order(root):
        below = facts.below(node)
        made[node] = rewrite(over(node, [made[it] for it in below]), shared.__contains__) if below else node
        if parents[node] > 1:
            shared.add(made[node])
    return made[root]


def plain(names: Iterable[str]) -> tuple[Named, ...]:
    """Columns as they are."""
    return tuple(Named(it, quoted(it)) for it in names)


def filtered(node: Node, conditions: Sequence[str], facts: Facts) -> Node:
    """The rows for which all conditions hold."""
    return Select(node, plain(facts.columns(node)), conjoined(conditions)) if conditions else node
