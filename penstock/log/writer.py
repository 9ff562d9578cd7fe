"""The one that appends: frames in order under one lock, synced as the options say, segments rolled.

Laws: an LSN is given under the same lock as the append, so no reader's cursor can pass a number that has not
landed. What an append returned for is never lost to a killed process; with ``fsync="always"`` also not to a
loss of power. A failed append leaves the log as it was, or stops the writer for good.

Two locks, always taken in this order: ``_sync_lock`` by whoever syncs or changes the file that is written,
``_lock`` by whoever appends or changes what the log is. So appends go on beside a sync, and no file is closed
under one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.errors import DidNotHappen, PenstockError, StoreUnavailable
from penstock.log.failures import as_told, closed, forked, stopped_by, unsure_of
from penstock.log.format import Head, Kind
from penstock.log.group_commit import GroupCommit, Wanted
from penstock.log.meta import META, Meta
from penstock.log.now_and_then import NowAndThen
from penstock.log.options import LogOptions
from penstock.log.packing import Packed
from penstock.log.recovery import Found
from penstock.log.retention import droppable, keep_from
from penstock.log.rows import Part
from penstock.log.segment import Segment, blob_name, index_name, read_head
from penstock.log.segments import Segments
from penstock.lsn import FIRST, LsnRange
from penstock.store.appending import Appender, Lock, appender
from penstock.store.interface import Store

__all__ = ["Writer"]

_logger = logging.getLogger(__name__)
# So many unsynced bytes, and the next sync begins early: else who fills a segment waits for all of them.
_MUCH = 16 << 20


class Writer:
    """Owned by the log that opened it; thread safe."""

    def __init__(
        self,
        store: Store,
        meta: Meta,
        options: LogOptions,
        firsts: list[int],
        found: Found,
        held: Lock,
        clock: Callable[[], int],
    ) -> None:
        self.meta = meta
        self.segments = segments = Segments(
            store,
            firsts,
            found.active,
            lambda: self.meta.oldest_lsn,
            ring=options.ring_bytes,
            keeps_index=True,
        )
        self.changed = threading.Condition()
        self.visible_lsn = segments.active.last_lsn
        self.closed = False
        self._store = store
        self._options = options
        self._held = held
        self._clock = clock
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._sync_lock = threading.Lock()
        self._group_commit = GroupCommit(
            self._append_all, self._sync_at_least, lambda: self._broken, store.url
        )
        self._next = self.visible_lsn + 1
        self._time = segments.active.last_time
        self._marked = found.marked
        self._broken: PenstockError | None = None
        self._sync_failed = False
        self._appender: Appender = appender(store, segments.active.name)
        self._appender.sync()  # what the last process left may be in the page cache only
        self._synced_lsn = self.visible_lsn
        self._synced_bytes = segments.active.end
        self._syncing = NowAndThen(self._sync_and_mark, options.interval.total_seconds())
        if options.fsync == "interval":
            self._syncing.start()

    @property
    def next_lsn(self) -> int:
        """What the next event will have."""
        return self._next

    def commit(self, parts: Sequence[Part], commit_time: int | None = None) -> LsnRange:
        """Append the parts as one transaction. A replica gives the time that its primary gave."""
        self._check_process()
        wanted = Wanted(parts, commit_time)
        if self._options.fsync == "always":
            self._group_commit.reach(wanted)
        else:
            self._append_all([wanted])
            with self.changed:
                self.changed.notify_all()
            self._syncing.tell()
            if self.segments.active.end - self._synced_bytes > _MUCH:
                self._syncing.hurry()
        assert wanted.lsns is not None
        return wanted.lsns

    def _append_all(self, wanted: Sequence[Wanted]) -> None:
        """Append these transactions in order, up to one that fails; begin a segment where need be."""
        while not self._append_here(wanted):
            self._begin_next()
        if self.segments.active.end >= self._options.segment_bytes:
            self._roll()

    def _append_here(self, wanted: Sequence[Wanted]) -> bool:
        """Append under the lock; False where a new segment has to be begun first."""
        with self._lock:
            self.check_usable()
            if self.segments.active.sealed:
                return False
            for it in wanted:
                self._time = max(self._clock() if it.commit_time is None else it.commit_time, self._time)
                packed = self._packed()
                lsns = packed.add(it.parts, self._time)
                # Each with a write of its own: of several in one, those before the byte that found no room
                # would be whole to another process's reader, and then be taken back.
                self._append(packed)
                self._marked = False
                it.lsns = lsns
                if self._options.fsync != "always":
                    self.visible_lsn = self._next - 1
            return True

    def _packed(self) -> Packed:
        return Packed(self.segments.active.seed, self._synced_bytes, self.meta.term, self._next)

    def _append(self, packed: Packed) -> None:
        """To the file, then to the index: both, or the writer stops for good."""
        segment = self.segments.active
        try:
            self._appender.append(packed.buffers)
            offset = segment.end
            for header, frame, body in packed.frames:
                if body is not None:
                    self.segments.ring.add(frame.first_lsn, body)
                segment.add(offset, header, frame)
                offset += frame.frame_bytes
            self._next = packed.next_lsn
        except DidNotHappen:
            raise  # the file is as it was: the log goes on
        except BaseException as error:
            self._broken = as_told(error, "appending", segment.name)
            raise

    def sync(self) -> None:
        """Return when everything appended before the call survives a loss of power."""
        self._check_process()
        with self._lock:
            self.check_usable()
            upto = LsnRange(FIRST, self._next - 1)
        self._group_commit.reach(Wanted((), lsns=upto))

    def _sync_at_least(self, lsn: int) -> int:
        """Sync what has been appended, unless that reaches this LSN already; return how far it reaches."""
        with self._sync_lock:
            if self._synced_lsn < lsn:
                if self._broken is not None:
                    raise unsure_of(lsn, self._store.url) from self._broken
                self._sync_file()
            reached = self._synced_lsn
        with self.changed:
            self.changed.notify_all()
        return reached

    def _sync_file(self) -> None:
        """Sync what has been appended. Called under the sync lock."""
        with self._lock:
            lsn, end = self._next - 1, self.segments.active.end
        self._sync_to(lsn, end)

    def _sync_to(self, lsn: int, end: int) -> None:
        try:
            self._appender.sync()
        except BaseException as error:
            # What of the unsynced events is on disk is unknown now: only opening again can tell.
            self._sync_failed = True
            self._broken = as_told(error, "syncing", self.segments.active.name)
            if isinstance(error, PenstockError):
                raise unsure_of(lsn, self._store.url) from error
            raise
        self._synced_lsn, self._synced_bytes = lsn, end
        if self._options.fsync == "always":
            self.visible_lsn = lsn

    def _sync_and_mark(self) -> None:
        """What the sync thread does after each interval with something new in it."""
        try:
            self.sync()
            if not self._syncing.has_news:
                self._mark()
        except PenstockError as error:
            # Of a sync that failed the next append tells; a mark that found no room is no loss.
            _logger.warning("the log could not be synced and marked: %s", error)
        except BaseException as error:
            self._broken = as_told(error, "syncing", self.segments.active.name)
            raise

    def _mark(self) -> None:
        with self._lock:
            self.check_usable()
            if not self._marked and self._synced_lsn == self._next - 1:
                self._append_mark(Kind.MARK)

    def _append_mark(self, kind: Kind) -> None:
        packed = self._packed()
        packed.add_mark(kind, self._time)
        self._append(packed)
        self._marked = True

    def _roll(self) -> None:
        """Seal a full segment and begin the next. Opening goes on from whatever a crash in between leaves.

        What was appended stays appended when this fails: the next append tries again, and says why it cannot.
        """
        with self._sync_lock, self._lock:
            old = self.segments.active
            if self.closed or self._broken or old.sealed or old.end < self._options.segment_bytes:
                return  # another thread did it, or nobody can
            try:
                self._sync_to(self._next - 1, old.end)
                self._append_mark(Kind.SEAL)
                self._sync_to(self._next - 1, old.end)
                old.keep_index()
                self._begin_and_retain()
            except PenstockError as error:
                _logger.warning("the log could not begin a new segment yet: %s", error)

    def _begin_and_retain(self) -> None:
        try:
            self._begin()
        except StoreUnavailable:
            self._retain()  # what goes may leave the room that it needs
            raise
        self._retain()

    def _begin_next(self) -> None:
        """What `_roll` had to leave undone."""
        with self._sync_lock, self._lock:
            self.check_usable()
            if self.segments.active.sealed:
                self._begin()

    def _begin(self) -> None:
        """Make the segment that follows a sealed one, or take the empty one that a died writer made."""
        name = blob_name(self._next)
        head = Head(self.meta.log_id, self._next, self._time, self.meta.term)
        try:
            if not self._store.create(name, head.encode()):
                head = read_head(self._store, self._next, self.meta.log_id)
            grown = appender(self._store, name)
        except PenstockError as error:
            raise StoreUnavailable(
                f"a new segment could not be begun, so nothing was appended: {error.what}",
                subject=error.subject,
                hint=error.hint,
            ) from error
        try:
            self.segments.roll(Segment(self._store, head))
            old, self._appender = self._appender, grown
            self._synced_bytes = self.segments.active.end
            self._marked = True  # there is nothing in it that is not synced
        except BaseException as error:
            self._broken = as_told(error, "beginning a segment", name)
            raise
        old.close()

    def _retain(self) -> None:
        first = keep_from(self._store, self.segments, self._options, max(self._clock(), self._time))
        if first > self.meta.oldest_lsn:
            self._drop_before(first)

    def retain(self) -> int:
        """Drop what the options do not keep any more; return the oldest LSN that is left."""
        self._check_process()
        with self._lock:
            self.check_usable()
            self._retain()
            return self.meta.oldest_lsn

    def trim(self, upto: int) -> int:
        """Drop the segments that lie wholly at or below this LSN; return the oldest LSN that is left."""
        self._check_process()
        with self._lock:
            self.check_usable()
            oldest = max((it for it in droppable(self.segments) if it <= upto + 1), default=1)
            if oldest > self.meta.oldest_lsn:
                self._drop_before(oldest)
            return self.meta.oldest_lsn

    def _drop_before(self, first_lsn: int) -> None:
        """First withdraw the promise, then the bytes: a crash in between leaves files that nobody needs.

        The indexes go before both: they can be made anew, and where the disk is full they leave room for the
        promise.
        """
        gone = [it for it in self.segments.firsts if it < first_lsn]
        self._delete([index_name(it) for it in gone])
        self._put_meta(replace(self.meta, oldest_lsn=first_lsn))
        self.segments.drop_before(first_lsn)
        self._delete([blob_name(it) for it in gone])

    def _delete(self, names: list[str]) -> None:
        try:
            self._store.delete(*names)
        except PenstockError as error:
            _logger.warning("what was dropped stays until the log is opened again: %s", error)

    def change_meta(self, change: Callable[[Meta, int], Meta]) -> Meta:
        """Change what the log is, between two appends.

        ``change`` is given what it is now and the last LSN; where it returns the same nothing is written.
        """
        self._check_process()
        with self._lock:
            self.check_usable()
            changed = change(self.meta, self._next - 1)
            if changed is not self.meta:
                self._put_meta(changed)
            return changed

    def _put_meta(self, meta: Meta) -> None:
        try:
            self._store.put(META, meta.encode())
            self.meta = meta
        except DidNotHappen:
            raise
        except BaseException as error:
            self._broken = as_told(error, "writing what the log is", META)
            raise

    def close(self) -> None:
        """Sync, mark that all is synced, and let the next writer in. Idempotent.

        Raises `OutcomeUnknown` when events that an append returned for may not survive a loss of power.
        """
        if os.getpid() != self._process:  # a fork's copy: the file is its parent's
            self.closed = True
            return
        self._syncing.stop()
        with self._sync_lock, self._lock:
            if self.closed:
                return
            try:
                self._finish()
            finally:
                self.closed = True
                self._appender.close()
                self._held.release()
                with self.changed:
                    self.changed.notify_all()

    def _finish(self) -> None:
        if self._sync_failed and self._synced_lsn < self.visible_lsn:
            raise unsure_of(self.visible_lsn, self._store.url) from self._broken
        if self._marked or self._sync_failed:
            return
        self._sync_to(self._next - 1, self.segments.active.end)
        if self._broken is None:
            try:
                self._append_mark(Kind.MARK)
            except PenstockError as error:
                _logger.warning("the log was synced, but could not be marked as closed: %s", error)

    def check_usable(self) -> None:
        """Raise what an append would raise, were it closed or stopped."""
        if self.closed:
            raise closed(self._store.url)
        if self._broken is not None:
            raise stopped_by(self._broken, self._store.url) from self._broken

    def _check_process(self) -> None:
        # Before any lock is taken: another thread of the parent may have held it when it forked.
        if os.getpid() != self._process:
            raise forked(self._process, self._store.url)
