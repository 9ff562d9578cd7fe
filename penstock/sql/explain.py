"""EXPLAIN INCREMENTAL: what each node of a plan keeps, and what a tick costs it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan import Aggregate, Distinct, Function, Join, Keyed, Node, Scan, Select, Union, inputs
from penstock.plan.show import line

__all__ = ["Explained", "explain"]


@dataclass(frozen=True, slots=True)
class Explained:
    """One line of EXPLAIN INCREMENTAL. Δ stands for the changes of a tick."""

    plan: str
    law: str
    state: str
    cost: str


def explain(node: Node) -> list[Explained]:
    """The plan as an indented tree, what is read below what reads it, a line for each node.

    >>> from penstock.plan import Aggregate, Call, Function, Scan
    >>> totals = Aggregate(Scan("main", "orders"), ("customer",), (Call("n", Function.COUNT),))
    >>> for it in explain(totals):
    ...     print(it.plan, "|", it.state, "|", it.cost)
    Aggregate by customer: n = count(*) | accumulators by group | O(Δ), added up by Spark first
      Scan main.orders | none | O(Δ)
    """
    found: list[Explained] = []
    seen: set[Node] = set()
    stack = [(node, 0)]
    while stack:
        it, depth = stack.pop()
        law, state, cost = _told(it)
        if it in seen and inputs(it):
            state, cost = "the same as above", "once for both"
        found.append(Explained("  " * depth + line(it), law, state, cost))
        if it not in seen:
            stack.extend((child, depth + 1) for child in reversed(inputs(it)))
        seen.add(it)
    return found


def _told(node: Node) -> tuple[str, str, str]:
    match node:
        case Scan():
            return "the changes of a log between two LSNs", "none", "O(Δ)"
        case Keyed():
            return "an event by key becomes −old +new; a repeated one nothing", "rows by key", "O(Δ)"
        case Select():
            return "linear: f(Δ)", "none", "O(Δ), in Spark"
        case Union():
            return "linear: ΔA + ΔB", "none", "O(Δ)"
        case Join(on=on):
            fan_out = "the other side's rows of the same key" if on else "all rows of the other side"
            return (
                "bilinear: ΔA⋈B + A⋈ΔB + ΔA⋈ΔB",
                "rows of each side" + (" by join key" if on else ""),
                f"O(Δ × {fan_out})",
            )
        case Aggregate(keys=keys, calls=calls):
            return _aggregate(keys, [call.function for call in calls])
        case Distinct():
            return "a row is there while its count is above 0", "counts by row", "O(Δ)"


def _aggregate(keys: tuple[str, ...], functions: list[Function]) -> tuple[str, str, str]:
    linear = all(it.is_linear for it in functions)
    law = "Σ in a commutative group; −old +new of touched groups"
    state = "accumulators by group" if keys else "accumulators of one group"
    if linear:
        return law, state, "O(Δ), added up by Spark first"
    return law, f"{state}, and values by group and value", "O(Δ log n)"
