"""Keeping views right for as long as the process lives: refresh, then wait for the next change."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from penstock.errors import PenstockError, StoreUnavailable

__all__ = ["Running", "stopping_on_signals"]

_logger = logging.getLogger(__name__)
_FIRST_RETRY, _LAST_RETRY = 0.1, 5.0


class Running:
    """A thread that keeps refreshing until it is stopped. As a context manager it stops at the end.

    What a store answers only now and then (`StoreUnavailable`) is tried again; any other error ends it and is
    raised by `stop` and `join`.
    """

    def __init__(
        self,
        refresh: Callable[[Callable[[], bool]], object],
        wait: Callable[[Callable[[], bool]], object],
        wake: Callable[[], object],
    ) -> None:
        self._refresh = refresh
        self._wait = wait
        self._wake = wake
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock run", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """What ended it, if an error did."""
        return self._error

    def ask_to_stop(self) -> None:
        """Have it stop after the tick that it is in. May be called from a signal's handler."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop after the tick that it is in, and wait for that. Raises what ended it before. Idempotent."""
        self.ask_to_stop()
        self._wake()
        self.join()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        retry = _FIRST_RETRY
        while not self._stopping.is_set():
            try:
                self._refresh(self._stopping.is_set)
                retry = _FIRST_RETRY
                self._wait(self._stopping.is_set)
            except StoreUnavailable as error:
                _logger.warning("trying again in %.1f s: %s", retry, error)
                self._stopping.wait(retry)
                retry = min(2 * retry, _LAST_RETRY)
            except PenstockError as error:
                self._error = error
                return
            except BaseException as error:
                self._error = error
                raise


@contextmanager
def stopping_on_signals(running: Running) -> Iterator[None]:
    """While this lasts, SIGTERM and SIGINT stop it cleanly. Only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        _logger.info("stopping on %s", signal.Signals(number).name)
        running.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
