"""The last stage of a view: its changes of this tick, written as the frames of its pipeline's log.

What is written is the log's own form, so a view is read as any log is. Nobody sees it before the manifest
that commits the tick names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes import Op, ZSet
from penstock.changes.names import OP, WEIGHT
from penstock.changes.rows import same_rows
from penstock.log.format import padding
from penstock.log.meta import Collection
from penstock.log.rows import event_ends, prepare
from penstock.spark.registration import Outbox, find
from penstock.spark.step import Batches, Place, fitted, fresh
from penstock.store import Writer

__all__ = ["ALIGN", "HEAD", "TOLD", "Output", "Renamed", "Told", "events_of"]

HEAD = b"PSTKOUT\x01" + bytes(56)
"""The first bytes of a file of changes; frames' bodies follow, each padded to 64 bytes."""
ALIGN = 64
FRAME_ROWS = 1 << 16
_GATHERED = 1 << 20
"""Rows that are looked at together: changes among them that cancel out are never told."""

TOLD = pa.schema([pa.field("what", pa.string()), pa.field("rows", pa.int64())])
"""What a finished stage tells Spark: next to nothing. The registrations tell the driver."""


@dataclass(frozen=True)
class Renamed:
    """Columns of a node under a view's names: what is left of a `Select` that computes nothing."""

    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        old = [old for _, old in self.columns]
        for batch in batches:
            columns = [*(batch.column(name) for name in old), batch.column(WEIGHT)]
            yield fitted(pa.RecordBatch.from_arrays(columns, names=[*self.names, WEIGHT]), self.schema)

    @property
    def names(self) -> list[str]:
        return [new for new, _ in self.columns]


@dataclass(frozen=True)
class Output:
    """Writes the changes of one view in one part of the tick. Called with rows, tells how many there were."""

    what: str
    collection: Collection
    key: tuple[str, ...]
    """Columns by which −old and +new are one event; none: every change is its own."""
    is_consolidated: bool
    """Whether the rows come with nothing among them that cancels out."""
    place: Place
    renamed: Renamed | None = None
    """What makes the rows the view's, where they come under a node's names."""

    def __call__(self, batches: Batches) -> Batches:
        """Write what one of Spark's partitions holds, whatever rows these are."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.written(batches, 0 if context is None else context.partitionId())

    def written(self, batches: Batches, part: int) -> Batches:
        """Write this part of the changes, or find that an earlier attempt did."""
        found = find(self.place.scratch, self.place.steps, self.what, part)
        if found is not None:
            yield from found[1]
            return
        file = _File(self.place, f"{self.what}-{part}")
        for rows in _gathered(batches if self.renamed is None else self.renamed(batches)):
            zset = ZSet(rows.drop_columns([WEIGHT]), rows.column(WEIGHT).to_numpy())
            file.add(events_of(zset if self.is_consolidated else zset.consolidate(), self.key), self)
        told = file.close()
        if file.rows:
            outbox = Outbox(self.place.scratch, self.place.steps, TOLD)
            outbox.add(pa.record_batch({"what": [self.what], "rows": [file.rows]}, schema=TOLD))
            yield from outbox.register(self.what, part, {}, told)


class Answering(Protocol):
    """What takes a shard's rows and gives its output: a `Step`, or what stands for one."""

    def answer(self, batches: Batches) -> tuple[int | None, Batches]: ...


@dataclass(frozen=True)
class Told:
    """A step whose output is written as views' changes at once, by the shard that it is of."""

    step: Answering
    outputs: tuple[Output, ...]
    gives: bool
    """Whether the rows go on to other nodes."""

    def __call__(self, batches: Batches) -> Batches:
        shard, rows = self.step.answer(batches)
        held = list(rows)
        for output in self.outputs:
            for told in output.written(iter(held), shard or 0):
                if not self.gives:
                    yield told
        if self.gives:
            yield from held


class _File:
    """The change file in the making; made only when there is something to write."""

    def __init__(self, place: Place, what: str) -> None:
        self._place = place
        self._name = fresh(place.changes, what)
        self._writer: Writer | None = None
        self._frames: list[list[int]] = []
        self.rows = 0

    def add(self, rows: pa.RecordBatch, output: Output) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = self._place.store.writer(self._name)
            self._writer.write(HEAD)
        ends = event_ends(rows.column(OP).to_numpy())
        start = 0
        while start < rows.num_rows:
            at = int(np.searchsorted(ends, start + FRAME_ROWS, side="right"))
            stop = int(ends[max(at - 1, int(np.searchsorted(ends, start, side="right")))])
            body = prepare(rows.slice(start, stop - start), output.collection)
            offset = self._writer.tell()
            self._writer.write([body.data, padding(body.data.size)])
            self._frames.append([offset, body.data.size, body.crc, body.events, body.rows, body.flags])
            start = stop
        self.rows += rows.num_rows

    def close(self) -> dict[str, object]:
        if self._writer is None:
            return {}
        size = self._writer.tell()
        self._writer.commit()
        return {"file": self._name, "bytes": size, "frames": self._frames}


def _gathered(batches: Batches) -> Batches:
    """Larger batches of the same rows."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= _GATHERED:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def events_of(change: ZSet, key: tuple[str, ...]) -> pa.RecordBatch:
    """The rows with `_op` (and `_weight` where that says more): −old +new of one key is an update.

    >>> change = ZSet(pa.record_batch({"k": ["b", "a", "a"], "n": [7, 1, 2]}), np.array([-1, 1, -1]))
    >>> events_of(change, ("k",)).to_pydict()
    {'k': ['b', 'a', 'a'], 'n': [7, 2, 1], '_op': [3, 1, 2], '_weight': [-1, -1, 1]}
    """
    data, weights = change.rows, np.asarray(change.weights)
    ops = np.where(weights > 0, Op.INSERT, Op.DELETE).astype(np.int8)
    if key and len(weights):
        order = _by_key(data, weights, key)
        if order is not None:
            data, weights, ops = data.take(pa.array(order)), weights[order], ops[order]
        old = np.flatnonzero((weights[:-1] == -1) & (weights[1:] == 1))
        if len(old):
            columns = [data.column(name) for name in key]
            before, after = pa.array(old), pa.array(old + 1)
            same = same_rows(
                [it.take(before) for it in columns], [it.take(after) for it in columns], len(old)
            )
            pairs = old[same]
            ops[pairs], ops[pairs + 1] = Op.UPDATE_BEFORE, Op.UPDATE_AFTER
    columns = [*data.columns, pa.array(ops), pa.array(weights)]
    return pa.RecordBatch.from_arrays(columns, names=[*data.schema.names, OP, WEIGHT])


def _by_key(
    data: pa.RecordBatch, weights: npt.NDArray[np.int64], key: tuple[str, ...]
) -> npt.NDArray[np.int64] | None:
    """An order in which −old stands right before +new of its key; None where the rows stand so already."""
    if not ((weights > 0).any() and (weights < 0).any()):
        return None
    from penstock.changes.rows import group

    groups = group([data.column(name) for name in key], len(weights)).ids
    if bool((np.diff(groups) >= 0).all()) and bool(((np.diff(groups) > 0) | (np.diff(weights) >= 0)).all()):
        return None
    return np.lexsort((weights, groups))
