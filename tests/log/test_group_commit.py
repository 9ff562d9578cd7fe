"""With ``fsync="always"`` who commits while a sync runs shares the next one, but not another's failure."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import DidNotHappen, MayHaveHappened, NoSpace, OutcomeUnknown
from penstock.log import Log, LogOptions
from penstock.log.group_commit import Wanted
from penstock.log.transaction import parts_of_batch
from penstock.lsn import LsnRange
from penstock.store.faulty import Fault
from tests.log.mortal_store import MortalStore

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
COMPANIONS = 5


def row(id_: int, text: str = "") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": id_, "text": text}], schema=SCHEMA)


class Scene:
    """One thread's first commit is held in its sync until all its companions wait for theirs."""

    def __init__(self, folder: Path, faults: Sequence[Fault] = ()) -> None:
        held = Fault(2, "delay", verb="sync", wait=self.until_all_wait)  # the first sync is the opening's
        self.store = MortalStore(folder, [held, *faults])
        self.log = Log.create(self.store, LogOptions(fsync="always"))
        self.log.add_collection("rows", SCHEMA, ["id"])
        self.first_led = threading.Event()

    def until_all_wait(self) -> None:
        self.first_led.set()
        waiting = self.log._appending._group_commit._waiting
        pause = threading.Event()
        while len(waiting) < COMPANIONS:  # nobody is told when a thread begins to wait
            pause.wait(0.001)

    def play(self, batch_of: Callable[[int], pa.RecordBatch] = row) -> list[Future[LsnRange]]:
        """The companions' commits, numbered from 1, when all are over; 0 is the first thread's."""
        with ThreadPoolExecutor(COMPANIONS + 1) as threads:
            told = [threads.submit(self.log.append, "rows", batch_of(0))]
            assert self.first_led.wait(60)
            told += [threads.submit(self.log.append, "rows", batch_of(i + 1)) for i in range(COMPANIONS)]
        return told

    def done(self, verb: str) -> int:
        return sum(it.verb == verb for it in self.store.operations)

    def kept(self, folder: Path) -> list[int]:
        """What is there when the log is opened again."""
        self.store.bury()
        with Log.open(folder) as again:
            return [id_ for changes in again.read("rows") for id_ in changes.data["id"].to_pylist()]


def test_who_commits_while_a_sync_runs_shares_the_next_one(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    lsns = sorted(it.result().last for it in scene.play())
    assert lsns == list(range(1, COMPANIONS + 2))
    assert scene.log.current_lsn == COMPANIONS + 1
    assert (scene.done("append"), scene.done("sync")) == (COMPANIONS + 1, 3)
    scene.log.close()


def test_what_is_large_does_not_wait_for_what_is_large_of_others(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for it in scene.play(lambda i: row(i, "x" * (1 << 20) if i else "")):
        it.result()
    assert scene.done("append") == COMPANIONS + 1
    assert scene.done("sync") == 2 + COMPANIONS
    scene.log.close()


@pytest.mark.parametrize("at", [2, 3, COMPANIONS + 1])
def test_a_write_that_is_refused_is_told_to_whom_it_concerns_and_to_nobody_else(
    tmp_path: Path, at: int
) -> None:
    refused = NoSpace("the disk is full", subject="rows", hint="Make room.")
    scene = Scene(tmp_path, [Fault(it, verb="append", error=refused) for it in (at, at + 1)])
    told = scene.play()
    failed = [i for i, it in enumerate(told) if it.exception() is not None]
    # Who was refused amid a group tries again alone, and for that one it was the second refusal.
    assert len(failed) == (2 if at == 2 else 1)
    assert all(isinstance(told[i].exception(), NoSpace) for i in failed)
    kept = [it.result().last for i, it in enumerate(told) if i not in failed]
    assert sorted(kept) == list(range(1, len(kept) + 1))
    scene.log.close()
    assert sorted(scene.kept(tmp_path)) == [i for i in range(COMPANIONS + 1) if i not in failed]


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_is_told_that_it_did_not_happen_is_not_there_and_who_cannot_know_is_told_so(
    tmp_path: Path, when: str
) -> None:
    lost = OutcomeUnknown("the answer was lost", subject="rows", hint="Look.")
    scene = Scene(tmp_path, [Fault(2, "fail", when, verb="append", error=lost)])  # type: ignore[arg-type]
    told = scene.play()
    assert told[0].exception() is None
    unsure = [i for i, it in enumerate(told) if isinstance(it.exception(), MayHaveHappened)]
    assert len(unsure) == 1
    others = [it.exception() for i, it in enumerate(told) if i not in (0, *unsure)]
    assert all(isinstance(it, DidNotHappen) for it in others)
    assert scene.kept(tmp_path) == [0, *(unsure if when == "after" else [])]


def test_no_reader_beside_sees_what_found_no_room_not_even_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system takes what fits of a write and refuses the rest; then what it took is cut off again."""
    seen: list[int] = []
    with Log.create(tmp_path, LogOptions(fsync="always")) as log, Log.open(tmp_path, "read") as beside:
        found = log.add_collection("rows", SCHEMA)
        log.append("rows", row(1))
        some = [Wanted(parts_of_batch(found, row(i, "x" * 2000))) for i in range(5)]
        size = (tmp_path / "segments" / f"{1:020d}.segment").stat().st_size
        cut = os.ftruncate

        def look_and_cut(descriptor: int, to: int) -> None:
            seen.append(beside.current_lsn)
            cut(descriptor, to)

        monkeypatch.setattr(os, "ftruncate", look_and_cut)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3 * 2500, before[1]))
        try:
            with pytest.raises(NoSpace):
                log._appending._append_all(some)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        there = [it.lsns.last for it in some if it.lsns is not None]
        assert there == [2, 3, 4]
        assert seen == [4]
        log.sync()
        assert log.current_lsn == beside.current_lsn == 4
        assert log.append("rows", row(9)).first == 5


def test_nobody_of_a_group_whose_sync_failed_is_told_that_it_did_not_happen(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [Fault(3, "fail", verb="sync")])
    told = scene.play()
    assert told[0].exception() is None
    assert all(isinstance(it.exception(), MayHaveHappened) for it in told[1:])
    assert scene.log.current_lsn == 1
    assert sorted(scene.kept(tmp_path)) == list(range(COMPANIONS + 1))


class Interrupted(BaseException):
    pass


def test_an_interrupted_wait_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """As Ctrl-C interrupts the main thread while it waits for the sync that another one leads."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    go_on = threading.Event()
    led = threading.Event()

    def hold() -> None:
        led.set()
        assert go_on.wait(60)

    store = MortalStore(tmp_path, [Fault(2, "delay", verb="sync", wait=hold)])
    log = Log.create(store, LogOptions(fsync="always"))
    log.add_collection("rows", SCHEMA, ["id"])
    main = threading.main_thread().ident
    assert main is not None

    def strike() -> None:
        pause = threading.Event()
        while not log._appending._group_commit._waiting:
            pause.wait(0.001)
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(3) as threads:
            first = threads.submit(log.append, "rows", row(1))
            assert led.wait(60)
            threads.submit(strike)
            with pytest.raises(Interrupted):
                log.append("rows", row(2))
            other = threads.submit(log.append, "rows", row(3))
            go_on.set()
            assert first.result(60).last == 1
            assert other.result(60).last == 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not log._appending._group_commit._waiting
    assert log.append("rows", row(4)).last == 3
    log.close()
    store.bury()
    with Log.open(tmp_path) as again:
        assert [id_ for changes in again.read() for id_ in changes.data["id"].to_pylist()] == [1, 3, 4]
