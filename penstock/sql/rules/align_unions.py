"""Each column of a UNION gets one type, as the engine would choose it."""

from __future__ import annotations

import pyarrow as pa

from penstock.plan import Named, Node, Select, Union
from penstock.sql.facts import Facts
from penstock.sql.names import quoted
from penstock.sql.rules.types import cast, common_type
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["align_unions"]


def align_unions(root: Node, facts: Facts) -> Node:
    """Casts, by position, the columns whose types differ.

    It runs before conditions are pushed down: a condition above a UNION speaks of the type they all have.

    >>> from penstock.sql.rules.example import FACTS, ORDERS, show
    >>> one, other = (Select(ORDERS, (Named("n", it),)) for it in ("rank", "amount"))
    >>> show(align_unions(Union((one, other)), FACTS))
    Union
      Select n = CAST(n AS BIGINT)
        Select n = rank
          orders
      Select n = amount
        orders
    """

    def rewrite(node: Node, _shared: Shared) -> Node:
        return _aligned(node, facts) if isinstance(node, Union) else node

    return bottom_up(root, facts, rewrite)


def _aligned(node: Union, facts: Facts) -> Node:
    schemas = [facts.schema(it) for it in node.inputs]
    if all(it.types == schemas[0].types for it in schemas):
        return node
    common = [
        common_type(kinds, f"column {at} of UNION", facts)
        for at, kinds in enumerate(zip(*(it.types for it in schemas), strict=True), start=1)
    ]
    return Union(
        tuple(_of_types(it, schema, common) for it, schema in zip(node.inputs, schemas, strict=True))
    )


def _of_types(node: Node, schema: pa.Schema, kinds: list[pa.DataType]) -> Node:
    if schema.types == kinds:
        return node
    made = (
        Named(it.name, quoted(it.name) if it.type == kind else cast(it.name, kind))
        for it, kind in zip(schema, kinds, strict=True)
    )
    return Select(node, tuple(made))
