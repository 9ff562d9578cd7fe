"""Reading a collection through one of its key-hash ranges, and going on from a range to those after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from penstock.changes.names import LSN, META_FIELDS, OP
from penstock.errors import InvalidArgument
from penstock.log.changes import Changes
from penstock.log.interface import ReadableLog
from penstock.log.keyed import key_hashes, key_ops
from penstock.log.meta import Collection
from penstock.log.ranges import KeyRange, RangeTable
from penstock.lsn import LsnRange, check_lsn

__all__ = ["RangeChanges", "RangePolled", "RangeProgress", "poll_range", "read_range"]

_WINDOW = 1 << 14  # events looked at in one step of a poll
_OP_FIELD = META_FIELDS[0]


@dataclass(frozen=True, slots=True)
class RangeChanges:
    """Rows of one range, from one append: the user's columns, then `_op`, `_weight`, `_lsn`, `_ts`.

    An update that gives a row another key comes as the delete of the old key, through that key's range, and
    the insert of the new one, through its own; both have the event's LSN. A refresh replaces what the range
    held: it is given also where no row of the new content is in the range.
    """

    collection: Collection
    range: KeyRange
    lsns: LsnRange
    """The events that were looked at; those of other ranges are among them."""
    is_refresh: bool
    rows: pa.RecordBatch

    def __len__(self) -> int:
        """How many events have rows here."""
        lsns = self.rows.column(LSN).to_numpy()
        return max(int(np.count_nonzero(np.diff(lsns))) + (len(lsns) > 0), int(self.is_refresh))

    def first(self, events: int) -> RangeChanges:
        """The first so many of these events."""
        lsns = self.rows.column(LSN).to_numpy()
        starts = np.flatnonzero(np.diff(lsns)) + 1
        stop = int(starts[events - 1]) if events <= len(starts) else len(lsns)
        last = int(lsns[stop - 1]) if stop < len(lsns) else self.lsns.last
        seen = LsnRange(self.lsns.first, last)
        return RangeChanges(self.collection, self.range, seen, self.is_refresh, self.rows.slice(0, stop))


@dataclass(frozen=True, slots=True)
class RangePolled:
    """Changes of a range in order of their LSNs, the cursor to poll from next, and what follows the range."""

    range: KeyRange
    cursor: int
    current_lsn: int
    changes: list[RangeChanges] = field(default_factory=list)
    children: tuple[KeyRange, ...] = ()
    """Once the range is finished, those that go on from here: each when all its parents are finished."""

    def __iter__(self) -> Iterator[RangeChanges]:
        return iter(self.changes)

    def __len__(self) -> int:
        """How many events."""
        return sum(len(it) for it in self.changes)

    @property
    def finished(self) -> bool:
        """Whether the range was retired and read to its end: nothing more will ever come through it."""
        return self.range.until_lsn is not None and self.cursor >= self.range.until_lsn

    @property
    def caught_up(self) -> bool:
        """Whether there was nothing more to read at the time."""
        return self.finished or self.cursor >= self.current_lsn


def read_range(
    log: ReadableLog, collection: Collection, it: KeyRange, since: int, upto: int
) -> Iterator[RangeChanges]:
    """The changes of a range after ``since`` and up to ``upto``, as far as its life goes."""
    stop = upto if it.until_lsn is None else min(upto, it.until_lsn)
    return _read(log, collection, it, _checked(log, it, since), stop)


def poll_range(
    log: ReadableLog,
    collection: Collection,
    table: RangeTable,
    it: KeyRange,
    since: int,
    max_events: int,
    end: int,
) -> RangePolled:
    """At most so many events of a range after ``since``, as the log was when it ended at LSN ``end``."""
    if max_events < 1:
        raise InvalidArgument(
            f"max_events is {max_events}", subject=log.name, hint="Ask for at least one event."
        )
    stop = end if it.until_lsn is None else min(end, it.until_lsn)
    cursor = _checked(log, it, since)
    changes: list[RangeChanges] = []
    left = max_events
    while cursor < stop and left:
        upto = min(cursor + _WINDOW, stop)
        for some in _read(log, collection, it, cursor, upto):
            if len(some) > left:
                some = some.first(left)
            changes.append(some)
            left -= len(some)
            if not left:
                upto = some.lsns.last
                break
        cursor = upto
    done = it.until_lsn is not None and cursor >= it.until_lsn
    return RangePolled(it, cursor, end, changes, table.children(it.id) if done else ())


def _checked(log: ReadableLog, it: KeyRange, since: int) -> int:
    """The cursor within the range's life; refused when something would be skipped."""
    cursor = max(check_lsn(since, log.name), it.from_lsn)
    if it.until_lsn is not None and cursor >= it.until_lsn:
        return it.until_lsn  # read to its end: nothing of it is needed any more, be it kept or not
    log.check_cursor(cursor)
    return cursor


