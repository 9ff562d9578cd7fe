"""Join keys get one type, as the engine would compare them."""

from __future__ import annotations

from penstock.plan import Join, Node, On
from penstock.sql.facts import Facts
from penstock.sql.names import Names
from penstock.sql.rules.types import cast, common_type, with_columns
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["align_keys"]


def align_keys(root: Node, facts: Facts) -> Node:
    """Casts one side of `a = b`, or both: rows of different types never have the same hash.

    >>> from penstock.sql.rules.example import CUSTOMERS, FACTS, ORDERS, show
    >>> show(align_keys(Join(ORDERS, CUSTOMERS, (On("rank", "since"),)), FACTS))
    Join on key = since
      Select id, customer, amount, rank, key = CAST(rank AS BIGINT)
        orders
      customers
    """

    def rewrite(node: Node, _shared: Shared) -> Node:
        return _aligned(node, facts) if isinstance(node, Join) else node

    return bottom_up(root, facts, rewrite)


def _aligned(node: Join, facts: Facts) -> Node:
    left, right = facts.schema(node.left), facts.schema(node.right)
    names = Names((*left.names, *right.names))
    more: tuple[dict[str, str], dict[str, str]] = ({}, {})
    on: list[On] = []
    for pair in node.on:
        kinds = left.field(pair.left).type, right.field(pair.right).type
        common = common_type(kinds, f"{pair.left} = {pair.right}", facts)
        keys = []
        for side, (name, kind) in enumerate(zip((pair.left, pair.right), kinds, strict=True)):
            sql = cast(name, common)
            if kind != common and sql not in more[side]:
                more[side][sql] = names.new("key")
            keys.append(name if kind == common else more[side][sql])
        on.append(On(keys[0], keys[1], pair.null_safe))
    return Join(with_columns(node.left, more[0], facts), with_columns(node.right, more[1], facts), tuple(on))
