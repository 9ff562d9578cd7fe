"""COUNT(DISTINCT x): how many values of each group have a weight above 0.

Law: a group's count changes by the crossings of its values, each as in `Distinct`; so the count itself is
linear and stands in ``sums``.
State: ``distinct<i>``, the sum of weights by (group, value). Its hash has the top bits of the group's, so
that whichever shard owns the group owns its values, and below them bits of group and value together, so that
only values that a tick touched are looked up, however many the group has.
Cost: one look-up per (group, value) that the tick changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import can_hash, xxhash64
from penstock.changes.rows import canonical
from penstock.errors import Unsupported
from penstock.operators.arguments import Argument
from penstock.operators.batches import numbers
from penstock.operators.distinct import COUNT, crossings
from penstock.operators.groups import added_up, grouped
from penstock.operators.values import VALUE, Values
from penstock.spine import HASH, MOST_SHARDS, Layout, ShardState
from penstock.spine.layout import Int64s

__all__ = ["DistinctCounts"]

_OF_VALUE = (1 << (64 - (MOST_SHARDS - 1).bit_length())) - 1
"""The bits of a hash that no shard is told apart by."""


@dataclass(frozen=True, slots=True)
class DistinctCounts:
    """The values of one argument."""

    argument: Argument
    keys: pa.Schema

    def __post_init__(self) -> None:
        if not can_hash(self.argument.kind):
            raise Unsupported(
                f"different values of {self.argument.kind} cannot be counted here",
                subject=f"COUNT(DISTINCT {self.argument.column})",
                hint="Cast the column to a type that has a hash, for instance a map to its sorted entries.",
            )

    @property
    def layout(self) -> Layout:
        columns = [
            *self.keys,
            pa.field(VALUE, self.argument.kind),
            pa.field(COUNT, pa.int64(), nullable=False),
        ]
        return Layout(pa.schema(columns), (*self.keys.names, VALUE), "sums")

    def step(self, keys: pa.RecordBatch, values: Values, state: ShardState) -> Int64s:
        """By how much each group's count changes."""
        change = np.zeros(keys.num_rows, np.int64)
        if not len(values):
            return change
        of_group = numbers(keys, HASH)[values.ids]
        array = canonical(values.array)
        hashes = (of_group & ~_OF_VALUE) | (xxhash64([pa.array(of_group), array]) & _OF_VALUE)
        pairs = grouped(hashes, [pa.array(values.ids), array])
        weights = added_up(values.weights, pairs)
        left = np.flatnonzero(weights)
        rows, weights = pairs.first[left], weights[left]
        ids = values.ids[rows]
        touched = keys.take(pa.array(ids)).set_column(
            keys.schema.get_field_index(HASH), keys.schema.field(HASH), pa.array(hashes[rows])
        )
        touched = touched.append_column(VALUE, array.take(pa.array(rows)))
        old = numbers(state.spine(self.argument.distinct).sums(touched), COUNT)
        state.add(self.argument.distinct, touched.append_column(COUNT, pa.array(weights)))
        np.add.at(change, ids, crossings(old, weights))
        return change
