"""All segments of a log in order, and the ring of bodies that were written last.

State: the first LSN of every segment; the segment being written; a few sealed ones, loaded when read.
So a log of any length opens at the cost of its listing, and reading it through keeps memory flat.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.errors import CursorExpired, DamagedBytes, NotFound, PenstockError
from penstock.log.format import Frame, damaged
from penstock.log.segment import Segment, blob_name
from penstock.store.interface import Store

__all__ = ["Located", "Ring", "Segments", "expired"]

_LOADED = 8  # segments whose headers are in memory
_MAPPED = 2  # of these, how many stay mapped: pages of files count as a process's memory, too


class Ring:
    """The bodies of the newest frames, up to so many bytes: a reader near the head needs no file."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._bytes = 0
        self._order: deque[int] = deque()
        self._bodies: dict[int, pa.Buffer] = {}

    def add(self, first_lsn: int, body: pa.Buffer) -> None:
        """Called by the writer only, under its lock; readers may look meanwhile."""
        if body.size > self._capacity:
            return
        self._bodies[first_lsn] = body
        self._order.append(first_lsn)
        self._bytes += body.size
        while self._bytes > self._capacity:
            self._bytes -= self._bodies.pop(self._order.popleft()).size

    def get(self, first_lsn: int) -> pa.Buffer | None:
        return self._bodies.get(first_lsn)


class Located:
    """A frame and how to get at its body."""

    __slots__ = ("_i", "_segment", "_segments", "frame")

    def __init__(self, segments: Segments, segment: Segment, i: int, frame: Frame) -> None:
        self._segments = segments
        self._segment = segment
        self._i = i
        self.frame = frame

    @property
    def body(self) -> pa.Buffer:
        kept = self._segments.ring.get(self.frame.first_lsn)
        if kept is not None:
            return kept
        try:
            return self._segment.body(self._i, self.frame)
        except NotFound as error:
            first, lsn = self._segment.first_lsn, self.frame.first_lsn
            raise self._segments.gone(first, lsn) from error

    @property
    def checksum(self) -> int:
        """Equal for equal frames only."""
        return self._segment.checksum(self._i)

    def damaged(self, what: str) -> DamagedBytes:
        """An error that says where the frame is."""
        return damaged(self._segment.name, self._segment.offsets[self._i], what)


