"""Who is to be called, in which order; and how work that calls them takes turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.errors import InvalidArgument

__all__ = ["Subscribers", "Turn", "Unsubscribe"]

T = TypeVar("T", bound=Callable[..., Any])


class Unsubscribe:
    """Call it to be called no more. Calling it again does nothing.

    ``id`` is the subscription's number: from 1, one more each, never used twice.
    """

    __slots__ = ("_remove", "id")

    def __init__(self, number: int, remove: Callable[[int], None]) -> None:
        self.id = number
        self._remove = remove

    def __call__(self) -> None:
        self._remove(self.id)

    def __repr__(self) -> str:
        return f"Unsubscribe(id={self.id})"


class Subscribers(Generic[T]):
    """Callbacks in the order of their registration. Safe to use from any thread.

    Law: a snapshot holds exactly those subscribed and not yet unsubscribed, oldest first, and never
    changes. Whoever notifies walks a snapshot and holds nothing, so a callback may subscribe and
    unsubscribe; that shows in the next snapshot. Cost: a snapshot is free until the next change.

    >>> said = Subscribers()
    >>> first, second = said.subscribe(print), said.subscribe(repr)
    >>> first.id, second.id, len(said)
    (1, 2, 2)
    >>> first(); first()
    >>> said.snapshot()
    (<built-in function repr>,)
    """

    __slots__ = ("_callbacks", "_last_id", "_lock", "_snapshot")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, T] = {}  # keeps the order of registration, since IDs only grow
        self._last_id = 0
        self._snapshot: tuple[T, ...] | None = ()

    def subscribe(self, callback: T) -> Unsubscribe:
        """Add a callback; the same one may be added more than once."""
        check_callback(callback)
        with self._lock:
            self._last_id += 1
            number = self._last_id
            self._callbacks[number] = callback
            self._snapshot = None
        return Unsubscribe(number, self._remove)

    def snapshot(self) -> tuple[T, ...]:
        """Who is subscribed now."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = tuple(self._callbacks.values())
            return self._snapshot

    def __len__(self) -> int:
        return len(self._callbacks)

    def _remove(self, number: int) -> None:
        with self._lock:
            if self._callbacks.pop(number, None) is not None:
                self._snapshot = None


class Turn:
    """One piece of work at a time, done by the thread that asks for it.

    Law: two pieces never overlap. Work that asks for itself again from inside (a callback that appends
    to the file whose growth it is being told of) is not nested but repeated when it ends, so nothing
    waits for itself and nothing is overtaken. After `close` has returned, no work begins.
    """

    __slots__ = ("_again", "_closed", "_holder", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._again = False
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def is_mine(self) -> bool:
        """Whether this thread is inside the work. No other thread can change the answer."""
        return self._holder == threading.get_ident()

    def run(self, work: Callable[[], None]) -> None:
        """Wait for the turn and work; nothing is done when closed. An error ends the turn."""
        if self.is_mine:
            self._again = True
            return
        with self._lock:
            self._holder = threading.get_ident()
            try:
                self._again = True
                while self._again and not self._closed:
                    self._again = False
                    work()
            finally:
                self._holder = None

    def close(self) -> None:
        """Let no more work begin, and wait for the work that runs, unless called from inside it."""
        self._closed = True
        if not self.is_mine:
            with self._lock:
                pass


def check_callback(callback: object) -> None:
    """Refuse what cannot be called."""
    if not callable(callback):
        raise InvalidArgument(
            f"{callback!r} cannot be called",
            subject="subscribe",
            hint="Give a function, or another object that can be called.",
        )
