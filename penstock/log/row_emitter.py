"""Rows of a growing file, each given once, in order, as soon as it is complete."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from penstock.errors import Closed
from penstock.log.framing import Framing, Items, Position
from penstock.log.subscribers import Subscribers, Turn, Unsubscribe, check_callback

__all__ = ["GrowingFile", "OnRow", "OnRows", "RowEmitter", "RowSubscription"]

OnRow = Callable[[int, memoryview], object]
"""Called with a row's index and its bytes."""
OnRows = Callable[[int, memoryview, int], object]
"""Called with the index of the first row, the bytes of the rows side by side, and how many they are."""


class GrowingFile(Protocol):
    """What an emitter needs of a file; `WatchedFile` is one."""

    @property
    def size(self) -> int:
        """The size now; an error when the file is not what it was."""

    @property
    def closed(self) -> bool: ...
    def read(self, offset: int, length: int) -> memoryview: ...
    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]: ...


class RowSubscription:
    """One subscriber of an emitter. Calling it unsubscribes, as `unsubscribe` does."""

    __slots__ = ("_reader", "_unsubscribe")

    def __init__(self, reader: _Reader, unsubscribe: Unsubscribe) -> None:
        self._reader = reader
        self._unsubscribe = unsubscribe

    @property
    def id(self) -> int:
        """The subscription's number: from 1, one more each, never used twice."""
        return self._unsubscribe.id

    @property
    def next(self) -> Position:
        """Where the first row stands that was not yet given to this subscriber: a ``start`` for another."""
        return self._reader.next

    @property
    def failed(self) -> Exception | None:
        """The error this subscriber raised; it is given nothing after that."""
        return self._reader.failed

    def unsubscribe(self) -> None:
        """Be called no more, but for the row that is being given now. Doing it again does nothing."""
        self._unsubscribe()

    def __call__(self) -> None:
        self._unsubscribe()

    def __repr__(self) -> str:
        state = f"failed with {self.failed!r}" if self.failed else f"next row {self.next.index}"
        return f"RowSubscription(id={self.id}, {state})"


