"""`Log`: the durable log, for the one who writes it and for the many who read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Self

import pyarrow as pa

from penstock.changes.record import ChangeOperation
from penstock.errors import InvalidArgument, Unsupported
from penstock.log.by_key import KeyedLog
from penstock.log.changes import Changes
from penstock.log.failures import closed
from penstock.log.meta import META, Collection, Meta
from penstock.log.opening import Clock, Recovered, make, now, open_to_write, store_at, take_lock
from penstock.log.options import LogOptions
from penstock.log.reader import Reader, read_meta
from penstock.log.rows import Part
from penstock.log.segment import SEGMENTS
from penstock.log.segments import Located, Segments
from penstock.log.transaction import (
    Appendable,
    Row,
    Transaction,
    parts_of_batch,
    parts_of_event,
    parts_of_refresh,
)
from penstock.log.writer import Writer
from penstock.lsn import FIRST, LsnRange
from penstock.store.appending import Lock
from penstock.store.interface import Store

__all__ = ["Log", "LogStats", "Recovered"]


@dataclass(frozen=True, slots=True)
class LogStats:
    """How much there is, and how far it reaches."""

    current_lsn: int
    oldest_lsn: int
    segments: int
    bytes: int
    collections: int
    term: int


class Log(KeyedLog):
    """A durable, ordered sequence of transactions over one or more collections.

    One process writes, any number read. Law: what is read is a prefix of what was appended, in whole
    transactions, with contiguous LSNs; nothing acknowledged is lost and nothing is skipped in silence.

    >>> import tempfile, pyarrow as pa
    >>> folder = tempfile.mkdtemp()
    >>> with Log.create(folder) as log:
    ...     schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    ...     users = log.add_collection("users", schema, key=["id"])
    ...     print(log.append("users", pa.table({"id": [1, 2], "name": ["ada", "bob"]})))
    ...     old, new = {"id": 2, "name": "bob"}, {"id": 2, "name": "Bob"}
    ...     print(log.emit("update", "users", before=old, after=new))
    ...     log.poll(since=2).changes[0].changed_columns()
    [1, 2]
    3
    [['name']]
    """

    def __init__(self, store: Store, writer: Writer | None, reader: Reader | None) -> None:
        """Use `Log.create` or `Log.open`."""
        self._store = store
        self._writer = writer
        self._reader = reader
        self._closed = False
        self.recovered: Recovered | None = None

    @classmethod
    def create(
        cls,
        place: str | os.PathLike[str] | Store,
        options: LogOptions | None = None,
        *,
        first_lsn: int = FIRST,
        log_id: bytes | None = None,
        clock: Clock = now,
    ) -> Self:
        """Make a new log and open it for writing.

        ``first_lsn`` is for a copy that begins later, ``log_id`` (16 bytes) for one that is to pass for the
        same log, ``clock`` for tests: it tells microseconds since 1970.
        """
        store = store_at(place)
        held = take_lock(store)
        try:
            make(store, first_lsn, log_id, clock)
            return cls._to_write(store, options or LogOptions(), held, clock)
        except BaseException:
            held.release()
            raise

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str] | Store,
        mode: Literal["write", "read"] = "write",
        options: LogOptions | None = None,
        *,
        clock: Clock = now,
    ) -> Self:
        """Open a log that is there: to read, beside a writer; or to write, after what a died writer left."""
        store = store_at(place)
        if mode == "read":
            return cls(store, None, Reader(store))
        if mode != "write":
            raise InvalidArgument(f"mode is {mode!r}", subject="Log.open", hint='Use "write" or "read".')
        read_meta(store)  # before the lock, which would make a folder where there is none
        held = take_lock(store)
        try:
            return cls._to_write(store, options or LogOptions(), held, clock)
        except BaseException:
            held.release()
            raise

    @classmethod
    def _to_write(cls, store: Store, options: LogOptions, held: Lock, clock: Clock) -> Self:
        writer, recovered = open_to_write(store, options, held, clock)
        log = cls(store, writer, None)
        log.recovered = recovered
        return log

    def close(self) -> None:
        """Sync what was appended and let the next writer in. Idempotent. Batches that were read stay good.

        Raises `OutcomeUnknown` when events that an append returned for may not survive a loss of power.
        """
        self._closed = True
        if self._writer is not None:
            self._writer.close()
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = "closed" if self._closed else "writing" if self._writer is not None else "reading"
        return f"Log({self.name!r}, {mode})"

    @property
    def name(self) -> str:
        return self._store.url

    @property
    def id(self) -> str:
        """Tells this log from every other, also from one made anew at the same place."""
        return self.meta.log_id.hex()

    @property
    def meta(self) -> Meta:
        """Identity, term and collections, as they were last read."""
        return self._writer.meta if self._writer is not None else self._reading.meta

    def reload_meta(self) -> Meta:
        """Identity, term and collections, as they are now, whichever process changed them."""
        return self._writer.meta if self._writer is not None else self._reading.fresh_meta()

    @property
    def term(self) -> int:
        return self.reload_meta().term

    @property
    def collections(self) -> tuple[Collection, ...]:
        return self.reload_meta().collections

    def collection(self, name: str) -> Collection:
        return self.meta.named(name) or self.reload_meta().collection(name, self.name)

    @property
    def current_lsn(self) -> int:
        return self._writer.visible_lsn if self._writer is not None else self._reading.look()

    @property
    def oldest_lsn(self) -> int:
        return self._segments.oldest_lsn if self._reader is None else self._reader.fresh_oldest_lsn()

    def stats(self) -> LogStats:
        """Figures for people and for metrics."""
        current, meta = self.current_lsn, self.reload_meta()
        sizes = [blob.size for blob in self._store.list(SEGMENTS)]
        return LogStats(current, self.oldest_lsn, len(sizes), sum(sizes), len(meta.collections), meta.term)

    def add_collection(self, name: str, schema: pa.Schema, key: Iterable[str] = ()) -> Collection:
        """Add a collection; one that is there already with the same schema and key is returned as it is."""
        wanted = Collection.define(name, schema, tuple(key))
        meta = self._appending.change_meta(lambda meta, _: meta.including(wanted))
        return meta.collection(name, self.name)

    def append(self, collection: str, data: Appendable) -> LsnRange:
        """Append a batch as one transaction and return its LSNs.

        Beside the collection's columns the batch may have ``_op`` (`Op` numbers; without it all rows are
        inserts), ``_weight``, ``_ts`` (else the time of the commit) and ``_changed``. A row UPDATE_BEFORE and
        the UPDATE_AFTER that follows it are one event and share its LSN.
        """
        return self._commit(parts_of_batch(self.collection(collection), data))

    def emit(
        self,
        operation: ChangeOperation | str,
        collection: str,
        *,
        before: Row | None = None,
        after: Row | None = None,
        changed_columns: Iterable[str] | None = None,
        timestamp: datetime | None = None,
    ) -> int:
        """Append one event and return its LSN. An update may come without ``before``: then it is unknown."""
        found = self.collection(collection)
        return self._commit(parts_of_event(found, operation, before, after, changed_columns, timestamp)).last

    def refresh(self, collection: str, data: Appendable) -> LsnRange:
        """Replace the whole content of a collection, as one event: a reader sees the old or the new."""
        return self._commit(parts_of_refresh(self.collection(collection), data))

    def transaction(self) -> Transaction:
        """Several appends, all or none::

        with log.transaction() as t:
            t.append("orders", orders)
            t.append("lines", lines)
        """
        self._appending.check_usable()
        return Transaction(self.collection, self._commit, self.name)

    def sync(self) -> None:
        """Return when all that was appended survives a loss of power."""
        self._writing.sync()

    def trim(self, upto: int) -> int:
        """Drop whole segments at or below this LSN; return the oldest LSN that is left.

        The newest transaction stays, whatever is asked.
        """
        return self._writing.trim(upto)

    def retain(self) -> int:
        """Drop now what the options do not keep any more; return the oldest LSN that is left.

        It is done whenever a segment is full, too. This is for a log that rests, and keeps events for a time.
        """
        return self._writing.retain()

    def promote(self, term: int) -> None:
        """Take over with a higher term: what an older term writes is stale from then on."""
        self._appending.change_meta(lambda meta, _: meta.promoted(term, self.name))

    def change_meta(self, change: Callable[[Meta, int], Meta]) -> Meta:
        changed = self._appending.change_meta(change)
        self.sync()
        return changed

    def wait(
        self, since: int, timeout: float | None = None, until: Callable[[], bool] = lambda: False
    ) -> int:
        if self._writer is None:
            return self._reading.wait(since, timeout, until)
        writer = self._writer
        with writer.changed:
            writer.changed.wait_for(lambda: writer.visible_lsn > since or writer.closed or until(), timeout)
        if writer.closed and writer.visible_lsn <= since:
            raise closed(self.name)
        return writer.visible_lsn

    def wake(self) -> None:
        if self._writer is None:
            self._reading.wake()
        else:
            with self._writer.changed:
                self._writer.changed.notify_all()

    def boundary(self, lsn: int) -> int:
        end = self.check_cursor(lsn)
        if lsn < self._segments.oldest_lsn:
            return lsn  # segments end with a transaction, so what was dropped did
        located = (it.frame for it in self._segments.frames(lsn - 1, end))
        return next((frame.last_lsn for frame in located if frame.ends), end)

    def fingerprint(self, lsn: int) -> int | None:
        self.check_cursor(lsn)
        if lsn < self._segments.oldest_lsn:
            return None
        return next((it.checksum for it in self._segments.frames(lsn - 1, lsn)), None)

    def lsn_at(self, when: datetime) -> int | None:
        if when.tzinfo is None:
            raise InvalidArgument(
                f"{when} has no time zone", subject="lsn_at", hint="Give one, for instance datetime.now(UTC)."
            )
        since = when.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return self._segments.first_at_time(micros, self.current_lsn)

    def frames(self, since: int, upto: int) -> Iterator[Located]:
        """The appends with the events after ``since`` up to ``upto``, as they are stored: to be copied."""
        return self._segments.frames(since, min(upto, self.current_lsn))

    def transaction_at(self, lsn: int) -> list[Located]:
        """The appends of the transaction this LSN is in, as they are stored; none where it is not kept."""
        self.check_cursor(lsn)
        return self._segments.transaction(lsn) if lsn >= self._segments.oldest_lsn else []

    def _changes(self, since: int, upto: int, wanted: frozenset[int] | None) -> Iterator[Changes]:
        for it in self._segments.frames(since, upto):
            number = it.frame.collection
            if wanted is None or number in wanted:
                collection = self.meta.by_id.get(number) or self.reload_meta().by_id.get(number)
                if collection is None:
                    what = f"a frame is of a collection numbered {number}, of which {META} knows nothing"
                    raise it.damaged(what)
                yield Changes(collection, it.frame, it.body, since, upto)

    def _oldest_known(self) -> int:
        return self._segments.oldest_lsn

    @property
    def _segments(self) -> Segments:
        if self._closed:
            raise closed(self.name)
        return self._writer.segments if self._writer is not None else self._reading.segments

    @property
    def _reading(self) -> Reader:
        assert self._reader is not None, "a log has a writer or a reader"
        return self._reader

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise Unsupported(
                "the log was opened to read", subject=self.name, hint='Open it with mode="write".'
            )
        return self._writer

    @property
    def _appending(self) -> Writer:
        """For what changes what readers are told; `_writing` is for all that may be done to the files."""
        return self._writing

    def _commit(self, parts: Sequence[Part]) -> LsnRange:
        writer = self._appending
        if not parts:
            return LsnRange(writer.next_lsn, writer.next_lsn - 1)
        return writer.commit(parts)
