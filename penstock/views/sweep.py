"""Removing what nobody needs: registrations of ticks that are over, runs that were merged away, and orphans.

Nothing here decides what is committed; a file that stays too long costs space and nothing else. So what
cannot be removed now is logged and left for the next sweep.
"""

from __future__ import annotations

import logging
from collections import deque

from penstock.errors import PenstockError
from penstock.spark import Place
from penstock.store import Store
from penstock.views.commit import files_of
from penstock.views.manifest import Manifest

__all__ = ["Sweeper"]

_logger = logging.getLogger(__name__)
_GRACE = 8
"""Ticks that a run stays after the manifest that no longer needs it: somebody may still be reading it."""


class Sweeper:
    """Sweeps up behind one driver."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._waiting: deque[tuple[int, tuple[str, ...]]] = deque()

    def after(self, before: Manifest, manifest: Manifest, place: Place) -> None:
        """A tick was committed."""
        gone = tuple(sorted(files_of(before) - files_of(manifest)))
        if gone:
            self._waiting.append((manifest.tick, gone))
        while self._waiting and self._waiting[0][0] + _GRACE <= manifest.tick:
            _, names = self._waiting.popleft()
            self._delete(*names)
        self._delete_all(place.steps)

    def forget(self, place: Place) -> None:
        """A tick was given up: all that it wrote goes."""
        for prefix in (place.steps, place.runs, place.changes):
            self._delete_all(prefix)

    def orphans(self, manifest: Manifest) -> None:
        """This driver has taken over: what earlier ones left, and no manifest names, goes.

        None of them can commit any more, as the next tick is this driver's.
        """
        kept = files_of(manifest)
        try:
            self._delete_all(f"{self._folder}/steps/")
            runs = [blob.name for blob in self._store.list(f"{self._folder}/runs/")]
            self._delete(*(name for name in runs if name not in kept))
            self._delete(*self._uncommitted(manifest))
        except PenstockError as error:
            _logger.warning("orphans stay for now: %s", error)

    def _uncommitted(self, manifest: Manifest) -> list[str]:
        """Files of changes of the tick that the driver before died in."""
        found = []
        # Only the newest ticks can have any: each driver looks at those it found uncommitted.
        for tick in (manifest.tick, manifest.tick + 1):
            found += [blob.name for blob in self._store.list(f"{self._folder}/changes/{tick:012d}-")]
        return found

    def _delete_all(self, prefix: str) -> None:
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
