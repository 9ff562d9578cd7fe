"""A thread that does something some time after it was told that there is news."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["NowAndThen"]


class NowAndThen:
    """Calls ``act`` a ``pause`` after the first news since its last call, or when it is told to hurry.

    Never without news, and never more often.
    """

    def __init__(self, act: Callable[[], None], pause: float) -> None:
        self._act = act
        self._pause = pause
        self._stopped = False
        self._news = threading.Event()
        self._hurried = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="penstock-log-sync", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """There is news."""
        if not self._news.is_set():
            self._news.set()

    def hurry(self) -> None:
        """There is so much news that the rest of the pause is too long."""
        if not self._hurried.is_set():
            self._hurried.set()

    @property
    def has_news(self) -> bool:
        """Whether there is news that no call has begun after."""
        return self._news.is_set()

    def stop(self) -> None:
        """End the thread once its running call is done; news that waits is left to the caller. Idempotent."""
        self._stopped = True
        self._news.set()
        self._hurried.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._hurried.wait(self._pause)
            if self._stopped:
                return
            self._hurried.clear()
            self._news.clear()
            self._act()
