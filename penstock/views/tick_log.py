"""`TickLog`: a pipeline's manifests, read as the log that they are.

All changes of a tick are one transaction. LSNs count the events of all views, tick after tick; within a tick
in the order of the views' names, then of the files and frames as the manifest has them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.errors import InvalidArgument, NotFound
from penstock.log.changes import Changes
from penstock.log.format import Flag, Frame, Kind
from penstock.log.interface import ReadableLog
from penstock.log.meta import Collection
from penstock.lsn import FIRST
from penstock.store import Store
from penstock.views.change_files import body_of, mapped
from penstock.views.manifest import ChangeFile, Manifest, manifest_name

__all__ = ["TickLog"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT = 64
"""Manifests kept decoded."""
_SHORTEST, _LONGEST = 0.001, 0.05
"""Seconds between two looks for a manifest that another process may commit."""


class TickLog(ReadableLog):
    """The changes of all views of one pipeline, as committed.

    ``collections`` tells the views there are, by name: it is asked each time, as views come and go.
    """

    def __init__(
        self, store: Store, folder: str, name: str, collections: Callable[[], Mapping[str, Collection]]
    ) -> None:
        self._store = store
        self._folder = folder
        self._name = name
        self._collections = collections
        self._newest: Manifest | None = None
        self._oldest_tick = 0
        self._cache: OrderedDict[int, Manifest] = OrderedDict()
        self._lock = threading.RLock()
        self._changed = threading.Condition()

    @property
    def name(self) -> str:
        return self._name

    @property
    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collections().values())

    def collection(self, name: str) -> Collection:
        known = self._collections()
        if name in known:
            return known[name]
        raise NotFound(
            f"there is no view {name!r}",
            subject=self.name,
            hint=f"The views are {', '.join(sorted(known)) or '(none yet)'}.",
        )

    @property
    def current_lsn(self) -> int:
        newest = self.newest()
        return 0 if newest is None else newest.last_lsn

    @property
    def oldest_lsn(self) -> int:
        newest = self.newest()
        if newest is None:
            return FIRST
        return self._oldest(newest).first_lsn

    # -- manifests ------------------------------------------------------------------------------------

    def newest(self) -> Manifest | None:
        """The newest manifest there is, whoever committed it."""
        with self._lock:
            if self._newest is None:
                names = [blob.name for blob in self._store.list(f"{self._folder}/manifest/")]
                if not names:
                    return None
                self._oldest_tick = _tick(names[0])
                self._newest = self._read(_tick(names[-1]))
            while (following := self._look(self._newest.tick + 1)) is not None:
                self._newest = following
            return self._newest

    def committed(self, manifest: Manifest) -> None:
        """Take note of a manifest that this process committed, and wake those who wait."""
        with self._lock:
            if self._newest is None or manifest.tick > self._newest.tick:
                self._newest = manifest
                self._oldest_tick = self._oldest_tick or manifest.tick
            self._keep(manifest)
        self.wake()

    def at_tick(self, tick: int) -> Manifest:
        """The manifest of a tick; `NotFound` where it is not there, or no longer."""
        with self._lock:
            if self._newest is not None and tick == self._newest.tick:
                return self._newest
            found = self._cache.get(tick)
            return found if found is not None else self._keep(self._read(tick))

    def tick_of(self, lsn: int) -> Manifest | None:
        """The first manifest whose last LSN is at least this; None where all are before it."""
        return self._first(lambda it: it.last_lsn >= lsn)

    def _first(self, holds: Callable[[Manifest], bool]) -> Manifest | None:
        """The first manifest for which this holds; it holds for all that follow."""
        newest = self.newest()
        if newest is None or not holds(newest):
            return None
        low, high = self._oldest(newest).tick, newest.tick
        while low < high:
            middle = (low + high) // 2
            if holds(self.at_tick(middle)):
                high = middle
            else:
                low = middle + 1
        return self.at_tick(low)

    def _oldest(self, newest: Manifest) -> Manifest:
        while True:
            try:
                return newest if self._oldest_tick == newest.tick else self.at_tick(self._oldest_tick)
            except NotFound:  # dropped since; the listing tells where the log begins now
                first = next(iter(self._store.list(f"{self._folder}/manifest/")))
                self._oldest_tick = _tick(first.name)

    def _look(self, tick: int) -> Manifest | None:
        try:
            return self._read(tick)
        except NotFound:
            return None

    def _read(self, tick: int) -> Manifest:
        name = manifest_name(self._folder, tick)
        return Manifest.decode(self._store.get(name), name)

    def _keep(self, manifest: Manifest) -> Manifest:
        self._cache[manifest.tick] = manifest
        if len(self._cache) > _KEPT:
            self._cache.popitem(last=False)
        return manifest

    # -- reading --------------------------------------------------------------------------------------

    def wait(
        self, since: int, timeout: float | None = None, until: Callable[[], bool] = lambda: False
    ) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST
        while True:
            current = self.current_lsn
            left = None if end is None else end - time.monotonic()
            if current > since or until() or (left is not None and left <= 0):
                return current
            with self._changed:
                # A commit of this process wakes us; another process's is found by looking.
                self._changed.wait(pause if left is None else min(pause, left))
            pause = min(2 * pause, _LONGEST)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def boundary(self, lsn: int) -> int:
        self.check_cursor(lsn)
        found = self.tick_of(lsn)
        return lsn if found is None or lsn < found.first_lsn else found.last_lsn

    def lsn_at(self, when: datetime) -> int | None:
        if when.tzinfo is None:
            raise InvalidArgument(
                f"{when} has no time zone", subject="lsn_at", hint="Give one, for instance datetime.now(UTC)."
            )
        wanted = (when - _EPOCH) // timedelta(microseconds=1)
        found = self._first(lambda it: it.committed >= wanted)
        while found is not None and not found.events:
            newest = self.newest()
            assert newest is not None
            found = self.at_tick(found.tick + 1) if found.tick < newest.tick else None
        return None if found is None else found.first_lsn

    def fingerprint(self, lsn: int) -> int | None:
        found = self.tick_of(lsn)
        if found is None or lsn < found.first_lsn:
            return None
        return next((frame.body_crc for _, frame, _, _ in _frames(found) if frame.last_lsn >= lsn), None)

    def _changes(self, since: int, upto: int, wanted: frozenset[int] | None) -> Iterator[Changes]:
        manifest = self.tick_of(since + 1)
        if manifest is None:
            return
        by_number = {str(it.id): it for it in self.collections}
        while manifest.first_lsn <= upto:
            maps: dict[str, pa.Buffer] = {}
            for number, frame, file, offset in _frames(manifest):
                collection = by_number.get(number)
                if collection is None or frame.last_lsn <= since or frame.first_lsn > upto:
                    continue
                if wanted is None or collection.id in wanted:
                    yield Changes(collection, frame, self._body(maps, file, offset, frame), since, upto)
            newest = self._newest
            if newest is None or manifest.tick >= newest.tick:
                return
            manifest = self.at_tick(manifest.tick + 1)

    def _body(self, maps: dict[str, pa.Buffer], file: ChangeFile, offset: int, frame: Frame) -> pa.Buffer:
        data = maps.get(file.name)
        if data is None:
            data = maps[file.name] = mapped(self._store, file)
        return body_of(data, file, offset, frame)


def _frames(manifest: Manifest) -> Iterator[tuple[str, Frame, ChangeFile, int]]:
    """The frames of a tick in their order: number of the collection, frame, file, offset."""
    found = [
        (view.collection, file, told)
        for _, view in sorted(manifest.views.items())
        for file in view.files
        for told in file.frames
    ]
    lsn = manifest.first_lsn
    for i, (collection, file, (offset, size, crc, events, rows, flags)) in enumerate(found):
        flags |= (Flag.BEGIN if i == 0 else 0) | (Flag.END if i == len(found) - 1 else 0)
        number = collection.rpartition("#")[2]
        yield (
            number,
            Frame(
                size,
                lsn,
                manifest.committed,
                0,
                crc,
                int(number),
                events,
                rows,
                manifest.term,
                Kind.CHANGES,
                flags,
            ),
            file,
            offset,
        )
        lsn += events


def _tick(name: str) -> int:
    return int(name.rpartition("/")[2].removesuffix(".json"))
