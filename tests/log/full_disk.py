"""A log on a disk that is really full: run by the tests as a program, in a small file system of its own."""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path

import pyarrow as pa

from penstock.errors import NoSpace, PenstockError, StoreUnavailable
from penstock.log import Log, LogOptions
from penstock.log.options import Fsync

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
chance = random.Random(7)


def rows(first: int, count: int) -> pa.RecordBatch:
    """Text of every length, so that the disk is full at any byte of a frame."""
    texts = ["x" * chance.randrange(2000) for _ in range(count)]
    return pa.RecordBatch.from_arrays([pa.array(range(first, first + count)), pa.array(texts)], schema=SCHEMA)


def check(log: Log, written: int) -> None:
    assert log.current_lsn == written
    ids = [it for changes in log.read("t") for it in changes.data.column("id").to_pylist()]
    assert ids == list(range(written)), (len(ids), written)


def fill(log: Log, written: int) -> tuple[int, PenstockError]:
    """Append until there is no room, then in ever smaller pieces."""
    error: PenstockError | None = None
    for count in (50, 10, 3, 1):
        try:
            while True:
                log.append("t", rows(written, count))
                written += count
        except (NoSpace, StoreUnavailable) as found:  # the latter where a new segment cannot be begun
            error = found
            check(log, written)
    assert error is not None
    return written, error


def main(folder: Path, fsync: Fsync) -> None:
    logging.getLogger("penstock").setLevel(logging.CRITICAL)  # what cannot be done for want of room is logged
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(100_000))
    options = LogOptions(fsync=fsync, segment_bytes=100_000)
    log = Log.create(folder / "log", options)
    log.add_collection("t", SCHEMA, ["id"])
    beside = Log.open(folder / "log", "read")
    written, error = fill(log, 0)
    print("told:", error)
    assert isinstance(error, NoSpace), error
    assert "ENOSPC" in str(error)
    assert "room" in error.hint
    check(beside, written)
    try:
        log.add_collection("more", SCHEMA)
    except NoSpace:
        assert [it.name for it in log.collections] == ["t"]

    # Reading, opening anew, and closing need no room.
    with Log.open(folder / "log", "read") as again:
        check(again, written)
    log.close()
    log = Log.open(folder / "log", options=options)
    check(log, written)
    written, _ = fill(log, written)

    # And with room the same log goes on, as if nothing had been.
    ballast.unlink()
    lsns = log.append("t", rows(written, 3))
    assert lsns.first == written + 1
    written += 3
    check(log, written)
    written, error = fill(log, written)
    assert log.trim(written // 2) > 1  # dropping what is old makes room, too, at the cost of a small file
    start = log.oldest_lsn - 1
    log.append("t", rows(written, 3))
    written += 3
    ids = [it for changes in beside.read("t", start) for it in changes.data.column("id").to_pylist()]
    assert ids == list(range(start, written))
    log.close()
    beside.close()
    print("passed", written)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])  # type: ignore[arg-type]
