"""Tables that no condition connects are put together last."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import Join, Node, Select
from penstock.sql.expression import conjuncts, equality, reads
from penstock.sql.facts import Facts
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["order_joins"]


def order_joins(root: Node, facts: Facts) -> Node:
    """In a product of several tables, each comes after one that an equality ties it to, where there is one.

    Else `FROM a, b, c WHERE a.x = c.x AND b.y = c.y` would begin with all pairs of a and b.

    >>> from penstock.plan import Named
    >>> from penstock.sql.rules.example import CUSTOMERS, FACTS, ORDERS, show
    >>> other = Select(CUSTOMERS, (Named("other", "name"),))
    >>> product = Join(Join(ORDERS, other, ()), CUSTOMERS, ())
    >>> show(order_joins(Select(product, (Named("id", "id"),), "customer = name AND city = other"), FACTS))
    Select id where customer = name AND city = other
      Join of all pairs
        Join of all pairs
          orders
          customers
        Select other = name
          customers
    """

    def rewrite(node: Node, shared: Shared) -> Node:
        if not isinstance(node, Select) or node.where is None:
            return node
        tables = _tables(node.input, facts, shared)
        if len(tables) < 3:
            return node
        return replace(node, input=_product(_ordered(tables, conjuncts(node.where), facts)))

    return bottom_up(root, facts, rewrite)


def _tables(node: Node, facts: Facts, shared: Shared) -> list[Node]:
    right: list[Node] = []
    while isinstance(node, Join) and not node.on and not facts.is_leaf(node) and not shared(node):
        right[:0] = _tables(node.right, facts, shared)
        node = node.left
    return [node, *right]


def _ordered(tables: list[Node], conditions: list[str], facts: Facts) -> list[Node]:
    equalities = [it for it in map(equality, conditions) if it is not None]
    sides = [(set(reads(left)), set(reads(right))) for left, right, _ in equalities]
    ordered, waiting = tables[:1], tables[1:]
    while waiting:
        known = {name for it in ordered for name in facts.columns(it)}
        at = next((at for at, it in enumerate(waiting) if _tied(known, set(facts.columns(it)), sides)), 0)
        ordered.append(waiting.pop(at))
    return ordered


def _tied(known: set[str], new: set[str], sides: list[tuple[set[str], set[str]]]) -> bool:
    return any(
        one and other and ((one <= known and other <= new) or (one <= new and other <= known))
        for one, other in sides
    )


def _product(tables: list[Node]) -> Node:
    node = tables[0]
    for table in tables[1:]:
        node = Join(node, table, ())
    return node
