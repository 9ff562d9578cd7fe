"""`KeyedLog`: a log that is also read by ranges of its keys, and key by key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from penstock.log.interface import ReadableLog
from penstock.log.meta import Collection, Meta
from penstock.log.range_reading import RangeChanges, RangePolled, poll_range, read_range
from penstock.log.ranges import KeyRange, RangeTable
from penstock.log.watch import KeyWatch
from penstock.lsn import check_lsn

__all__ = ["KeyedLog"]


class KeyedLog(ReadableLog):
    """What a log has for those who look at some of a collection's keys."""

    @abstractmethod
    def reload_meta(self) -> Meta:
        """Identity, term, collections and ranges, as they are now, whichever process changed them."""

    @abstractmethod
    def change_meta(self, change: Callable[[Meta, int], Meta]) -> Meta:
        """Change what the log is, between two appends: from what it is and the last LSN, to what it is to be.

        When it returns, the change and all events before it survive a loss of power.
        """

    def ranges(self, collection: str, at: int | None = None) -> tuple[KeyRange, ...]:
        """The key-hash ranges to go on with from the cursor ``at`` (default: from now), by hash."""
        end, _, table = self._now(collection)
        return table.at(end if at is None else check_lsn(at, self.name))

    def split_range(
        self, collection: str, range_id: int, at_hash: int | None = None
    ) -> tuple[KeyRange, KeyRange]:
        """Retire a range at the current LSN; two take its place, the right one from ``at_hash`` on."""
        left, right = self._succeed(collection, lambda table, lsn: table.split(range_id, at_hash, lsn))[-2:]
        return left, right

    def merge_ranges(self, collection: str, a: int, b: int) -> KeyRange:
        """Retire two neighbours at the current LSN; one takes their place."""
        return self._succeed(collection, lambda table, lsn: table.merge(a, b, lsn))[-1]

    def _succeed(
        self, collection: str, change: Callable[[RangeTable, int], RangeTable]
    ) -> tuple[KeyRange, ...]:
        found = self.collection(collection)

        def changed(meta: Meta, lsn: int) -> Meta:
            return change(RangeTable.of(meta, found), lsn).within(meta, found)

        return tuple(RangeTable.of(self.change_meta(changed), found))

    def read_range(
        self, collection: str, range_id: int, since: int = 0, upto: int | None = None
    ) -> Iterator[RangeChanges]:
        """All changes of a range after ``since`` and up to ``upto`` (default: now), within its life."""
        end, found, table = self._now(collection)
        upto = end if upto is None else min(check_lsn(upto, self.name), end)
        return read_range(self, found, table[range_id], since, upto)

    def poll_range(self, collection: str, range_id: int, since: int, max_events: int = 1000) -> RangePolled:
        """At most so many events of a range after ``since``. A finished range names its children."""
        end, found, table = self._now(collection)
        return poll_range(self, found, table, table[range_id], since, max_events, end)

    def _now(self, collection: str) -> tuple[int, Collection, RangeTable]:
        """The end of the log, then its ranges: what is split after that begins after that end."""
        end, found = self.current_lsn, self.collection(collection)
        return end, found, RangeTable.of(self.reload_meta(), found)

    def watch(
        self,
        collection: str,
        key: Any = None,
        *,
        prefix: str | None = None,
        since: int | None = None,
        max_lag: int | None = None,
    ) -> KeyWatch:
        """The changes of one key, or of all with a prefix, or of all, after ``since`` (default: from now on).

        A key of several columns is a tuple. Nothing is dropped, unless ``max_lag`` says how many matching
        events may wait for a slow reader.
        """
        return KeyWatch(self, self.collection(collection), key, prefix, since, max_lag)
