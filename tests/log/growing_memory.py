"""A memory store whose blobs grow, so that a whole log can be copied, changed and opened in a moment."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.store.appending import Appender, Lock
from penstock.store.data import Bytes, joined, parts_of
from penstock.store.memory import MemoryStore

__all__ = ["GrowingMemory"]


class GrowingMemory(MemoryStore):
    """As `MemoryStore`, filled with these blobs. Its lock keeps nobody out."""

    def __init__(self, blobs: dict[str, bytes] | None = None) -> None:
        super().__init__()
        for name, content in (blobs or {}).items():
            self.put(name, content)

    def appender(self, name: str) -> Appender:
        return _MemoryAppender(self, name)

    def lock(self, name: str, holder: str) -> Lock:
        return _NoLock()

    @property
    def blobs(self) -> dict[str, bytes]:
        return {blob.name: self.get(blob.name) for blob in self.list()}


class _MemoryAppender(Appender):
    def __init__(self, store: GrowingMemory, name: str) -> None:
        self._store = store
        self._name = name
        self.size = store.stat(name).size

    def append(self, parts: Sequence[Bytes]) -> None:
        self._change(self._store.get(self._name) + joined(parts_of(list(parts))))

    def truncate(self, size: int) -> None:
        self._change(self._store.get(self._name)[:size])

    def _change(self, content: bytes) -> None:
        self._store.put(self._name, content)
        self.size = len(content)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class _NoLock(Lock):
    def release(self) -> None:
        pass
