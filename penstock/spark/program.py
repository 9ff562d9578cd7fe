"""The part of a small tick that needs no engine: steps that follow one another in one process, as one shard.

Between a tick's source and its views there may be nothing for Spark to compute: no expression, no condition,
and too few rows for a second task. Such nodes are a `Program`: rows go from step to step as they are, are
hashed by our own `xxhash64` (Spark's, bit for bit), and each node is computed once, whoever reads it. A
program runs in one of Spark's tasks, or, where it is the whole tick, in the driver: that costs no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.changes.hashing import xxhash64
from penstock.changes.names import WEIGHT
from penstock.plan import Node, Select, Union, inputs
from penstock.plan.key import plain_columns
from penstock.spark.output import TOLD, Output, Told
from penstock.spark.step import Batches, Step, fitted
from penstock.spine import HASH, shard_of

__all__ = ["Program", "Read", "Sharded"]

Read = Callable[[], Iterator[pa.RecordBatch]]
"""Gives the rows of a source."""


@dataclass(frozen=True)
class Sharded:
    """A step right above its sources, many rows at a time: each task picks its own shard's rows.

    So nothing is sent from task to task: the log is mapped, and to hash a row costs nanoseconds, where a
    shuffle turns every row into Spark's own form and back. Each of n tasks reads all of the change; that pays
    for a few of them.
    """

    step: Step
    outputs: tuple[Output, ...]
    gives: bool
    inputs: Mapping[str, Program]
    """What each input is made of: programs that only read and rename."""
    shards: int

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield from Told(self._Answer(self, shard), self.outputs, self.gives)(iter(()))

    @dataclass(frozen=True)
    class _Answer:
        """One shard's step, for `Told` to ask."""

        of: Sharded
        shard: int

        def answer(self, _: Batches) -> tuple[int | None, Batches]:
            step = self.of.step
            operator = step.operator
            told = {
                name: [
                    own
                    for batch in self.of.inputs[name].run()
                    if (own := self._own(_hashed(batch, operator.keys[name], schema))).num_rows
                ]
                for name, schema in operator.inputs.items()
            }
            return step.taken(operator, told)

        def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            if self.of.shards == 1:
                return batch
            mine = shard_of(batch.column(HASH).to_numpy(), self.of.shards) == self.shard
            return batch.filter(pa.array(mine))


@dataclass(frozen=True)
class Program:
    """Nodes that are computed in one process, and what is done with their rows.

    ``schemas`` are of what each node gives, `_weight` (or `_op` and `_lsn`) with it; ``outputs`` write what a
    node gives as a view's changes; ``given`` is the node whose rows are given on, if any is.
    """

    schemas: Mapping[Node, pa.Schema]
    sources: Mapping[Node, tuple[Read, ...]]
    steps: Mapping[Node, Step]
    outputs: tuple[tuple[Node, Output], ...] = ()
    given: Node | None = None
    form: pa.Schema = field(default_factory=lambda: TOLD)
    """How ``given`` is given on."""

    def __call__(self, batches: Batches) -> Batches:
        for _ in batches:  # what makes Spark start the task
            pass
        yield from self.run()

    def run(self) -> Batches:
        """Compute, and hand out."""
        done: dict[Node, list[pa.RecordBatch]] = {}
        for node, output in self.outputs:
            for told in output.written(iter(self._rows(node, done)), 0):
                if self.given is None:
                    yield told
        if self.given is not None:
            for batch in self._rows(self.given, done):
                yield fitted(batch, self.form)

    def _rows(self, node: Node, done: dict[Node, list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
        if node not in done:
            done[node] = list(self._computed(node, done))
        return done[node]

    def _computed(self, node: Node, done: dict[Node, list[pa.RecordBatch]]) -> Batches:
        if node in self.sources:
            for read in self.sources[node]:
                for batch in read():
                    if batch.num_rows:
                        yield fitted(batch, self.schemas[node])
            return
        below = [self._rows(it, done) for it in inputs(node)]
        if isinstance(node, Select | Union):
            names = None
            if isinstance(node, Select):
                plain = plain_columns(node)
                names = [plain[it.name] for it in node.columns]
            for rows in below:
                for batch in rows:
                    yield _renamed(batch, names, self.schemas[node])
            return
        step = self.steps[node]
        operator = step.operator
        told = {
            name: [_hashed(batch, operator.keys[name], schema) for batch in rows]
            for (name, schema), rows in zip(operator.inputs.items(), below, strict=True)
        }
        yield from step.taken(operator, told)[1]


def _renamed(batch: pa.RecordBatch, names: list[str] | None, schema: pa.Schema) -> pa.RecordBatch:
    """Columns under new names: of a Select by the old ones, of a Union by position."""
    columns = batch.columns if names is None else [*(batch.column(it) for it in names), batch.column(WEIGHT)]
    kinds = zip(columns, schema.types, strict=True)
    return pa.RecordBatch.from_arrays(
        [column if column.type == kind else column.cast(kind) for column, kind in kinds], schema=schema
    )


def _hashed(batch: pa.RecordBatch, key: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    hashes = xxhash64([batch.column(name) for name in key], batch.num_rows)
    return fitted(batch.append_column(HASH, pa.array(hashes)), schema)