class RowEmitter:
    """Gives every row that a file's growth completes to every subscriber.

    Law: a subscriber is given each row whose turn begins after it subscribed, in order, each once,
    whatever the others do. A row is everybody's, in order of registration, before the next row is
    anybody's; who that is, is looked up anew for each row, and no lock is held while calling. Rows complete
    before the emitter was made are not given, but to those who ask for them with ``start``.

    The first error stops the chain and goes back to whoever drove the notification. The subscriber that
    raised it is marked `failed`, counts the row as given, and gets no more; the others get at the next
    notification what the stop kept from them. A callback may subscribe, unsubscribe, append and close;
    rows it appends come after those that are due.

    State: one position, and one for each subscriber, which is why one that fails makes nobody see a row
    again. Cost: one read per `READ_BYTES`; one call per row, or one per read with `subscribe_rows`.
    """

    def __init__(self, file: GrowingFile, framing: Framing) -> None:
        self._file = file
        self._framing = framing
        self._lock = threading.Lock()  # joins `_next` and the registration; never held while calling
        self._turn = Turn()
        self._subscribers: Subscribers[_Reader] = Subscribers()
        self._next: Position | None = None
        # First be told of growth, then look: what grows in between is seen by one or the other.
        self._unsubscribe_file = file.subscribe(self._on_growth)
        try:
            self._turn.run(self._begin_at_end)
        except BaseException:
            self._unsubscribe_file()
            raise

    @property
    def failed(self) -> tuple[RowSubscription, ...]:
        """Those that raised an error and have not unsubscribed since."""
        return tuple(reader.subscription for reader in self._subscribers.snapshot() if reader.failed)

    def subscribe(self, callback: OnRow, *, start: Position | None = None) -> RowSubscription:
        """Have ``callback(index, row)`` called for each row to come; ``row`` is a view, not a copy.

        With ``start``, a position that was once given out or is the framing's own, begin there instead: what
        is complete already comes with the next notification.
        """
        check_callback(callback)

        def give(items: Items, index: int) -> None:
            callback(index, items.item(index))

        return self._add(_Reader(give, at_once=False), start)

    def subscribe_rows(self, callback: OnRows, *, start: Position | None = None) -> RowSubscription:
        """Have ``callback(first_index, rows, count)`` called with all rows of a read at once.

        Its turn comes with the first of the rows, so it runs ahead of those who take row by row.
        """
        check_callback(callback)

        def give(items: Items, index: int) -> None:
            callback(index, items.items_from(index), items.stop.index - index)

        return self._add(_Reader(give, at_once=True), start)

    def close(self) -> None:
        """Give no more rows, once everybody has had the row being given. Idempotent.

        Waits for the notification that runs, unless called from inside it.
        """
        self._unsubscribe_file()
        self._turn.close()

    def __enter__(self) -> RowEmitter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _stopped(self) -> bool:
        return self._turn.closed or self._file.closed

    def _add(self, reader: _Reader, start: Position | None) -> RowSubscription:
        with self._lock:
            if self._stopped or self._next is None:
                raise Closed("the emitter was closed", subject="RowEmitter", hint="Make a new one.")
            reader.next = start or self._next
            reader.subscription = RowSubscription(reader, self._subscribers.subscribe(reader))
            return reader.subscription

    def _begin_at_end(self) -> None:
        self._next = self._framing.skip(self._file, self._framing.start, self._file.size)

    def _on_growth(self) -> None:
        self._turn.run(self._emit)

    def _emit(self) -> None:
        if self._next is None:  # the size is still to be looked up, and will tell of this growth
            return
        size = self._file.size
        end = -1  # how far this notification has come
        while not self._stopped:
            live = [reader.next for reader in self._subscribers.snapshot() if reader.failed is None]
            if not live:
                self._pass(self._framing.skip(self._file, self._next, size))
                return
            first = min(live, key=lambda position: position.index)
            if end >= 0 and first.index >= end:  # nobody has subscribed in the meantime with an early start
                return
            end = first.index
            for items in self._framing.read(self._file, first, size):
                self._give(items)
                end = items.stop.index
                if self._stopped:
                    return

    def _give(self, items: Items) -> None:
        """Give the items to everybody who has not had them."""
        index, stop = items.start.index, items.stop.index
        while index < stop and not self._stopped:
            after = items.after(index)
            readers = self._pass(after)
            nearest = stop  # not always index + 1: perhaps nobody takes row by row
            for reader in readers:
                if reader.next.index == index and reader.failed is None:
                    reader(items, index, after)
                if index < reader.next.index < nearest and reader.failed is None:
                    nearest = reader.next.index
            # Whom a callback has subscribed begins at the next row.
            index = nearest if readers is self._subscribers.snapshot() else index + 1
        self._pass(items.stop)

    def _pass(self, position: Position) -> tuple[_Reader, ...]:
        """Let those who subscribe from now on begin here or later; return who has subscribed until now."""
        with self._lock:
            if self._next is None or self._next.index < position.index:
                self._next = position
            return self._subscribers.snapshot()


class _Reader:
    """What the emitter calls for a subscriber: keeps its place, and what became of it."""

    __slots__ = ("_at_once", "_give", "failed", "next", "subscription")

    next: Position
    subscription: RowSubscription

    def __init__(self, give: Callable[[Items, int], None], *, at_once: bool) -> None:
        self._give = give
        self._at_once = at_once
        self.failed: Exception | None = None

    def __call__(self, items: Items, index: int, after: Position) -> None:
        # Moved on before the call: what was given in vain was given.
        self.next = items.stop if self._at_once else after
        try:
            self._give(items, index)
        except Exception as error:
            self.failed = error
            raise
