"""What rules know of the nodes: which are leaves, and what columns each has."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.plan import (
    Aggregate,
    Distinct,
    Join,
    Keyed,
    Named,
    Node,
    Scan,
    Select,
    SelectTypes,
    Union,
    in_order,
    inputs,
)
from penstock.plan.schema import schema_over
from penstock.sql.expression import plain_column

__all__ = ["Facts"]


class Facts:
    """The columns and types of the nodes above given leaves.

    A leaf is opaque: a table, or another view's plan, whose state is shared only as long as nobody rewrites
    it. The engine is asked for types only where an expression is more than a column.
    """

    def __init__(self, leaves: Mapping[Node, pa.Schema], types: SelectTypes) -> None:
        self._leaves = dict(leaves)
        self._types = types
        self._columns: dict[Node, tuple[str, ...]] = {}
        self._schemas: dict[Node, pa.Schema] = {}

    def add(self, leaf: Node, schema: pa.Schema) -> None:
        """One leaf more."""
        self._leaves[leaf] = schema

    def is_leaf(self, node: Node) -> bool:
        """Whether rules must leave it as it is."""
        return node in self._leaves

    def below(self, node: Node) -> tuple[Node, ...]:
        """Its inputs, as far as they may be rewritten with it."""
        return () if self.is_leaf(node) else inputs(node)

    def order(self, root: Node) -> list[Node]:
        """The nodes down to the leaves, each once, inputs first."""
        return in_order([root], self.is_leaf)

    def parents(self, root: Node) -> dict[Node, int]:
        """How often each node is read."""
        counts = {root: 1}
        for node in self.order(root):
            for child in self.below(node):
                counts[child] = counts.get(child, 0) + 1
        return counts

    def columns(self, node: Node) -> tuple[str, ...]:
        """The names of its columns."""
        for it in in_order([node], lambda it: self.is_leaf(it) or it in self._columns):
            if it not in self._columns:
                self._columns[it] = self._told(it)
        return self._columns[node]

    def _told(self, node: Node) -> tuple[str, ...]:
        if node in self._leaves:
            return tuple(self._leaves[node].names)
        match node:
            case Select(columns=columns):
                return tuple(it.name for it in columns)
            case Aggregate(keys=keys, calls=calls):
                return (*keys, *(it.name for it in calls))
            case Join(left=left, right=right):
                return (*self._columns[left], *self._columns[right])
            case Union(inputs=(first, *_)) | Keyed(input=first) | Distinct(input=first):
                return self._columns[first]
        raise AssertionError(f"a {type(node).__name__} that is no leaf")

    def schema(self, node: Node) -> pa.Schema:
        """The types of its columns."""
        for it in in_order([node], lambda it: self.is_leaf(it) or it in self._schemas):
            if it in self._schemas:
                continue
            if it in self._leaves:
                self._schemas[it] = self._leaves[it]
            else:
                below = [self._schemas[child] for child in inputs(it)]
                self._schemas[it] = schema_over(it, below, self._select)
        return self._schemas[node]

    def _select(self, node: Select, below: pa.Schema) -> pa.Schema:
        asked = tuple(it for it in node.columns if plain_column(it.sql) not in below.names)
        told = self._types(Select(node.input, asked), below) if asked else pa.schema([])
        return pa.schema([self._field(it, told, below) for it in node.columns])

    def _field(self, it: Named, told: pa.Schema, below: pa.Schema) -> pa.Field:
        if it.name in told.names:
            return told.field(it.name)
        return below.field(plain_column(it.sql)).with_name(it.name)

    def common_type(self, left: pa.DataType, right: pa.DataType) -> pa.DataType:
        """The type in which the engine compares these two, or puts them into one column."""
        pair = pa.schema([("a", left), ("b", right)])
        asked = Select(Scan("types", "pair"), (Named("c", "coalesce(a, b)"),))
        return self._types(asked, pair).field("c").type
