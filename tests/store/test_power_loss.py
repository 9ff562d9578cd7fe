"""What is left of a folder store when power fails at any moment, by the rules that file systems promise.

They promise little: a file's bytes last once the file was synced, a folder's entries once the folder was.
What was not synced may last or not. So the system calls of a store are recorded, and after each of them
two disks are looked at: one that kept nothing but what was synced, and one that kept every name, but of
the bytes only those that were synced.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.store import LocalStore, Store

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds open files in /proc")

ABSENT = None
NEVER_SYNCED = b"<bytes that nobody ever wrote>"
Content: TypeAlias = bytes | None


@dataclass
class Disk:
    """Which bytes of files and entries of folders below ``root`` would outlast a loss of power."""

    root: Path
    contents: dict[int, bytes] = field(default_factory=dict)  # by inode
    entries: dict[int, dict[str, int]] = field(default_factory=dict)  # by inode of the folder
    held: list[int] = field(default_factory=list)  # so that no inode is used twice
    after_each: Callable[[], None] = lambda: None

    def synced(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if path.is_dir():
            self.entries[path.stat().st_ino] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        else:
            self.contents[path.stat().st_ino] = path.read_bytes()

    def opened(self, descriptor: int, flags: int) -> None:
        if flags & os.O_EXCL:
            self.held.append(os.dup(descriptor))

    def made(self, folder: Path) -> None:
        self.entries[folder.stat().st_ino] = {}

    def kept_what_was_synced(self) -> dict[str, bytes]:
        kinds = {path.stat().st_ino for path in self.root.rglob("*") if path.is_dir()} | {self._root_inode}

        def walk(folder: int, above: str) -> Iterator[tuple[str, bytes]]:
            for name, inode in self.entries.get(folder, {}).items():
                if inode in kinds:
                    yield from walk(inode, f"{above}{name}/")
                elif not name.startswith("."):
                    yield above + name, self.contents.get(inode, NEVER_SYNCED)

        return dict(walk(self._root_inode, ""))

    def kept_every_name(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.root)): self.contents.get(path.stat().st_ino, NEVER_SYNCED)
            for path in self.root.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }

    @property
    def _root_inode(self) -> int:
        return self.root.stat().st_ino


@contextmanager
def recorded(disk: Disk) -> Iterator[None]:
    """Lets the disk see every system call that matters, and looks at it after each."""
    disk.made(disk.root)

    def watched(call: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            note(result, *arguments)
            disk.after_each()
            return result

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched(os.open, lambda fd, path, flags, *_: disk.opened(fd, flags)))
        patch.setattr(os, "fsync", watched(os.fsync, lambda _, descriptor: disk.synced(descriptor)))
        patch.setattr(os, "mkdir", watched(os.mkdir, lambda _, path, *__: disk.made(Path(path))))
        for name in ("writev", "link", "rename", "replace", "unlink"):
            patch.setattr(os, name, watched(getattr(os, name), lambda *_: None))
        try:
            yield
        finally:
            for descriptor in disk.held:
                os.close(descriptor)


class Ledger:
    """What each blob may be: what it was before the call that is under way, or what the call makes it."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._settled: dict[str, Content] = {}
        self._asked: dict[str, Content] = {}
        disk.after_each = self.check

    @contextmanager
    def call(self, asked: dict[str, Content]) -> Iterator[None]:
        self._asked = asked
        yield
        self._settled |= asked
        self._asked = {}
        self.check()

    def check(self) -> None:
        for kept in (self._disk.kept_what_was_synced(), self._disk.kept_every_name()):
            blobs = {name.removeprefix(self._folder): content for name, content in kept.items()}
            for name in blobs.keys() | self._settled.keys():
                allowed = [self._settled.get(name)]
                if name in self._asked:
                    allowed.append(self._asked[name])
                assert blobs.get(name) in allowed, f"{name} is {blobs.get(name)!r}, not one of {allowed}"


NAMES = st.sampled_from(["a", "b/c", "b/d", "b/e/f", "g/h/i/j"])
CALLS = st.lists(
    st.tuples(st.sampled_from(["put", "create", "commit", "delete", "stranger"]), NAMES), max_size=8
)


@pytest.mark.parametrize("links", [True, False])
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_what_was_told_outlasts_a_loss_of_power(
    calls: list[tuple[str, str]], links: bool, quick_folder: Path
) -> None:
    with fresh_folder(quick_folder / "root") as root:
        disk = Disk(root)
        ledger = Ledger(disk, "deep/store/")
        store = LocalStore(root / "deep" / "store", hard_links=links)
        with recorded(disk):
            for number, (verb, name) in enumerate(calls):
                content = f"{verb} {number}".encode() * 50
                there = store.exists(name)
                if verb == "put":
                    with ledger.call({name: content}):
                        store.put(name, content)
                elif verb == "delete":
                    with ledger.call({name: ABSENT}):
                        store.delete(name)
                elif verb == "stranger":
                    # Somebody else makes the same folders, and has not come to sync them.
                    (store.path / name).parent.mkdir(parents=True, exist_ok=True)
                elif there:
                    with ledger.call({}):
                        assert not made_new(store, verb, name, content)
                else:
                    with ledger.call({name: content}):
                        assert made_new(store, verb, name, content)


@contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def made_new(store: Store, verb: str, name: str, content: bytes) -> bool:
    if verb == "create":
        return store.create(name, content)
    with store.writer(name) as writer:
        writer.write(content[:7])
        writer.flush()
        writer.write(content[7:])
        return writer.commit()


class PowerLossError(Exception):
    pass


@pytest.mark.parametrize("verb", ["create", "commit"])
def test_a_loser_is_told_of_a_winner_that_lasts(verb: str, tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    winner, loser = (LocalStore(tmp_path / "store", hard_links=True) for _ in range(2))
    with recorded(disk):
        with pytest.MonkeyPatch.context() as patch, suppress(PowerLossError):
            sync_file = os.fsync
            link = os.link

            def link_and_stop(*arguments: Any, **options: Any) -> None:
                link(*arguments, **options)
                patch.setattr(os, "fsync", stop)

            def stop(descriptor: int) -> None:
                raise PowerLossError

            patch.setattr(os, "link", link_and_stop)
            winner.create("folder/a", b"first")
        assert os.fsync is sync_file
        assert disk.kept_what_was_synced() == {}
        assert made_new(loser, verb, "folder/a", b"second") is False
    assert disk.kept_what_was_synced() == {"store/folder/a": b"first"}