class Segments:
    """Which segment holds which LSN.

    ``promised`` tells the oldest LSN that the log promises now: what is missing below it was dropped by
    retention, and what is missing from it on is damage. ``keeps_index`` is for the one who writes.
    """

    def __init__(
        self,
        store: Store,
        firsts: list[int],
        active: Segment,
        promised: Callable[[], int],
        *,
        ring: int = 0,
        keeps_index: bool = False,
    ) -> None:
        self._store = store
        self._firsts = firsts  # of every segment, the active one included
        self._loaded: OrderedDict[int, Segment] = OrderedDict()
        self._lock = threading.Lock()
        self._promised = promised
        self._keeps_index = keeps_index
        self.active = active
        self.ring = Ring(ring)

    @property
    def firsts(self) -> tuple[int, ...]:
        return tuple(self._firsts)

    @property
    def oldest_lsn(self) -> int:
        return self._firsts[0]

    @property
    def loaded(self) -> int:
        """How many sealed segments are held in memory."""
        return len(self._loaded)

    def roll(self, active: Segment) -> None:
        """A new segment is being written from now on."""
        with self._lock:
            self._loaded[self.active.first_lsn] = self.active
            insort(self._firsts, active.first_lsn)
            self.active = active
            self._evict()

    def drop_before(self, lsn: int) -> list[int]:
        """Forget the segments that lie wholly before this LSN; return which they were."""
        with self._lock:
            count = max(bisect_right(self._firsts, lsn) - 1, 0)
            gone = self._firsts[:count]
            del self._firsts[:count]
            for first in gone:
                self._loaded.pop(first, None)
            return gone

    def frames(self, since: int, upto: int) -> Iterator[Located]:
        """The frames that hold the events after ``since`` and up to ``upto``, in order."""
        lsn = since + 1
        while lsn <= upto:
            segment = self.holding(lsn)
            count = len(segment)
            before = lsn
            for i in range(segment.at(lsn), count):
                frame = segment.frame(i)
                if frame.last_lsn < lsn:
                    continue
                if frame.first_lsn > upto:
                    return
                if frame.first_lsn > lsn:
                    raise damaged(segment.name, segment.offsets[i], f"LSN {lsn} is missing before it")
                yield Located(self, segment, i, frame)
                lsn = frame.last_lsn + 1
            if lsn == before:
                raise damaged(segment.name, segment.end, f"LSN {lsn} is missing after it")

    def transaction(self, lsn: int) -> list[Located]:
        """All frames of the transaction that this LSN is in; a transaction lies within one segment."""
        segment = self.holding(lsn)
        first = last = segment.at(lsn)
        while first and not segment.frame(first).begins:
            first -= 1
        while last < len(segment) - 1 and not segment.frame(last).ends:
            last += 1
        return [Located(self, segment, i, segment.frame(i)) for i in range(first, last + 1)]

    def first_at_time(self, time: int, upto: int) -> int | None:
        """The first LSN committed at this time or later, if there is one up to ``upto``."""
        while True:
            try:
                return self._first_at_time(time, upto)
            except CursorExpired:  # retention dropped a segment while it was looked for
                continue

    def _first_at_time(self, time: int, upto: int) -> int | None:
        firsts = self.firsts
        low, high = 0, len(firsts)
        while low < high:  # the first segment with a frame at or after the time
            middle = (low + high) // 2
            segment = self.holding(firsts[middle])
            if not len(segment) or segment.times[-1] >= time:  # only the last can be empty: to come is later
                high = middle
            else:
                low = middle + 1
        if low == len(firsts):
            return None
        segment = self.holding(firsts[low])
        count = len(segment)
        at = segment.at_time(time)
        if at >= count:
            return None
        lsn = segment.firsts[at]
        return lsn if lsn <= upto else None

    def holding(self, lsn: int) -> Segment:
        """The segment that holds the LSN, loaded if need be."""
        with self._lock:
            at = bisect_right(self._firsts, lsn) - 1
            if at < 0:
                raise expired(self._store.url, lsn - 1, self._firsts[0])
            first = self._firsts[at]
            if first == self.active.first_lsn:
                return self.active
            found = self._loaded.get(first)
            if found is not None:
                self._loaded.move_to_end(first)
                return found
            log_id = self.active.head.log_id
        try:
            segment = Segment.sealed_one(self._store, first, log_id, keep_index=self._keeps_index)
        except NotFound as error:
            raise self.gone(first, lsn) from error
        with self._lock:
            segment = self._loaded.setdefault(first, segment)
            self._evict()
        return segment

    def gone(self, first: int, lsn: int) -> PenstockError:
        """What it means that the file of the segment from ``first`` on, wanted for ``lsn``, is not there."""
        oldest = self._promised()
        self.drop_before(oldest)
        if lsn < oldest:
            return expired(self._store.url, lsn - 1, oldest)
        return damaged(blob_name(first), 0, "the segment is not there")

    def _evict(self) -> None:
        while len(self._loaded) > _LOADED:
            self._loaded.popitem(last=False)
        for first in tuple(self._loaded)[:-_MAPPED]:
            self._loaded[first].unmap()


def expired(subject: str, cursor: int, earliest: int) -> CursorExpired:
    return CursorExpired(
        f"the cursor {cursor} needs events that are no longer kept; the earliest is LSN {earliest}",
        subject=subject,
        hint=f"Take a new snapshot and go on from there, or accept the loss and go on from {earliest - 1}.",
        earliest=earliest,
    )
