"""`Driver`: who may commit a pipeline's next tick.

Whoever takes over commits an empty tick under a higher term first. So the driver before it can commit no
more, and finds itself fenced; and what that one left at work belongs to no tick that can ever be.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from penstock.errors import DidNotHappen, Fenced, MayHaveHappened, NotFound, PenstockError, StoreUnavailable
from penstock.spark import Place
from penstock.store import Store
from penstock.views.manifest import Manifest, manifest_name
from penstock.views.sweep import Sweeper
from penstock.views.tick_log import TickLog

__all__ = ["Clock", "Driver", "now"]

Clock = Callable[[], int]
"""Microseconds since 1970."""
_TAKEOVERS = 10


def now() -> int:
    return time.time_ns() // 1000


class Driver:
    """One driver of one pipeline, and the newest tick it committed."""

    def __init__(self, store: Store, folder: str, log: TickLog, clock: Clock = now) -> None:
        self.name = uuid.uuid4().hex
        self._store = store
        self._folder = folder
        self._log = log
        self._clock = clock
        self._sweeper = Sweeper(store, folder, log)
        self._manifest: Manifest | None = None
        """What the next tick follows; None while this driver does not know to own the pipeline."""

    @property
    def newest(self) -> Manifest | None:
        """The newest tick, whoever committed it."""
        return self._manifest or self._log.newest()

    def own(self) -> Manifest:
        """The newest tick, once this driver owns the pipeline."""
        if self._manifest is not None:
            return self._manifest
        for _ in range(_TAKEOVERS):
            mine = self._taking_over(self._log.newest())
            if self._create(mine):
                self._manifest = mine
                self._log.committed(mine)
                self._sweeper.orphans(mine)
                return mine
        raise Fenced(
            f"{_TAKEOVERS} times in a row another driver was first",
            subject=self._log.name,
            hint="Let one driver run at a time.",
        )

    def commit(self, before: Manifest, manifest: Manifest, place: Place) -> None:
        """Commit the tick, and remove what nobody needs after it."""
        self._manifest = None  # until it is known whose the tick is
        try:
            is_mine = self._create(manifest)
        except DidNotHappen:
            self._manifest = before
            raise
        if not is_mine:
            self._sweeper.forget(place)
            raise self._fenced(manifest.tick)
        self._manifest = manifest
        self._log.committed(manifest)
        self._sweeper.after(before, manifest, place)

    def give_up(self, before: Manifest, place: Place, error: BaseException) -> None:
        """The tick came to nothing: what it wrote goes, unless it was or may have been committed.

        Raises `Fenced` where another driver has taken over: that one removes what this one had at work, so
        any error may be the first that is seen of it.
        """
        if self._manifest is not before:
            return
        self._sweeper.forget(place)
        if isinstance(error, PenstockError):
            newest = None
            with suppress(PenstockError):
                newest = self._log.newest()
            if newest is not None and newest.driver != self.name:
                raise self._fenced(newest.tick) from error

    def _taking_over(self, newest: Manifest | None) -> Manifest:
        if newest is None:
            return Manifest(1, 1, self.name, self._clock(), {}, 1, 0)
        return replace(
            newest,
            tick=newest.tick + 1,
            term=newest.term + 1,
            driver=self.name,
            committed=max(self._clock(), newest.committed),
            first_lsn=newest.last_lsn + 1,
            events=0,
            views={name: replace(view, files=()) for name, view in newest.views.items()},
            rows_in=0,
        )

    def _create(self, manifest: Manifest) -> bool:
        name = manifest_name(self._folder, manifest.tick)
        try:
            return self._store.create(name, manifest.encode())
        except MayHaveHappened:
            # The answer was lost: the blob tells whose it is. It may still come while nobody sees it.
            try:
                found = Manifest.decode(self._store.get(name), name)
            except (NotFound, StoreUnavailable):
                found = None
            if found is None:
                raise
            return found.driver == manifest.driver

    def _fenced(self, tick: int) -> Fenced:
        self._manifest = None
        return Fenced(
            f"another driver committed tick {tick}",
            subject=self._log.name,
            hint="It has taken over. Stop it first if this one is to go on; then refresh again.",
        )
