"""A UNION ALL of UNION ALLs is one."""

from __future__ import annotations

from penstock.plan import Node, Union
from penstock.sql.facts import Facts
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["flatten_unions"]


def flatten_unions(root: Node, facts: Facts) -> Node:
    """Takes the inputs of a `Union` among the inputs of the one above.

    >>> from penstock.sql.rules.example import FACTS, ORDERS, show
    >>> show(flatten_unions(Union((Union((ORDERS, ORDERS)), ORDERS)), FACTS))
    Union
      orders
      orders
      orders
    """

    def rewrite(node: Node, shared: Shared) -> Node:
        if not isinstance(node, Union):
            return node
        inputs: list[Node] = []
        for it in node.inputs:
            inside = isinstance(it, Union) and not facts.is_leaf(it) and not shared(it)
            inputs += it.inputs if inside and isinstance(it, Union) else [it]
        return Union(tuple(inputs))

    return bottom_up(root, facts, rewrite)
