"""Stretches of events as the CDC ring holds them, and the batches that a poll gives out.

A block holds events whose LSNs have no gap. Events only ever get added at the end of the newest one, and
nothing in a block ever changes. So a poll hands out blocks and a range of LSNs, copies nothing, and needs
the ring's lock only to find them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Protocol, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.record import ChangeOperation
from penstock.log.cdc_events import CdcEvent, KvWatchEvent

__all__ = ["EVENT_SCHEMA", "BatchBlock", "Block", "EventBatch", "RowBlock", "new_event"]

EVENT_SCHEMA = pa.schema(
    [
        pa.field("lsn", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("operation", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("collection", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("rid", pa.uint64(), nullable=False),
        pa.field("entity_kind", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("changed_columns", pa.list_(pa.string())),
    ]
)

new_event = partial(tuple.__new__, CdcEvent)
"""An event of all eight fields; a third of the cost of calling the class."""


class Block(Protocol):
    """A stretch of events whose LSNs have no gap."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...

    def events(self, first: int, last: int) -> Iterable[CdcEvent]:
        """The events with these LSNs."""

    def kv_events(self, first: int, last: int) -> Iterator[KvWatchEvent]:
        """The changes of single keys among them."""

    def to_arrow(self, first: int, last: int) -> pa.RecordBatch:
        """The same events as columns."""


class RowBlock:
    """Events that came one at a time, kept by column.

    No object is kept per event: a million of them would be walked by every full garbage collection.
    """

    __slots__ = ("changed", "collections", "first", "ids", "kinds", "kv", "operations", "timestamps")

    def __init__(self, first: int) -> None:
        self.first = first
        self.timestamps = array("q")
        self.operations: list[ChangeOperation] = []
        self.collections: list[str] = []
        self.ids = array("Q")
        self.kinds: list[str] = []
        self.changed: dict[int, tuple[str, ...]] = {}  # by LSN; most events have neither
        self.kv: dict[int, KvWatchEvent] = {}

    @property
    def last(self) -> int:
        return self.first + len(self.ids) - 1

    def events(self, first: int, last: int) -> Iterable[CdcEvent]:
        part = slice(first - self.first, last - self.first + 1)
        lsns = range(first, last + 1)
        return map(
            new_event,
            zip(
                lsns,
                self.timestamps[part],
                self.operations[part],
                self.collections[part],
                self.ids[part],
                self.kinds[part],
                map(self.changed.get, lsns),
                map(self.kv.get, lsns),
                strict=True,
            ),
        )

    def kv_events(self, first: int, last: int) -> Iterator[KvWatchEvent]:
        """The changes of single keys among the events with these LSNs."""
        if self.kv:
            yield from filter(None, map(self.kv.get, range(first, last + 1)))

    def to_arrow(self, first: int, last: int) -> pa.RecordBatch:
        part = slice(first - self.first, last - self.first + 1)
        changed = list(map(self.changed.get, range(first, last + 1))) if self.changed else None
        return _batch(
            np.arange(first, last + 1),
            np.array(self.timestamps[part]),
            np.array(self.ids[part]),
            pa.array(self.operations[part], pa.string()).dictionary_encode(),
            pa.array(self.collections[part], pa.string()).dictionary_encode(),
            pa.array(self.kinds[part], pa.string()).dictionary_encode(),
            changed,
        )


