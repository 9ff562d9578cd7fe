"""What a folder store makes of a file system that is full, forbidden, broken or shared with others."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ways import files_of, write_in_each_way

from penstock.errors import (
    AccessDenied,
    NoSpace,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
)
from penstock.store import LocalStore

NOW = timedelta(0)
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at this process in /proc")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    store.put("folder/old", b"old")
    return store


def failing(number: int, *, after: int = 0, does_it: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A system call that fails from its call number ``after`` on, perhaps having done its work."""
    calls = iter(range(1 << 30))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) < after:
            assert does_it is not None
            return does_it(*arguments, **options)
        if does_it is not None and after == 0:
            does_it(*arguments, **options)
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("call", "number", "error"),
    [
        ("writev", errno.ENOSPC, NoSpace),
        ("writev", errno.EDQUOT, NoSpace),
        ("writev", errno.EFBIG, NoSpace),
        ("writev", errno.EIO, StoreUnavailable),
        ("fsync", errno.EIO, StoreUnavailable),
        ("fsync", errno.ENOSPC, NoSpace),
        ("open", errno.EMFILE, StoreUnavailable),
        ("open", errno.EROFS, AccessDenied),
        ("open", errno.ESTALE, StoreUnavailable),
    ],
)
def test_what_fails_before_the_name_is_given_did_not_happen(
    call: str, number: int, error: type[PenstockError], store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(store)
    for write in write_in_each_way(store, "folder/new", b"x" * 100_000):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(number))
            with pytest.raises(error) as caught:
                write()
        assert type(caught.value) is error
        assert not caught.value.may_have_happened
        assert str(store.path / "folder") in caught.value.subject
        assert errno.errorcode[number] in str(caught.value)
        assert files_of(store) == before


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize(
    ("number", "error"), [(errno.EACCES, AccessDenied), (errno.ENOSPC, NoSpace), (errno.EDQUOT, NoSpace)]
)
def test_a_name_that_is_refused_was_not_given(
    number: int, error: type[PenstockError], links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, hard_links=links)
    for write in write_in_each_way(store, "a", b"new"):
        with monkeypatch.context() as patch:
            for call in ("link", "rename", "replace"):
                patch.setattr(os, call, failing(number))
            with pytest.raises(error):
                write()
        assert list(store.list()) == []
        assert store.collect_leftovers(NOW) == 0


def test_a_rename_without_an_answer_may_have_happened(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(errno.EIO, does_it=os.replace))
        with pytest.raises(OutcomeUnknown):
            store.put("folder/old", b"new")
    assert store.get("folder/old") == b"new"


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO])
def test_a_link_that_was_made_though_its_answer_says_otherwise_is_ours(
    number: int, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing(number, does_it=os.link))
        assert store.create("folder/new", b"new") is True
    assert store.get("folder/new") == b"new"


def test_a_link_without_an_answer_may_have_happened(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", failing(errno.EIO))
        with pytest.raises(OutcomeUnknown):
            store.create("folder/new", b"new")
    assert files_of(store) == {"folder/old"}


def test_a_name_that_is_not_known_to_last_may_have_been_given(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for write in write_in_each_way(store, "folder/new", b"new"):
        store.delete("folder/new")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(errno.EIO, after=1, does_it=os.fsync))
            with pytest.raises(OutcomeUnknown):
                write()
        assert store.get("folder/new") == b"new"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(OutcomeUnknown):
            store.delete("folder/new")


def test_a_loser_that_cannot_make_the_winner_last_does_not_call_it_one(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(StoreUnavailable):
        store.create("folder/old", b"new")


def test_a_delete_that_is_refused_tells_whether_any_was_done(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("folder/other", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EACCES))
        with pytest.raises(AccessDenied):
            store.delete("folder/old", "folder/other")
        patch.setattr(os, "unlink", failing(errno.EIO))
        with pytest.raises(OutcomeUnknown):
            store.delete("folder/old")
    real = os.unlink
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EACCES, after=1, does_it=real))
        with pytest.raises(OutcomeUnknown):
            store.delete("folder/old", "folder/other")
    assert [blob.name for blob in store.list()] == ["folder/other"]


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("pread", lambda store: store.get("folder/old")),
        ("open", lambda store: store.read("folder/old", 0, 1)),
        ("scandir", lambda store: list(store.list())),
        ("stat", lambda store: store.stat("folder/old")),
        ("scandir", lambda store: store.collect_leftovers(NOW)),
    ],
)
def test_a_read_that_fails_is_an_error_with_its_place(
    call: str, act: Callable[[LocalStore], object], store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EIO))
        with pytest.raises(StoreUnavailable) as caught:
            act(store)
    assert str(store.path) in caught.value.subject


@needs_proc
def test_a_folder_that_cannot_be_synced_is_no_reason_to_stop(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def refuse_folders(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(errno.EINVAL, "folders are not files here")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    store.put("folder/old", b"new")
    assert store.create("folder/new", b"new")


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """On a real file system of 256 KiB, where this user may mount one."""
    script = """
import sys
from datetime import timedelta
from penstock.errors import NoSpace
from penstock.store import LocalStore
store = LocalStore(sys.argv[1])
store.put("a", b"old")
big = b"x" * 1_000_000
for write in (store.put, store.create):
    for name in ("a", "b"):
        try:
            assert write(name, big) is False and write is not store.put
        except NoSpace as error:
            assert "ENOSPC" in str(error), error
writer = store.writer("b")
try:
    writer.write(big)
    raise SystemExit("the disk is not full")
except NoSpace:
    assert writer.closed
assert [(blob.name, store.get(blob.name)) for blob in store.list()] == [("a", b"old")]
assert store.collect_leftovers(timedelta(0)) == 0
store.put("a", b"new")
assert store.get("a") == b"new"
print("passed")
"""
    mount_and_run = 'mount -t tmpfs -o size=256k none "$1" 2>&1 || exit 77; exec "$2" -c "$3" "$1"'
    shell = ["sh", "-c", mount_and_run, "sh", str(tmp_path), sys.executable, script]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *shell],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system")
    assert done.stdout.strip() == "passed", done.stderr


@contextmanager
def no_root() -> Iterator[None]:
    """Rights do not bind root: be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_without_rights_denies_access() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        LocalStore(root).put("a", b"1")
        root.chmod(0o555)
        try:
            with no_root():
                store = LocalStore(root)
                assert store.get("a") == b"1"
                for act in (
                    lambda: store.put("a", b"2"),
                    lambda: store.create("b", b"2"),
                    lambda: store.writer("b"),
                    lambda: store.delete("a"),
                    lambda: store.put("folder/b", b"2"),
                ):
                    with pytest.raises(AccessDenied, match="right to read and write"):
                        act()
            with no_root():
                assert [blob.name for blob in store.list()] == ["a"]
        finally:
            root.chmod(0o755)


def test_a_store_without_fsync_syncs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    store = LocalStore(tmp_path / "deep" / "store", fsync=False)
    for name, write in zip("abc", range(3), strict=True):
        list(write_in_each_way(store, f"folder/{name}", b"1"))[write]()
    assert store.create("folder/a", b"2") is False
    store.delete("folder/a")
    assert [blob.name for blob in store.list()] == ["folder/b", "folder/c"]
