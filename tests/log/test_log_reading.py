"""Cursors, waiting, tailing, looking for a time, and what retention leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import Closed, CursorAhead, CursorExpired, InvalidArgument, OutcomeUnknown
from penstock.log import Log, LogOptions, Polled
from penstock.log.format import Kind
from penstock.store.faulty import Fault
from penstock.store.local import LocalStore
from tests.log.growing_memory import GrowingMemory
from tests.log.log_model import ManualClock, moment
from tests.log.logs import FAST, make_log, open_log
from tests.log.mortal_store import MortalStore

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
TINY = LogOptions(fsync="never", segment_bytes=4096)


def rows(*numbers: int, width: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n, "text": "x" * width} for n in numbers], schema=SCHEMA)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with make_log(tmp_path) as made:
        made.add_collection("a", SCHEMA)
        made.add_collection("b", SCHEMA)
        yield made


@pytest.fixture(params=["in the writing process", "beside it"])
def both(request: pytest.FixtureRequest, log: Log, tmp_path: Path) -> Iterator[tuple[Log, Log]]:
    """The log to write, and the one that reads it: itself, or another."""
    if request.param == "beside it":
        with Log.open(LocalStore(tmp_path, fsync=False), "read") as reader:
            yield log, reader
    else:
        yield log, log


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start it; calling what this returns waits for it, and gives its result or its error."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(60)
        assert found, "it still waits"
        value, error = found[0]
        if error is not None:
            raise error
        return value

    return result


def test_a_poll_is_exclusive_of_its_cursor_and_gives_the_next_one(both: tuple[Log, Log]) -> None:
    log, reader = both
    log.append("a", rows(1, 2, 3))
    log.append("b", rows(4))
    polled = reader.poll(1, 2)
    assert [it.data.column("n").to_pylist() for it in polled] == [[2, 3]]
    assert (polled.cursor, polled.current_lsn, polled.caught_up, len(polled)) == (3, 4, False, 2)
    polled = reader.poll(3)
    assert (polled.cursor, polled.caught_up, len(polled)) == (4, True, 1)
    assert reader.poll(4) == Polled([], 4, 4)


def test_a_cursor_passes_collections_that_were_not_asked_for(both: tuple[Log, Log]) -> None:
    log, reader = both
    for i in range(5):
        log.append("a", rows(i))
        log.append("b", rows(10 + i, 20 + i))
    polled = reader.poll(0, 3, ["b"])
    assert [it.lsns.first for it in polled] == [2, 5]
    assert (polled.cursor, len(polled)) == (5, 3), "the fourth event of b is still to come"
    polled = reader.poll(polled.cursor, 100, ["b"])
    assert (polled.cursor, len(polled)) == (15, 7)
    log.append("a", rows(9))
    assert reader.poll(15, 100, ["b"]).cursor == 16
    assert len(reader.poll(0, 100, [])) == 0
    with pytest.raises(InvalidArgument, match="there is no collection 'c'"):
        reader.poll(0, 1, ["c"])


def test_cursors_that_cannot_be_are_refused(both: tuple[Log, Log]) -> None:
    log, reader = both
    log.append("a", rows(1, 2))
    for cursor in (-1, True, 1.0, 2**63):
        with pytest.raises(InvalidArgument, match="is not a cursor"):
            reader.poll(cursor)  # type: ignore[arg-type]
    for act in (reader.poll, lambda it: list(reader.read(since=it)), reader.boundary, reader.fingerprint):
        with pytest.raises(CursorAhead, match="the cursor is 3 and the log ends at LSN 2"):
            act(3)
    with pytest.raises(InvalidArgument, match="max_events is 0"):
        reader.poll(0, 0)
    assert list(reader.read(since=1, upto=0)) == []
    assert [it.lsns.last for it in reader.read(upto=99)] == [2]


def test_an_expired_cursor_says_from_where_it_can_go_on(tmp_path: Path) -> None:
    with make_log(tmp_path, TINY) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("a", SCHEMA)
        for i in range(40):
            log.append("a", rows(i, width=300))
        kept = list(reader.read(since=0, upto=1))
        assert log.trim(20) == log.oldest_lsn == reader.oldest_lsn > 1
        for it in (log, reader):
            for since in (0, log.oldest_lsn - 2):
                with pytest.raises(CursorExpired) as expired:
                    it.poll(since)
                assert expired.value.earliest == log.oldest_lsn
                assert f"go on from {log.oldest_lsn - 1}" in expired.value.hint
            assert it.poll(log.oldest_lsn - 1, 1).changes[0].first_lsn == log.oldest_lsn
            assert it.fingerprint(3) is None if it.oldest_lsn <= 4 else True
        assert kept[0].data.column("n").to_pylist() == [0], "what was read before is good for ever"


def test_a_reader_that_lags_behind_retention_is_told_also_amid_reading(tmp_path: Path) -> None:
    with make_log(tmp_path, TINY) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("a", SCHEMA)
        for i in range(60):
            log.append("a", rows(i, width=300))
        reading = reader.read()
        assert next(reading).first_lsn == 1
        log.trim(50)
        with pytest.raises(CursorExpired) as expired:
            list(reading)
        assert expired.value.earliest == log.oldest_lsn


def test_a_batch_that_was_located_but_not_yet_mapped_when_it_was_dropped_is_expired(tmp_path: Path) -> None:
    with make_log(tmp_path, TINY) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("a", SCHEMA)
        for i in range(60):
            log.append("a", rows(i, width=300))
        located = next(reader.frames(0, 60))
        log.trim(50)
        with pytest.raises(CursorExpired):
            _ = located.body


def test_the_first_event_at_or_after_a_time(tmp_path: Path) -> None:
    clock = ManualClock(100)
    with Log.create(tmp_path, TINY, clock=clock) as log, Log.open(tmp_path, "read") as reader:
        assert log.lsn_at(moment(0)) is None
        log.add_collection("a", SCHEMA)
        for time in (100, 200, 200, 150, 300):  # the fourth was committed at 200, as times never go back
            clock.time = time
            log.append("a", rows(1, 2, width=600))
        for it in (log, reader):
            assert [it.lsn_at(moment(time)) for time in (0, 100, 101, 200, 201, 300, 301)] == [
                1, 1, 3, 3, 9, 9, None
            ]  # fmt: skip
            with pytest.raises(InvalidArgument, match="has no time zone"):
                it.lsn_at(datetime(2024, 1, 1))  # noqa: DTZ001
            east = moment(200).astimezone(UTC) + timedelta(0)
            assert it.lsn_at(east) == 3
        log.trim(4)
        assert {it.lsn_at(moment(0)) for it in (log, reader)} == {log.oldest_lsn}


def test_a_wait_ends_with_the_next_event(both: tuple[Log, Log]) -> None:
    log, reader = both
    assert reader.wait(0, 0) == 0
    assert reader.wait(0, 0.001) == 0
    waiting = [in_thread(lambda: reader.wait(0)) for _ in range(3)]
    late = in_thread(lambda: reader.wait(2))
    log.append("a", rows(1, 2))
    assert [it() for it in waiting] == [2, 2, 2]
    assert reader.wait(1) == 2, "there is something already"
    log.append("b", rows(3))
    assert late() == 3


def test_a_wait_ends_when_it_is_told_to(both: tuple[Log, Log]) -> None:
    _, reader = both
    enough = threading.Event()
    waiting = [in_thread(lambda: reader.wait(0, None, enough.is_set)) for _ in range(3)]
    reader.wake()
    enough.set()
    reader.wake()
    assert [it() for it in waiting] == [0, 0, 0]


def test_a_wait_ends_when_the_log_is_closed(both: tuple[Log, Log]) -> None:
    log, reader = both
    log.append("a", rows(1))
    waiting = [in_thread(lambda: reader.wait(1)) for _ in range(3)]
    reader.close()
    for it in waiting:
        with pytest.raises(Closed):
            it()
    with pytest.raises(Closed):
        reader.wait(1)
    assert reader.wait(0) == 1, "what had come before is still told"


def test_a_reader_of_a_store_that_tells_of_no_growth_looks_ever_again() -> None:
    store = GrowingMemory()
    with Log.create(store, FAST) as log, Log.open(store, "read") as reader:
        log.add_collection("a", SCHEMA)
        waiting = [in_thread(lambda: reader.wait(0)) for _ in range(2)]
        log.append("a", rows(1))
        assert [it() for it in waiting] == [1, 1]
        assert reader.wait(1, 0.05) == 1


def test_a_reader_waits_across_segments_that_come_and_go(tmp_path: Path) -> None:
    """The newest segment that it knows is sealed, others follow, and the old ones are dropped."""
    with make_log(tmp_path, TINY) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("a", SCHEMA)
        log.append("a", rows(0))
        assert reader.current_lsn == 1
        for i in range(1, 60):
            log.append("a", rows(i, width=300))
        log.trim(59)
        assert reader.wait(1) == 60
        assert reader.oldest_lsn == log.oldest_lsn
        assert next(reader.read(since=log.oldest_lsn - 1)).first_lsn == log.oldest_lsn


def test_a_tail_gives_everything_once_and_ends_when_told(both: tuple[Log, Log]) -> None:
    log, reader = both
    log.append("a", rows(1, 2, 3))
    found: list[int] = []

    def follow() -> None:
        for polled in reader.tail(0, ["a"], until=lambda: len(found) >= 8, max_events=2):
            found.extend(n for it in polled for n in it.data.column("n").to_pylist())

    following = in_thread(follow)
    log.append("b", rows(100))
    log.append("a", rows(4, 5))
    log.append("a", rows(6, 7, 8))
    following()
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_tail_of_a_closed_log_gives_what_can_be_read_and_then_an_error(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.add_collection("a", SCHEMA)
    log.append("a", rows(1))
    tail = log.tail(0)
    assert len(next(tail)) == 1
    log.close()
    with pytest.raises(Closed):
        next(tail)


def fill(log: Log, count: int, clock: ManualClock | None = None) -> list[int]:
    """So many events of about 500 bytes, a second apart; the first LSN of each segment."""
    log.add_collection("a", SCHEMA)
    for i in range(count):
        if clock is not None:
            clock.time += 1_000_000
        log.append("a", rows(i, width=250))
    return list(log._segments.firsts)


@pytest.mark.parametrize(
    ("keep", "most_events"),
    [
        ({"retain_events": 10}, 10 + 8),
        ({"retain_events": 0}, 8),
        ({"retain_age": timedelta(seconds=20)}, 20 + 8),
        ({"retain_bytes": 10_000}, 20),
        ({"retain_bytes": 0}, 8),
    ],
)
def test_whole_segments_go_once_all_of_them_is_beyond_a_limit(
    keep: dict[str, Any], most_events: int, tmp_path: Path
) -> None:
    clock = ManualClock()
    options = LogOptions(fsync="never", segment_bytes=4096, **keep)
    with Log.create(LocalStore(tmp_path, fsync=False), options, clock=clock) as log:
        fill(log, 200, clock)
        clock.time += 1
        oldest = log.retain()
        assert oldest == log.oldest_lsn
        kept = log.current_lsn - oldest + 1
        assert min(most_events - 8, 1) <= kept <= most_events
        if "retain_events" in keep:
            assert kept >= keep["retain_events"], "no event is dropped that is to be kept"
        if "retain_age" in keep:
            assert kept >= 20
        names = sorted(it.stem for it in (tmp_path / "segments").iterdir())
        assert int(names[0]) == oldest
        assert {it.stem for it in (tmp_path / "index").iterdir()} <= set(names)
        assert log.poll(oldest - 1).changes[0].first_lsn == oldest


def test_a_log_that_rests_lets_go_of_what_became_too_old_when_it_is_asked(tmp_path: Path) -> None:
    clock = ManualClock()
    options = LogOptions(fsync="never", segment_bytes=4096, retain_age=timedelta(minutes=5))
    store = LocalStore(tmp_path, fsync=False)
    with Log.create(store, options, clock=clock) as log:
        firsts = fill(log, 50, clock)
        assert log.retain() == 1
        clock.time += 3_600_000_000
        assert log.retain() == firsts[-1], "the newest transaction stays"
        assert log.retain() == firsts[-1]
    with open_log(tmp_path) as log:
        assert log.oldest_lsn == firsts[-1]


def test_opening_lets_go_of_what_became_too_old_meanwhile(tmp_path: Path) -> None:
    clock = ManualClock()
    with Log.create(LocalStore(tmp_path, fsync=False), TINY, clock=clock) as log:
        firsts = fill(log, 50, clock)
    kept = LogOptions(fsync="never", segment_bytes=4096, retain_events=1)
    with Log.open(LocalStore(tmp_path, fsync=False), options=kept, clock=clock) as log:
        assert log.oldest_lsn == firsts[-1]


def test_trimming_drops_whole_segments_up_to_an_lsn_and_never_the_newest_transaction(tmp_path: Path) -> None:
    with make_log(tmp_path, TINY) as log:
        firsts = fill(log, 50)
        assert log.trim(0) == 1
        assert log.trim(firsts[1] - 2) == 1
        assert log.trim(firsts[1] - 1) == firsts[1]
        assert log.trim(firsts[2]) == firsts[2]
        assert log.trim(1) == firsts[2], "what is gone stays gone"
        assert log.trim(10**9) == firsts[-1]
        assert log.current_lsn == 50


def test_an_interval_after_an_append_it_is_synced_and_marked_by_itself(tmp_path: Path) -> None:
    """So that whoever opens the log after a crash knows that all of it was whole once."""
    options = LogOptions(fsync="interval", interval=timedelta(milliseconds=1))
    with Log.create(tmp_path, options) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("a", SCHEMA)
        log.append("a", rows(1))
        segment = tmp_path / "segments" / f"{1:020d}.segment"
        while not marked(segment):
            reader.wait(1, 0.01)
        size = segment.stat().st_size
        log.sync()
        assert segment.stat().st_size == size, "once is enough"


def test_a_mark_never_speaks_for_what_was_not_synced(tmp_path: Path) -> None:
    """Another append may come between the sync and the mark."""
    segment = tmp_path / "segments" / f"{1:020d}.segment"
    with make_log(tmp_path) as log:
        log.add_collection("a", SCHEMA)
        log.append("a", rows(1))
        log.sync()
        log.append("a", rows(2))
        log._appending._mark()
        assert not marked(segment)
        log.sync()
        log._appending._mark()
        assert marked(segment)


def marked(segment: Path) -> bool:
    """Whether it ends with a mark."""
    return segment.read_bytes()[-4] == Kind.MARK


@pytest.mark.parametrize("fsync", ["always", "interval"])
def test_a_sync_that_fails_stops_the_writer_and_is_told(fsync: Any, tmp_path: Path) -> None:
    error = OutcomeUnknown("a broken disk", subject="the disk", hint="Mend it.")
    # The first sync is that of opening.
    store = MortalStore(tmp_path, [Fault(2, verb="sync", error=error)])
    log = Log.create(store, LogOptions(fsync=fsync, interval=timedelta(hours=1)))
    log.add_collection("a", SCHEMA)
    if fsync == "always":
        with pytest.raises(OutcomeUnknown, match="events up to LSN 1 were written, but a sync failed"):
            log.append("a", rows(1))
        assert log.current_lsn == 0, "nobody here reads what may not last"
    else:
        log.append("a", rows(1))
        with pytest.raises(OutcomeUnknown):
            log.sync()
        assert log.current_lsn == 1
    with pytest.raises(Closed, match="an earlier write failed") as stopped:
        log.append("a", rows(2))
    assert "open it again" in stopped.value.hint
    if fsync == "always":
        log.close()
    else:
        with pytest.raises(OutcomeUnknown):
            log.close()
    store.bury()
    with open_log(tmp_path) as log:
        assert log.current_lsn == 1
        log.append("a", rows(2))
