"""The CDC ring: the newest changes in memory, for those who poll them with a cursor."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.changes.record import ChangeOperation
from penstock.errors import CursorAhead, CursorExpired, InvalidArgument
from penstock.log.cdc_blocks import BatchBlock, Block, EventBatch, RowBlock
from penstock.log.cdc_events import CdcStats, KvWatchEvent
from penstock.log.cdc_transaction import Batch, CdcTransaction, Ids, Row, make_batch, make_kv, make_row
from penstock.log.kv_watch import KeyFilter, KvWatch, KvWatches
from penstock.lsn import LsnRange, check_lsn

__all__ = ["CdcBuffer"]

_MOST_ROWS = 1024  # of a block: enough that a poll of many events finds few blocks


class CdcBuffer:
    """The newest ``capacity`` events, numbered by LSN from 1. Safe to use from any thread.

    Law: the ring holds one unbroken range of LSNs that ends with `current_lsn`; numbering an event and
    putting it in are one step under one lock, so whoever has polled up to an LSN has everything up to it.
    A cursor that would skip an event gets `CursorExpired`, one beyond the end `CursorAhead`. Events of a
    transaction appear together; only a poll that asks for fewer events than there are cuts between them.

    State: blocks of events. A block goes when its last event is evicted, so up to an eighth more than the
    capacity is in memory, or one batch. Cost: an emit is one short lock; a batch is one copy of its ids; a
    poll copies nothing (see `EventBatch`).

    >>> ring = CdcBuffer(capacity=3)
    >>> ring.emit(ChangeOperation.INSERT, "users", 10, "table")
    1
    >>> ring.emit_batch(ChangeOperation.INSERT, "users", "table", [11, 12])
    LsnRange(first=2, last=3)
    >>> [(event.lsn, event.rid) for event in ring.poll(1)]
    [(2, 11), (3, 12)]
    """

    def __init__(self, capacity: int, *, clock: Callable[[], int] | None = None) -> None:
        """``clock`` tells the time in milliseconds since 1970; where it goes back, the ring's time stands."""
        if not isinstance(capacity, int) or capacity < 0:
            raise InvalidArgument(
                f"capacity is {capacity!r}",
                subject="CdcBuffer",
                hint="Give 0 or more; with 0 events are numbered and none is kept.",
            )
        self._capacity = capacity
        self._clock = clock or _unix_ms
        self._block_rows = max(1, min(_MOST_ROWS, capacity // 8))
        self._lock = threading.Lock()
        self._grown = threading.Condition(self._lock)
        self._waiting = 0
        self._blocks: deque[Block] = deque()
        self._open: RowBlock | None = None  # the newest block, if single events may still be added to it
        self._current = 0
        self._floor = 0  # the newest LSN that is not held
        self._time = 0
        self._watches = KvWatches()

    def emit(
        self,
        operation: ChangeOperation,
        collection: str,
        entity_id: int,
        kind: str,
        changed_columns: Iterable[str] | None = None,
    ) -> int:
        """One event; its LSN. ``changed_columns`` are those an update touched, None where unknown."""
        return self._emit(make_row(operation, collection, entity_id, kind, changed_columns))

    def emit_with_columns(
        self,
        operation: ChangeOperation,
        collection: str,
        entity_id: int,
        kind: str,
        changed_columns: Iterable[str] | None,
    ) -> int:
        """`emit` for those who always have the columns."""
        return self._emit(make_row(operation, collection, entity_id, kind, changed_columns))

    def emit_kv(
        self,
        operation: ChangeOperation,
        collection: str,
        key: str,
        entity_id: int,
        before: Any = None,
        after: Any = None,
    ) -> int:
        """The committed change of one key; its LSN. It is in the ring, and goes to those who `watch` the key.

        ``before`` and ``after`` are JSON values, None where there is none. They are kept as they are: do not
        change them afterwards.
        """
        return self._emit(make_kv(operation, collection, key, entity_id, before, after))

    def emit_batch(self, operation: ChangeOperation, collection: str, kind: str, ids: Ids) -> LsnRange:
        """One event for each id, with LSNs side by side. A batch larger than the ring keeps its tail."""
        return self._commit([make_batch(operation, collection, kind, ids)])

    def transaction(self) -> CdcTransaction:
        """Events that appear together, or never::

        with ring.transaction() as t:
            t.emit(ChangeOperation.INSERT, "orders", 1, "table")
            t.emit(ChangeOperation.UPDATE, "stock", 7, "table")
        """
        return CdcTransaction(self._commit)

    @property
    def current_lsn(self) -> int:
        """The newest LSN; 0 before the first event. Never within a transaction."""
        with self._lock:
            return self._current

    @property
    def oldest_lsn(self) -> int | None:
        """The oldest LSN that can still be read; None when nothing is held."""
        return self.stats().oldest_lsn

    def stats(self) -> CdcStats:
        """How much the ring holds, at one moment."""
        with self._lock:
            count = self._current - self._floor
            ends = (self._floor + 1, self._current) if count else (None, None)
            return CdcStats(count, self._current, *ends)

    def poll(self, since: int, max_events: int | None = None) -> EventBatch:
        """The events after ``since``, at most so many. Next poll from the ``cursor`` of what you get."""
        check_lsn(since, "CdcBuffer.poll")
        if max_events is not None and max_events < 1:
            raise InvalidArgument(
                f"max_events is {max_events}", subject="CdcBuffer.poll", hint="Ask for at least one event."
            )
        with self._lock:
            return self._after(since, max_events)

    def poll_columns(self, since: int, max_events: int | None = None) -> pa.RecordBatch:
        """`poll` as columns, without an object per event; see `EVENT_SCHEMA`."""
        return self.poll(since, max_events).to_arrow()

    def wait(self, since: int, timeout: float | None = None) -> int:
        """Return `current_lsn` as soon as it is greater than ``since``, or when the time is over."""
        check_lsn(since, "CdcBuffer.wait")
        with self._grown:
            self._waiting += 1
            try:
                self._grown.wait_for(lambda: self._current > since, timeout)
            finally:
                self._waiting -= 1
            return self._current

    def watch(
        self,
        collection: str | None = None,
        key: str | None = None,
        prefix: str | None = None,
        since: int | None = None,
        *,
        limit: int = 1024,
    ) -> KvWatch:
        """The committed changes of keys, as they come: of all keys, one key, or those with a prefix.

        From now on, or with ``since`` from after that LSN. Close the watch when done: until then its events
        are queued, up to ``limit`` of them; beyond that the oldest are dropped and counted.
        """
        wanted = KeyFilter(collection, key, prefix)
        if limit < 1:
            raise InvalidArgument(
                f"limit is {limit}", subject="CdcBuffer.watch", hint="Let at least one event be queued."
            )
        backlog: list[KvWatchEvent] = []
        if since is not None:  # most is looked through before the lock is taken
            found = self.poll(since)
            backlog.extend(filter(wanted.matches, found.kv_events()))
            since = found.cursor
        with self._lock:
            if since is not None:
                backlog.extend(filter(wanted.matches, self._after(since, None).kv_events()))
            watch = KvWatch(wanted, backlog, limit, self._lock, self._watches.remove)
            self._watches.add(watch)
            return watch

    def set_current_lsn(self, lsn: int) -> None:
        """Let the next LSN be ``lsn + 1``, as after a restart. Only forward: a smaller one changes nothing.

        What the ring held is let go: the events in between are not here, and a range with a hole would let
        a cursor jump it in silence. So a cursor from before ``lsn`` gets `CursorExpired`; the log on disk has
        what it asks for. Watches go on; what happened in between did not happen here and is not counted.
        """
        check_lsn(lsn, "CdcBuffer.set_current_lsn")
        with self._lock:
            if lsn > self._current:
                self._current = self._floor = lsn
                self._blocks.clear()
                self._open = None
                if self._waiting:
                    self._grown.notify_all()

    def _emit(self, row: Row) -> int:
        with self._lock:
            self._put_row(row, self._now())
            self._settle()
            return self._current

    def _commit(self, work: Sequence[Row | Batch]) -> LsnRange:
        with self._lock:
            first, now = self._current + 1, self._now()
            for part in work:
                if isinstance(part, Row):
                    self._put_row(part, now)
                else:
                    self._put_batch(part, now)
            self._settle()
            return LsnRange(first, self._current)

    def _put_row(self, row: Row, now: int) -> None:
        """Number an event and keep it. This and all below is called with the lock held."""
        operation, collection, entity_id, kind, changed, kv = row
        lsn = self._current + 1
        event = None
        if kv is not None:
            event = KvWatchEvent(collection, kv[0], operation, kv[1], kv[2], lsn, now)
            self._watches.offer(event)
        if self._capacity:
            block = self._open
            if block is None or len(block.ids) >= self._block_rows:
                block = self._open = RowBlock(lsn)
                self._blocks.append(block)
            block.timestamps.append(now)
            block.operations.append(operation)
            block.collections.append(collection)
            block.ids.append(entity_id)
            block.kinds.append(kind)
            if changed is not None:
                block.changed[lsn] = changed
            if event is not None:
                block.kv[lsn] = event
        self._current = lsn

    def _put_batch(self, batch: Batch, now: int) -> None:
        count = len(batch.ids)
        kept = min(count, self._capacity)
        if kept:
            first = self._current + 1 + count - kept
            ids = batch.ids if kept == count else batch.ids[-kept:].copy()
            self._blocks.append(BatchBlock(first, now, batch.operation, batch.collection, ids, batch.kind))
            self._open = None
        self._current += count

    def _settle(self) -> None:
        """Evict what is too much, and wake who waits."""
        if self._current - self._floor > self._capacity:
            self._floor = self._current - self._capacity
            while self._blocks and self._blocks[0].last <= self._floor:
                self._blocks.popleft()
        if self._waiting:
            self._grown.notify_all()

    def _now(self) -> int:
        now = self._clock()
        if now > self._time:
            self._time = now
        return self._time

    def _after(self, since: int, max_events: int | None) -> EventBatch:
        if since < self._floor:
            raise CursorExpired(
                f"the cursor is {since}, and the oldest event that can still be read is {self._floor + 1}",
                subject="CdcBuffer",
                hint=f"Read what the log on disk has, or take a new snapshot; then poll from {self._floor}.",
                earliest=self._floor + 1,
            )
        if since > self._current:
            raise CursorAhead(
                f"the cursor is {since}, and the newest event is {self._current}",
                subject="CdcBuffer",
                hint="It is of another ring, or of an earlier life of this one: take a new snapshot.",
            )
        last = self._current if max_events is None else min(self._current, since + max_events)
        blocks = self._blocks
        if last == since:
            return EventBatch((), since + 1, since)
        if blocks[-1].first <= since + 1:  # who keeps up
            return EventBatch((blocks[-1],), since + 1, last)
        begin = bisect_right(blocks, since + 1, key=_first) - 1
        end = bisect_right(blocks, last, key=_first)
        return EventBatch(tuple(islice(blocks, begin, end)), since + 1, last)


def _first(block: Block) -> int:
    return block.first


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
