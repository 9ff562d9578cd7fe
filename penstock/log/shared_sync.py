"""One sync for all who wait for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["SharedSync"]

_PATIENCE = 0.02  # seconds that nobody who leads waits longer than, be the last sync ever so slow
_FORGET = 0.9


class _Turn:
    """One thread's wait until a sync covered its LSN, or until it is its turn to lead."""

    __slots__ = ("leads", "lsn", "over")

    def __init__(self, lsn: int) -> None:
        self.lsn = lsn
        self.leads = False
        self.over = threading.Lock()
        self.over.acquire()


class SharedSync:
    """Threads that wait for durability lead in turn: who leads syncs for all that were there before it began.

    Law: `reach` returns when a sync that began after its call has returned, or raises what its own sync did.
    State: the threads that wait. One sync is in flight at a time, for an operating system tells one caller
    only of a failed one: another, beside it, might pass for good.
    Cost: while one sync runs the next group gathers, so each append waits for two syncs at most. Two groups
    that take turns share half of what one would. So who leads first waits for those who shared the last sync,
    where they come back faster than a sync takes: then all fit into one group, and each append
    waits for one sync. Without companions nobody waits.
    """

    def __init__(self, sync: Callable[[int], int]) -> None:
        """``sync`` makes durable what was appended, at least up to the LSN given; it returns how far."""
        self._sync = sync
        self._gate = threading.Lock()
        self._led = False
        self._waiting: list[_Turn] = []
        self._reached = 0
        self._took = 0.0  # by the last sync, in seconds
        self._hoped = 0  # how many waiting companions make the group as large as the last one
        self._pace = 0.0  # seconds from one companion's coming to the next's
        self._complete: threading.Lock | None = None  # held while who leads waits for companions

    def reach(self, lsn: int) -> None:
        """Return when the events up to ``lsn`` are durable."""
        with self._gate:
            if lsn <= self._reached:
                return
            turn = None
            if self._led:
                turn = _Turn(lsn)
                self._waiting.append(turn)
                if self._complete is not None and len(self._waiting) >= self._hoped:
                    self._complete.release()
                    self._complete = None
            self._led = True
        if turn is None or self._leads_after(turn):
            self._lead(lsn)

    def _leads_after(self, turn: _Turn) -> bool:
        try:
            turn.over.acquire()
        except BaseException:  # an interrupt: nobody may wait for this thread to lead
            with self._gate:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            if turn.leads:
                self._hand_over(0)
            raise
        return turn.leads

    def _lead(self, lsn: int) -> None:
        reached = 0
        try:
            self._gather()
            began = time.perf_counter()
            reached = self._sync(lsn)
            self._took = time.perf_counter() - began
        finally:
            self._hand_over(reached)

    def _hand_over(self, reached: int) -> None:
        """Wake whom the sync covered, and have the first of the others lead."""
        with self._gate:
            self._reached = max(self._reached, reached)
            self._hoped = len(self._waiting)
            covered = [turn for turn in self._waiting if turn.lsn <= reached]
            late = [turn for turn in self._waiting if turn.lsn > reached]
            following = late.pop(0) if late else None
            self._waiting = late
            self._led = following is not None
            if following is not None:
                following.leads = True
        if following is not None:
            following.over.release()
        for turn in covered:
            turn.over.release()

    def _gather(self) -> None:
        """Wait for the companions of the last sync, where one more sync is likely to take longer."""
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
