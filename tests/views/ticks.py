"""A pipeline's log whose ticks are made by hand: files of changes and manifests, without an engine.

The files are written here from the page of their format, so that what reads them is held to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa

from penstock.log.meta import Collection
from penstock.log.rows import prepare
from penstock.spark import Place, Registration
from penstock.spark.registration import registrations
from penstock.store import MemoryStore, Store
from penstock.views.commit import fold_name, following, view_name
from penstock.views.content import Fold
from penstock.views.manifest import ChangeFile, Manifest, manifest_name
from penstock.views.tick_log import TickLog

__all__ = ["FOLDER", "Part", "Ticks", "memory"]

FOLDER = "pipelines/main"
_HEAD = b"PSTKOUT\x01" + bytes(56)

_stores = count(1)

Part = Sequence[pa.RecordBatch]
"""One file: a batch for each of its frames."""


def memory() -> MemoryStore:
    """A store with an address of its own: by it a process knows the runs that it has open."""
    return MemoryStore(f"ticks/{next(_stores)}")


class Ticks:
    """Commits what it is given. ``manifests`` are all that were committed."""

    def __init__(self, store: Store, clock: int = 1_000_000) -> None:
        self.store = store
        self.clock = clock
        self.views: dict[str, Collection] = {}
        self.manifests: list[Manifest] = []
        self.log = self.reader()
        self._numbers = count(1)
        self._commit(Manifest(1, 1, "test", clock, {}, 1, 0))

    @property
    def newest(self) -> Manifest:
        return self.manifests[-1]

    def reader(self) -> TickLog:
        """The log as another process reads it."""
        return TickLog(self.store, FOLDER, "the views", lambda: self.views)

    def add(self, name: str, schema: pa.Schema, key: Sequence[str] = ()) -> Collection:
        number = next(self._numbers)
        self.views[name] = replace(Collection.define(name, schema, tuple(key)), id=number)
        return self.views[name]

    def drop(self, name: str) -> None:
        del self.views[name]

    def tick(self, changes: Mapping[str, Sequence[Part]], folds: Mapping[str, int] | None = None) -> Manifest:
        """Commit these files of these views, and fold the changes before this tick into contents."""
        before = self.newest
        place = self.place(before.tick + 1)
        registered = [
            self._written(place, self.views[name], number, part)
            for name, parts in changes.items()
            for number, part in enumerate(parts)
        ]
        for name, parts in (folds or {}).items():
            fold = Fold(
                fold_name(self.views[name].id),
                self.views[name],
                before.views[name].content,
                self.loose(name),
                parts,
                place,
            )
            for number in range(parts):
                list(fold(iter([pa.record_batch({"id": [number]})])))
        registered += registrations(place.scratch, place.steps)
        manifest = following(
            before,
            driver="test",
            committed=self.clock,
            frontier={"main": before.frontier.get("main", 0) + 1},
            nodes=[],
            views={name: f"{name}#{it.id}" for name, it in self.views.items()},
            registered=reversed(registered),  # they come in any order
        )
        self._commit(manifest)
        return manifest

    def place(self, tick: int) -> Place:
        names = (f"{FOLDER}/{kind}/{tick:012d}-test" for kind in ("runs", "changes", "steps"))
        return Place(self.store, self.store, *names)

    def loose(self, name: str) -> tuple[ChangeFile, ...]:
        """The files after the view's content, as a walk over all manifests finds them."""
        state = self.newest.views[name]
        return tuple(
            file
            for it in self.manifests
            if it.first_lsn > state.folded and name in it.views
            if it.views[name].collection == state.collection
            for file in it.views[name].files
        )

    def _written(self, place: Place, view: Collection, number: int, part: Part) -> Registration:
        data, frames = bytearray(_HEAD), []
        for batch in part:
            body = prepare(batch, view)
            frames.append([len(data), body.data.size, body.crc, body.events, body.rows, body.flags])
            data += body.data.to_pybytes()
            data += bytes(-len(data) % 64)
        what = view_name(view.id)
        name = f"{place.changes}.{what}-{number}"
        assert self.store.create(name, bytes(data))
        told = {"file": name, "bytes": len(data), "frames": frames}
        return Registration(what, number, {}, told, sum(it[4] for it in frames))

    def _commit(self, manifest: Manifest) -> None:
        assert self.store.create(manifest_name(FOLDER, manifest.tick), manifest.encode())
        self.manifests.append(manifest)
        self.log.committed(manifest)
