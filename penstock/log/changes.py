"""What reading a log gives: batches of changes, decoded when asked and never copied."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from penstock.changes.event import ChangeEvent
from penstock.changes.op import Op
from penstock.changes.zset import ZSet
from penstock.log.format import Frame, Kind
from penstock.log.meta import Collection
from penstock.log.rows import Int8s, Int64s, Stored
from penstock.lsn import LsnRange

__all__ = ["Changes", "Polled"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Changes:
    """Consecutive events of one collection, from one append: rows with operation, weight, LSN and time.

    ``data`` is the user's columns, mapped from the file without copying; ``rows`` has `_op`, `_weight`,
    `_lsn` and `_ts` beside them. A refresh (``is_refresh``) replaces the collection: its rows are the whole
    new content, as one event.
    """

    __slots__ = ("_body", "_frame", "_stored", "collection", "lsns")

    def __init__(self, collection: Collection, frame: Frame, body: pa.Buffer, since: int, upto: int) -> None:
        self.collection = collection
        self.lsns = LsnRange(max(frame.first_lsn, since + 1), min(frame.last_lsn, upto))
        self._frame = frame
        self._body = body
        self._stored: Stored | None = None

    def first(self, events: int) -> Changes:
        """The first so many of these events."""
        return Changes(
            self.collection, self._frame, self._body, self.first_lsn - 1, self.first_lsn + events - 1
        )

    @property
    def first_lsn(self) -> int:
        return self.lsns.first

    @property
    def last_lsn(self) -> int:
        return self.lsns.last

    @property
    def is_refresh(self) -> bool:
        """Whether the rows replace all that the collection held."""
        return self._frame.kind is Kind.REFRESH

    @property
    def ends_transaction(self) -> bool:
        """Whether the transaction ends with these changes."""
        return self._frame.ends and self.last_lsn == self._frame.last_lsn

    @property
    def committed(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._frame.commit_time)

    def __len__(self) -> int:
        """How many events."""
        return len(self.lsns)

    def __repr__(self) -> str:
        what = "refresh" if self.is_refresh else f"{len(self)} event{'' if len(self) == 1 else 's'}"
        return f"Changes({self.collection.name!r}, {what}, LSN {self.lsns})"

    @property
    def stored(self) -> Stored:
        """The rows as the frame holds them, cut to the events asked for."""
        if self._stored is None:
            whole = Stored.decode(self.collection, self._body, self._frame)
            self._stored = whole if self.is_refresh else whole.events(self.lsns)
        return self._stored

    @property
    def data(self) -> pa.RecordBatch:
        """The user's columns."""
        return self.stored.data

    @property
    def ops(self) -> Int8s:
        """`Op` of each row."""
        return self.stored.ops

    @property
    def weights(self) -> Int64s:
        """Weight of each row."""
        return self.stored.weights

    @property
    def rows(self) -> pa.RecordBatch:
        """The user's columns and Penstock's four."""
        return self.stored.rows(self.is_refresh)

    def zset(self, replaced: ZSet | None = None) -> ZSet:
        """The rows with their weights.

        A refresh is −old +new: give what it ``replaced``, the collection's content until then; without that
        it is the new content only. Other changes leave it aside.
        """
        new = ZSet(self.data, self.weights)
        return new - replaced if self.is_refresh and replaced is not None else new

    def changed_columns(self) -> list[list[str] | None]:
        """For each event the columns it touched: as the writer said, else where both sides of an update
        are there, as they differ; None where nobody can know, and for a refresh."""
        return [None] if self.is_refresh else self.stored.changed_columns()

    def touching(self, columns: set[str]) -> pa.RecordBatch:
        """``rows`` without the events known to have touched none of these columns."""
        if self.is_refresh:
            return self.rows
        keep = [told is None or not columns.isdisjoint(told) for told in self.changed_columns()]
        return self.rows.filter(pa.array(np.asarray(keep, np.bool_)[self.stored.event_of_row()]))

    def events(self) -> list[ChangeEvent]:
        """One object per event, a row of weight n in it n times: for people; batches are faster."""
        stored = self.stored
        if self.is_refresh:
            return [ChangeEvent.snapshot(stored.data, self._frame.commit_time)]
        bounds = np.append(stored.event_starts(), len(stored.ops)).tolist()
        times, copies = stored.times.tolist(), np.abs(stored.weights).tolist()

        def rows(i: int) -> pa.RecordBatch:
            one = stored.data.slice(i, 1)
            return one if copies[i] == 1 else one.take(pa.array(np.zeros(copies[i], np.int64)))

        found: list[ChangeEvent] = []
        for lsn, (start, stop) in enumerate(itertools.pairwise(bounds), self.first_lsn):
            row = rows(start)
            if stop - start == 2:
                found.append(ChangeEvent.update(row, rows(start + 1), times[start], lsn))
            elif Op(int(stored.ops[start])).is_insert:
                found.append(ChangeEvent.insert(row, times[start], lsn))
            else:
                found.append(ChangeEvent.delete(row, times[start], lsn))
        return found


@dataclass(frozen=True, slots=True)
class Polled:
    """Changes in order of their LSNs, and the cursor to poll from next.

    The cursor may be beyond the last change: collections that were not asked for lie between.
    """

    changes: list[Changes] = field(default_factory=list)
    cursor: int = 0
    current_lsn: int = 0

    def __iter__(self) -> Iterator[Changes]:
        return iter(self.changes)

    def __len__(self) -> int:
        """How many events."""
        return sum(len(it) for it in self.changes)

    @property
    def caught_up(self) -> bool:
        """Whether there was nothing more to read at the time."""
        return self.cursor >= self.current_lsn
