"""A log whose store dies or fails at each single operation of a script: before it, amid it, or after it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from penstock.errors import Closed, DidNotHappen, NoSpace, NotFound, OutcomeUnknown, PenstockError
from penstock.log.log import Log
from penstock.log.options import Fsync, LogOptions
from penstock.store.faulty import Fault, Operation, every_fault
from penstock.store.local import LocalStore
from tests.log.deeds import Deed, Ledger, add_collections
from tests.log.logs import FAST
from tests.log.mortal_store import MortalStore, every_death

DEEDS = 24
TORN = b"FRM1, and then not what a header is"


def options(fsync: Fsync, keep: int | None = None) -> LogOptions:
    """Nothing happens at a time that the test does not choose."""
    return LogOptions(fsync=fsync, interval=timedelta(hours=1), segment_bytes=4096, retain_bytes=keep)


def last_segment(folder: Path) -> Path:
    return max((folder / "segments").iterdir())


@pytest.fixture
def new_folder(quick_folder: Path) -> Iterator[Callable[[], Path]]:
    """Makes folders; only the last one is kept."""
    numbers = count(1)
    made: list[Path] = []

    def make() -> Path:
        if made:
            shutil.rmtree(made.pop(), ignore_errors=True)
        made.append(quick_folder / str(next(numbers)))
        return made[0]

    yield make
    make()


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_dying_at_any_operation_loses_nothing_acknowledged_and_leaves_nothing_half(
    fsync: Fsync, new_folder: Callable[[], Path]
) -> None:
    ledger = Ledger()

    def script(store: MortalStore) -> None:
        nonlocal ledger
        ledger = Ledger()
        log = Log.create(store, options(fsync))
        add_collections(log)
        for number in range(1, DEEDS):
            ledger.perform(log, Deed(0, number))
        log.sync()
        log.trim(ledger.acknowledged[Deed(0, 10)].last)
        log.close()
        with last_segment(store.local.path).open("ab") as file:
            file.write(TORN)
        log = Log.open(store, options=options(fsync, keep=8000))
        assert log.recovered is not None
        for number in range(DEEDS, DEEDS + 10):
            ledger.perform(log, Deed(0, number))
        log.close()

    deaths = 0
    for folder in every_death(new_folder, script):
        deaths += 1
        store = LocalStore(folder, fsync=False)
        for mode in ("read", "write"):
            try:
                log = Log.open(store, mode, FAST)  # type: ignore[arg-type]
            except NotFound:
                assert not ledger.acknowledged
                Log.create(store, FAST).close()
                break
            with log:
                ledger.check(log)
        with Log.open(store, options=FAST) as log:  # it goes on
            add_collections(log)
            ledger.perform(log, Deed(0, ledger.next_number(0)))
            ledger.check(log)
    assert deaths > 200


def open_or_make(store: MortalStore, fsync: Fsync, ledger: Ledger) -> Log:
    try:
        return Log.open(store, options=options(fsync, keep=8000))
    except NotFound:
        assert not ledger.acknowledged
        return Log.create(store, options(fsync, keep=8000))


def write_on(store: MortalStore, fsync: Fsync, ledger: Ledger) -> None:
    """Write the deeds, whatever fails: call again what did not happen, open again where nobody knows."""
    log: Log | None = None
    while len(ledger.acknowledged) < DEEDS:
        try:
            if log is None:
                log = open_or_make(store, fsync, ledger)
                ledger.check(log)
                continue  # it may hold the last one already
            add_collections(log)
            ledger.perform(log, Deed(0, len(ledger.acknowledged) + 1))
        except (Closed, OutcomeUnknown):
            if log is not None:
                with suppress(PenstockError):
                    log.close()
            log = None
        except DidNotHappen:
            ledger.asked.clear()
    assert log is not None
    with suppress(OutcomeUnknown):
        log.close()


@pytest.mark.parametrize("fsync", ["always", "never"])
@pytest.mark.parametrize("full", [False, True], ids=["failing", "full"])
def test_failing_at_any_operation_is_told_and_the_log_goes_on(
    fsync: Fsync, full: bool, new_folder: Callable[[], Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # what could not be done at once is logged
    calm = MortalStore(new_folder())
    write_on(calm, fsync, Ledger())
    calm.bury()
    for fault in faults(calm.operations, full):
        folder = new_folder()
        store = MortalStore(folder, [fault])
        ledger = Ledger()
        write_on(store, fsync, ledger)
        store.bury()
        with Log.open(LocalStore(folder, fsync=False), "read") as log:
            ledger.check(log)
        assert sorted(it.number for it in ledger.acknowledged) == list(range(1, DEEDS + 1)), fault


def faults(operations: tuple[Operation, ...], full: bool) -> list[Fault]:
    if not full:
        return every_fault(operations, "fail")
    error = NoSpace("there is no room", subject="the disk", hint="Make room.")
    growing = ("put", "create", "append")
    return [Fault(it.number, "fail", error=error) for it in operations if it.verb in growing]
