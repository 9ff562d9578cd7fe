"""Watching single keys of a collection: each change of them, in order, from the durable log."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from penstock.changes.names import LSN
from penstock.changes.op import Op
from penstock.changes.record import ChangeOperation
from penstock.errors import Closed, InvalidArgument
from penstock.log.changes import Changes
from penstock.log.interface import ReadableLog
from penstock.log.key_match import KeyMatch
from penstock.log.keyed import key_ops
from penstock.log.meta import Collection
from penstock.log.rows import Int8s, Int64s

__all__ = ["KeyEvent", "KeyWatch"]

_WINDOW = 1 << 14  # events looked at in one step
_AT_ONCE = 256  # rows made into objects in one step
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """A committed change of one key. ``before`` and ``after`` are rows; None where there is or is known none.

    Where a row gets another key, the old key is deleted and the new one inserted, at the same LSN. A refresh
    of the collection is told as one event `REFRESH` without a key, which says that all keys are gone, then as
    one `INSERT` for each matching row of the new content, all at the same LSN.
    """

    key: Any
    op: ChangeOperation
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    lsn: int
    committed_at: dt.datetime
    dropped: int = 0
    """How many matching events were dropped before this one, since the watch began."""

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object; the commit time in milliseconds since 1970. Integers are integers."""
        return {
            "key": _json(self.key),
            "op": self.op.value,
            "before": _json(self.before),
            "after": _json(self.after),
            "lsn": self.lsn,
            "committed_at": (self.committed_at - _EPOCH) // _MILLISECOND,
            "dropped_event_count": self.dropped,
        }


def _json(value: Any) -> Any:
    """What JSON has no type for becomes text: decimals, times, bytes (in hex), NaN and the infinities."""
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | dt.timedelta):
        return str(value)
    return value


class _Matches:
    """The matching events of one batch that were not given yet. Rows become objects some at a time."""

    __slots__ = ("_at", "_committed", "_data", "_keys", "_lsns", "_ops", "_refresh", "_starts")

    def __init__(self, match: KeyMatch, changes: Changes, rows: Int64s, ops: Int8s) -> None:
        taken = pa.array(rows)
        self._ops = ops[rows]
        self._data = changes.data.take(taken)
        self._keys = match
        self._refresh = changes.is_refresh
        self._lsns: Int64s = changes.rows.column(LSN).to_numpy()[rows]
        self._committed = changes.committed
        second = (self._ops[1:] == Op.UPDATE_AFTER) & (self._ops[:-1] == Op.UPDATE_BEFORE)
        self._starts = np.concatenate([[0], np.flatnonzero(~second) + 1, [len(rows)]])
        self._at = 0

    def __len__(self) -> int:
        return len(self._starts) - 1 - self._at

    @property
    def next_lsn(self) -> int:
        """Of the event to be given next."""
        return int(self._lsns[self._starts[self._at]])

    def skip(self, events: int) -> None:
        """Forget the first so many."""
        self._at += events

    def take(self, events: int) -> list[KeyEvent]:
        """Give the first so many, as objects."""
        stop = min(self._at + events, len(self._starts) - 1)
        bounds = self._starts[self._at : stop + 1].tolist()
        first = bounds[0]
        part = self._data.slice(first, bounds[-1] - first)
        rows, keys = part.to_pylist(), self._keys.keys(part)
        found = []
        for start, end in itertools.pairwise(bounds):
            op = Op(int(self._ops[start]))
            new = end - 1 - first
            found.append(
                KeyEvent(
                    keys[new],
                    _OPERATIONS[op],
                    None if op.is_insert else rows[start - first],
                    rows[new] if op is not Op.DELETE else None,
                    int(self._lsns[start]),
                    self._committed,
                )
            )
        self._at = stop
        return found


class _Refreshed:
    """The event that says that all keys are gone."""

    def __init__(self, changes: Changes) -> None:
        self._event = KeyEvent(
            None, ChangeOperation.REFRESH, None, None, changes.first_lsn, changes.committed
        )
        self._left = 1

    def __len__(self) -> int:
        return self._left

    @property
    def next_lsn(self) -> int:
        return self._event.lsn

    def skip(self, events: int) -> None:
        self._left -= events

    def take(self, events: int) -> list[KeyEvent]:
        self._left -= 1
        return [self._event]


