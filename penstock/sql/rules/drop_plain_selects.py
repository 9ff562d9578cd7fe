"""A `Select` that changes nothing is none."""

from __future__ import annotations

from penstock.plan import Aggregate, Node, Select
from penstock.sql.expression import plain_column
from penstock.sql.facts import Facts
from penstock.sql.rules.walk import Shared, bottom_up, over

__all__ = ["drop_plain_selects"]


def drop_plain_selects(root: Node, facts: Facts) -> Node:
    """Drops those with just their input's columns, and below an `Aggregate` those that only leave some out.

    So an aggregate stands right upon its table, as it does in every other view of that table.

    >>> from penstock.plan import Call, Function, Named
    >>> from penstock.sql.rules.example import FACTS, ORDERS, show
    >>> some = Select(ORDERS, (Named("customer", "customer"),))
    >>> show(drop_plain_selects(Aggregate(some, ("customer",), (Call("n", Function.COUNT),)), FACTS))
    Aggregate by customer: n = count(*)
      orders
    """

    def rewrite(node: Node, _shared: Shared) -> Node:
        if isinstance(node, Aggregate | Select):
            below = node.input
            while _is_plain(below, facts) and isinstance(below, Select):
                below = below.input
            node = over(node, [below])
        same = _is_plain(node, facts) and isinstance(node, Select)
        if same and isinstance(node, Select) and facts.columns(node) == facts.columns(node.input):
            return node.input
        return node

    return bottom_up(root, facts, rewrite)


def _is_plain(node: Node, facts: Facts) -> bool:
    """Whether it does nothing but leave columns out."""
    if not isinstance(node, Select) or node.where is not None or facts.is_leaf(node):
        return False
    return all(plain_column(it.sql) == it.name for it in node.columns)
