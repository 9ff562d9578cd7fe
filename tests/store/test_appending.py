"""Files that grow, and the lock of who may grow them."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import InUse, InvalidArgument, NoSpace, NotFound, OutcomeUnknown, Unsupported
from penstock.store import LocalStore, MemoryStore
from penstock.store.appending import Appender, appender, lock

LIMIT = 100_000


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def grown(store: LocalStore) -> Iterator[Appender]:
    store.put("log", b"head ")
    opened = appender(store, "log")
    yield opened
    opened.close()


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system lets no file of this process grow beyond the limit; it writes what fits, then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_parts_are_appended_side_by_side(store: LocalStore, grown: Appender) -> None:
    assert grown.size == 5
    grown.append([b"one", pa.py_buffer(b" two"), memoryview(b" three"), b""])
    grown.append([bytes([i % 256]) for i in range(5000)])  # more parts than one system call takes
    assert store.get("log") == b"head one two three" + bytes(i % 256 for i in range(5000))
    assert grown.size == store.stat("log").size == 5018
    grown.sync()


def test_a_file_opened_again_goes_on_at_its_end(store: LocalStore, grown: Appender) -> None:
    grown.append([b"one"])
    again = appender(store, "log")
    again.append([b" more"])
    again.close()
    again.close()
    assert store.get("log") == b"head one more"


def test_a_file_is_cut_back_and_goes_on_from_there(store: LocalStore, grown: Appender) -> None:
    grown.append([b"torn"])
    grown.truncate(2)
    grown.append([b"re"])
    assert (store.get("log"), grown.size) == (b"here", 4)


@pytest.mark.usefixtures("small_files")
def test_an_append_that_finds_no_room_leaves_the_file_as_it_was(store: LocalStore, grown: Appender) -> None:
    """Really no room: the system takes the first bytes and refuses the rest, and they are taken back."""
    grown.append([b"x" * (LIMIT - 10)])
    before = store.get("log")
    with pytest.raises(NoSpace, match="EFBIG"):
        grown.append([b"1234", b"567890"])
    assert store.get("log") == before
    assert grown.size == len(before)
    grown.append([b"12345"])
    assert store.get("log") == before + b"12345"


@pytest.mark.usefixtures("small_files")
def test_an_append_that_cannot_be_taken_back_may_have_happened(
    store: LocalStore, grown: Appender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "a broken disk")

    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(OutcomeUnknown):
        grown.append([b"x" * (2 * LIMIT)])
    with pytest.raises(OutcomeUnknown):
        grown.truncate(0)


def test_a_sync_that_fails_tells_that_nobody_knows(
    store: LocalStore, grown: Appender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "a broken disk")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OutcomeUnknown):
        grown.sync()
    careless = appender(LocalStore(store.path, fsync=False), "log")
    careless.sync()  # asks for nothing
    careless.close()


def test_only_what_is_there_can_grow_and_only_in_a_folder(store: LocalStore) -> None:
    with pytest.raises(NotFound):
        appender(store, "nothing")
    with pytest.raises(InvalidArgument):
        appender(store, "../log")
    memory = MemoryStore()
    memory.put("log", b"")
    with pytest.raises(Unsupported, match="cannot grow"):
        appender(memory, "log")
    with pytest.raises(Unsupported, match="cannot grow"):
        lock(memory, "lock", "me")


def test_a_lock_has_one_holder_who_is_named(store: LocalStore) -> None:
    first = lock(store, "folder/lock", "process 7 on a long-named host")
    with pytest.raises(InUse, match="held by process 7 on a long-named host"):
        lock(store, "folder/lock", "me")
    lock(store, "folder/other", "me").release()
    first.release()
    first.release()
    second = lock(store, "folder/lock", "me")
    assert store.get("folder/lock") == b"me"
    second.release()


@pytest.mark.parametrize("call", ["ftruncate", "pwrite"])
def test_a_disk_too_full_for_the_holders_name_does_not_keep_the_lock_from_them(
    call: str, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        held = lock(store, "lock", "me")
    with pytest.raises(InUse):
        lock(store, "lock", "other")
    held.release()


_FORK = """
import os, sys
from penstock.errors import InUse
from penstock.store import LocalStore
from penstock.store.appending import lock
store = LocalStore(sys.argv[1])
held = lock(store, "lock", "parent")
ready, tell = os.pipe()
wait, go_on = os.pipe()
child = os.fork()
if child == 0:
    os.write(tell, b".")
    os.read(wait, 1)
    os._exit(0)
os.read(ready, 1)
try:
    lock(store, "lock", "other")
    raise SystemExit("the child's closing of its copy let go of it")
except InUse:
    held.release()
lock(store, "lock", "other").release()
os.write(go_on, b".")
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_does_not_keep_a_lock_that_its_parent_let_go_of(tmp_path: Path) -> None:
    """In a process of its own, which has no threads."""
    command = [sys.executable, "-c", _FORK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
