"""The CDC ring: what its document tests, and what the system it comes from lost."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.changes import ChangeOperation
from penstock.errors import Closed, CursorAhead, CursorExpired, InvalidArgument
from penstock.log import EVENT_SCHEMA, CdcBuffer, CdcEvent, CdcStats
from penstock.lsn import LsnRange

INSERT, UPDATE, DELETE = ChangeOperation.INSERT, ChangeOperation.UPDATE, ChangeOperation.DELETE
REFRESH = ChangeOperation.REFRESH


class Clock:
    def __init__(self, time: int = 1_000) -> None:
        self.time = time

    def __call__(self) -> int:
        return self.time


@pytest.fixture
def ring() -> CdcBuffer:
    return CdcBuffer(100)


def insert(ring: CdcBuffer, *collections: str) -> None:
    for i, collection in enumerate(collections, 1):
        ring.emit(INSERT, collection, i, "table")


def test_events_come_out_as_they_went_in(ring: CdcBuffer) -> None:
    assert [ring.emit(it, "users", 1, "table") for it in (INSERT, UPDATE, DELETE)] == [1, 2, 3]
    events = ring.poll(0, 10)
    assert len(events) == 3
    assert [it.operation for it in events] == [INSERT, UPDATE, DELETE]
    assert [it.changed_columns for it in events] == [None, None, None]


def test_the_columns_an_update_touched_come_with_it(ring: CdcBuffer) -> None:
    ring.emit_with_columns(UPDATE, "users", 7, "table", ["email", "age"])
    ring.emit(UPDATE, "users", 8, "table")
    events = ring.poll(0, 10)
    assert [it.changed_columns for it in events] == [("email", "age"), None]


def test_a_poll_is_exclusive_of_its_cursor(ring: CdcBuffer) -> None:
    insert(ring, "a", "b", "c")
    assert [it.collection for it in ring.poll(1, 10)] == ["b", "c"]
    assert [it.collection for it in ring.poll(1, 1)] == ["b"]
    assert list(ring.poll(3)) == []


def test_a_batch_has_contiguous_lsns(ring: CdcBuffer) -> None:
    ring.emit(INSERT, "users", 10, "table")
    assert ring.emit_batch(INSERT, "users", "table", [11, 12, 13]) == LsnRange(2, 4)
    events = list(ring.poll(0, 10))
    assert [it.lsn for it in events] == [1, 2, 3, 4]
    assert events[3].entity_id == 13
    assert ring.current_lsn == 4


def test_a_batch_larger_than_the_ring_keeps_its_tail_and_uses_its_lsns() -> None:
    ring = CdcBuffer(3)
    assert ring.emit_batch(INSERT, "users", "table", [1, 2, 3, 4, 5]) == LsnRange(1, 5)
    events = list(ring.poll(2, 10))
    assert [(it.lsn, it.entity_id) for it in events] == [(3, 3), (4, 4), (5, 5)]
    assert ring.current_lsn == 5
    assert ring.stats().buffered_events == 3


def test_the_oldest_event_is_evicted(ring: CdcBuffer) -> None:
    ring = CdcBuffer(3)
    insert(ring, "a", "b", "c", "d")
    assert [it.collection for it in ring.poll(1, 10)] == ["b", "c", "d"]
    assert ring.oldest_lsn == 2


def test_stats_tell_how_much_is_held_and_how_far_it_reaches(ring: CdcBuffer) -> None:
    assert ring.stats() == CdcStats(0, 0, None, None)
    insert(ring, "x", "y")
    assert ring.stats() == CdcStats(buffered_events=2, current_lsn=2, oldest_lsn=1, newest_lsn=2)
    assert (ring.current_lsn, ring.oldest_lsn) == (2, 1)


def test_a_cursor_never_skips_an_evicted_event() -> None:
    ring = CdcBuffer(3)
    insert(ring, "a", "b", "c", "d", "e")
    for since in (0, 1):
        with pytest.raises(CursorExpired) as expired:
            ring.poll(since)
        assert expired.value.earliest == 3
    assert [it.lsn for it in ring.poll(2)] == [3, 4, 5]
    with pytest.raises(CursorExpired):
        ring.poll_columns(0)


def test_a_cursor_of_another_ring_is_refused(ring: CdcBuffer) -> None:
    insert(ring, "a")
    with pytest.raises(CursorAhead, match="the cursor is 2, and the newest event is 1"):
        ring.poll(2)


@pytest.mark.parametrize("emit", ["one", "batch", "kv", "transaction"])
def test_a_ring_of_capacity_0_keeps_nothing_and_numbers_all(emit: str) -> None:
    ring = CdcBuffer(0)
    for i in range(1, 4):
        if emit == "one":
            ring.emit(INSERT, "a", i, "table")
        elif emit == "batch":
            ring.emit_batch(INSERT, "a", "table", [i])
        elif emit == "kv":
            ring.emit_kv(INSERT, "a", "k", i, None, 1)
        else:
            with ring.transaction() as t:
                t.emit(INSERT, "a", i, "table")
        assert ring.stats() == CdcStats(0, i, None, None)
        assert list(ring.poll(i)) == []
        with pytest.raises(CursorExpired) as expired:
            ring.poll(i - 1)
        assert expired.value.earliest == i + 1


def test_after_a_restart_nothing_jumps_what_came_before_it() -> None:
    ring = CdcBuffer(10)
    ring.set_current_lsn(41)
    assert ring.current_lsn == 41
    assert list(ring.poll(41)) == []
    with pytest.raises(CursorExpired) as expired:
        ring.poll(40)
    assert expired.value.earliest == 42
    assert ring.emit(INSERT, "a", 1, "table") == 42
    assert [it.lsn for it in ring.poll(41)] == [42]


def test_the_lsn_is_only_ever_moved_forward(ring: CdcBuffer) -> None:
    insert(ring, "a", "b", "c")
    for lsn in (0, 2, 3):
        ring.set_current_lsn(lsn)
        assert ring.current_lsn == 3
        assert len(ring.poll(0)) == 3, "and what is held stays"
    ring.set_current_lsn(9)
    with pytest.raises(CursorExpired) as expired:
        ring.poll(3)
    assert expired.value.earliest == 10


def test_integers_are_integers_on_the_wire() -> None:
    ring = CdcBuffer(10, clock=Clock(2**60 + 1))
    ring.set_current_lsn(2**53)
    ring.emit(INSERT, "a", 2**64 - 1, "graph_node", ["x"])
    (event,) = ring.poll(2**53)
    assert json.loads(json.dumps(event.to_json())) == {
        "lsn": 2**53 + 1,
        "timestamp": 2**60 + 1,
        "operation": "insert",
        "collection": "a",
        "rid": 2**64 - 1,
        "kind": "node",
        "changed_columns": ["x"],
    }
    assert ring.poll_columns(2**53).column("lsn").to_pylist() == [2**53 + 1]
    assert ring.poll_columns(2**53).column("rid").to_pylist() == [2**64 - 1]


def test_times_never_go_back_whatever_the_clock_does() -> None:
    clock = Clock(500)
    ring = CdcBuffer(10, clock=clock)
    for time in (500, 400, 600, 1):
        clock.time = time
        ring.emit(INSERT, "a", 1, "table")
    assert [it.timestamp for it in ring.poll(0)] == [500, 500, 600, 600]


def test_consumers_can_leave_out_updates_that_touched_nothing_of_theirs(ring: CdcBuffer) -> None:
    ring.emit(UPDATE, "a", 1, "table", ["age"])
    ring.emit(UPDATE, "a", 2, "table", ["email", "age"])
    ring.emit(UPDATE, "a", 3, "table", [])
    ring.emit(UPDATE, "a", 4, "table")
    assert [it.entity_id for it in ring.poll(0) if it.touches(["email"])] == [2, 4], "unknown may be any"


def test_the_events_of_a_transaction_appear_together_at_its_commit() -> None:
    clock = Clock(100)
    ring = CdcBuffer(100, clock=clock)
    with ring.transaction() as t:
        t.emit(INSERT, "orders", 1, "table")
        t.emit_batch(INSERT, "lines", "table", range(10, 13))
        ring.emit(INSERT, "other", 5, "table")
        t.emit_with_columns(UPDATE, "stock", 7, "table", ["n"])
        t.emit_kv(DELETE, "cache", "k", 8, before=1)
        assert [it.collection for it in ring.poll(0)] == ["other"]
        assert t.lsns is None
        clock.time = 200
    assert t.lsns == LsnRange(2, 7)
    events = list(ring.poll(1))
    assert [it.collection for it in events] == ["orders", *["lines"] * 3, "stock", "cache"]
    assert {it.timestamp for it in events} == {200}, "the time of the commit"
    with pytest.raises(Closed):
        t.emit(INSERT, "orders", 1, "table")


def test_a_transaction_rolled_back_leaves_nothing_and_uses_no_lsn(ring: CdcBuffer) -> None:
    def fail() -> None:
        with ring.transaction() as t:
            t.emit(INSERT, "a", 1, "table")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with ring.transaction() as t:
        t.emit(INSERT, "a", 1, "table")
        t.rollback()
    t.rollback()
    assert ring.stats() == CdcStats(0, 0, None, None)
    assert ring.emit(INSERT, "a", 1, "table") == 1


def test_a_transaction_ends_once(ring: CdcBuffer) -> None:
    t = ring.transaction()
    t.emit(INSERT, "a", 1, "table")
    assert t.commit() == LsnRange(1, 1)
    with pytest.raises(Closed):
        t.commit()
    with pytest.raises(Closed), t:
        pass
    with ring.transaction() as empty:
        pass
    assert empty.lsns == LsnRange(2, 1)
    assert ring.current_lsn == 1


@pytest.mark.parametrize(
    "ids",
    [
        [1, 2, 3],
        (1, 2, 3),
        range(1, 4),
        iter([1, 2, 3]),
        np.array([1, 2, 3], np.int32),
        np.array([1, 2, 3], np.uint64),
        pa.array([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
        [np.int64(1), 2, np.uint8(3)],
    ],
    ids=lambda it: type(it).__name__,
)
def test_a_batch_takes_integers_in_any_form(ring: CdcBuffer, ids: Any) -> None:
    assert ring.emit_batch(INSERT, "a", "table", ids) == LsnRange(1, 3)
    assert [it.entity_id for it in ring.poll(0)] == [1, 2, 3]


def test_a_batch_does_not_change_with_the_array_it_came_from(ring: CdcBuffer) -> None:
    for kind in (np.uint64, np.int64):
        ids = np.array([1, 2, 3], kind)
        lsns = ring.emit_batch(INSERT, "a", "table", ids)
        ids[:] = 9
        assert [it.entity_id for it in ring.poll(lsns.first - 1)] == [1, 2, 3]


def test_an_empty_batch_is_no_event(ring: CdcBuffer) -> None:
    assert ring.emit_batch(INSERT, "a", "table", []) == LsnRange(1, 0)
    assert ring.stats() == CdcStats(0, 0, None, None)


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda ring: ring.emit("insert", "a", 1, "table"), "the operation is 'insert'"),
        (lambda ring: ring.emit(INSERT, 7, 1, "table"), "the collection is 7"),
        (lambda ring: ring.emit(INSERT, "a", -1, "table"), "the entity id is -1"),
        (lambda ring: ring.emit(INSERT, "a", 2**64, "table"), "the entity id is 18446744073709551616"),
        (lambda ring: ring.emit(INSERT, "a", 1.0, "table"), r"the entity id is 1\.0"),
        (lambda ring: ring.emit(INSERT, "a", 1, "table", "email"), "changed_columns is the text"),
        (lambda ring: ring.emit_kv(INSERT, "a", 7, 1), "the key is 7"),
        (lambda ring: ring.emit_batch(INSERT, "a", "table", [1.5]), "not all of the ids are integers"),
        (lambda ring: ring.emit_batch(INSERT, "a", "table", [1, -2]), "the entity id is -2"),
        (lambda ring: ring.emit_batch(INSERT, "a", "table", range(-3, 0)), "the entity id is -3"),
        (lambda ring: ring.emit_batch(INSERT, "a", "table", np.array([[1]])), "2-dimensional"),
        (lambda ring: ring.emit_batch(INSERT, "a", "table", np.array([0.5])), "of type float64"),
        (lambda ring: ring.poll(-1), "-1 is not a cursor"),
        (lambda ring: ring.poll(0, 0), "max_events is 0"),
        (lambda ring: ring.poll(True), "True is not a cursor"),
        (lambda ring: ring.wait(-1, 0), "-1 is not a cursor"),
        (lambda ring: ring.set_current_lsn(-1), "-1 is not a cursor"),
        (lambda ring: CdcBuffer(-1), "capacity is -1"),
        (lambda ring: CdcBuffer(1.5), r"capacity is 1\.5"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    ring: CdcBuffer, act: Callable[[CdcBuffer], object], what: str
) -> None:
    with pytest.raises(InvalidArgument, match=what):
        act(ring)
    assert ring.stats() == CdcStats(0, 0, None, None)


def test_what_was_polled_stays_as_it_was_whatever_comes_later() -> None:
    ring = CdcBuffer(4)
    insert(ring, "a", "b")
    ring.emit_batch(INSERT, "c", "table", [7, 8])
    polled = ring.poll(0)
    for _ in range(20):
        insert(ring, "x")
    assert [(it.lsn, it.collection) for it in polled] == [(1, "a"), (2, "b"), (3, "c"), (4, "c")]
    assert (len(polled), polled.cursor) == (4, 4)
    assert [polled[i].lsn for i in (0, -1, 2)] == [1, 4, 3]
    assert [it.lsn for it in polled[1:3]] == [2, 3]
    with pytest.raises(IndexError):
        polled[4]
    assert repr(polled) == "EventBatch(4 events, LSN 1 to 4)"


def test_polling_from_cursor_to_cursor_gives_each_event_once() -> None:
    ring = CdcBuffer(10_000)
    for i in range(500):
        ring.emit(INSERT, "a", i, "table")
        ring.emit_batch(INSERT, "b", "table", range(i % 7))
    cursor, seen = 0, []
    while batch := ring.poll(cursor, 13):
        seen += [it.lsn for it in batch]
        cursor = batch.cursor
    assert seen == list(range(1, ring.current_lsn + 1))


def test_events_as_columns_are_the_events() -> None:
    ring = CdcBuffer(100, clock=Clock(1_700_000_000_123))
    ring.emit(INSERT, "a", 1, "table")
    ring.emit(UPDATE, "b", 2**64 - 1, "kv", ["x", "y"])
    ring.emit_batch(DELETE, "c", "vector", [3, 4])
    ring.emit(REFRESH, "a", 0, "refresh")
    batch = ring.poll_columns(0)
    assert batch.schema.equals(EVENT_SCHEMA)
    rows = batch.to_pylist()
    assert [row.pop("timestamp").timestamp() for row in rows] == [1_700_000_000.123] * 5
    assert rows == [
        {
            "lsn": it.lsn,
            "operation": it.operation.value,
            "collection": it.collection,
            "rid": it.entity_id,
            "entity_kind": it.entity_kind,
            "changed_columns": None if it.changed_columns is None else list(it.changed_columns),
        }
        for it in ring.poll(0)
    ]
    assert ring.poll_columns(2).column("rid").to_pylist() == [3, 4, 0]
    empty = ring.poll_columns(5)
    assert (empty.num_rows, empty.schema.equals(EVENT_SCHEMA)) == (0, True)


def test_what_is_held_is_bounded_however_many_events_there_were() -> None:
    ring = CdcBuffer(1000)
    for i in range(20_000):
        ring.emit(UPDATE, "a", i, "table", ["x"])
    held = sum(block.last - block.first + 1 for block in ring._blocks)
    assert 1000 <= held <= 1000 + 1000 // 8


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns every few microseconds, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
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

    threads = [threading.Thread(target=guarded, args=(act,)) for act in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("switching_often")
def test_no_poll_passes_an_lsn_that_has_not_landed() -> None:
    """Eight threads emit, single events, batches and transactions; eight poll, and see the one sequence."""
    emitters, each = 8, 400
    ring = CdcBuffer(1_000_000)
    done = threading.Event()
    seen: list[list[CdcEvent]] = [[] for _ in range(8)]
    given: list[list[int]] = [[] for _ in range(emitters)]

    def emit(me: int) -> None:
        mine = given[me]
        for i in range(0, each, 4):
            mine.append(ring.emit(INSERT, f"c{me}", i, "table"))
            mine.extend(ring.emit_batch(INSERT, f"c{me}", "table", [i + 1, i + 2]))
            with ring.transaction() as t:
                t.emit(UPDATE, f"c{me}", i + 3, "table")
            assert t.lsns is not None
            mine.extend(t.lsns)

    def poll(me: int) -> None:
        cursor = 0
        while True:
            finished = done.is_set()
            batch = ring.poll(cursor, 50 + me)
            seen[me] += batch
            cursor = batch.cursor
            if not batch:
                if finished:
                    return
                ring.wait(cursor, 0.01)

    pollers = [threading.Thread(target=poll, args=(me,)) for me in range(8)]
    for it in pollers:
        it.start()
    run_all(*(lambda me=me: emit(me) for me in range(emitters)))
    done.set()
    for it in pollers:
        it.join(60)
        assert not it.is_alive()
    total = emitters * each
    for events in seen:
        assert [it.lsn for it in events] == list(range(1, total + 1))
        assert events == seen[0]
    for me in range(emitters):
        mine = [it for it in seen[0] if it.collection == f"c{me}"]
        assert [it.lsn for it in mine] == given[me]
        assert [it.entity_id for it in mine] == list(range(each))


@pytest.mark.usefixtures("switching_often")
def test_a_poller_that_is_overtaken_is_told_and_loses_count_of_nothing() -> None:
    ring = CdcBuffer(16)
    total = 6000
    lost: list[tuple[int, int]] = []

    def emit() -> None:
        for i in range(total // 3):
            ring.emit(INSERT, "a", i, "table")

    def poll() -> None:
        cursor = seen = skipped = 0
        while cursor < total:
            try:
                batch = ring.poll(cursor, 5)
            except CursorExpired as expired:
                lost.append((cursor, expired.earliest or 0))
                skipped += lost[-1][1] - 1 - cursor
                cursor = lost[-1][1] - 1
                continue
            assert [it.lsn for it in batch] == list(range(cursor + 1, cursor + 1 + len(batch)))
            seen += len(batch)
            cursor = batch.cursor
            if not batch:
                ring.wait(cursor, 1)
        assert seen + skipped == total

    run_all(emit, emit, emit, poll, poll)
    assert all(earliest > cursor + 1 for cursor, earliest in lost)


@pytest.mark.usefixtures("switching_often")
def test_nobody_sees_the_middle_of_a_transaction() -> None:
    """Whoever takes `current_lsn` for a cursor begins between two transactions."""
    ring = CdcBuffer(1000)
    looked = threading.Event()

    def emit() -> None:
        while not looked.is_set():
            with ring.transaction() as t:
                for i in range(10):
                    t.emit(INSERT, "a", i, "table")

    def look() -> None:
        try:
            for _ in range(30_000):
                assert ring.current_lsn % 10 == 0
        finally:
            looked.set()

    run_all(emit, look)


def test_waiting_ends_with_the_next_event_or_when_the_time_is_over(ring: CdcBuffer) -> None:
    assert ring.wait(0, 0) == 0
    assert ring.wait(0, 0.001) == 0
    insert(ring, "a")
    assert ring.wait(0) == 1
    found: list[int] = []
    waiting = [
        threading.Thread(target=lambda since=since: found.append(ring.wait(since))) for since in (1, 1, 3)
    ]
    for it in waiting:
        it.start()
    insert(ring, "b")
    for it in waiting[:2]:
        it.join(30)
    assert found == [2, 2]
    ring.set_current_lsn(9)
    waiting[2].join(30)
    assert found == [2, 2, 9]


class RingAsAList(RuleBasedStateMachine):
    """The ring is the tail of a list of all events; a cursor before that tail is told."""

    @initialize(capacity=st.sampled_from([0, 1, 2, 3, 7, 8, 20, 100]))
    def begin(self, capacity: int) -> None:
        self.capacity = capacity
        self.clock = Clock()
        self.ring = CdcBuffer(capacity, clock=self.clock)
        self.events: dict[int, tuple[Any, ...]] = {}
        self.current = self.floor = 0
        self.time = 0

    def add(self, *events: tuple[Any, ...]) -> None:
        self.time = max(self.time, self.clock.time)
        for operation, collection, entity_id, kind, changed in events:
            self.current += 1
            self.events[self.current] = (
                self.current, self.time, operation, collection, entity_id, kind, changed,
            )  # fmt: skip
        self.floor = max(self.floor, self.current - self.capacity)

    @rule(operation=st.sampled_from(list(ChangeOperation)), changed=st.none() | st.lists(st.text(max_size=2)))
    def emit(self, operation: ChangeOperation, changed: list[str] | None) -> None:
        lsn = self.ring.emit(operation, "c", self.current, "table", changed)
        self.add((operation, "c", self.current, "table", None if changed is None else tuple(changed)))
        assert lsn == self.current

    @rule(ids=st.lists(st.integers(0, 2**64 - 1), max_size=30))
    def emit_batch(self, ids: list[int]) -> None:
        lsns = self.ring.emit_batch(INSERT, "batch", "row", ids)
        assert (lsns.first, len(lsns)) == (self.current + 1, len(ids))
        self.add(*((INSERT, "batch", it, "row", None) for it in ids))

    @rule(parts=st.lists(st.integers(0, 4), max_size=4), commits=st.booleans())
    def transaction(self, parts: list[int], commits: bool) -> None:
        t = self.ring.transaction()
        events = []
        for count in parts:
            if count == 1:
                t.emit(DELETE, "t", 5, "edge")
                events.append((DELETE, "t", 5, "edge", None))
            else:
                t.emit_batch(UPDATE, "t", "edge", range(count))
                events += [(UPDATE, "t", i, "edge", None) for i in range(count)]
        if commits:
            assert len(t.commit()) == len(events)
            self.add(*events)
        else:
            t.rollback()

    @rule(by=st.integers(-3, 5))
    def restart(self, by: int) -> None:
        lsn = max(self.current + by, 0)
        self.ring.set_current_lsn(lsn)
        if lsn > self.current:
            self.current = self.floor = lsn

    @rule(step=st.integers(-5, 5))
    def let_time_pass(self, step: int) -> None:
        self.clock.time += step

    @rule(back=st.integers(-3, 120), most=st.none() | st.integers(1, 40))
    def poll(self, back: int, most: int | None) -> None:
        since = max(self.current - back, 0)
        if since < self.floor:
            with pytest.raises(CursorExpired) as expired:
                self.ring.poll(since, most)
            assert expired.value.earliest == self.floor + 1
        elif since > self.current:
            with pytest.raises(CursorAhead):
                self.ring.poll(since, most)
        else:
            batch = self.ring.poll(since, most)
            wanted = range(since + 1, self.current + 1)[:most]
            assert [tuple(it)[:7] for it in batch] == [self.events[lsn] for lsn in wanted]
            assert len(batch) == len(wanted)
            assert batch.cursor == since + len(wanted)
            columns = batch.to_arrow()
            assert columns.column("lsn").to_pylist() == list(wanted)
            assert columns.column("rid").to_pylist() == [self.events[lsn][4] for lsn in wanted]

    @invariant()
    def both_tell_the_same(self) -> None:
        if hasattr(self, "ring"):
            held = self.current - self.floor
            ends = (self.floor + 1, self.current) if held else (None, None)
            assert self.ring.stats() == CdcStats(held, self.current, *ends)


TestRingAsAList = RingAsAList.TestCase
TestRingAsAList.settings = settings(deadline=None, max_examples=150, stateful_step_count=30)
