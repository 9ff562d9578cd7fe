"""A store in memory: for tests, and for what need not outlive the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.errors import AlreadyExists, NotFound
from penstock.store.data import Data, check_range, joined, parts_of
from penstock.store.interface import Blob, Store, Writer
from penstock.store.names import check_name, check_prefix

__all__ = ["MemoryStore"]

_PAGE = 1000


class MemoryStore(Store):
    """Blobs in a dictionary. As strict about names as `LocalStore`, so that tests find what disks would:
    a name that ever had names below it is never a blob's.

    >>> store = MemoryStore()
    >>> store.put("runs/1", [b"some ", b"bytes"])
    >>> [(blob.name, blob.size) for blob in store.list("runs/")], store.read("runs/1", 5, 99)
    ([('runs/1', 10)], b'bytes')
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._blobs: dict[str, tuple[bytes, datetime]] = {}
        self._folders: set[str] = set()

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    def __repr__(self) -> str:
        return f"MemoryStore({self._name!r})" if self._name else "MemoryStore()"

    def put(self, name: str, data: Data) -> None:
        check_name(name)
        content = joined(parts_of(data))
        with self._lock:
            self._keep(name, content)

    def create(self, name: str, data: Data) -> bool:
        check_name(name)
        return self._create(name, joined(parts_of(data)))

    def writer(self, name: str) -> Writer:
        return _MemoryWriter(check_name(name), self)

    def delete(self, *names: str) -> None:
        for name in names:
            check_name(name)
        with self._lock:
            for name in names:
                self._blobs.pop(name, None)

    def collect_leftovers(self, older_than: timedelta) -> int:
        return 0  # a writer's bytes go with the writer

    def get(self, name: str) -> bytes:
        return self._find(name)[0]

    def read(self, name: str, start: int, length: int) -> bytes:
        check_range(name, start, length)
        return self._find(name)[0][start : start + length]

    def map(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self._find(name)[0])

    def stat(self, name: str) -> Blob:
        content, modified = self._find(name)
        return Blob(name, len(content), modified)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Blob]:
        check_prefix(prefix)
        return self._pages(prefix, after)

    def _pages(self, prefix: str, after: str) -> Iterator[Blob]:
        with self._lock:
            names = sorted(name for name in self._blobs if name.startswith(prefix) and name > after)
        for start in range(0, len(names), _PAGE):
            with self._lock:
                page = [
                    Blob(name, len(found[0]), found[1])
                    for name in names[start : start + _PAGE]
                    if (found := self._blobs.get(name)) is not None
                ]
            yield from page

    def _find(self, name: str) -> tuple[bytes, datetime]:
        check_name(name)
        with self._lock:
            found = self._blobs.get(name)
        if found is None:
            raise NotFound("there is no such blob", subject=name, hint="Look at what is there with list().")
        return found

    def _create(self, name: str, content: bytes) -> bool:
        with self._lock:
            if name in self._blobs:
                return False
            self._keep(name, content)
        return True

    def _keep(self, name: str, content: bytes) -> None:
        if name not in self._blobs:
            above = _folders_of(name)
            if name in self._folders or any(folder in self._blobs for folder in above):
                raise AlreadyExists(
                    "one of two blobs would lie below the other",
                    subject=name,
                    hint="Give blobs names that are not below another blob's name.",
                )
            self._folders.update(above)
        self._blobs[name] = content, datetime.now(UTC)


class _MemoryWriter(Writer):
    def __init__(self, name: str, store: MemoryStore) -> None:
        super().__init__(name)
        self._store = store
        self._content = bytearray()

    def _append(self, parts: list[memoryview]) -> None:
        for part in parts:
            self._content += part

    def _publish(self) -> bool:
        return self._store._create(self.name, bytes(self._content))

    def _discard(self) -> None:
        self._content = bytearray()


def _folders_of(name: str) -> list[str]:
    """The folders above a name.

    >>> _folders_of("a/b/c")
    ['a', 'a/b']
    """
    ends = [i for i, character in enumerate(name) if character == "/"]
    return [name[:end] for end in ends]
