"""What a log's processes do, run by the tests as programs: ``python -m tests.log.processes ⟨role⟩ ⟨folder⟩``.

Each tells what it has seen or done on its standard output, a line at a time.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from pathlib import Path

from penstock.errors import PenstockError
from penstock.log import Log, LogOptions
from tests.log.deeds import Deed, add_collections, found_in, perform

OPTIONS = LogOptions(fsync="never", segment_bytes=32 << 10)
THREADS = 3


def say(*words: object) -> None:
    print(*words, flush=True)


def write(folder: Path, deeds: str) -> None:
    """Make a log, and when told to go on write the deeds of some threads into it."""
    with Log.create(folder, OPTIONS) as log:
        add_collections(log)
        say("made")
        sys.stdin.readline()

        def act(writer: int) -> None:
            for number in range(1, int(deeds) + 1):
                perform(log, Deed(writer, number))

        threads = [threading.Thread(target=act, args=[i]) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say("wrote", log.current_lsn)
        sys.stdin.readline()


def read(folder: Path, deeds: str, most: str) -> None:
    """Follow the log from its beginning until all deeds are there; tell a digest of what came, and how."""
    said = hashlib.sha256()
    found = cursor = polls = 0
    with Log.open(folder, "read") as log:
        say("open")
        while found < THREADS * int(deeds):
            log.wait(cursor)
            polled = log.poll(cursor, int(most))
            upto = log.boundary(polled.cursor)
            for changes in log.read(since=cursor, upto=upto):
                assert changes.first_lsn == cursor + 1, f"LSN {cursor + 1} was skipped"
                cursor = changes.last_lsn
                rows = (changes.collection.name, changes.is_refresh, changes.rows.to_pylist())
                said.update(repr(rows).encode())
                found += changes.ends_transaction
            assert cursor == upto
            polls += 1
        say("read", cursor, said.hexdigest(), polls)


def hold(folder: Path) -> None:
    """Open the log to write, and stay."""
    with Log.open(folder):
        say("open")
        sys.stdin.readline()


def fork_and_hold(folder: Path) -> None:
    """Open the log to write, and fork a child that outlives the parent; tell the child's number."""
    log = Log.open(folder)
    child = os.fork()
    if child == 0:
        try:
            perform(log, Deed(1, 1))
        except PenstockError as error:
            say("child", os.getpid(), error.code)
            threading.Event().wait()
        finally:
            os._exit(1)
    sys.stdin.readline()


def count(folder: Path) -> None:
    """How many whole transactions there are."""
    with Log.open(folder, "read") as log:
        say(len(found_in(log)))


if __name__ == "__main__":
    role, place, *rest = sys.argv[1:]
    {"write": write, "read": read, "hold": hold, "fork_and_hold": fork_and_hold, "count": count}[role](
        Path(place), *rest
    )
