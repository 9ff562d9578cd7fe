"""A copy of another log that follows it, and can take its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from penstock.errors import Closed, CursorAhead, Divergence, NotFound, Unsupported
from penstock.log.format import Flag
from penstock.log.log import Log
from penstock.log.meta import META, Collection, Meta
from penstock.log.opening import Clock, now, store_at
from penstock.log.options import LogOptions
from penstock.log.ranges import extra_of_both
from penstock.log.replica_rules import ApplyRules, Place, Verdict
from penstock.log.replica_source import SHIPMENT_BYTES, ReplicaSource
from penstock.log.rows import Body, Part
from penstock.log.shipment import Shipment, TransactionRecord, place_of
from penstock.log.writer import Writer
from penstock.store.interface import Store

__all__ = ["Replica"]

_NO_ENDS = ~(Flag.BEGIN | Flag.END)


class Replica:
    """Applies a primary's transactions to a copy of its log, by `ApplyRules`.

    Law: the copy holds exactly the primary's transactions from the anchor up to `lsn`, each once and whole,
    with their LSNs and commit times, whatever is sent, in whatever order and however often; and all the
    collections and ranges that the primary had then. What is refused changes no event. State: the copy, and
    nothing beside it: a replica that is opened again looks up there what it applied last. Thread safe.

    >>> import tempfile, pyarrow as pa
    >>> from penstock.log import LogSource
    >>> primary = Log.create(tempfile.mkdtemp())
    >>> users = primary.add_collection("users", pa.schema([("name", pa.string())]))
    >>> _ = primary.append("users", pa.table({"name": ["ada", "bob"]}))
    >>> replica = Replica(tempfile.mkdtemp())
    >>> replica.pull(LogSource(primary)), replica.lsn
    (1, 2)
    >>> successor = replica.promote()                     # the primary is lost, or was
    >>> successor.append("users", pa.table({"name": ["eve"]})), successor.term
    (LsnRange(first=3, last=3), 2)
    >>> replica.pull(LogSource(primary))
    Traceback (most recent call last):
    ...
    penstock.errors.Fenced: [fenced] ...: the record is of term 1, and term 2 has taken over. Stop the ...
    >>> primary.close(); successor.close()
    """

    def __init__(
        self, place: str | os.PathLike[str] | Store, options: LogOptions | None = None, *, clock: Clock = now
    ) -> None:
        """Go on with the copy at this place, or begin one there with the first record that comes."""
        self._store = store_at(place)
        self._options = options
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False
        self._promoted = False
        self._copy: _Copy | None = None
        self._rules = ApplyRules(subject=f"replica {self._store.url}")
        if self._store.exists(META):
            self._copy = _Copy.open(self._store, "write", options, clock=clock)
            self._rules = replace(self._rules, term=self._copy.term, last=self._copy.last_place())

    @property
    def lsn(self) -> int | None:
        """The last LSN of the copy; None before the first record."""
        return None if self._copy is None else self._copy.current_lsn

    @property
    def term(self) -> int:
        """The highest term it has seen; 0 before the first record."""
        return self._rules.term

    @property
    def log(self) -> Log:
        """The copy, to read as any log. It refuses to be written until the replica was promoted."""
        if self._copy is None:
            raise NotFound(
                "it has no copy of anything yet",
                subject=self._rules.subject,
                hint="Pull from a primary first.",
            )
        return self._copy

    def follow(
        self, source: ReplicaSource, *, until: Callable[[], bool] = lambda: False, look: float = 0.5
    ) -> None:
        """Pull and wait, until ``until`` says so, which is asked at least every ``look`` seconds."""
        while not until():
            if not self.pull(source):
                source.wait(self.lsn or 0, look)

    def pull(self, source: ReplicaSource, max_bytes: int = SHIPMENT_BYTES) -> int:
        """Get one shipment and apply it; return how many transactions were new."""
        return self.take(source.ship(self.lsn, max_bytes))

    def take(self, shipment: Shipment) -> int:
        """Apply a shipment; return how many of its transactions were new."""
        with self._lock:
            self._check(shipment.meta)
            if self._copy is not None:
                self._check_before(shipment)
            self._adopt(shipment.meta, shipment.since + 1)
            return sum(self.apply(record) is Verdict.APPLY for record in shipment.records)

    def apply(self, record: TransactionRecord) -> Verdict:
        """Apply one transaction, or say why there is nothing to do; or the error that refuses it."""
        with self._lock:
            self._check(record.meta)
            place = record.place
            verdict = self._rules.judge(record.term, place)
            copy = self._adopt(record.meta, place.first_lsn)
            if verdict is Verdict.APPLY:
                copy.take(record)
            self._rules = self._rules.after(record.term, place, verdict)
            return verdict

    def promote(self, term: int | None = None) -> Log:
        """Follow no more, and give out the copy to be written, under a higher term (default: the next).

        From then on what the old primary sends is refused here, and by every replica that follows the new
        one. The log is the caller's to close. When this returns, the new term survives a loss of power.
        """
        with self._lock:
            self._check_follows()
            copy = self.log
            assert isinstance(copy, _Copy)
            copy.promote_from(self._rules.term + 1 if term is None else term)
            self._promoted = True
            self._rules = replace(self._rules, term=copy.term)
            return copy

    def close(self) -> None:
        """Close the copy, unless it was given out by `promote`. Idempotent."""
        with self._lock:
            self._closed = True
            if self._copy is not None and not self._promoted:
                self._copy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, theirs: Meta) -> None:
        """Refuse a primary that was taken over, or one of another log."""
        self._rules.check_term(theirs.term)
        self._check_follows()
        if self._copy is not None and self._copy.meta.log_id != theirs.log_id:
            raise Divergence(
                f"the records are of the log {theirs.log_id.hex()}, and the copy is of {self._copy.id}",
                subject=self._rules.subject,
                hint="Copy that log to a place of its own.",
            )

    def _check_before(self, shipment: Shipment) -> None:
        """Refuse a primary whose history up to the cursor is not the copy's, as far as it can tell."""
        if shipment.current_lsn < shipment.since:
            raise CursorAhead(
                f"the copy has LSN {shipment.since}, and its primary ends at LSN {shipment.current_lsn}",
                subject=self._rules.subject,
                hint="The primary lost events: promote this replica, or copy the primary anew.",
            )
        if shipment.before is not None:
            self._rules.judge(shipment.term, shipment.before)

    def _check_follows(self) -> None:
        if self._closed or self._promoted:
            raise Closed(
                "it was promoted and follows nobody" if self._promoted else "it was closed",
                subject=self._rules.subject,
                hint="Close the log and open a replica there, to follow again.",
            )

    def _adopt(self, theirs: Meta, first_lsn: int) -> _Copy:
        """The copy, begun at this LSN if need be, knowing what the primary knows."""
        if self._copy is None:
            self._copy = _Copy.create(
                self._store, self._options, first_lsn=first_lsn, log_id=theirs.log_id, clock=self._clock
            )
            self._rules = replace(self._rules, last=self._copy.last_place())
        self._copy.adopt(theirs)
        self._rules = replace(self._rules, term=max(self._rules.term, theirs.term))
        return self._copy


