"""The columns that an aggregate's calls read, and what has to be kept of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from penstock.changes.aggregates import GroupedSum
from penstock.plan import Aggregate, Function

__all__ = ["ROWS", "Argument", "arguments_of"]

ROWS = "_rows"
"""The column of `sums` that holds COUNT(*): by it a group is there or not."""

_ADDED = frozenset((Function.SUM, Function.AVG))
_COUNTED = _ADDED | {Function.COUNT_COLUMN}
_EXTREME = frozenset((Function.MIN, Function.MAX))


@dataclass(frozen=True, slots=True)
class Argument:
    """One column, however many calls read it. They are numbered in the order in which calls name them.

    >>> from penstock.plan import Call, Scan
    >>> calls = Call("s", Function.SUM, "x"), Call("a", Function.AVG, "x"), Call("m", Function.MIN, "y")
    >>> node = Aggregate(Scan("main", "t"), (), calls)
    >>> x, y = arguments_of(node, pa.schema([("x", pa.int32()), ("y", pa.string())]))
    >>> x.columns, y.columns, y.bag
    (('_count0', '_sum0_limb0', '_sum0_limb1'), (), 'bag1')
    """

    number: int
    column: str
    kind: pa.DataType
    functions: frozenset[Function]

    @property
    def is_counted(self) -> bool:
        """Whether it needs the count of values that are not NULL."""
        return bool(self.functions & _COUNTED)

    @property
    def is_added(self) -> bool:
        """Whether it needs their sum."""
        return bool(self.functions & _ADDED)

    @property
    def is_double(self) -> bool:
        """Whether rare digits of that sum are kept aside."""
        return self.is_added and pa.types.is_floating(self.kind)

    @property
    def has_extremes(self) -> bool:
        """Whether it needs a bag of its values, in order."""
        return bool(self.functions & _EXTREME)

    @property
    def is_distinct(self) -> bool:
        """Whether it needs the count of each of its values."""
        return Function.COUNT_DISTINCT in self.functions

    @property
    def count(self) -> str:
        return f"_count{self.number}"

    @property
    def limbs(self) -> tuple[str, ...]:
        """The columns of its sum, under the names that `GroupedSum` has for them."""
        return _limbs(self.kind) if self.is_added else ()

    def limb(self, name: str) -> str:
        """The column of `sums` for a limb of that name."""
        return f"_sum{self.number}_{name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns of `sums`, as far as rows add to them directly."""
        return (*((self.count,) if self.is_counted else ()), *map(self.limb, self.limbs))

    @property
    def live_values(self) -> str:
        """The column of `sums` for how many values have a weight above 0."""
        return f"_distinct{self.number}"

    @property
    def bag(self) -> str:
        return f"bag{self.number}"

    @property
    def sparse(self) -> str:
        return f"sparse{self.number}"

    @property
    def distinct(self) -> str:
        return f"distinct{self.number}"


@cache
def _limbs(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(it for it in GroupedSum(kind).state_columns().schema.names if it != "count")


def arguments_of(node: Aggregate, below: pa.Schema) -> tuple[Argument, ...]:
    """The columns that are read, each once."""
    read: dict[str, set[Function]] = {}
    for call in node.calls:
        if call.column is not None:
            read.setdefault(call.column, set()).add(call.function)
    return tuple(_arguments(read.items(), below))


def _arguments(read: Iterable[tuple[str, set[Function]]], below: pa.Schema) -> Iterable[Argument]:
    for number, (column, functions) in enumerate(read):
        yield Argument(number, column, below.field(column).type, frozenset(functions))
