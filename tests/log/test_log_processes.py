"""One process writes, others read the same sequence, and nobody else writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.errors import Closed, InUse
from penstock.log import Log
from tests.log.deeds import Deed, add_collections, perform
from tests.log.logs import open_log

ROOT = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a role of `tests.log.processes`; what still runs at the end is killed."""
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def begin(*words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.log.processes", *map(str, words)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        patience = threading.Timer(120, process.kill)  # so that no test waits for it for ever
        started.append((process, patience))
        patience.start()
        return process

    yield begin
    for process, patience in started:
        patience.cancel()
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    said = process.stdout.readline().split()
    if not said:
        raise AssertionError(process.communicate()[1])
    return said


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_writer_process_and_four_reader_processes_see_the_same_sequence(
    start: Start, tmp_path: Path
) -> None:
    deeds = 250
    writer = start("write", tmp_path, deeds)
    assert line(writer) == ["made"]
    readers = [start("read", tmp_path, deeds, most) for most in (1, 7, 100, 10_000)]
    assert [line(it) for it in readers] == [["open"]] * 4
    go_on(writer)
    _, end = line(writer)
    with pytest.raises(InUse, match=f"process {writer.pid} on ") as refused:
        Log.open(tmp_path)
    assert "open for reading" in refused.value.hint
    told = [line(it) for it in readers]
    assert {(verb, lsn) for verb, lsn, _, _ in told} == {("read", end)}
    assert len({digest for _, _, digest, _ in told}) == 1
    assert int(told[0][3]) > int(told[2][3]), "they polled in different steps"
    late = start("read", tmp_path, deeds, 333)
    assert line(late) == ["open"]
    assert line(late)[:3] == told[0][:3], "and who comes late reads the same"
    go_on(writer)
    assert writer.wait(60) == 0


def test_a_second_writer_is_refused_wherever_it_is_and_harms_nothing(start: Start, tmp_path: Path) -> None:
    with Log.create(tmp_path) as log:
        add_collections(log)
        perform(log, Deed(1, 1))
        with pytest.raises(InUse, match=f"held by process {os.getpid()} on "):
            Log.open(tmp_path)
        with pytest.raises(InUse):
            Log.create(tmp_path)
        other = start("hold", tmp_path)
        assert other.wait(60) != 0
        assert "InUse" in other.communicate()[1]
        perform(log, Deed(1, 2))
        assert line(start("count", tmp_path)) == ["2"]
    held = start("hold", tmp_path)
    assert line(held) == ["open"]
    with pytest.raises(InUse, match=f"held by process {held.pid} on "):
        Log.open(tmp_path)
    held.kill()
    held.communicate()
    with open_log(tmp_path) as log:  # the lock went with the process
        perform(log, Deed(1, 3))


def test_the_forked_child_of_a_writer_can_neither_write_nor_keep_others_out(
    start: Start, tmp_path: Path
) -> None:
    with Log.create(tmp_path) as log:
        add_collections(log)
    parent = start("fork_and_hold", tmp_path)
    _, child, code = line(parent)
    assert code == Closed.code
    with pytest.raises(InUse):
        Log.open(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    try:
        with open_log(tmp_path) as log:
            perform(log, Deed(1, 1))
    finally:
        os.kill(int(child), signal.SIGKILL)
