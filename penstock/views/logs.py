"""The logs that a database's tables are kept in: opened when used, to write by one process at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from penstock.errors import AlreadyExists, NotFound, Unsupported
from penstock.log import Log, LogOptions, ReadableLog
from penstock.log.meta import META, Collection
from penstock.store import LocalStore, Store
from penstock.views.deltas import OpenLog
from penstock.views.tick_log import TickLog

__all__ = ["TableLogs", "TickLogOf"]

_lock = threading.Lock()
_open: dict[str, Log] = {}


class TableLogs:
    """The logs below ``logs/`` of a database's folder.

    Reading never takes a log's lock, so other processes may write it. The first write opens it to write, and
    from then on this process is its one writer until it is closed.
    """

    def __init__(self, store: Store, options: LogOptions | None = None) -> None:
        self._store = store
        self._options = options
        self._written: dict[str, Log] = {}
        self._read: dict[str, Log] = {}
        self._lock = threading.RLock()

    def place(self, name: str) -> Store:
        if not isinstance(self._store, LocalStore):
            raise Unsupported(
                "tables are written to a log that grows, and an object store has no files that grow",
                subject=self._store.url,
                hint='Keep the tables in a folder and the state there: connect("folder", state="s3://…").',
            )
        return LocalStore(self._store.path / "logs" / name, fsync=self._store.fsync)

    def to_read(self, name: str) -> Log:
        """The log as anyone may read it."""
        with self._lock:
            found = self._written.get(name) or self._read.get(name)
            if found is None:
                found = self._read[name] = Log.open(self.place(name), "read")
            return found

    def to_write(self, name: str) -> Log:
        """The log, of which this process is the writer from now on; made when there is none."""
        with self._lock:
            found = self._written.get(name)
            if found is None:
                place = self.place(name)
                if not place.exists(META):
                    try:
                        found = Log.create(place, self._options)
                    except AlreadyExists:  # another process was first; its lock decides
                        found = Log.open(place, "write", self._options)
                else:
                    found = Log.open(place, "write", self._options)
                self._written[name] = found
            return found

    def exists(self, name: str) -> bool:
        return name in self._written or self.place(name).exists(META)

    def reopener(self, name: str) -> OpenLog:
        """Opens the log to read in another process."""
        return partial(_reopened, self.place(name), self.to_read(name).id)

    def close(self) -> None:
        """Close what is open; the next writer may come."""
        with self._lock:
            for log in (*self._written.values(), *self._read.values()):
                log.close()
            self._written, self._read = {}, {}


def _reopened(place: Store, log_id: str) -> ReadableLog:
    """The log, kept open in this process for the next tick's task.

    Unless a database was removed and another one made in its place: then that is another log.
    """
    with _lock:
        found = _open.get(place.url)
        if found is not None and found.id != log_id:
            found.close()
            found = None
        if found is None:
            found = _open[place.url] = Log.open(place, "read")
        return found


@dataclass(frozen=True)
class TickLogOf:
    """Opens a pipeline's log to read in another process."""

    store: Store
    folder: str
    name: str
    collections: Mapping[str, Collection]

    def __call__(self) -> ReadableLog:
        if not self.collections:
            raise NotFound("it has no views", subject=self.name, hint="Create one.")
        return TickLog(self.store, self.folder, self.name, lambda: self.collections)
