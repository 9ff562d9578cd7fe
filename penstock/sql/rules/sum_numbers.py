"""SUM and AVG of strings are of doubles."""

from __future__ import annotations

import pyarrow as pa

from penstock.plan import Aggregate, Call, Function, Node
from penstock.sql.facts import Facts
from penstock.sql.names import Names
from penstock.sql.rules.types import cast, with_columns
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["sum_numbers"]

_SUMS = (Function.SUM, Function.AVG)


def sum_numbers(root: Node, facts: Facts) -> Node:
    """Casts what is summed where it is text, as Spark does.

    >>> from penstock.sql.rules.example import FACTS, ORDERS, show
    >>> show(sum_numbers(Aggregate(ORDERS, (), (Call("s", Function.SUM, "customer"),)), FACTS))
    Aggregate: s = sum(arg)
      Select id, customer, amount, rank, arg = CAST(customer AS DOUBLE)
        orders
    """

    def rewrite(node: Node, _shared: Shared) -> Node:
        return _cast(node, facts) if isinstance(node, Aggregate) else node

    return bottom_up(root, facts, rewrite)


def _cast(node: Aggregate, facts: Facts) -> Node:
    summed = [it.column for it in node.calls if it.function in _SUMS and it.column is not None]
    if not summed:
        return node
    schema = facts.schema(node.input)
    names = Names(schema.names)
    new = {it: names.new("arg") for it in summed if pa.types.is_string(schema.field(it).type)}
    if not new:
        return node
    calls = (
        Call(it.name, it.function, new.get(it.column or "", it.column)) if it.function in _SUMS else it
        for it in node.calls
    )
    more = {cast(old, pa.float64()): name for old, name in new.items()}
    return Aggregate(with_columns(node.input, more, facts), node.keys, tuple(calls))