def _read(
    log: ReadableLog, collection: Collection, it: KeyRange, since: int, upto: int
) -> Iterator[RangeChanges]:
    for changes in log.read(collection.name, since, upto) if since < upto else ():
        mask = _mask(changes, it)
        if not (changes.is_refresh or mask is None or mask.any()):
            continue
        rows = changes.rows
        place = rows.schema.get_field_index(OP)
        rows = rows.set_column(place, _OP_FIELD, pa.array(key_ops(changes)))
        if mask is not None:
            rows = rows.filter(pa.array(mask))
        yield RangeChanges(collection, it, changes.lsns, changes.is_refresh, rows)


def _mask(changes: Changes, it: KeyRange) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Which rows are in the range; None when all are."""
    hashes = key_hashes(changes)
    mask = (hashes >= np.uint64(it.low)) & (hashes <= np.uint64(it.high - 1))
    return None if mask.all() else mask


class RangeProgress:
    """How far a reader has come in all ranges of a collection, and how it goes from parents to children.

    Law: a range is read only when all its parents are finished. So each event is read once, and each key's
    events in order. State: a cursor for each range being read, and the finished parents whose child waits for
    its other parent; `to_json` gives it, to be kept and gone on from.

    >>> left, right = KeyRange(2, 0, 8, (1,), 5, until_lsn=9), KeyRange(3, 8, 16, (1,), 5, until_lsn=9)
    >>> child = KeyRange(4, 0, 16, (2, 3), 9)
    >>> progress = RangeProgress.begin([left, right], 6)
    >>> progress.took(RangePolled(left, 9, 20, children=(child,)))
    >>> progress.cursors                                            # 4 waits until 3 is finished, too
    {3: 6}
    >>> progress.took(RangePolled(right, 9, 20, children=(child,)))
    >>> progress.cursors
    {4: 9}
    """

    def __init__(self, cursors: Mapping[int, int], finished: Iterable[int] = ()) -> None:
        self.cursors = dict(cursors)
        self._finished = set(finished)

    @classmethod
    def begin(cls, ranges: Iterable[KeyRange], cursor: int) -> Self:
        """Read from this cursor on. ``ranges`` are those of `Log.ranges` at the cursor."""
        return cls({it.id: max(cursor, it.from_lsn) for it in ranges})

    def took(self, polled: RangePolled) -> None:
        """What was polled has been dealt with: go on after it, and from a finished range to its children."""
        if polled.range.id not in self.cursors:
            raise InvalidArgument(
                "it is not being read",
                subject=str(polled.range),
                hint=f"Those being read are {', '.join(map(str, self.cursors)) or '(none)'}.",
            )
        if not polled.finished:
            self.cursors[polled.range.id] = polled.cursor
            return
        del self.cursors[polled.range.id]
        self._finished.add(polled.range.id)
        for child in polled.children:
            if self._finished.issuperset(child.parents):
                self.cursors[child.id] = child.from_lsn
        if all(child.id in self.cursors for child in polled.children):
            self._finished.difference_update(*(child.parents for child in polled.children))

    def to_json(self) -> dict[str, Any]:
        """The state as a JSON object."""
        return {
            "cursors": {str(id_): at for id_, at in self.cursors.items()},
            "finished": sorted(self._finished),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls({int(id_): at for id_, at in value["cursors"].items()}, value["finished"])
