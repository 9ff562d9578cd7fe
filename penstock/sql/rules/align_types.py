"""What is compared or put into one column gets one type, as the engine would choose it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import PenstockError, SchemaMismatch
from penstock.plan import Aggregate, Function, Join, Named, Node, On, Select, Union
from penstock.sql.facts import Facts
from penstock.sql.names import Names, quoted
from penstock.sql.rules.walk import Shared, bottom_up, plain
from penstock.sql.statements.column_types import spark_type

__all__ = ["align_types"]


def align_types(root: Node, facts: Facts) -> Node:
    """Casts join keys, the columns of UNION, and strings that are summed.

    Rows of different types never have the same hash, so no node does this by itself.

    >>> from penstock.sql.rules.example import CUSTOMERS, FACTS, ORDERS, show
    >>> show(align_types(Join(ORDERS, CUSTOMERS, (On("rank", "since"),)), FACTS))
    Join on key = since
      Select id, customer, amount, rank, key = CAST(rank AS BIGINT)
        orders
      customers
    """

    def rewrite(node: Node, _shared: Shared) -> Node:
        match node:
            case Join():
                return _join(node, facts)
            case Union():
                return _union(node, facts)
            case Aggregate():
                return _aggregate(node, facts)
        return node

    return bottom_up(root, facts, rewrite)


def _cast(name: str, kind: pa.DataType) -> str:
    return f"CAST({quoted(name)} AS {spark_type(kind)})"


def _common(kinds: Sequence[pa.DataType], what: str, facts: Facts) -> pa.DataType:
    common = kinds[0]
    for kind in kinds[1:]:
        if kind == common:
            continue
        try:
            common = facts.common_type(common, kind)
        except PenstockError as error:
            raise SchemaMismatch(
                f"{what}: {spark_type(common)} and {spark_type(kind)} have no type in common",
                subject="query",
                hint="CAST one of them.",
            ) from error
    return common


def _join(node: Join, facts: Facts) -> Node:
    left, right = facts.schema(node.left), facts.schema(node.right)
    names = Names((*left.names, *right.names))
    more: tuple[dict[str, str], dict[str, str]] = ({}, {})
    on: list[On] = []
    for pair in node.on:
        kinds = left.field(pair.left).type, right.field(pair.right).type
        common = _common(kinds, f"{pair.left} = {pair.right}", facts)
        keys = []
        for side, (name, kind) in enumerate(zip((pair.left, pair.right), kinds, strict=True)):
            sql = _cast(name, common)
            if kind != common and sql not in more[side]:
                more[side][sql] = names.new("key")
            keys.append(name if kind == common else more[side][sql])
        on.append(On(keys[0], keys[1], pair.null_safe))
    return Join(_with(node.left, more[0], facts), _with(node.right, more[1], facts), tuple(on))


def _with(node: Node, more: dict[str, str], facts: Facts) -> Node:
    added = tuple(Named(name, sql) for sql, name in more.items())
    return Select(node, (*plain(facts.columns(node)), *added)) if added else node


def _union(node: Union, facts: Facts) -> Node:
    schemas = [facts.schema(it) for it in node.inputs]
    if all(it.types == schemas[0].types for it in schemas):
        return node
    common = [
        _common(kinds, f"column {at} of UNION", facts)
        for at, kinds in enumerate(zip(*(it.types for it in schemas), strict=True), start=1)
    ]
    return Union(
        tuple(_of_types(it, schema, common) for it, schema in zip(node.inputs, schemas, strict=True))
    )


def _of_types(node: Node, schema: pa.Schema, kinds: list[pa.DataType]) -> Node:
    if schema.types == kinds:
        return node
    made = (
        Named(it.name, quoted(it.name) if it.type == kind else _cast(it.name, kind))
        for it, kind in zip(schema, kinds, strict=True)
    )
    return Select(node, tuple(made))


def _aggregate(node: Aggregate, facts: Facts) -> Node:
    """SUM and AVG of strings are of doubles."""
    summed = {it.column for it in node.calls if it.function in (Function.SUM, Function.AVG)}
    if not summed:
        return node
    schema = facts.schema(node.input)
    texts = {it for it in summed if pa.types.is_string(schema.field(it).type)}
    if not texts:
        return node
    names = Names(schema.names)
    new = {it: names.new("arg") for it in schema.names if it in texts}
    more = {_cast(old, pa.float64()): name for old, name in new.items()}
    calls = (
        type(it)(it.name, it.function, new.get(it.column or "", it.column))
        if it.function in (Function.SUM, Function.AVG)
        else it
        for it in node.calls
    )
    return Aggregate(_with(node.input, more, facts), node.keys, tuple(calls))
