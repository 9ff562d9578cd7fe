"""What is left of a log when power fails: what was synced, and of the rest anything at all.

Blobs that are put whole are the store's business, and its own tests take the power from them. Here it is the
growing files: after each operation of a script what was not synced is cut off, or replaced by what file
systems leave there: zeros, other old bytes, or the later pages without the earlier ones.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.errors import NotFound
from penstock.log.log import Log
from penstock.log.options import Fsync, LogOptions
from penstock.store.faulty import Died, Fault, every_fault
from penstock.store.local import LocalStore
from tests.log.deeds import Deed, Ledger, add_collections
from tests.log.logs import FAST
from tests.log.mortal_store import MortalStore

PAGE = 512  # smaller than real ones, so that the unsynced end has several


class Script:
    """Writes deeds, and knows what the log promised of them."""

    def __init__(self, store: MortalStore, fsync: Fsync) -> None:
        self.ledger = Ledger()
        self.durable_lsn = 0
        self._store = store
        self._options = LogOptions(fsync=fsync, interval=timedelta(hours=1), segment_bytes=4096)

    def run(self) -> None:
        numbers = iter(range(1, 100))
        log = Log.create(self._store, self._options)
        for _ in range(2):
            add_collections(log)
            for _ in range(6):
                for _ in range(2):
                    deed = Deed(0, next(numbers))
                    self.ledger.perform(log, deed)
                    if self._options.fsync == "always":
                        self.durable_lsn = self.ledger.acknowledged[deed].last
                log.sync()
                self.durable_lsn = log.current_lsn
            log.close()
            log = Log.open(self._store, options=self._options)
        log.close()


def left_by_power_loss(folder: Path, durable: dict[str, int], old: bytes) -> Iterator[Callable[[], None]]:
    """Ways to change the files into what may be left. ``old`` is what was on the disk before."""
    chance = random.Random(3)
    for name, safe in durable.items():
        path = folder / name
        data = path.read_bytes()
        unsafe = len(data) - safe
        if not unsafe:
            continue
        pages = range(0, unsafe, PAGE)
        ends = [
            b"",
            data[safe : safe + chance.randrange(unsafe)],
            bytes(unsafe),
            old[safe : safe + unsafe],
            old[64 : 64 + unsafe],
            data[safe : safe + unsafe // 2] + bytes(unsafe - unsafe // 2),
            bytes(unsafe // 2) + data[safe + unsafe // 2 :],
            b"".join(
                data[safe + it : safe + min(it + PAGE, unsafe)]
                if chance.random() < 0.5
                else bytes(min(PAGE, unsafe - it))
                for it in pages
            ),
        ]
        for end in ends:
            yield lambda path=path, content=data[:safe] + end: path.write_bytes(content)  # type: ignore[misc]


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_what_was_synced_outlasts_a_loss_of_power_and_nothing_false_comes(
    fsync: Fsync, quick_folder: Path
) -> None:
    calm = MortalStore(quick_folder / "calm")
    Script(calm, fsync).run()
    calm.bury()
    old = (calm.local.path / min(calm.durable)).read_bytes()  # of another log
    losses = 0
    for fault in every_fault(calm.operations, "die"):
        if not calm.operations[fault.at - 1].writes:
            continue
        folder = quick_folder / "log"
        store = MortalStore(folder, [fault])
        script = Script(store, fsync)
        with pytest.raises(Died):
            script.run()
        store.bury()
        for change in left_by_power_loss(folder, store.durable, old):
            copy = shutil.copytree(folder, quick_folder / "copy")
            change()
            check(folder, script, fault)
            losses += 1
            shutil.rmtree(folder)
            copy.rename(folder)
        shutil.rmtree(folder)
    assert losses > 100


def check(folder: Path, script: Script, fault: Fault) -> None:
    store = LocalStore(folder, fsync=False)
    ends = []
    for mode in ("read", "write"):
        try:
            log = Log.open(store, mode, FAST)  # type: ignore[arg-type]
        except NotFound:
            assert not script.durable_lsn
            return
        with log:
            script.ledger.check_prefix(log, script.durable_lsn)
            ends.append(log.current_lsn)
    assert ends[0] == ends[1], fault
