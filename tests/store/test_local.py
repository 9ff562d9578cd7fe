"""A folder store and what else is in its folder: leftovers, other files, other writers."""

from __future__ import annotations

import copy
import os
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ways import files_of, write_in_each_way

from penstock.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
)
from penstock.store import LocalStore, Store
from penstock.store.names import is_name

NOW = timedelta(0)
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at this process in /proc")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    store.put("folder/old", b"old")
    return store


@pytest.mark.parametrize("kind", ["local", "local-without-links", "memory"])
def test_one_name_is_not_both_a_blob_and_a_folder(kind: str, new_store: Callable[[str], Store]) -> None:
    store = new_store(kind)
    store.put("folder/old", b"old")
    for _ in range(2):
        for write in write_in_each_way(store, "folder", b"1"):
            with pytest.raises(AlreadyExists):
                write()
        for write in write_in_each_way(store, "folder/old/below", b"1"):
            with pytest.raises(AlreadyExists):
                write()
        assert [blob.name for blob in store.list()] == ["folder/old"]
        store.delete("folder/old")
        store.create("folder/old", b"new")


def test_without_links_a_put_waits_for_a_create_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, hard_links=False)
    rename = os.rename
    late = threading.Thread(target=lambda: store.put("a", b"put"))

    def rename_while_somebody_puts(*paths: Path) -> None:
        late.start()
        late.join(0.2)  # it cannot end before the name is given
        rename(*paths)

    monkeypatch.setattr(os, "rename", rename_while_somebody_puts)
    assert store.create("a", b"created") is True
    late.join()
    assert store.get("a") == b"put"


def test_a_dangling_link_is_taken_and_not_found(store: LocalStore) -> None:
    (store.path / "link").symlink_to("nowhere")
    assert store.create("link", b"1") is False
    with pytest.raises(NotFound):
        store.get("link")


def test_a_folder_that_was_removed_is_made_again(store: LocalStore) -> None:
    store.delete("folder/old")
    (store.path / "folder").rmdir()
    assert store.create("folder/new", b"1")
    store.delete("folder/new")
    (store.path / "folder").rmdir()
    store.put("folder/new", b"2")
    assert store.get("folder/new") == b"2"
    store.delete("folder/new")
    (store.path / "folder").rmdir()
    store.put("folder/below/new", b"3")
    assert store.get("folder/below/new") == b"3"


def test_nothing_is_made_before_something_is_written(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "store")
    assert list(store.list()) == []
    assert not store.exists("a")
    assert store.collect_leftovers(NOW) == 0
    store.delete("a")
    with pytest.raises(NotFound):
        store.get("a")
    assert list(tmp_path.iterdir()) == []
    store.put("a", b"1")
    assert store.get("a") == b"1"


@needs_proc
def test_a_dropped_writer_leaves_a_leftover_and_no_open_file(store: LocalStore) -> None:
    open_before = os.listdir("/proc/self/fd")  # noqa: PTH208
    writer = store.writer("folder/new")
    writer.write(b"x" * 100_000)
    del writer
    assert os.listdir("/proc/self/fd") == open_before  # noqa: PTH208
    assert [blob.name for blob in store.list()] == ["folder/old"]
    leftovers = files_of(store) - {"folder/old"}
    assert [Path(name).name.startswith(".tmp-") for name in leftovers] == [True]
    assert store.collect_leftovers(timedelta(hours=1)) == 0
    assert store.collect_leftovers(NOW) == 1
    assert files_of(store) == {"folder/old"}


def test_a_leftover_is_as_old_as_its_last_write(store: LocalStore) -> None:
    writer = store.writer("folder/new")
    writer.write(b"1")
    writer.flush()
    (leftover,) = files_of(store) - {"folder/old"}
    os.utime(store.path / leftover, (0, 0))
    writer.write(b"x" * 100_000)
    assert store.collect_leftovers(timedelta(hours=1)) == 0
    os.utime(store.path / leftover, (0, 0))
    assert store.collect_leftovers(timedelta(hours=1)) == 1
    with pytest.raises(StoreUnavailable, match="collected"):
        writer.commit()
    assert not store.exists("folder/new")


def test_foreign_files_are_neither_listed_nor_collected(store: LocalStore) -> None:
    foreign = [".hidden", ".git/config", "folder/.nfs0001", "back\\slash", "e\u0301"]
    for name in foreign:
        path = store.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"1")
    Path(os.fsdecode(os.fsencode(store.path) + b"/not-\xff-utf8")).write_bytes(b"1")
    assert [blob.name for blob in store.list()] == ["folder/old"]
    assert store.collect_leftovers(NOW) == 0


@needs_proc
def test_a_map_copies_nothing(store: LocalStore) -> None:
    content = os.urandom(1 << 20)
    store.put("a", content)
    before = pa.total_allocated_bytes()
    mapped = store.map("a")
    assert pa.total_allocated_bytes() == before
    assert any(
        int(low, 16) <= mapped.address < int(high, 16)
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(str(store.path / "a"))
        for low, high in [line.split()[0].split("-")]
    )
    assert mapped.to_pybytes() == content


def test_blobs_have_the_rights_that_files_have(store: LocalStore) -> None:
    mask = os.umask(0o022)
    try:
        store.put("a", b"1")
        store.create("b", b"1")
    finally:
        os.umask(mask)
    assert [(store.path / name).stat().st_mode & 0o777 for name in "ab"] == [0o644, 0o644]


def test_a_copy_is_the_same_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, fsync=False, hard_links=False)
    twin = copy.copy(store)
    assert (twin.path, twin.fsync, twin.url) == (store.path, store.fsync, store.url)
    assert repr(twin) == repr(store) == f"LocalStore({str(tmp_path)!r}, fsync=False)"


@settings(deadline=None, max_examples=300)
@given(name=st.one_of(st.text(max_size=20), st.text(alphabet="./\\a~\0é", max_size=12)))
def test_a_name_is_refused_or_makes_one_file_below_the_folder(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder, "inside"), fsync=False)
        if is_name(name):
            assert store.create(name, b"1")
            assert [blob.name for blob in store.list()] == [name]
            store.delete(name)
            assert list(store.list()) == []
        else:
            with pytest.raises(InvalidArgument):
                store.create(name, b"1")
        assert [path.name for path in Path(folder).iterdir() if path.name != "inside"] == []
