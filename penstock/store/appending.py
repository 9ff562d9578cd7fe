"""Files that grow: what a log needs beside blobs, where bytes live on a file system.

Laws, for one appender of a file at a time (whoever opens one holds a `lock` first):

* **Order.** A reader sees a prefix of what was appended, whole appends or the beginning of the last one.
* **All or nothing, while alive.** An `append` that raises `DidNotHappen` left the file as it was. One that
  raises `MayHaveHappened` may have left a part: nothing may be appended until the file was opened anew.
* **Durable after sync.** When `sync` has returned, all that was appended before it survives a loss of power.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from penstock.errors import InUse, PenstockError, Unsupported
from penstock.store import files
from penstock.store.data import Bytes, parts_of
from penstock.store.interface import Store
from penstock.store.local import LocalStore
from penstock.store.names import check_name

__all__ = ["Appender", "LocalAppender", "Lock", "appender", "lock"]


class Appender(ABC):
    """One growing file. Used under its owner's lock, but for `sync`, which may run beside `append`."""

    size: int

    @abstractmethod
    def append(self, parts: Sequence[Bytes]) -> None:
        """Write the parts after one another at the end."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file back to this size, durably."""

    @abstractmethod
    def sync(self) -> None:
        """Return when everything appended before the call is durable."""

    @abstractmethod
    def close(self) -> None:
        """Give the file up. Idempotent; does not sync."""


class Lock(ABC):
    """Something that one holder has at a time; it goes with a process that dies."""

    @abstractmethod
    def release(self) -> None:
        """Let the next one have it. Idempotent."""


def appender(store: Store, name: str) -> Appender:
    """Open a blob that exists, to grow it at its end."""
    grow = getattr(store, "appender", None)
    if grow is not None:  # a store that wraps another decides itself
        grown: Appender = grow(name)
        return grown
    if isinstance(store, LocalStore):
        return LocalAppender(store.path / check_name(name), store.fsync)
    raise _cannot_grow(store)


def lock(store: Store, name: str, holder: str) -> Lock:
    """Take the lock of this name, or raise `InUse` at once, with what its holder said of itself."""
    take = getattr(store, "lock", None)
    if take is not None:
        taken: Lock = take(name, holder)
        return taken
    if isinstance(store, LocalStore):
        return _FileLock(store.path / check_name(name), holder)
    raise _cannot_grow(store)


def _cannot_grow(store: Store) -> Unsupported:
    return Unsupported(
        "blobs there cannot grow",
        subject=store.url,
        hint="Keep the log in a folder of a file system.",
    )


class LocalAppender(Appender):
    """A file of a file system, opened for appending."""

    def __init__(self, path: Path, fsync: bool = True) -> None:
        self._path = path
        self._fsync = fsync
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            self.size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise files.told(error, "opening for appending", path) from error

    def append(self, parts: Sequence[Bytes]) -> None:
        views = parts_of(parts)
        try:
            self.size += files.write_all(self._descriptor, views)
        except OSError as error:
            raise self._back(error) from error

    def _back(self, error: OSError) -> PenstockError:
        """Take back what a failed append left, so that nothing happened; or say that it may have."""
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            return files.told(error, "appending", self._path, may_have_happened=True)
        return files.told(error, "appending", self._path)

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
            self.size = size
            if self._fsync:
                files.sync_file(self._descriptor)
        except OSError as error:
            raise files.told(error, "cutting back", self._path, may_have_happened=True) from error

    def sync(self) -> None:
        if not self._fsync:
            return
        try:
            files.sync_data(self._descriptor)
        except OSError as error:
            # After a failed sync the kernel may have dropped the pages: what is on disk is unknown.
            raise files.told(error, "syncing", self._path, may_have_happened=True) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _FileLock(Lock):
    """An advisory lock on a file, which tells others who holds it.

    A forked child shares its parent's lock for as long as it has the descriptor open, even when the parent is
    dead. So a child closes it at once, and a release lets go for everybody who may still have it.
    """

    def __init__(self, path: Path, holder: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise files.told(error, "opening the lock", path) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            told = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            self._descriptor = -1
            raise _in_use(str(path), told) from error
        except OSError as error:
            os.close(self._descriptor)
            self._descriptor = -1
            raise files.told(error, "locking", path) from error
        _held.add(self)
        with suppress(OSError):  # the text is for people, and a disk that is full takes none
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, holder.encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):  # closing it says the same, but for the copies of forked children
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.disown()

    def disown(self) -> None:
        """Give up the descriptor; the lock stays with whoever else has it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_held: weakref.WeakSet[_FileLock] = weakref.WeakSet()


def _disown_all() -> None:
    for it in tuple(_held):
        it.disown()


os.register_at_fork(after_in_child=_disown_all)


def _in_use(subject: str, holder: str) -> InUse:
    return InUse(
        f"it is held by {holder or 'another process'}",
        subject=subject,
        hint="Only one may write at a time: close the other one, or open for reading.",
    )
