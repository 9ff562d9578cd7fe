"""One sync for all who commit at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from penstock.errors import DidNotHappen, OutcomeUnknown, PenstockError
from penstock.log.rows import Part
from penstock.lsn import LsnRange

__all__ = ["GroupCommit", "Wanted"]

_PATIENCE = 0.02  # seconds that nobody who leads waits longer than, be the last sync ever so slow
_FORGET = 0.9
_MUCH = 1 << 20  # bytes of others that are appended beside one's own


class Wanted:
    """A transaction that one thread wants on disk; or, given LSNs and no parts, events to be synced."""

    __slots__ = ("commit_time", "done", "leads", "lsns", "over", "parts", "unsure")

    def __init__(
        self, parts: Sequence[Part], commit_time: int | None = None, lsns: LsnRange | None = None
    ) -> None:
        self.parts = parts
        self.commit_time = commit_time
        self.lsns = lsns  # None until it is appended
        self.unsure: PenstockError | None = None  # what failed while it was being written
        self.done = False
        self.leads = False
        self.over: threading.Lock | None = None  # held while its thread waits

    @property
    def nbytes(self) -> int:
        return sum(part.body.data.size for part in self.parts)


class GroupCommit:
    """Threads that have something to commit lead in turn: who leads does it for all that are there.

    Law: `reach` returns when what is wanted was appended and synced, by steps that began after the call; or
    it raises what happened to the very write of this thread's transaction, or to the sync of the group.
    State: the threads that wait. One sync is in flight at a time, for an operating system tells one caller
    only of a failed one: another, beside it, might pass for good.
    Cost: while one sync runs the next group gathers, so each commit waits for two syncs at most. Two groups
    that take turns share half of what one would. So who leads first waits for those who shared the last sync,
    where they come back faster than that took: then all fit into one group, and each commit waits for one
    sync. Without companions nobody waits.
    """

    def __init__(
        self,
        append: Callable[[Sequence[Wanted]], None],
        sync: Callable[[int], int],
        broken: Callable[[], PenstockError | None],
        subject: str,
    ) -> None:
        """``append`` gives LSNs, in order, up to one that fails; ``sync`` returns how far it reaches.

        ``broken`` tells what stopped the writer for good, if something did.
        """
        self._append = append
        self._sync = sync
        self._broken = broken
        self._subject = subject
        self._gate = threading.Lock()
        self._led = False
        self._waiting: list[Wanted] = []
        self._took = 0.0  # by the last group, in seconds
        self._hoped = 0  # how many waiting companions make the group as large as the last one
        self._pace = 0.0  # seconds from one companion's coming to the next's
        self._complete: threading.Lock | None = None  # held while who leads waits for companions

    def reach(self, wanted: Wanted) -> None:
        """Return when it is durable."""
        with self._gate:
            leads = not self._led
            self._led = True
            if not leads:
                wanted.over = threading.Lock()
                wanted.over.acquire()
                self._waiting.append(wanted)
                if self._complete is not None and len(self._waiting) >= self._hoped:
                    self._complete.release()
                    self._complete = None
        if leads or self._leads_after(wanted):
            self._lead(wanted)

    def _leads_after(self, wanted: Wanted) -> bool:
        assert wanted.over is not None
        try:
            wanted.over.acquire()
        except BaseException:  # an interrupt: nobody may wait for this thread to lead
            with self._gate:
                if wanted in self._waiting:
                    self._waiting.remove(wanted)
            if wanted.leads:
                self._hand_over()
            raise
        return wanted.leads

    def _lead(self, wanted: Wanted) -> None:
        try:
            self._gather()
            with self._gate:
                group = [wanted, *self._waiting]
            began = time.perf_counter()
            self._commit(group)
            self._took = time.perf_counter() - began
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        """Wake those whose wish is done, and have the first of the others lead."""
        with self._gate:
            self._hoped = len(self._waiting)
            woken = [it for it in self._waiting if it.done]
            late = [it for it in self._waiting if not it.done]
            following = late.pop(0) if late else None
            self._waiting = late
            self._led = following is not None
            if following is not None:
                following.leads = True
                woken.insert(0, following)
        for it in woken:
            assert it.over is not None
            it.over.release()

    def _gather(self) -> None:
        """Wait for the companions of the last group, where one more sync is likely to take longer."""
        with self._gate:
            there = len(self._waiting)
            missing = self._hoped - there
            if missing <= 0 or missing * self._pace > self._took:
                self._pace *= _FORGET  # one bad moment shall not keep groups small for ever
                return
            complete = self._complete = threading.Lock()
            complete.acquire()
        began = time.perf_counter()
        came = complete.acquire(timeout=min(self._took, _PATIENCE))
        spent = time.perf_counter() - began
        with self._gate:
            self._complete = None
            self._pace = spent / missing if came else 2 * spent

    def _commit(self, group: Sequence[Wanted]) -> None:
        """What the first wants, and what the others do, as far as it is not too much."""
        first = group[0]
        if first.unsure is not None:
            raise self._unknown(first.unsure) from first.unsure
        some: list[Wanted] = []
        left = _MUCH
        for it in group:
            if it.lsns is None and it.unsure is None and (left > 0 or it is first):
                some.append(it)
                left -= it.nbytes
        if some:
            self._append_some(some, first)
        reached = self._sync(max(it.lsns.last for it in group if it.lsns is not None))
        for it in group:
            it.done = it.lsns is not None and it.lsns.last <= reached

    def _append_some(self, some: Sequence[Wanted], first: Wanted) -> None:
        """Append in order. What fails is told to who wants it: those behind it lead in their turn."""
        try:
            self._append(some)
        except DidNotHappen:
            if first.lsns is None:
                raise
        except BaseException:
            struck = next((it for it in some if it.lsns is None), None)
            if struck is not None:
                struck.unsure = self._broken()
            raise

    def _unknown(self, error: PenstockError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"it was being written when that failed ({error.what}), so whether it is in the log is unknown",
            subject=self._subject,
            hint="Close the log and open it again: then it has it or not, and says so by its current LSN.",
        )