class _Copy(Log):
    """Read as any log; its replica alone writes it, until that is promoted."""

    _follows = True

    @property
    def _appending(self) -> Writer:
        if self._follows:
            raise Unsupported(
                "the log is a replica's",
                subject=self.name,
                hint="Append to its primary, or promote the replica.",
            )
        return super()._appending

    def last_place(self) -> Place:
        """The newest transaction; where there is none yet, the place before the first."""
        lsn = self.current_lsn
        kept = self.transaction_at(lsn)
        return place_of(it.frame for it in kept) if kept else Place(lsn, lsn, None)

    def adopt(self, theirs: Meta) -> None:
        """Take over the primary's term, collections and ranges, where they are new."""
        self._writing.change_meta(lambda own, _: _of_both(own, theirs, self.name))

    def take(self, record: TransactionRecord) -> None:
        """Append a transaction as it is."""
        known = self.meta.by_id
        parts = [
            Part(
                known[it.collection],
                Body(body, it.body_crc, it.flags & _NO_ENDS, it.events, it.rows),
                it.kind,
            )
            for it, body in zip(record.frames, record.bodies, strict=True)
        ]
        self._writing.commit(parts, record.commit_time)

    def promote_from(self, term: int) -> None:
        """Be written by others from now on, under this term."""
        self._writing.change_meta(lambda own, _: own.promoted(term, self.name))
        self._writing.sync()
        self._follows = False


def _of_both(own: Meta, theirs: Meta, subject: str) -> Meta:
    """The copy's meta, with what the primary's says; itself where nothing of that is new."""
    missing: list[Collection] = []
    for it in theirs.collections:
        known = own.named(it.name) or own.by_id.get(it.id)
        if known is None:
            missing.append(it)
        elif known != it:
            raise Divergence(
                f"the primary's collection {it.name!r} is not the copy's {known.name!r}, but has its place",
                subject=subject,
                hint="Two histories have one name. Choose one, and copy it anew to the other side.",
            )
    extra = extra_of_both(own, theirs, subject)
    if not missing and theirs.term <= own.term and extra == own.extra:
        return own
    return replace(
        own,
        term=max(own.term, theirs.term),
        collections=(*own.collections, *missing),
        extra=extra,
    )
