"""Reading a collection through its ranges: each event once, and each key's events in order."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.changes.hashing import unsigned, xxhash64
from penstock.changes.op import Op
from penstock.errors import CursorAhead, CursorExpired, InvalidArgument, NotFound, Unsupported
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.log.range_reading import RangeChanges, RangePolled, RangeProgress
from penstock.log.ranges import KeyRange
from tests.log.logs import FAST, changes_of, make_log, open_log
from tests.log.mortal_store import MortalStore, every_death

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
INSERT, BEFORE, AFTER, DELETE = Op


def hash_of(key: int) -> int:
    return int(unsigned(xxhash64([pa.array([key])]))[0])


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with make_log(tmp_path / "log") as it:
        it.add_collection("t", SCHEMA, key=["id"])
        it.add_collection("other", SCHEMA, key=["id"])
        yield it


def insert(log: Log, *keys: int, collection: str = "t") -> int:
    return log.append(collection, pa.table({"id": keys, "v": [f"v{key}" for key in keys]}, SCHEMA)).last


def rows_of(changes: list[RangeChanges]) -> list[tuple[Any, ...]]:
    return [
        (row["_lsn"], Op(row["_op"]), row["id"], row["v"]) for it in changes for row in it.rows.to_pylist()
    ]


def ids(ranges: tuple[KeyRange, ...]) -> list[int]:
    return [it.id for it in ranges]


def test_a_collection_begins_with_one_range_that_is_everything(log: Log) -> None:
    insert(log, 1, 2, 3)
    (whole,) = log.ranges("t")
    assert (whole.low, whole.high, whole.from_lsn, whole.until_lsn) == (0, 2**64, 0, None)
    polled = log.poll_range("t", whole.id, 0)
    assert [row[2] for row in rows_of(polled.changes)] == [1, 2, 3]
    assert (polled.cursor, polled.finished, polled.caught_up, polled.children) == (3, False, True, ())


def test_rows_lie_where_the_hash_of_their_key_says(log: Log) -> None:
    left, right = log.split_range("t", 1, hash_of(2))
    insert(log, *range(50))
    for it in (left, right):
        keys = [row[2] for row in rows_of(log.poll_range("t", it.id, 0).changes)]
        assert keys == [key for key in range(50) if hash_of(key) in it]
        assert (2 in keys) == (it is right), "the hash that is split at is the first of the right one"


def test_a_split_takes_place_between_two_events(log: Log) -> None:
    insert(log, 1, 2, 3)
    left, right = log.split_range("t", 1)
    insert(log, 4, 5, 6)
    parent = log.poll_range("t", 1, 0)
    assert [row[0] for row in rows_of(parent.changes)] == [1, 2, 3]
    assert (parent.finished, parent.cursor, ids(parent.children)) == (True, 3, [left.id, right.id])
    assert sorted(
        row[0] for it in (left, right) for row in rows_of(log.poll_range("t", it.id, 0).changes)
    ) == [4, 5, 6]


def test_a_parent_is_finished_only_once_it_was_read_to_its_end(log: Log) -> None:
    insert(log, 1, 2, 3)
    log.split_range("t", 1)
    polled = log.poll_range("t", 1, 0, max_events=2)
    assert (polled.finished, polled.children, polled.cursor) == (False, (), 2)
    assert log.poll_range("t", 1, 2).finished


def test_a_living_range_that_is_caught_up_is_not_finished(log: Log) -> None:
    last = insert(log, 1)
    assert not log.poll_range("t", 1, last).finished
    log.split_range("t", 1)
    assert log.poll_range("t", 1, last).finished, "retired where the reader stands: nothing is left to read"


def test_an_update_with_another_key_is_a_delete_there_and_an_insert_here(log: Log) -> None:
    low, high = sorted((1, 2), key=hash_of)
    log.split_range("t", 1, hash_of(high))
    update = [(BEFORE, {"id": low, "v": "a"}), (AFTER, {"id": high, "v": "b"})]
    log.append("t", changes_of(SCHEMA, update))
    assert rows_of(log.poll_range("t", 2, 0).changes) == [(1, DELETE, low, "a")]
    assert rows_of(log.poll_range("t", 3, 0).changes) == [(1, INSERT, high, "b")]


def test_it_is_so_also_where_both_keys_are_in_one_range(log: Log) -> None:
    moved = [(BEFORE, {"id": 1, "v": "a"}), (AFTER, {"id": 2, "v": "b"})]
    stays = [(BEFORE, {"id": 3, "v": "a"}), (AFTER, {"id": 3, "v": "b"})]
    log.append("t", changes_of(SCHEMA, [*moved, *stays]))
    polled = log.poll_range("t", 1, 0)
    assert rows_of(polled.changes) == [
        (1, DELETE, 1, "a"),
        (1, INSERT, 2, "b"),
        (2, BEFORE, 3, "a"),
        (2, AFTER, 3, "b"),
    ]
    assert len(polled) == 2


def test_a_poll_never_gives_half_an_event(log: Log) -> None:
    moved = [(BEFORE, {"id": 1, "v": "a"}), (AFTER, {"id": 2, "v": "b"})]
    log.append("t", changes_of(SCHEMA, moved * 3))
    cursor, seen = 0, []
    while cursor < 3:
        polled = log.poll_range("t", 1, cursor, max_events=1)
        seen.append([row[0] for row in rows_of(polled.changes)])
        cursor = polled.cursor
    assert seen == [[1, 1], [2, 2], [3, 3]]


def test_a_refresh_reaches_every_range_also_those_it_empties(log: Log) -> None:
    log.split_range("t", 1, hash_of(7))
    log.refresh("t", pa.table({"id": [7], "v": ["x"]}, SCHEMA))
    for id_, expected in ((2, []), (3, [(1, INSERT, 7, "x")])):
        (changes,) = log.poll_range("t", id_, 0).changes
        assert changes.is_refresh
        assert len(changes) == 1
        assert rows_of([changes]) == expected


def test_weights_and_times_come_with_the_rows(log: Log) -> None:
    batch = pa.record_batch({"id": [1], "v": ["x"], "_weight": pa.array([3], pa.int64())})
    log.append("t", batch)
    ((changes),) = log.read_range("t", 1)
    (row,) = changes.rows.to_pylist()
    assert (row["_weight"], row["_lsn"]) == (3, 1)
    assert row["_ts"] is not None


def test_reading_a_range_keeps_to_the_life_of_the_range(log: Log) -> None:
    insert(log, *range(10))
    left, right = log.split_range("t", 1)
    insert(log, *range(10, 20))
    again = log.merge_ranges("t", left.id, right.id)
    insert(log, *range(20, 30))

    def lsns(id_: int, since: int = 0, upto: int | None = None) -> list[int]:
        return [row[0] for row in rows_of(list(log.read_range("t", id_, since, upto)))]

    assert lsns(1) == list(range(1, 11))
    assert sorted(lsns(left.id) + lsns(right.id)) == list(range(11, 21))
    assert lsns(again.id) == list(range(21, 31))
    assert lsns(1, 4, 7) == [5, 6, 7]
    assert lsns(1, 10) == lsns(1, 15) == []
    assert lsns(again.id, 0, 15) == []


def test_other_collections_lie_between_and_are_not_seen(log: Log) -> None:
    insert(log, 1)
    insert(log, 2, 3, collection="other")
    insert(log, 4)
    polled = log.poll_range("t", 1, 0, max_events=1)
    assert (rows_of(polled.changes)[0][0], polled.cursor) == (1, 1)
    polled = log.poll_range("t", 1, 1)
    assert [row[0] for row in rows_of(polled.changes)] == [4]
    assert len(log.ranges("other")) == 1


def test_ranges_of_a_cursor_are_those_to_go_on_with_from_it(log: Log) -> None:
    insert(log, 1, 2)
    left, right = log.split_range("t", 1)
    insert(log, 3)
    merged = log.merge_ranges("t", left.id, right.id)
    assert [ids(log.ranges("t", at)) for at in range(4)] == [[1], [1], [2, 3], [merged.id]]
    assert log.ranges("t") == (merged,)


def test_ranges_survive_a_restart_and_are_seen_by_other_readers(tmp_path: Path) -> None:
    with make_log(tmp_path) as log, Log.open(tmp_path, "read") as reader:
        log.add_collection("t", SCHEMA, key=["id"])
        insert(log, 1)
        assert ids(reader.ranges("t")) == [1]
        log.split_range("t", 1)
        insert(log, *range(20))
        assert ids(reader.ranges("t")) == [2, 3]
        assert reader.poll_range("t", 1, 0).finished
        with pytest.raises(Unsupported, match="opened to read"):
            reader.split_range("t", 2)
    with open_log(tmp_path) as log:
        assert ids(log.ranges("t")) == [2, 3]
        assert log.split_range("t", 2)[0].id == 4


def test_a_cursor_before_what_is_kept_is_refused_and_a_finished_range_needs_nothing(tmp_path: Path) -> None:
    with make_log(tmp_path, LogOptions(fsync="never", segment_bytes=4096)) as log:
        log.add_collection("t", SCHEMA, key=["id"])
        insert(log, 1)
        log.split_range("t", 1)
        for _ in range(20):
            insert(log, *range(50))
        oldest = log.trim(400)
        assert 2 < oldest <= 401
        with pytest.raises(CursorExpired) as told:
            log.poll_range("t", 1, 0)
        assert told.value.earliest == oldest
        with pytest.raises(CursorExpired):
            log.read_range("t", 2, 1)
        polled = log.poll_range("t", 1, 1)
        assert (polled.finished, ids(polled.children)) == (True, [2, 3])
        with pytest.raises(CursorExpired):
            log.poll_range("t", 2, 1)
        assert log.poll_range("t", 2, oldest - 1).changes


def test_a_death_at_any_moment_of_a_split_leaves_the_parent_or_both_children(tmp_path: Path) -> None:
    numbers = itertools.count()

    def make() -> Path:
        folder = tmp_path / str(next(numbers))
        with make_log(folder) as log:
            log.add_collection("t", SCHEMA, key=["id"])
            insert(log, 1, 2)
        return folder

    def script(store: MortalStore) -> None:
        log = Log.open(store, options=FAST)
        log.split_range("t", 1)
        log.append("t", pa.table({"id": [3], "v": ["x"]}, SCHEMA))
        log.close()

    found = []
    for folder in every_death(make, script):
        with open_log(folder) as log:
            living = ids(log.ranges("t"))
            insert(log, 4)
            given = [row[2] for id_ in (1, *living) for row in rows_of(list(log.read_range("t", id_)))]
            assert sorted(set(given)) == sorted(row.as_py() for it in log.read("t") for row in it.data["id"])
            assert len(given) == len(set(given)) or living == [1]
            found.append(living)
    assert found[0] == [1]
    assert found[-1] == [2, 3]
    assert {tuple(it) for it in found} == {(1,), (2, 3)}


def test_a_cursor_beyond_the_end_is_refused(log: Log) -> None:
    insert(log, 1)
    with pytest.raises(CursorAhead):
        log.poll_range("t", 1, 2)
    with pytest.raises(CursorAhead):
        log.read_range("t", 1, 2)


def test_what_cannot_be_is_refused(log: Log, tmp_path: Path) -> None:
    log.add_collection("bag", SCHEMA)
    with pytest.raises(InvalidArgument, match="has no key"):
        log.ranges("bag")
    with pytest.raises(NotFound, match="no range 9"):
        log.poll_range("t", 9, 0)
    with pytest.raises(InvalidArgument, match="max_events is 0"):
        log.poll_range("t", 1, 0, 0)
    with pytest.raises(InvalidArgument, match="not a cursor"):
        log.ranges("t", -1)
    with pytest.raises(InvalidArgument, match="no collection"):
        log.split_range("nothing", 1)


def test_who_reads_the_same_range_twice_is_told() -> None:
    progress = RangeProgress({1: 0})
    it = KeyRange(2, 0, 8)
    with pytest.raises(InvalidArgument, match="not being read"):
        progress.took(RangePolled(it, 3, 3))


KEYS = st.integers(0, 12)


class Ranges(RuleBasedStateMachine):
    """Random appends, splits and merges, and one reader of all ranges by the rules of their lives."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.log = make_log(self.folder)
        self.log.add_collection("t", SCHEMA, key=["id"])
        self.written: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        self.refreshes: set[int] = set()
        self.given: list[tuple[Any, ...]] = []
        self.refreshed: dict[int, list[KeyRange]] = defaultdict(list)
        self.progress = RangeProgress.begin(self.log.ranges("t", 0), 0)
        self.number = 0

    def value(self) -> str:
        self.number += 1
        return f"v{self.number}"

    def event(self, kind: str, key: int, other: int) -> list[tuple[Op, dict[str, Any]]]:
        lsn = self.log.current_lsn + 1 + self.pending
        self.pending += 1
        value, old = self.value(), self.value()
        match kind:
            case "update" if key == other:
                self.written[lsn] += [(lsn, BEFORE, key, old), (lsn, AFTER, key, value)]
                return [(BEFORE, {"id": key, "v": old}), (AFTER, {"id": key, "v": value})]
            case "update":
                self.written[lsn] += [(lsn, DELETE, key, old), (lsn, INSERT, other, value)]
                return [(BEFORE, {"id": key, "v": old}), (AFTER, {"id": other, "v": value})]
            case "upsert":
                self.written[lsn].append((lsn, AFTER, key, value))
                return [(AFTER, {"id": key, "v": value})]
            case "delete":
                self.written[lsn].append((lsn, DELETE, key, value))
                return [(DELETE, {"id": key, "v": value})]
        self.written[lsn].append((lsn, INSERT, key, value))
        return [(INSERT, {"id": key, "v": value})]

    @rule(
        events=st.lists(
            st.tuples(st.sampled_from(["insert", "update", "upsert", "delete"]), KEYS, KEYS),
            min_size=1,
            max_size=6,
        )
    )
    def append(self, events: list[tuple[str, int, int]]) -> None:
        self.pending = 0
        rows = [row for event in events for row in self.event(*event)]
        self.log.append("t", changes_of(SCHEMA, rows))

    @rule(keys=st.lists(KEYS, max_size=4))
    def refresh(self, keys: list[int]) -> None:
        lsn = self.log.current_lsn + 1
        rows = [{"id": key, "v": self.value()} for key in keys]
        self.written[lsn] = [(lsn, INSERT, row["id"], row["v"]) for row in rows]
        self.refreshes.add(lsn)
        self.log.refresh("t", pa.Table.from_pylist(rows, SCHEMA))

    @rule(pick=st.integers(0, 100), key=st.one_of(st.none(), KEYS))
    def split(self, pick: int, key: int | None) -> None:
        living = self.log.ranges("t")
        it = living[pick % len(living)]
        at = None if key is None else hash_of(key)
        if at is not None:
            it = next(one for one in living if at in one)
        if it.high - it.low > 1 and at != it.low:
            self.log.split_range("t", it.id, at)

    @rule(pick=st.integers(0, 100))
    def merge(self, pick: int) -> None:
        living = self.log.ranges("t")
        if len(living) > 1:
            at = pick % (len(living) - 1)
            self.log.merge_ranges("t", living[at].id, living[at + 1].id)

    @rule(pick=st.integers(0, 100), events=st.integers(1, 5))
    def poll(self, pick: int, events: int) -> None:
        reading = sorted(self.progress.cursors)
        id_ = reading[pick % len(reading)]
        polled = self.log.poll_range("t", id_, self.progress.cursors[id_], events)
        assert len(polled) <= events
        assert polled.finished == bool(polled.children)
        self.given += rows_of(polled.changes)
        for it in polled.changes:
            if it.is_refresh:
                self.refreshed[it.lsns.first].append(polled.range)
        self.progress.took(polled)

    @rule()
    def restart_the_reader(self) -> None:
        self.progress = RangeProgress.from_json(self.progress.to_json())

    @rule()
    def restart_the_log(self) -> None:
        self.log.close()
        self.log = open_log(self.folder)

    @invariant()
    def the_living_ranges_cover_everything(self) -> None:
        living = self.log.ranges("t")
        assert living[0].low == 0
        assert [it.high for it in living] == [*(it.low for it in living[1:]), 2**64]

    @invariant()
    def nothing_is_given_that_was_not_written_or_twice(self) -> None:
        assert len(set(self.given)) == len(self.given)
        assert all(row in self.written[row[0]] for row in self.given)

    def teardown(self) -> None:
        try:
            for _ in range(10_000):
                if all(at == self.log.current_lsn for at in self.progress.cursors.values()):
                    before = dict(self.progress.cursors)
                    for i in range(len(before)):
                        self.poll(i, 5)
                    if self.progress.cursors == before:
                        break
                for i in range(len(self.progress.cursors)):
                    self.poll(i, 3)
            else:
                raise AssertionError("the reader never came to the end")
            self.check_the_end()
        finally:
            self.log.close()
            shutil.rmtree(self.folder)

    def check_the_end(self) -> None:
        assert sorted(self.given) == sorted(row for rows in self.written.values() for row in rows)
        by_key: dict[int, list[int]] = defaultdict(list)
        for row in self.given:
            by_key[row[2]].append(row[0])
        assert all(lsns == sorted(lsns) for lsns in by_key.values())
        assert sorted(it.id for it in self.log.ranges("t")) == sorted(self.progress.cursors)
        for lsn in self.refreshes:
            told = sorted(self.refreshed[lsn], key=lambda it: it.low)
            assert [it.id for it in told] == [it.id for it in self.log.ranges("t", lsn - 1)]


Ranges.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
TestRanges = Ranges.TestCase
