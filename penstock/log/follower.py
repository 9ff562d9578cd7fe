"""A thread that tells a file's subscribers of growth which other processes cause."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from penstock.errors import Closed
from penstock.log.growth import GrowthWatch

__all__ = ["Followed", "Follower"]

_FIRST_RETRY, _LAST_RETRY = 0.001, 1.0


class Followed(Protocol):
    """What a follower needs of a file."""

    @property
    def path(self) -> Path: ...
    @property
    def size(self) -> int:
        """The size now; an error when the file is not what it was."""

    @property
    def told(self) -> int:
        """The size that the subscribers were last told of with success; −1 before."""

    @property
    def broken(self) -> bool:
        """Whether the file is not what it was, and never will be again."""

    @property
    def in_notification(self) -> bool:
        """Whether this thread is inside a notification."""

    def notify(self) -> None: ...


class Follower:
    """Follows one file from `start` on until it is closed, or the file changes, or a subscriber fails.

    A failing subscriber ends the following unless there is ``on_error``, which is then given the error;
    the subscribers are told again soon, so that those behind the failing one get what is theirs.
    Without ``on_error`` the error leaves the thread as any thread's does, and stays in `error`.
    """

    def __init__(
        self,
        file: Followed,
        on_error: Callable[[Exception], None] | None = None,
        *,
        watch: GrowthWatch | None = None,
    ) -> None:
        self._file = file
        self._on_error = on_error
        # Armed before the first look: growth between the two is seen by one or the other.
        self._watch = watch or GrowthWatch(file.path)
        self._closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"follow {file.path.name}", daemon=True)

    def start(self) -> Follower:
        """Begin to follow, with a first look at once."""
        self._thread.start()
        return self

    @property
    def error(self) -> Exception | None:
        """The error that ended the following, if one did."""
        return self._error

    @property
    def uses_inotify(self) -> bool:
        """Whether the system tells of growth; if not, the file is looked at ever again."""
        return self._watch.uses_inotify

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Follow no more. Waits for the notification that runs, unless called from inside it. Idempotent."""
        self._closed = True
        self._watch.wake()
        if self._thread.ident is None:  # not started; it would end at once
            self._watch.close()
        # The follower may be waiting for the notification that this call is part of: so not also back.
        elif self._thread is not threading.current_thread() and not self._file.in_notification:
            self._thread.join()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the following has ended; whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            self._error = error
            if self._on_error is None:
                raise
            self._on_error(error)
        finally:
            self._watch.close()

    def _follow(self) -> None:
        retry = _FIRST_RETRY
        while not self._closed:
            try:
                grew = self._file.size != self._file.told
            except Closed:
                return
            again_in = math.inf
            if grew:
                try:
                    self._file.notify()
                except Exception as error:
                    if self._on_error is None or self._file.broken:
                        raise
                    self._on_error(error)
                    again_in, retry = retry, min(2 * retry, _LAST_RETRY)
                else:
                    retry = _FIRST_RETRY
            self._watch.wait(grew, again_in)