_OPERATIONS = {
    Op.INSERT: ChangeOperation.INSERT,
    Op.UPDATE_BEFORE: ChangeOperation.UPDATE,
    Op.UPDATE_AFTER: ChangeOperation.UPDATE,
    Op.DELETE: ChangeOperation.DELETE,
}


class KeyWatch(Iterator[KeyEvent]):
    """The changes of the keys that are meant, in order, each once; iterating waits for the next one.

    Law: without ``max_lag`` nothing is dropped, however slow the reader is: events wait in the log, and if
    retention takes one before it was given, `CursorExpired` says so. With ``max_lag`` at most so many
    matching events wait; whenever the next one is asked for and more are there, the oldest are dropped and
    counted. State: the cursor, and the waiting events as batches. Cost: each batch of the collection is
    looked at once, as columns; only events that are given become objects. For one thread; any may close it.
    """

    def __init__(
        self,
        log: ReadableLog,
        collection: Collection,
        key: Any,
        prefix: str | None,
        since: int | None,
        max_lag: int | None,
    ) -> None:
        """Use `Log.watch`."""
        if max_lag is not None and max_lag < 1:
            raise InvalidArgument(
                f"max_lag is {max_lag}", subject="watch", hint="Let at least one event wait, or give None."
            )
        self._log = log
        self._match = KeyMatch(collection, key, prefix)
        self._collection = collection.name
        self._max_lag = max_lag
        self._looked = log.current_lsn if since is None else since
        log.check_cursor(self._looked)
        self._ready: deque[KeyEvent] = deque()
        self._waiting: deque[_Matches | _Refreshed] = deque()
        self._lag = 0
        self._dropped = 0
        self._closed = threading.Event()

    @property
    def cursor(self) -> int:
        """All matching events up to here were given or dropped: a watch from here goes on after them."""
        if not self._lag:
            return self._looked
        return (self._ready[0].lsn if self._ready else self._waiting[0].next_lsn) - 1

    @property
    def dropped(self) -> int:
        """How many matching events were dropped since the watch began."""
        return self._dropped

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def next(self, timeout: float | None = None) -> KeyEvent | None:
        """The next event; None when the watch is closed, or none came in ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.closed:
            self._look()
            if self._lag:
                return self._give()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            try:
                self._log.wait(self._looked, left, self._closed.is_set)
            except Closed:
                if not self.closed:
                    raise
        return None

    def __next__(self) -> KeyEvent:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the watch, and whoever waits for its next event. Idempotent; for any thread."""
        if not self.closed:
            self._closed.set()
            self._log.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _look(self) -> None:
        """Find what matches of what is new: some of it when the reader has to be served, else all of it."""
        end = self._log.current_lsn
        while self._looked < end and (self._max_lag is not None or not self._lag):
            upto = min(self._looked + _WINDOW, end)
            for changes in self._log.read(self._collection, self._looked, upto):
                self._take_in(changes)
            self._looked = upto

    def _take_in(self, changes: Changes) -> None:
        if changes.is_refresh:
            self._wait(_Refreshed(changes))
        rows = np.flatnonzero(self._match.rows(changes.data))
        if len(rows):
            self._wait(_Matches(self._match, changes, rows, key_ops(changes)))

    def _wait(self, found: _Matches | _Refreshed) -> None:
        self._waiting.append(found)
        self._lag += len(found)
        if self._max_lag is not None and self._lag > self._max_lag:
            self._drop(self._lag - self._max_lag)

    def _drop(self, events: int) -> None:
        self._lag -= events
        self._dropped += events
        while events and self._ready:
            self._ready.popleft()
            events -= 1
        while events:
            some = min(events, len(self._waiting[0]))
            self._waiting[0].skip(some)
            events -= some
            if not len(self._waiting[0]):
                self._waiting.popleft()

    def _give(self) -> KeyEvent:
        if not self._ready:
            self._ready.extend(self._waiting[0].take(_AT_ONCE))
            if not len(self._waiting[0]):
                self._waiting.popleft()
        event = self._ready.popleft()
        self._lag -= 1
        return replace(event, dropped=self._dropped) if self._dropped else event
