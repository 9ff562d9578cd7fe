"""Removing what nobody needs: registrations of ticks that are over, runs that were merged away, and orphans.

Nothing here decides what is committed; a file that stays too long costs space and nothing else. So what
cannot be removed now is logged and left for the next sweep.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress

from penstock.errors import NotFound, PenstockError
from penstock.spark import Place
from penstock.store import Store
from penstock.views.commit import files_of
from penstock.views.manifest import Manifest
from penstock.views.tick_log import TickLog

__all__ = ["Sweeper"]

_logger = logging.getLogger(__name__)
_GRACE = 8
"""Ticks that a run stays after the manifest that no longer needs it: somebody may still be reading it."""
_NEVER = 2**63
_LOOK_BACK = 16
"""Ticks whose files of changes are looked through at a take-over. A driver that died left some in the tick
that the next one took over in; those of drivers that died before they had swept lie right before."""


class Sweeper:
    """Sweeps up behind one driver.

    The names of files begin with the tick they were written in. Files of ticks after the one that this driver
    knows are never touched: they are of a driver that has taken over meanwhile.
    """

    def __init__(self, store: Store, folder: str, log: TickLog) -> None:
        self._store = store
        self._folder = folder
        self._log = log
        self._waiting: deque[tuple[int, tuple[str, ...]]] = deque()
        self._again: deque[tuple[int, tuple[str, ...]]] = deque()
        """Beginnings of names to look at once more: tasks that nobody waits for may still be writing."""

    def after(self, before: Manifest, manifest: Manifest, place: Place) -> None:
        """A tick was committed."""
        gone = tuple(sorted(files_of(before) - files_of(manifest)))
        if gone:
            self._waiting.append((manifest.tick, gone))
        while self._waiting and self._waiting[0][0] + _GRACE <= manifest.tick:
            self._delete(*self._waiting.popleft()[1])
        while self._again and self._again[0][0] + _GRACE <= manifest.tick:
            self._delete_all(*self._again.popleft()[1])
        self._delete_all(place.steps)

    def forget(self, place: Place) -> None:
        """A tick was given up: all that it wrote goes."""
        prefixes = (place.steps, place.runs, place.changes)
        self._delete_all(*prefixes)
        self._again.append((_tick(place.steps), prefixes))

    def orphans(self, manifest: Manifest) -> None:
        """This driver has taken over: what earlier ones left, and no manifest names, goes.

        None of them can commit any more, as the next tick is this driver's.
        """
        try:
            kept = files_of(manifest) | self._changes_named(manifest)
            since = {"steps": 0, "runs": 0, "changes": max(manifest.tick - _LOOK_BACK, 0)}
            for kind, first in since.items():
                there = self._store.list(f"{self._folder}/{kind}/", after=self._begins(kind, first))
                old = [blob.name for blob in there if _tick(blob.name) <= manifest.tick]
                self._delete(*(name for name in old if name not in kept))
        except PenstockError as error:
            _logger.warning("orphans stay for now: %s", error)
        # The driver before may have died in this very tick, and its tasks not yet.
        prefixes = tuple(f"{self._begins(kind, manifest.tick)}-" for kind in ("steps", "runs", "changes"))
        self._again.append((manifest.tick, prefixes))

    def _changes_named(self, manifest: Manifest) -> set[str]:
        """The files of changes that the newest manifests name."""
        named: set[str] = set()
        for tick in range(max(manifest.tick - _LOOK_BACK, 1), manifest.tick + 1):
            with suppress(NotFound):  # the log may begin later
                views = self._log.at_tick(tick).views.values()
                named.update(file.name for view in views for file in view.files)
        return named

    def _begins(self, kind: str, tick: int) -> str:
        return f"{self._folder}/{kind}/{tick:012d}"

    def _delete_all(self, *prefixes: str) -> None:
        for prefix in prefixes:
            try:
                self._delete(*(blob.name for blob in self._store.list(prefix)))
            except PenstockError as error:
                _logger.warning("%s… stays for now: %s", prefix, error)

    def _delete(self, *names: str) -> None:
        if not names:
            return
        try:
            self._store.delete(*names)
        except PenstockError as error:
            _logger.warning("%d files stay for now: %s", len(names), error)


def _tick(name: str) -> int:
    """The tick in which a file was written: the last part of its name begins with it."""
    digits = name.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else _NEVER
