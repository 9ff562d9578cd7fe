"""How any log is read: the segment log here, and the tick log that a pipeline writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from penstock.errors import CursorAhead, InvalidArgument
from penstock.log.changes import Changes, Polled
from penstock.log.meta import Collection
from penstock.log.segments import expired
from penstock.lsn import check_lsn

__all__ = ["ReadableLog"]


class ReadableLog(ABC):
    """A log as its readers see it. Cursors are exclusive: "I have everything up to and including this LSN".

    Nothing is ever skipped in silence: a cursor older than what is kept raises `CursorExpired`, and one
    beyond the end (of another log, or of another life of this one) raises `CursorAhead`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What errors call this log."""

    @property
    @abstractmethod
    def collections(self) -> tuple[Collection, ...]:
        """The collections, in the order they were added."""

    @property
    @abstractmethod
    def current_lsn(self) -> int:
        """The newest LSN that can be read; 0 when nothing was written. Always the end of a transaction."""

    @property
    @abstractmethod
    def oldest_lsn(self) -> int:
        """The oldest LSN that is still kept; ``current_lsn + 1`` when nothing is."""

    @abstractmethod
    def wait(
        self, since: int, timeout: float | None = None, until: Callable[[], bool] = lambda: False
    ) -> int:
        """Return `current_lsn` as soon as it is greater than ``since``, or when the time is over.

        Also when ``until`` says so, which is asked whenever somebody calls `wake`. Raises `Closed` when the
        log is, here, and there is nothing after ``since``.
        """

    @abstractmethod
    def wake(self) -> None:
        """Have everyone in `wait` ask its ``until`` again."""

    @abstractmethod
    def _changes(self, since: int, upto: int, wanted: frozenset[int] | None) -> Iterator[Changes]:
        """The changes after ``since`` up to ``upto``, both checked, of the collections with these ids."""

    @abstractmethod
    def boundary(self, lsn: int) -> int:
        """The end of the transaction that ``lsn`` is in: the least cursor from there on that splits none."""

    @abstractmethod
    def lsn_at(self, when: datetime) -> int | None:
        """The first LSN that is kept and was committed at this time or later; None when all is older.

        So a reader of what happened from then on begins at the cursor before it.
        """

    @abstractmethod
    def fingerprint(self, lsn: int) -> int | None:
        """A checksum of the append that holds this event; None where it is no longer kept.

        Who keeps it beside a cursor finds out that a loss of power took events which had been read (with
        ``fsync="always"`` none that the log's own process gave), and that others came in their place.
        """

    @abstractmethod
    def collection(self, name: str) -> Collection:
        """The collection of this name, or an error that names those there are."""

    def read(
        self, collection: str | None = None, since: int = 0, upto: int | None = None
    ) -> Iterator[Changes]:
        """All changes after ``since`` and up to ``upto`` (default: now), frame by frame.

        Memory stays flat however long the range is: each batch is mapped when it is looked at.
        """
        end = self.check_cursor(since)
        upto = end if upto is None else min(check_lsn(upto, self.name), end)
        wanted = None if collection is None else frozenset((self.collection(collection).id,))
        return self._changes(since, upto, wanted)

    def poll(self, since: int, max_events: int = 1000, collections: Iterable[str] | None = None) -> Polled:
        """At most so many events after ``since``; an event is never split.

        A transaction may be, where it is longer than ``max_events``: `boundary` tells where it ends.
        """
        if max_events < 1:
            raise InvalidArgument(
                f"max_events is {max_events}", subject=self.name, hint="Ask for at least one event."
            )
        end = self.check_cursor(since)
        wanted = None if collections is None else frozenset(self.collection(it).id for it in collections)
        found: list[Changes] = []
        left, cursor = max_events, since
        upto = end if wanted is not None else min(end, since + max_events)
        for changes in self._changes(since, upto, wanted):
            if len(changes) > left:
                changes = changes.first(left)
            found.append(changes)
            left -= len(changes)
            cursor = changes.last_lsn
            if not left:
                break
        return Polled(found, cursor if not left else upto, end)

    def tail(
        self,
        since: int,
        collections: Iterable[str] | None = None,
        *,
        until: Callable[[], bool] = lambda: False,
        max_events: int = 10_000,
        look: float = 0.5,
    ) -> Iterator[Polled]:
        """Poll, then wait, for ever: ends when ``until`` says so, asked at least every ``look`` seconds.

        A log that is closed meanwhile raises `Closed`, after all that could be read was given.
        """
        wanted = None if collections is None else tuple(collections)
        while not until():
            polled = self.poll(since, max_events, wanted)
            if polled.changes:
                yield polled
            since = polled.cursor
            if polled.caught_up:
                self.wait(since, look)

    def check_cursor(self, since: int) -> int:
        """Refuse a cursor that would skip something, or that is not of this log; return the current LSN."""
        check_lsn(since, self.name)
        end = self.current_lsn
        if since > end:
            raise CursorAhead(
                f"the cursor is {since} and the log ends at LSN {end}",
                subject=self.name,
                hint="Check that the cursor is of this log. If the log was restored from a copy, begin anew.",
            )
        oldest = self._oldest_known()
        if since < oldest - 1:
            raise expired(self.name, since, oldest)
        return end

    def _oldest_known(self) -> int:
        """As `oldest_lsn`, but it may be behind where finding out costs something: reading finds out."""
        return self.oldest_lsn
