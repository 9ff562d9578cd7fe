"""A folder's store that dies or fails at a chosen moment of a chosen operation, appending included.

It also knows which bytes of its growing files would outlast a loss of power: those that were synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.store import appending
from penstock.store.appending import Appender, Lock
from penstock.store.data import Bytes, parts_of
from penstock.store.faulty import Died, Fault, FaultyStore, every_fault
from penstock.store.local import LocalStore

__all__ = ["MortalStore", "every_death"]


class MortalStore(FaultyStore):
    """As `FaultyStore`, for a store whose blobs grow. Its locks go with it, as with a process that dies."""

    def __init__(self, folder: Path, faults: Sequence[Fault] = ()) -> None:
        self.local = LocalStore(folder, fsync=False)
        self._locks: list[Lock] = []
        self.durable: dict[str, int] = {}  # of the files that were opened to grow, how many bytes
        super().__init__(self.local, faults)

    def appender(self, name: str) -> Appender:
        return self._run("appender", name, lambda: _MortalAppender(self, name))

    def lock(self, name: str, holder: str) -> Lock:
        taken = appending.lock(self.local, name, holder)
        self._locks.append(taken)
        return taken

    def bury(self) -> None:
        """Let go of what the operating system takes from a dead process."""
        for it in self._locks:
            it.release()


class _MortalAppender(Appender):
    def __init__(self, store: MortalStore, name: str) -> None:
        self._store = store
        self._name = name
        self._inner = appending.appender(store.local, name)
        self.size = self._inner.size
        store.durable.setdefault(name, self.size)  # it was made whole, and lasts

    def append(self, parts: Sequence[Bytes]) -> None:
        def half(fault: Fault) -> None:
            if fault.action == "fail":
                return  # who lives takes back what was written
            data = b"".join(bytes(part) for part in parts_of(list(parts)))
            self._inner.append([data[: len(data) // 2]])

        self._store._run("append", self._name, lambda: self._inner.append(parts), half)
        self.size = self._inner.size

    def truncate(self, size: int) -> None:
        def cut() -> None:
            self._inner.truncate(size)
            self._store.durable[self._name] = size

        self._store._run("truncate", self._name, cut)
        self.size = self._inner.size

    def sync(self) -> None:
        def sync() -> None:
            size = self._inner.size
            self._inner.sync()
            self._store.durable[self._name] = size

        self._store._run("sync", self._name, sync)

    def close(self) -> None:
        self._inner.close()


def every_death(make: Callable[[], Path], script: Callable[[MortalStore], None]) -> Iterator[Path]:
    """Run the script in a folder of ``make``, once for each moment it may die at; give what it left."""
    calm = MortalStore(make())
    script(calm)
    calm.bury()
    for fault in every_fault(calm.operations, "die"):
        folder = make()
        store = MortalStore(folder, [fault])
        with suppress(Died):
            script(store)
        assert store.dead
        store.bury()
        yield folder
