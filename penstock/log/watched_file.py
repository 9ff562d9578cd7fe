"""A file that only grows, and whoever wants to know when it does."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from penstock.errors import AccessDenied, Closed, FileChanged, InvalidArgument, MayHaveHappened
from penstock.log.follower import Follower
from penstock.log.subscribers import Subscribers, Turn, Unsubscribe
from penstock.store.files import told

__all__ = ["WatchedFile"]


class WatchedFile:
    """A file that only grows. Subscribers are called when it may have grown, one notification at a time.

    Law: `append` writes, then calls the subscribers in order of registration, in the same thread; the first
    error stops the chain and goes back to the appender. A callback may do anything, `append` and `close`
    included; what it appends is told after the chain it is part of. No lock is held but the turn to notify:
    a callback must not wait for another thread that appends.

    A file that shrank, was replaced or vanished is `broken` from then on: size, reading and appending say
    so and give no bytes that were never appended. (Shrinking and growing again between two looks shows only
    in the bytes; framings with checksums find it.)

    Cost: a notification is one ``stat``. Files that other processes write are watched with `follow`.
    """

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()  # held for single steps on the descriptor, never while calling
        self._appending = threading.Lock()
        self._turn = Turn()
        self._subscribers: Subscribers[Callable[[], object]] = Subscribers()
        self._followers: list[Follower] = []
        self._told = -1
        self._change: str | None = None
        self._descriptor, self._writable = _open(self._path, create)
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._descriptor)
            raise InvalidArgument(
                "this is not a regular file", subject=str(path), hint="Give the path of a file that grows."
            )
        self._identity = (found.st_dev, found.st_ino)
        self._largest = 0  # size at the last look

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        """The bytes there are now, looked up anew each time."""
        with self._lock:
            return self._look()

    @property
    def told(self) -> int:
        """The size that all subscribers were last told of with success; −1 before the first notification."""
        return self._told

    @property
    def broken(self) -> bool:
        """Whether the file was seen to shrink, to be replaced or to vanish."""
        return self._change is not None

    @property
    def closed(self) -> bool:
        return self._turn.closed

    @property
    def in_notification(self) -> bool:
        """Whether the caller is inside a notification, that is, called by it."""
        return self._turn.is_mine

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes of the file, read-only."""
        with self._lock:
            self._check_good()
            data = os.pread(self._descriptor, length, offset)
            while len(data) < length:  # the system gives at most 2 GiB at once
                more = os.pread(self._descriptor, length - len(data), offset + len(data))
                if not more:
                    raise self._changed(f"it ends at {offset + len(data)}, before {offset + length}")
                data += more
            return memoryview(data)

    def append(self, data: bytes | bytearray | memoryview) -> int:
        """Write at the end, tell the subscribers, and return the size after the write.

        An error of a subscriber comes when the bytes are in the file already, and carries a note of it.
        """
        view = memoryview(data).cast("B")
        with self._appending, self._lock:
            if self.closed:
                raise self._is_closed()
            size = self._look()
            self._write(view)
            size += len(view)
            self._largest = size
        if len(view):
            try:
                self.notify()
            except Exception as error:
                error.add_note(f"{len(view)} bytes had been appended to {self._path} when this was raised.")
                raise
        return size

    def subscribe(self, callback: Callable[[], object]) -> Unsubscribe:
        """Have the callback called, without arguments, whenever the file may have grown."""
        if self.closed:
            raise self._is_closed()
        return self._subscribers.subscribe(callback)

    def notify(self) -> None:
        """Tell the subscribers now. Waits for a notification in another thread; none happens once closed."""
        try:
            self._turn.run(self._tell)
        finally:
            if self.closed and not self._turn.is_mine:
                self._give_back()

    def follow(self, on_error: Callable[[Exception], None] | None = None) -> Follower:
        """Tell the subscribers, from a thread of its own, whenever another process makes the file grow.

        The first notification comes at once, so growth from before the call is told too. Errors of
        subscribers end the following, unless ``on_error`` takes them; see `Follower`.
        """
        if self.closed:
            raise self._is_closed()
        follower = Follower(self, on_error)
        with self._lock:
            self._followers = [*(other for other in self._followers if other.is_running), follower]
        return follower.start()  # known before it starts, so that a callback of its first look can close it

    def close(self) -> None:
        """Notify no more. Waits for the notification that runs, unless called from inside it. Idempotent."""
        self._turn.close()
        for follower in self._followers:
            follower.close()
        if not self._turn.is_mine:  # else the notification that this call is part of does it at its end
            self._give_back()

    def __enter__(self) -> WatchedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"WatchedFile({str(self._path)!r})"

    def _tell(self) -> None:
        size = self.size
        for callback in self._subscribers.snapshot():
            callback()
            if self.closed:
                return
        self._told = size

    def _look(self) -> int:
        self._check_good()
        try:
            found = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise self._changed("it vanished") from None
        if (found.st_dev, found.st_ino) != self._identity:
            raise self._changed("another file took its place")
        if found.st_size < self._largest:
            raise self._changed(f"it shrank from {self._largest} to {found.st_size} bytes")
        self._largest = found.st_size
        return self._largest

    def _write(self, view: memoryview) -> None:
        if not self._writable:
            raise AccessDenied(
                "the file may be read but not written",
                subject=str(self._path),
                hint="Give this user the right to write, or append from the process that has it.",
            )
        done = 0
        try:
            while done < len(view):
                done += os.write(self._descriptor, view[done:])
        except OSError as error:
            if done == 0:
                raise told(error, "appending", self._path) from error
            raise MayHaveHappened(
                f"only {done} of {len(view)} bytes were appended: {error.strerror}",
                subject=str(self._path),
                hint="Cut the file back to its last whole row with nobody watching, or append the rest.",
            ) from error

    def _changed(self, what: str) -> FileChanged:
        self._change = what
        return self._changed_before()

    def _changed_before(self) -> FileChanged:
        return FileChanged(
            f"a file that only grows was expected, but {self._change}",
            subject=str(self._path),
            hint="Find out who did it, then open the file anew and read it from its beginning.",
        )

    def _check_good(self) -> None:
        if self._descriptor < 0:
            raise self._is_closed()
        if self._change is not None:
            raise self._changed_before()

    def _is_closed(self) -> Closed:
        return Closed("the file was closed", subject=str(self._path), hint="Open it anew.")

    def _give_back(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


def _open(path: Path, create: bool) -> tuple[int, bool]:
    """A descriptor to read and, where that is allowed, append."""
    flags = os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        try:
            return os.open(path, os.O_RDWR | flags, 0o666), True
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
    except IsADirectoryError:
        raise InvalidArgument(
            "this is a folder", subject=str(path), hint="Give the path of a file that grows."
        ) from None
    except OSError as error:
        raise told(error, "opening", path) from error
