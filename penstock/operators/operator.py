"""`Operator`: what every stateful node is to those who run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock.changes.names import LSN, OP, WEIGHT
from penstock.plan import Aggregate, Distinct, Join, Keyed, Node, Scan, Select, schema_of
from penstock.spine import HASH, Layout, ShardState

__all__ = ["Operator", "Stateful", "changes_of", "columns_of", "events_of", "with_hash", "with_weight"]

Stateful: TypeAlias = Keyed | Join | Aggregate | Distinct

_HASH_FIELD = pa.field(HASH, pa.int64(), nullable=False)
_WEIGHT_FIELD = pa.field(WEIGHT, pa.int64(), nullable=False)
_EVENT_FIELDS = (pa.field(OP, pa.int8(), nullable=False), pa.field(LSN, pa.int64(), nullable=False))


class Operator(Protocol):
    """One stateful node, ready to be run for any shard of any tick.

    Law: for every history of ticks, each cut into any number of shards, the sum of all it yielded is the
    node's answer over the sum of all it was given. It knows no other shard, no clock and no chance: a step
    that is run again yields the same.

    Rows are yielded in canonical form (0.0 for −0.0, one NaN), so that what is taken back later is to the
    last bit what was said before, whatever expressions are computed from it.
    """

    inputs: Mapping[str, pa.Schema]
    """The columns that the step wants of each input: ``_hash``, ``_weight`` (or ``_op``, ``_lsn``) too."""
    keys: Mapping[str, tuple[str, ...]]
    """For each input the columns whose `xxhash64` is its ``_hash``; without any, the hash is 42."""
    layouts: Mapping[str, Layout]
    """Its spines, by name."""
    output: pa.Schema
    """The node's columns, and ``_weight``."""

    @property
    def node(self) -> Stateful: ...

    def step(
        self, inputs: Mapping[str, Iterable[pa.RecordBatch]], state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """One tick of one shard: changes in, changes out, and rows added to the shard's spines.

        An input that is not there is empty. The state is as it should be once the iterator is used up.
        """
        ...


def columns_of(node: Stateful, below: Sequence[pa.Schema]) -> pa.Schema:
    """The node's own columns, given those of its inputs. Names and types that do not fit are refused."""
    if isinstance(node, Join):
        left, right = Scan("below", "left"), Scan("below", "right")
        over: Node = replace(node, left=left, right=right)
        names = ["left", "right"]
    else:
        over = replace(node, input=Scan("below", "input"))
        names = ["input"]
    told = {("below", name): schema for name, schema in zip(names, below, strict=True)}
    return schema_of(over, told, _no_select)


def changes_of(columns: pa.Schema) -> pa.Schema:
    """An input of changes: the columns, ``_hash`` and ``_weight``."""
    return with_weight(with_hash(columns))


def events_of(columns: pa.Schema) -> pa.Schema:
    """An input of events: the columns, ``_hash``, ``_op`` and ``_lsn``."""
    return pa.schema([*with_hash(columns), *_EVENT_FIELDS])


def with_hash(columns: pa.Schema) -> pa.Schema:
    return pa.schema([*columns, _HASH_FIELD])


def with_weight(columns: pa.Schema) -> pa.Schema:
    return pa.schema([*columns, _WEIGHT_FIELD])


def _no_select(node: Select, below: pa.Schema) -> pa.Schema:
    raise AssertionError("there is no Select between an operator and its inputs")
