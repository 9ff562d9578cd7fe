"""Processes that write one log after another and are killed at any moment: run by the tests as a program.

The process that forks does nothing else, so it has no threads. Each *life* of a log is a child that opens it
(or makes it), appends, and is killed by SIGKILL; then another child opens what is left, to read and to write,
and compares it with what the dead one had been told. Prints how many lives it took.
"""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from penstock.errors import NotFound
from penstock.log.log import Log
from penstock.log.options import Fsync, LogOptions
from penstock.lsn import LsnRange
from tests.log.deeds import Deed, Ledger, add_collections, perform

LIVES = 15  # of one log, until another is begun
LONGEST = 0.03  # seconds from the first word of a child to its end
Tell = Callable[..., None]


def fork(child: Callable[[Tell], None]) -> tuple[int, int]:
    """Start a child that is given a function to tell words with; its id, and where they come out."""
    out, into = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(out)
        status = 1
        try:
            child(lambda *words: os.write(into, " ".join(map(str, words)).encode() + b"\n"))
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(into)
    return process, out


def read_until(out: int, deadline: float | None = None) -> bytes:
    """What comes out until the time is over, or until the other end is closed."""
    told = b""
    while deadline is None or (left := deadline - time.monotonic()) > 0:
        if deadline is not None and not select.select([out], [], [], left)[0]:
            break
        piece = os.read(out, 1 << 16)
        if not piece:
            break
        told += piece
    return told


def end_of(process: int, out: int) -> tuple[int, bytes]:
    told = read_until(out)
    os.close(out)
    return os.waitpid(process, 0)[1], told


def live(folder: Path, options: LogOptions, first_numbers: list[int], tell: Tell) -> None:
    """Append until the end comes: one thread for each number to begin with."""
    try:
        log = Log.open(folder, options=options)
    except NotFound:
        log = Log.create(folder, options)
    add_collections(log)
    tell("open")

    def write(writer: int) -> None:
        number = first_numbers[writer]
        while True:
            tell("ask", writer, number)
            lsns = perform(log, Deed(writer, number))
            tell("told", writer, number, lsns.first, lsns.last)
            number += 1

    threads = [threading.Thread(target=write, args=[i]) for i in range(len(first_numbers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def take_down(ledger: Ledger, told: bytes) -> bool:
    """Enter into the ledger what a child told; whether it came to write."""
    words = [line.split() for line in told.decode().splitlines()]
    for it in words:
        if it[0] == "ask":
            ledger.asked.add(Deed(int(it[1]), int(it[2])))
        elif it[0] == "told":
            deed = Deed(int(it[1]), int(it[2]))
            ledger.acknowledged[deed] = LsnRange(int(it[3]), int(it[4]))
            ledger.asked.discard(deed)
    return len(words) > 1


def look(folder: Path, ledger: Ledger, tell: Tell) -> None:
    """Check the log as a reader beside the dead writer sees it, and as the next writer does."""
    before = dict(ledger.acknowledged)
    for opened in ("read", "write"):
        try:
            log = Log.open(folder, opened)
        except NotFound:
            assert not ledger.acknowledged, "the whole log is gone"
            return
        with log:
            ledger.check(log)
    for deed in ledger.acknowledged.keys() - before.keys():
        lsns = ledger.acknowledged[deed]
        tell("told", *deed, lsns.first, lsns.last)


def lives(root: Path, fsync: Fsync, wanted: int) -> int:
    """Go on until so many were killed while they wrote: on a busy machine some die before they come to it."""
    chance = random.Random(f"{fsync}")
    killed = 0
    folder, ledger, threads, options = root, Ledger(), 1, LogOptions()
    for number in itertools.count():
        if killed == wanted:
            break
        if number % LIVES == 0:
            folder, ledger = root / str(number), Ledger()
            threads = chance.choice([1, 3])
            options = LogOptions(
                fsync=fsync,
                interval=timedelta(milliseconds=chance.choice([1, 20])),
                segment_bytes=chance.choice([4096, 50_000, 1 << 20]),
                retain_bytes=chance.choice([None, 20_000]),
            )
        numbers = [ledger.next_number(writer) for writer in range(threads)]
        process, out = fork(lambda tell: live(folder, options, numbers, tell))  # noqa: B023 - it is run at once
        told = b""
        if chance.random() < 0.8:
            told = os.read(out, 1 << 16)  # it is open now
        told += read_until(out, time.monotonic() + chance.random() * LONGEST)
        os.kill(process, signal.SIGKILL)
        status, rest = end_of(process, out)
        assert os.WIFSIGNALED(status), "the writer failed by itself"
        killed += take_down(ledger, told + rest)
        status, told = end_of(*fork(lambda tell: look(folder, ledger, tell)))  # noqa: B023
        assert status == 0, f"life {number}: what the dead writer left is not as it should be"
        take_down(ledger, told)
        ledger.asked.clear()
    return number


def main(folder: str, fsync: Any, wanted: str) -> None:
    assert fsync in get_args(Fsync)
    print(lives(Path(folder), fsync, int(wanted)))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(*sys.argv[1:])
