"""Waiting for a file to grow, whichever process writes it.

Linux's inotify wakes a waiter within tens of microseconds of the write. It sees no writes that other
machines make to a shared folder, there may be no watch left to have, and other systems lack it: then the
file is looked at again and again, more often the more lately it grew. A watch that sleeps through growth
is found out by that: someone who looked found growth that no event told of.
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["GrowthWatch"]

FASTEST, SLOWEST = 0.001, 0.02
"""Seconds between two looks where looking is all there is: just after growth, and after long quiet."""
HEARTBEAT = 1.0
"""Seconds after which a watched file is looked at although nothing was heard."""
_GRACE = 0.05  # seconds an event may come after the growth it tells of

# A write or a truncation; a change of the link count (removed, or replaced by a rename); a rename.
_EVENTS = 0x002 | 0x004 | 0x800


class GrowthWatch:
    """Armed from its making on: what changes after that ends the next `wait`.

    Law: `wait` may return early for no reason, and returns at the latest when it is time to look anyway.
    So whoever arms the watch, looks, waits, and looks again after each wait, misses no growth.
    Owned by the thread that waits; only `wake` is for others.
    """

    def __init__(self, path: Path, *, inotify: bool = True, heartbeat: float = HEARTBEAT) -> None:
        self._heartbeat = heartbeat
        self._pause = FASTEST
        self._silent = False  # whether the last wait ended because it was time to look, with nothing heard
        self._lock = threading.Lock()
        self._inotify = _inotify(path) if inotify else None
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._poll = select.poll()
        self._poll.register(self._wake_in, select.POLLIN)
        if self._inotify is not None:
            self._poll.register(self._inotify, select.POLLIN)

    @property
    def uses_inotify(self) -> bool:
        """Whether events are waited for; if not, the file has to be looked at ever again."""
        return self._inotify is not None

    def wait(self, grew: bool, at_most: float = math.inf) -> None:
        """Return when the file may have grown. ``grew``: whether a look since the last wait found growth."""
        if grew and self._silent and self._inotify is not None:
            if self._listen(_GRACE):
                self._silent = False
                return
            self._drop_inotify()
        self._pause = FASTEST if grew else min(2 * self._pause, SLOWEST)
        patience = self._pause if self._inotify is None else self._heartbeat
        heard = self._listen(min(patience, at_most))
        self._silent = not heard and patience <= at_most

    def wake(self) -> None:
        """End the wait, from any thread."""
        with self._lock, suppress(BlockingIOError):  # a pipe full of wakes needs no more
            if self._wake_out >= 0:
                os.write(self._wake_out, b"\0")

    def close(self) -> None:
        """Give the descriptors back. Nobody may be waiting."""
        self._drop_inotify()
        with self._lock:
            if self._wake_out >= 0:
                os.close(self._wake_in)
                os.close(self._wake_out)
                self._wake_in = self._wake_out = -1

    def _listen(self, seconds: float) -> bool:
        heard = self._poll.poll(seconds * 1000)
        for descriptor, _ in heard:
            os.read(descriptor, 65536)  # what happened is told by looking
        return bool(heard)

    def _drop_inotify(self) -> None:
        if self._inotify is not None:
            self._poll.unregister(self._inotify)
            os.close(self._inotify)
            self._inotify = None


def _inotify(path: Path) -> int | None:
    """A descriptor that becomes readable when something happens to the file; None where none can be had."""
    libc = ctypes.CDLL(None)
    try:
        begin, watch = libc.inotify_init1, libc.inotify_add_watch
    except AttributeError:  # not Linux
        return None
    watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
    descriptor = int(begin(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:  # the user's instances are used up
        return None
    if watch(descriptor, os.fsencode(path), _EVENTS) < 0:  # as above; or the file is gone, which a look tells
        os.close(descriptor)
        return None
    return descriptor
