"""A plan as text, for people."""

from __future__ import annotations

from penstock.plan.node import Aggregate, Call, Distinct, Join, Keyed, Node, Scan, Select, Union
from penstock.plan.order import inputs

__all__ = ["line", "show"]


def show(node: Node) -> str:
    """The plan as an indented tree, what is read below what reads it.

    >>> from penstock.plan import Aggregate, Call, Function, Scan
    >>> print(show(Aggregate(Scan("main", "orders"), ("customer",), (Call("n", Function.COUNT),))))
    Aggregate by customer: n = count(*)
      Scan main.orders
    """
    lines: list[str] = []
    stack = [(node, 0)]
    while stack:
        it, depth = stack.pop()
        lines.append("  " * depth + line(it))
        stack.extend((child, depth + 1) for child in reversed(inputs(it)))
    return "\n".join(lines)


def line(node: Node) -> str:
    """What one node says, without those below it."""
    match node:
        case Scan(log, collection):
            return f"Scan {log}.{collection}"
        case Keyed(key=key):
            return f"Keyed by {', '.join(key)}"
        case Select(columns=columns, where=where):
            told = ", ".join(it.name if it.sql == it.name else f"{it.name} = {it.sql}" for it in columns)
            return f"Select {told}" + (f" where {where}" if where else "")
        case Union():
            return "Union"
        case Join(on=on):
            pairs = [f"{it.left} {'<=>' if it.null_safe else '='} {it.right}" for it in on]
            return f"Join on {' and '.join(pairs)}" if pairs else "Join of all pairs"
        case Aggregate(keys=keys, calls=calls):
            by = f" by {', '.join(keys)}" if keys else ""
            return f"Aggregate{by}: {', '.join(map(_call, calls))}"
        case Distinct():
            return "Distinct"


def _call(call: Call) -> str:
    return f"{call.name} = {call.function.removesuffix('_column')}({call.column or '*'})"
