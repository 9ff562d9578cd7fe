"""The columns and types of each node, given the collections' and what an engine says of expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa

from penstock.changes.aggregates import GroupedAvg, GroupedMin, GroupedSum
from penstock.errors import InvalidArgument, NotFound, SchemaMismatch
from penstock.plan.node import Aggregate, Call, Distinct, Function, Join, Keyed, Node, Scan, Select, Union
from penstock.plan.order import in_order, inputs

__all__ = ["SelectTypes", "schema_of", "schema_over", "schemas_of"]

SelectTypes: TypeAlias = Callable[[Select, pa.Schema], pa.Schema]
"""Tells the columns that a `Select` makes of an input of that schema: an engine's business."""


def schemas_of(
    roots: Iterable[Node], collections: Mapping[tuple[str, str], pa.Schema], select_types: SelectTypes
) -> dict[Node, pa.Schema]:
    """The schema of every node. ``collections`` are by (log, collection)."""
    found: dict[Node, pa.Schema] = {}
    for node in in_order(roots):
        found[node] = _schema(node, [found[it] for it in inputs(node)], collections, select_types)
    return found


def schema_of(
    node: Node, collections: Mapping[tuple[str, str], pa.Schema], select_types: SelectTypes
) -> pa.Schema:
    """The schema of one node."""
    return schemas_of([node], collections, select_types)[node]


def schema_over(node: Node, below: list[pa.Schema], select_types: SelectTypes) -> pa.Schema:
    """The schema of a node that reads others, given theirs."""
    return _schema(node, below, {}, select_types)


def _schema(
    node: Node,
    below: list[pa.Schema],
    collections: Mapping[tuple[str, str], pa.Schema],
    select_types: SelectTypes,
) -> pa.Schema:
    match node:
        case Scan(log, collection):
            if (log, collection) not in collections:
                raise NotFound(
                    f"there is no collection {collection!r} in the log {log!r}",
                    subject="plan",
                    hint="Create the table first, or look for a misspelt name.",
                )
            return collections[log, collection]
        case Select():
            return select_types(node, below[0])
        case Keyed(key=key):
            _check_there(key, below[0], "Keyed")
            return below[0]
        case Distinct():
            return below[0]
        case Union():
            return _united(below)
        case Join():
            return _joined(node, *below)
        case Aggregate(keys=keys, calls=calls):
            _check_there(keys, below[0], "Aggregate")
            return pa.schema(
                [*(below[0].field(name) for name in keys), *(_of_call(it, below[0]) for it in calls)]
            )


def _united(below: list[pa.Schema]) -> pa.Schema:
    first = below[0]
    for other in below[1:]:
        if other.types != first.types:
            raise SchemaMismatch(
                f"one side has the types ({_types(first)}), another ({_types(other)})",
                subject="Union",
                hint="Cast the columns so that they agree, one by one.",
            )
    return first


def _joined(node: Join, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    _check_there([on.left for on in node.on], left, "Join")
    _check_there([on.right for on in node.on], right, "Join")
    twice = set(left.names) & set(right.names)
    if twice:
        raise InvalidArgument(
            f"both sides have a column {min(twice)!r}", subject="Join", hint="Name one of them anew."
        )
    for on in node.on:
        mine, theirs = left.field(on.left).type, right.field(on.right).type
        if mine != theirs:
            raise SchemaMismatch(
                f"{on.left} is {mine} and {on.right} is {theirs}",
                subject="Join",
                hint="Cast one of them: rows of different types never have the same hash.",
            )
    return pa.schema([*left, *right])


def _of_call(call: Call, below: pa.Schema) -> pa.Field:
    if call.column is not None:
        _check_there([call.column], below, "Aggregate")
    match call.function:
        case Function.COUNT | Function.COUNT_COLUMN | Function.COUNT_DISTINCT:
            return pa.field(call.name, pa.int64(), nullable=False)
        case Function.SUM:
            return pa.field(call.name, GroupedSum(below.field(call.column).type).result_type)
        case Function.AVG:
            return pa.field(call.name, GroupedAvg(below.field(call.column).type).result_type)
        case Function.MIN | Function.MAX:
            return pa.field(call.name, GroupedMin(below.field(call.column).type).result_type)


def _check_there(names: Iterable[str], schema: pa.Schema, subject: str) -> None:
    for name in names:
        if name not in schema.names:
            raise InvalidArgument(
                f"there is no column {name!r}",
                subject=subject,
                hint=f"The columns are {', '.join(schema.names)}.",
            )


def _types(schema: pa.Schema) -> str:
    return ", ".join(map(str, schema.types))
