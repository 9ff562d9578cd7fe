"""A log that another process writes: its segments are looked at again when they grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.errors import DamagedBytes, FileChanged, NotFound
from penstock.log.failures import closed
from penstock.log.growth import GrowthWatch
from penstock.log.meta import META, Meta
from penstock.log.recovery import find_end, list_segments, transactions
from penstock.log.segment import SEGMENTS, Segment, read_head
from penstock.log.segments import Segments
from penstock.store.interface import Store
from penstock.store.local import LocalStore

__all__ = ["Reader", "read_meta"]

_FOR_EVER = 3600.0
_LOOK = 0.02  # seconds between looks at a store that tells of no growth


class Reader:
    """Takes in whole transactions as they come to the files. Thread safe.

    Only frames of a transaction whose end is there are taken in: a part of one may still be taken back.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()  # over what was taken in
        self._meta_lock = threading.Lock()
        self._looked = threading.Condition()
        self._waits = False  # whether some thread waits for growth, for all that wait
        self._watch: GrowthWatch | None = None
        self._wake = threading.Event()
        self._closed = False
        self._meta_bytes = b""
        self.meta = self.fresh_meta()
        self.segments = self._find_segments()
        self._visible = self.segments.active.last_lsn

    def fresh_meta(self) -> Meta:
        """Read what the log is again: collections may have been added, and old segments dropped."""
        with self._meta_lock:
            data, meta = read_meta(self._store, self._meta_bytes)
            if meta is not None:
                if self._meta_bytes and meta.log_id != self.meta.log_id:
                    raise FileChanged(
                        f"another log ({meta.log_id.hex()}) has taken the place of this one",
                        subject=self._store.url,
                        hint="Open it anew; cursors of the old log mean nothing in the new one.",
                    )
                self.meta, self._meta_bytes = meta, data
            return self.meta

    def fresh_oldest_lsn(self) -> int:
        """The oldest LSN that the log promises now."""
        oldest = self.fresh_meta().oldest_lsn
        self.segments.drop_before(oldest)
        return oldest

    def _find_segments(self) -> Segments:
        """The segments there are, and the end of the last; the writer may drop and begin some meanwhile."""
        while True:
            before = self.fresh_meta()
            try:
                listed = list_segments(self._store, before.oldest_lsn).kept
                found = find_end(self._store, before.log_id, listed[-1])
            except (DamagedBytes, NotFound):
                if self.fresh_meta().oldest_lsn == before.oldest_lsn:
                    raise
                continue
            # After a loss of power the torn end may look like frames: it has to be looked at closely.
            self._unsure = found.torn_bytes > 0
            firsts = [it.first_lsn for it in listed]
            return Segments(self._store, firsts, found.active, lambda: self.fresh_meta().oldest_lsn)

    def look(self) -> int:
        """Take in what has come, and return the newest LSN."""
        with self._lock:
            try:
                while self._take_in() and self._next_segment():
                    pass
            except NotFound:  # dropped by retention, with all that was before it
                self.segments = self._find_segments()
            self._visible = lsn = self.segments.active.last_lsn
        with self._looked:
            self._looked.notify_all()
        return lsn

    def _take_in(self) -> bool:
        """Whole transactions of the active segment; True when it turned out to be sealed."""
        active = self.segments.active
        if active.sealed:
            return True
        size = self._store.stat(active.name).size
        if size < active.end:
            raise FileChanged(
                f"the segment had {active.end} bytes and has {size} now",
                subject=active.name,
                hint="Something that is not the log's writer changed it. Restore it, and open the log anew.",
            )
        if size > active.end:
            for transaction in transactions(self._store, active, size, bodies=self._unsure):
                for it in transaction:
                    active.add(it.offset, it.header, it.frame)
                self._unsure = False
        return active.sealed

    def _next_segment(self) -> bool:
        first = self.segments.active.last_lsn + 1
        try:
            head = read_head(self._store, first, self.meta.log_id)
        except NotFound:
            if self.fresh_meta().oldest_lsn > first:
                raise  # it came and went while nobody looked
            return False  # the writer is about to make it
        self.segments.roll(Segment(self._store, head))
        return True

    def wait(self, since: int, timeout: float | None, until: Callable[[], bool] = lambda: False) -> int:
        """As `Log.wait`. One thread waits for the file system; the others wait for what it finds."""
        deadline = time.monotonic() + (_FOR_EVER if timeout is None else max(timeout, 0.0))
        while not self._closed:
            with self._looked:
                leads, self._waits = not self._waits, True
            if leads:
                try:
                    lsn = self._watch_for(since, deadline, until)
                finally:
                    with self._looked:
                        self._waits = False
                        self._looked.notify_all()  # another one has to lead now
            else:
                lsn = self._follow(since, deadline, until)
            if lsn > since or until():
                return lsn
            if time.monotonic() >= deadline:
                if timeout is not None:
                    return lsn
                deadline += _FOR_EVER
        if self._visible > since:
            return self._visible
        raise closed(self._store.url)

    def _watch_for(self, since: int, deadline: float, until: Callable[[], bool]) -> int:
        """Look, and look again after growth. The watch is armed before the look, so no growth is missed."""
        watch = self._armed()
        while True:
            before = self.segments.active.end
            lsn = self.look()
            left = deadline - time.monotonic()
            if lsn > since or left <= 0 or self._closed or until():
                return lsn
            if watch is None:
                self._wake.wait(min(left, _LOOK))
            else:
                watch.wait(self.segments.active.end != before, left)

    def _follow(self, since: int, deadline: float, until: Callable[[], bool]) -> int:
        """Wait for what the thread finds that watches, or for its place."""
        lsn = self.look()
        with self._looked:
            while lsn <= since and self._waits and not self._closed and not until():
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._looked.wait(left)
                lsn = self._visible
        return lsn

    def _armed(self) -> GrowthWatch | None:
        if self._watch is None and isinstance(self._store, LocalStore):
            self._watch = GrowthWatch(self._store.path / SEGMENTS)  # the folder: all segments, old and new
        return self._watch

    def wake(self) -> None:
        """Have everyone who waits ask its ``until`` again."""
        if self._watch is not None:
            self._watch.wake()
        with self._looked:
            self._looked.notify_all()

    def close(self) -> None:
        """End whoever waits and give the watch back. Idempotent."""
        self._closed = True
        self._wake.set()
        watch = self._watch
        if watch is not None:
            watch.wake()
        with self._looked:
            self._looked.notify_all()
            self._looked.wait_for(lambda: not self._waits)
            if self._watch is not None:
                self._watch.close()
                self._watch = None


def read_meta(store: Store, known: bytes = b"") -> tuple[bytes, Meta | None]:
    """What the log is, as bytes and decoded; not decoded where it is what is known."""
    try:
        data = store.get(META)
    except NotFound as error:
        raise NotFound(
            "there is no log", subject=store.url, hint="Make one with Log.create, or check the path."
        ) from error
    return data, None if data == known else Meta.decode(data, f"{store.url}/{META}")