class BatchBlock:
    """Events that came as one batch: they differ in nothing but LSN and entity."""

    __slots__ = ("collection", "first", "ids", "kind", "last", "operation", "timestamp")

    def __init__(
        self,
        first: int,
        timestamp: int,
        operation: ChangeOperation,
        collection: str,
        ids: npt.NDArray[np.uint64],
        kind: str,
    ) -> None:
        self.first = first
        self.last = first + len(ids) - 1
        self.timestamp = timestamp
        self.operation = operation
        self.collection = collection
        self.ids = ids
        self.kind = kind

    def events(self, first: int, last: int) -> Iterable[CdcEvent]:
        ids = self.ids[first - self.first : last - self.first + 1].tolist()
        same = (repeat(self.timestamp), repeat(self.operation), repeat(self.collection))
        return map(
            new_event, zip(range(first, last + 1), *same, ids, repeat(self.kind), repeat(None), repeat(None))
        )

    def kv_events(self, first: int, last: int) -> Iterator[KvWatchEvent]:
        """None: keys are emitted one at a time."""
        return iter(())

    def to_arrow(self, first: int, last: int) -> pa.RecordBatch:
        count = last - first + 1
        zeros = np.zeros(count, np.int32)
        return _batch(
            np.arange(first, last + 1),
            np.full(count, self.timestamp),
            self.ids[first - self.first : last - self.first + 1],
            pa.DictionaryArray.from_arrays(zeros, [self.operation.value]),
            pa.DictionaryArray.from_arrays(zeros, [self.collection]),
            pa.DictionaryArray.from_arrays(zeros, [self.kind]),
            None,
        )


class EventBatch(Sequence[CdcEvent]):
    """Events as a poll found them, in order of LSN and without a gap. Stays as it is whatever comes later.

    Cost: nothing is copied or made before it is asked for. Iterate for people; `to_arrow` for programs.
    """

    __slots__ = ("_blocks", "_first", "_last")

    def __init__(self, blocks: Sequence[Block], first: int, last: int) -> None:
        self._blocks = blocks
        self._first = first
        self._last = last

    @property
    def cursor(self) -> int:
        """What to poll from once these events are dealt with."""
        return self._last

    def __len__(self) -> int:
        return self._last - self._first + 1

    def __iter__(self) -> Iterator[CdcEvent]:
        return chain.from_iterable(block.events(first, last) for block, first, last in self._parts())

    @overload
    def __getitem__(self, index: int) -> CdcEvent: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CdcEvent, ...]: ...
    def __getitem__(self, index: int | slice) -> CdcEvent | tuple[CdcEvent, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        lsn = range(self._first, self._last + 1)[index]
        block = self._blocks[bisect_right(self._blocks, lsn, key=_first) - 1]
        (event,) = block.events(lsn, lsn)
        return event

    def __repr__(self) -> str:
        return f"EventBatch({len(self)} events{f', LSN {self._first} to {self._last}' if self else ''})"

    def kv_events(self) -> Iterator[KvWatchEvent]:
        """The changes of single keys among the events. Batches have none, and cost nothing."""
        return chain.from_iterable(block.kv_events(first, last) for block, first, last in self._parts())

    def to_arrow(self) -> pa.RecordBatch:
        """The events as columns, see `EVENT_SCHEMA`; the values of key-value changes are not among them."""
        parts = [block.to_arrow(first, last) for block, first, last in self._parts()]
        if len(parts) == 1:
            return parts[0]
        table = pa.Table.from_batches(parts, EVENT_SCHEMA).unify_dictionaries().combine_chunks()
        (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], EVENT_SCHEMA)]
        return batch

    def _parts(self) -> Iterator[tuple[Block, int, int]]:
        for block in self._blocks:
            yield block, max(block.first, self._first), min(block.last, self._last)


def _batch(
    lsns: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
    ids: npt.NDArray[np.uint64],
    operations: pa.Array,
    collections: pa.Array,
    kinds: pa.Array,
    changed: list[tuple[str, ...] | None] | None,
) -> pa.RecordBatch:
    list_type = EVENT_SCHEMA.field("changed_columns").type
    columns = [
        pa.array(lsns),
        pa.array(timestamps).view(EVENT_SCHEMA.field("timestamp").type),
        operations,
        collections,
        pa.array(ids),
        kinds,
        pa.nulls(len(lsns), list_type) if changed is None else pa.array(changed, list_type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA)


def _first(block: Block) -> int:
    return block.first
