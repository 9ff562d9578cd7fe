"""Eight writers and eight readers of one log at once: every cursor sees the one sequence, without a gap."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CursorExpired
from penstock.log import Log, LogOptions
from penstock.log.options import Fsync
from penstock.lsn import LsnRange
from penstock.store.local import LocalStore

WRITERS, POLLERS, DEEDS = 8, 8, 60
SCHEMA = pa.schema([("writer", pa.int32()), ("deed", pa.int32()), ("item", pa.int32())])
NAMES = ("left", "right")
Row = tuple[int, str, int, int, int]  # LSN, collection, writer, deed, item


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns every few microseconds, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_all(*work: Callable[[], None]) -> None:
    """All at once, each in a thread; the first error is the test's."""
    errors: list[BaseException] = []

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(act,), daemon=True) for act in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


def rows(writer: int, deed: int, items: range) -> pa.RecordBatch:
    columns = [[writer] * len(items), [deed] * len(items), list(items)]
    return pa.RecordBatch.from_arrays([pa.array(it, pa.int32()) for it in columns], schema=SCHEMA)


def write(log: Log, writer: int, given: list[LsnRange]) -> None:
    """Batches, single events, and transactions over two collections, each of three events."""
    for deed in range(DEEDS):
        if deed % 3 == 0:
            given.append(log.append(NAMES[writer % 2], rows(writer, deed, range(3))))
        elif deed % 3 == 1:
            with log.transaction() as transaction:
                transaction.append("left", rows(writer, deed, range(1)))
                transaction.append("right", rows(writer, deed, range(1, 3)))
            assert transaction.lsns is not None
            given.append(transaction.lsns)
        else:
            one = [log.emit("insert", "left", after=dict(zip(SCHEMA.names, (writer, deed, i), strict=True)))
                   for i in range(3)]  # fmt: skip
            given.extend(LsnRange(lsn, lsn) for lsn in one)


def follow(log: Log, total: int, most: int, seen: list[Row], whole: bool) -> None:
    """Poll until all is there; ``whole`` reads up to the end of the transaction each time."""
    cursor = 0
    while cursor < total:
        log.wait(cursor)
        polled = log.poll(cursor, most)
        upto = log.boundary(polled.cursor) if whole else polled.cursor
        for changes in log.read(since=cursor, upto=upto):
            lsns = changes.rows.column("_lsn").to_pylist()
            columns = [column.to_pylist() for column in changes.data.columns]
            seen += zip(lsns, [changes.collection.name] * len(lsns), *columns, strict=True)
        assert polled.cursor == polled.changes[-1].last_lsn
        cursor = upto


def check(seen: list[list[Row]], given: list[list[LsnRange]], total: int) -> None:
    for it in seen:
        assert [lsn for lsn, *_ in it] == list(range(1, total + 1))
        assert it == seen[0]
    by_lsn = {lsn: row for lsn, *row in seen[0]}
    for writer, mine in enumerate(given):
        assert [(it.first, it.last) for it in mine] == sorted((it.first, it.last) for it in mine)
        found = [tuple(by_lsn[lsn][1:]) for lsns in mine for lsn in lsns]
        assert found == [(writer, deed, item) for deed in range(DEEDS) for item in range(3)]
    assert sorted(lsn for mine in given for lsns in mine for lsn in lsns) == list(range(1, total + 1))


@pytest.mark.usefixtures("switching_often")
@pytest.mark.parametrize("ring", [0, 1 << 20], ids=["from files", "from the ring"])
@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_eight_writers_and_eight_pollers_agree_on_one_sequence_without_a_gap(
    fsync: Fsync, ring: int, tmp_path: Path
) -> None:
    options = LogOptions(fsync=fsync, segment_bytes=64 << 10, ring_bytes=ring)
    store = LocalStore(tmp_path)
    total = WRITERS * DEEDS * 3
    given: list[list[LsnRange]] = [[] for _ in range(WRITERS)]
    seen: list[list[Row]] = [[] for _ in range(POLLERS)]
    with Log.create(store, options) as log, Log.open(store, "read") as beside:
        for name in NAMES:
            log.add_collection(name, SCHEMA)
        pollers = [
            lambda me=me: follow([log, beside][me % 2], total, 7 + 13 * me, seen[me], whole=me >= 4)
            for me in range(POLLERS)
        ]
        run_all(*pollers, *(lambda me=me: write(log, me, given[me]) for me in range(WRITERS)))
        assert log.current_lsn == beside.current_lsn == total
    check(seen, given, total)
    with Log.open(store, "read") as again:
        late: list[Row] = []
        follow(again, total, 1000, late, whole=False)
    assert late == seen[0]


@pytest.mark.usefixtures("switching_often")
def test_no_reader_sees_a_part_of_a_transaction(tmp_path: Path) -> None:
    """`current_lsn` is the end of a transaction at every moment, in the writing process and beside it."""
    store = LocalStore(tmp_path, fsync=False)
    done = threading.Event()
    with Log.create(store, LogOptions(fsync="never", segment_bytes=64 << 10)) as log:
        for name in NAMES:
            log.add_collection(name, SCHEMA)
        with Log.open(store, "read") as beside:

            def transact() -> None:
                for deed in range(150):
                    with log.transaction() as transaction:
                        transaction.append("left", rows(0, deed, range(4)))
                        transaction.append("right", rows(0, deed, range(4, 10)))
                done.set()

            def look(it: Log) -> None:
                last = 0
                while not done.is_set():
                    end = it.current_lsn
                    assert end % 10 == 0
                    assert end >= last
                    last = end

            run_all(transact, *(lambda it=it: look(it) for it in (log, log, beside, beside)))


@pytest.mark.usefixtures("switching_often")
def test_readers_go_on_while_old_segments_are_dropped_under_them(tmp_path: Path) -> None:
    """Each is either served from its cursor on, without a gap, or told the earliest that is left."""
    store = LocalStore(tmp_path, fsync=False)
    total = 1500
    skips: list[int] = []
    with Log.create(
        store, LogOptions(fsync="never", segment_bytes=4096, retain_bytes=20_000, ring_bytes=0)
    ) as log:
        log.add_collection("left", SCHEMA)

        def append() -> None:
            for deed in range(total // 3):
                log.append("left", rows(0, deed, range(3)))

        def read(it: Log) -> None:
            cursor = 0
            while cursor < total:
                it.wait(cursor)
                try:
                    for changes in it.poll(cursor, 5):
                        assert changes.first_lsn == cursor + 1
                        assert changes.data.column("deed").to_pylist() == [
                            (lsn - 1) // 3 for lsn in changes.lsns
                        ]
                        cursor = changes.last_lsn
                except CursorExpired as expired:
                    skips.append((expired.earliest or 0) - 1 - cursor)
                    cursor += skips[-1]

        with Log.open(store, "read") as beside:
            run_all(append, *(lambda it=it: read(it) for it in (log, log, beside, beside)))
        assert log.oldest_lsn > 1
    assert all(it > 0 for it in skips)
