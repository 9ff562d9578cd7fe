"""Walking a plan: inputs before those that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.plan.node import Aggregate, Distinct, Join, Keyed, Node, Scan, Union

__all__ = ["in_order", "inputs", "is_stateful"]


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes it reads."""
    if isinstance(node, Scan):
        return ()
    if isinstance(node, Union):
        return node.inputs
    if isinstance(node, Join):
        return (node.left, node.right)
    return (node.input,)


def is_stateful(node: Node) -> bool:
    """Whether it keeps spines."""
    return isinstance(node, Keyed | Join | Aggregate | Distinct)


def in_order(roots: Iterable[Node], is_leaf: Callable[[Node], bool] | None = None) -> list[Node]:
    """All nodes of these plans, each once, every one after its inputs; nothing below a leaf.

    >>> from penstock.plan import Scan, Union
    >>> orders = Scan("main", "orders")
    >>> [type(node).__name__ for node in in_order([Union((orders, orders)), orders])]
    ['Scan', 'Union']
    """
    found: dict[Node, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in found:
                continue
            if ready:
                found[node] = None
            else:
                stack.append((node, True))
                if is_leaf is not None and is_leaf(node):
                    continue
                stack.extend((child, False) for child in reversed(inputs(node)))
    return list(found)
