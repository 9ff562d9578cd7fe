"""The ways to write one blob, and what files are there then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.store import LocalStore, Store


def files_of(store: LocalStore) -> set[str]:
    return {str(path.relative_to(store.path)) for path in store.path.rglob("*") if path.is_file()}


def write_in_each_way(store: Store, name: str, data: bytes) -> Iterator[Callable[[], object]]:
    def commit() -> bool:
        with store.writer(name) as writer:
            writer.write(data)
            return writer.commit()

    yield lambda: store.put(name, data)
    yield lambda: store.create(name, data)
    yield commit
