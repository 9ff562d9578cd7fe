"""A stateful node's step as Spark runs it: one task, one shard, and an outcome that is registered once.

This code runs in Spark's Python workers. It knows no session: all it needs comes with it, and everything it
leaves stands in the store.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.hashing import unsigned
from penstock.changes.names import WEIGHT
from penstock.operators import Operator, operator_of
from penstock.plan import Aggregate, Distinct, Join, Keyed
from penstock.spark.registration import Outbox, find
from penstock.spine import Runs, ShardState, Slice, shard_of, shard_range
from penstock.store import Store

__all__ = [
    "INPUT",
    "Batches",
    "Place",
    "Stage",
    "Step",
    "fitted",
    "fresh",
    "runs_of",
]

INPUT = "_input"
"""Which input a row is of, where a step has several: their columns then stand in one struct each."""

Batches: TypeAlias = Iterator[pa.RecordBatch]
Stage: TypeAlias = Callable[[Batches], Batches]

_runs: dict[str, Runs] = {}


def runs_of(store: Store) -> Runs:
    """The run files of a store that this process has open, kept from tick to tick."""
    found = _runs.get(store.url)
    if found is None:
        found = _runs[store.url] = Runs(store)
    return found


@dataclass(frozen=True)
class Place:
    """Where the steps of one attempt at a tick read and write."""

    store: Store
    scratch: Store
    """The same place, without waiting for the disk: for what a loss of power may take."""
    runs: str
    """What the names of the run files of this attempt at the tick begin with."""
    changes: str
    """What the names of its files of changes begin with."""
    steps: str
    """What the names of its registrations begin with."""


def fresh(prefix: str, what: str) -> str:
    """A name that no other attempt at the same step has."""
    return f"{prefix}.{what}-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Step:
    """A stateful node in a tick. Called with a shard's rows, it gives the shard's output."""

    node: Keyed | Join | Aggregate | Distinct
    below: tuple[pa.Schema, ...]
    partial: bool
    shards: int
    slices: Mapping[str, tuple[Slice, ...]]
    is_new: bool
    is_kept: bool
    """Whether the state is to be kept; a step that only helps to build others leaves none."""
    place: Place
    output: pa.Schema

    @property
    def operator(self) -> Operator:
        return operator_of(self.node, self.below, partial=self.partial)

    def __call__(self, batches: Batches) -> Batches:
        """A shard's rows → its output."""
        return self.answer(batches)[1]

    def answer(self, batches: Batches) -> tuple[int | None, Batches]:
        """The shard that these rows are of (None where there are none), and its output."""
        operator = self.operator
        return self.taken(operator, parted(operator.inputs, batches))

    def taken(
        self, operator: Operator, inputs: Mapping[str, list[pa.RecordBatch]]
    ) -> tuple[int | None, Batches]:
        """The same for inputs that stand apart already.

        The output is computed and registered, or what an earlier attempt registered.
        """
        shard = self._shard(inputs)
        if shard is None:
            return None, iter(())
        what = self.node.fingerprint
        found = find(self.place.scratch, self.place.steps, what, shard)
        output = found[1] if found is not None else self._run(operator, inputs, what, shard)
        return shard, (fitted(batch, self.output) for batch in output)

    def _run(
        self, operator: Operator, inputs: Mapping[str, list[pa.RecordBatch]], what: str, shard: int
    ) -> Batches:
        begin, end = shard_range(shard, self.shards)
        state = ShardState(
            self.place.store,
            runs_of(self.place.store),
            operator.layouts,
            {name: self.slices.get(name, ()) for name in operator.layouts},
            begin,
            end,
            fresh(self.place.runs, f"{what}-{shard}") + "-",
            self.is_new,
        )
        outbox = Outbox(self.place.scratch, self.place.steps, operator.output)
        for batch in operator.step(inputs, state):
            if batch.num_rows:
                outbox.add(fitted(batch, operator.output))
        edits = state.finish() if self.is_kept else {}
        rows = sum(batch.num_rows for batches in inputs.values() for batch in batches)
        return outbox.register(what, shard, edits, {"rows": rows})

    def _shard(self, inputs: Mapping[str, list[pa.RecordBatch]]) -> int | None:
        """The shard that all these rows are of; None where there is nothing to do."""
        if self.shards == 1:
            return 0
        found: set[int] = set()
        for batches in inputs.values():
            for batch in batches:
                shards = shard_of(unsigned(batch.column("_hash").to_numpy()), self.shards)
                if len(shards):
                    found.update((int(shards.min()), int(shards.max())))
        assert len(found) <= 1, f"rows of the shards {sorted(found)} came to one task"
        return found.pop() if found else None


def parted(wanted: Mapping[str, pa.Schema], batches: Batches) -> dict[str, list[pa.RecordBatch]]:
    """The rows of each input, from frames in which they come together."""
    inputs: dict[str, list[pa.RecordBatch]] = {name: [] for name in wanted}
    if len(wanted) == 1:
        ((name, schema),) = wanted.items()
        inputs[name] = [real(fitted(batch, schema)) for batch in batches if batch.num_rows]
        return inputs
    for batch in batches:
        which, hashes = batch.column(INPUT).to_numpy(), batch.column("_hash")
        for number, (name, schema) in enumerate(wanted.items()):
            mine = which == number
            if mine.any():
                column, keep = batch.column(name), pa.array(mine)
                rows = pa.RecordBatch.from_struct_array(column if mine.all() else column.filter(keep))
                rows = rows.append_column("_hash", hashes if mine.all() else hashes.filter(keep))
                inputs[name].append(real(fitted(rows, schema)))
    return inputs


def real(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without the row that only makes Spark start a task: its weight is 0."""
    if WEIGHT not in batch.schema.names:
        return batch
    weights = batch.column(WEIGHT).to_numpy()
    return batch if weights.all() else batch.filter(pa.array(weights != 0))


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under exactly this schema: same columns by name, same values, other promises about them."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        column = batch.column(field.name)
        columns.append(column if column.type == field.type else _as_type(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    times = pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type)
    if times and kind.unit == column.type.unit:
        return column.view(kind)  # the same instants, told in another zone
    return pc.cast(column, kind)
