"""A view's content: what its changes add up to.

The content as of some LSN is kept as runs; changes after it come on top. Whenever those have become many, a
tick *folds* them into the runs, a range of hashes per task. So a tick writes each change once, reading costs
what there is plus what is loose, and a row is rewritten O(log n) times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes import ZSet
from penstock.changes.hashing import can_hash, unsigned, xxhash64
from penstock.changes.names import WEIGHT
from penstock.errors import Divergence
from penstock.log import Collection
from penstock.log.format import Frame, Kind
from penstock.log.rows import Stored
from penstock.spark.output import TOLD
from penstock.spark.registration import Outbox, find
from penstock.spark.step import Batches, Place, fresh, runs_of
from penstock.spine import HASH, Layout, Runs, ShardState, Slice, Spine, shard_range
from penstock.store import Store
from penstock.views.change_files import body_of, mapped
from penstock.views.manifest import ChangeFile

__all__ = ["Fold", "content_layout", "copies", "read_content"]

_ROWS = 1 << 16


def content_layout(collection: Collection) -> Layout:
    """How a view's content is kept: by its key, or by the whole row where it has none.

    As far as that has a hash: a map has none, and rows of equal hash are compared whole all the same.
    """
    names = collection.key or collection.schema.names
    key = tuple(name for name in names if can_hash(collection.schema.field(name).type))
    return Layout(collection.schema, key, "bag")


def changes_in(store: Store, collection: Collection, files: Iterable[ChangeFile]) -> Batches:
    """The changes in these files: the collection's columns and `_weight`."""
    for file in files:
        data = mapped(store, file)
        for offset, size, crc, events, rows, flags in file.frames:
            frame = Frame(size, 1, 0, 0, crc, collection.id, events, rows, 1, Kind.CHANGES, flags)
            stored = Stored.decode(collection, body_of(data, file, offset, frame), frame)
            yield stored.data.append_column(WEIGHT, pa.array(stored.weights))


def read_content(
    store: Store, runs: Runs, collection: Collection, content: Iterable[Slice], loose: Iterable[ChangeFile]
) -> pa.Table:
    """The rows, each as often as it is there."""
    layout = content_layout(collection)
    schema = collection.schema.append(pa.field(WEIGHT, pa.int64()))
    spine = Spine.open(layout, tuple(content), runs)
    settled = [_named(batch, schema) for batch in spine.scan()]
    more = [_named(batch, schema) for batch in changes_in(store, collection, loose)]
    table = pa.Table.from_batches([*settled, *more], schema=schema)
    if more:
        table = pa.Table.from_batches([_added_up(table)], schema=schema)
    return copies(table, collection)


def copies(table: pa.Table, collection: Collection) -> pa.Table:
    """Rows with weights → rows, each as often as its weight says."""
    weights = table.column(WEIGHT).combine_chunks().to_numpy()
    rows = table.drop_columns([WEIGHT])
    if len(weights) and int(weights.min()) < 1:
        raise Divergence(
            f"a row of its content is there {int(weights.min())} times",
            subject=f"view {collection.name!r}",
            hint="This is a defect of Penstock: please report it. Drop the view and create it anew.",
        )
    if not len(weights) or int(weights.max()) == 1:
        return rows.cast(collection.schema)
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), weights))).cast(collection.schema)


def _added_up(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    summed = ZSet(batch.drop_columns([WEIGHT]), batch.column(WEIGHT).to_numpy()).consolidate()
    return _named(summed.rows.append_column(WEIGHT, pa.array(summed.weights)), table.schema)


def _named(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(name) for name in schema.names], schema=schema)


@dataclass(frozen=True)
class Fold:
    """Folds loose changes into a view's content: one task for each range of hashes."""

    what: str
    collection: Collection
    content: tuple[Slice, ...]
    files: tuple[ChangeFile, ...]
    parts: int
    place: Place

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield from self._run(part)

    def _run(self, part: int) -> Batches:
        found = find(self.place.scratch, self.place.steps, self.what, part)
        if found is not None:
            return found[1]
        layout = content_layout(self.collection)
        begin, end = shard_range(part, self.parts)
        state = ShardState(
            self.place.store,
            runs_of(self.place.store),
            {"content": layout},
            {"content": self.content},
            begin,
            end,
            fresh(self.place.runs, f"{self.what}-{part}") + "-",
            False,
        )
        for batch in changes_in(self.place.store, self.collection, self.files):
            hashes = xxhash64([batch.column(name) for name in layout.key], batch.num_rows)
            numbers = unsigned(hashes)
            mine = (numbers >= begin) & (numbers <= end - 1)
            rows = batch.append_column(HASH, pa.array(hashes))
            state.add("content", rows if mine.all() else rows.filter(pa.array(mine)))
        outbox = Outbox(self.place.scratch, self.place.steps, TOLD)
        outbox.add(pa.record_batch({"what": [self.what], "rows": [0]}, schema=TOLD))
        return outbox.register(self.what, part, state.finish(), {})
