"""Watching single keys: every committed change of a key, or of all keys with a prefix, as it comes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType

from penstock.errors import InvalidArgument
from penstock.log.cdc_events import KvWatchEvent

__all__ = ["KeyFilter", "KvWatch", "KvWatches"]


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """Which keys are meant; what is None does not matter."""

    collection: str | None = None
    key: str | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.prefix is not None:
            raise InvalidArgument(
                f"both the key {self.key!r} and the prefix {self.prefix!r} are asked for",
                subject="watch",
                hint="Give one of them.",
            )

    def matches(self, event: KvWatchEvent) -> bool:
        return (
            (self.collection is None or self.collection == event.collection)
            and (self.key is None or self.key == event.key)
            and (self.prefix is None or event.key.startswith(self.prefix))
        )


class KvWatch(Iterator[KvWatchEvent]):
    """The committed changes of the keys that were asked for, in order; iterating waits for the next one.

    Law: each matching event since the watch began is either given once or counted as dropped, and the
    count an event carries tells how many were dropped before it. State: a queue of at most ``limit``
    events (and of no fewer than the watch began with); the oldest are dropped, so what is left is what is
    newest. Cost: nothing for events that do not match.
    """

    def __init__(
        self,
        wanted: KeyFilter,
        backlog: Iterable[KvWatchEvent],
        limit: int,
        lock: threading.Lock,
        forget: Callable[[KvWatch], None],
    ) -> None:
        self.wanted = wanted
        self._queue = deque(backlog)
        self._limit = max(limit, len(self._queue))
        self._arrived = threading.Condition(lock)  # the ring's own lock: events arrive while it is held
        self._forget = forget
        self._dropped = 0
        self._closed = False

    @property
    def dropped_event_count(self) -> int:
        """How many matching events were dropped since the watch began."""
        return self._dropped

    @property
    def closed(self) -> bool:
        return self._closed

    def next(self, timeout: float | None = None) -> KvWatchEvent | None:
        """The next event; None when the watch is closed, or none came in ``timeout`` seconds."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._queue or self._closed, timeout)
            if self._closed or not self._queue:
                return None
            event = self._queue.popleft()
            return replace(event, dropped_event_count=self._dropped) if self._dropped else event

    def __next__(self) -> KvWatchEvent:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the watch, and whoever waits for its next event. What is queued is given up. Idempotent."""
        with self._arrived:
            if not self._closed:
                self._closed = True
                self._queue.clear()
                self._forget(self)
                self._arrived.notify_all()

    def __enter__(self) -> KvWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def offer(self, event: KvWatchEvent) -> None:
        """Queue the event if it matches. Called with the ring's lock held."""
        if self.wanted.matches(event):
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append(event)
            self._arrived.notify()


class KvWatches:
    """All watches of a ring. Watches of single keys are found by the key, however many there are.

    Every method is called with the ring's lock held.
    """

    __slots__ = ("_by_key", "_others")

    def __init__(self) -> None:
        self._by_key: dict[str, list[KvWatch]] = {}
        self._others: list[KvWatch] = []

    def add(self, watch: KvWatch) -> None:
        key = watch.wanted.key
        (self._others if key is None else self._by_key.setdefault(key, [])).append(watch)

    def remove(self, watch: KvWatch) -> None:
        key = watch.wanted.key
        if key is None:
            self._others.remove(watch)
        else:
            self._by_key[key].remove(watch)
            if not self._by_key[key]:
                del self._by_key[key]

    def offer(self, event: KvWatchEvent) -> None:
        for watch in self._by_key.get(event.key, ()):
            watch.offer(event)
        for watch in self._others:
            watch.offer(event)
