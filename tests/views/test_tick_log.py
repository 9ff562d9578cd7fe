"""The log that manifests are reads like the list of events that was committed."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.changes import Op
from penstock.errors import CursorAhead, DamagedBytes, InvalidArgument, NotFound
from penstock.log.interface import ReadableLog
from penstock.store import LocalStore, MemoryStore
from penstock.views.manifest import Manifest
from tests.arrow_strategies import schemas
from tests.log.log_model import Event, Model, appended, events_of, moment
from tests.views.ticks import FOLDER, Ticks

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class TicksAsAList(RuleBasedStateMachine):
    """Two read it: the process that commits, and one that finds the manifests by looking."""

    @initialize()
    def begin(self) -> None:
        self.ticks = Ticks(MemoryStore())
        self.logs: dict[str, ReadableLog] = {"own": self.ticks.log, "other": self.ticks.reader()}
        self.model = Model()
        self.crcs: list[int] = []

    @rule(schema=schemas(max_columns=2), name=st.sampled_from(["a", "b", "c"]))
    def add(self, schema: pa.Schema, name: str) -> None:
        if name not in self.ticks.views:
            self.ticks.add(name, schema)

    @precondition(lambda self: self.ticks.views)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = self.some_view(data)
        self.ticks.drop(name)
        self.model.events = [
            replace(it, collection="gone") if it.collection == name else it for it in self.model.events
        ]

    @precondition(lambda self: self.ticks.views)
    @rule(data=st.data())
    def tick(self, data: st.DataObject) -> None:
        """Some views get some files of some frames; in the log they come by the names of the views."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.ticks.views)), unique=True))
        changes = {}
        transaction: list[tuple[str, list[Event]]] = []
        for name in sorted(names):
            collection = self.ticks.views[name]
            parts = []
            for _ in range(data.draw(st.integers(1, 3))):
                frames = []
                for _ in range(data.draw(st.integers(0, 2))):
                    batch, events = data.draw(appended(collection, plain=data.draw(st.booleans())))
                    if not events:
                        continue
                    table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
                    (whole,) = table.combine_chunks().to_batches()
                    frames.append(whole)
                    transaction.append((name, events))
                if frames:
                    parts.append(frames)
            changes[name] = parts
        manifest = self.ticks.tick(changes)
        self.model.commit(transaction, manifest.committed)
        for view in (manifest.views[name] for name in sorted(manifest.views)):
            for file in view.files:
                for _, _, crc, events, _, _ in file.frames:
                    self.crcs += [crc] * events

    @rule(step=st.integers(-3, 20))
    def let_time_pass(self, step: int) -> None:
        self.ticks.clock += step

    @rule()
    def nothing_happens(self) -> None:
        self.ticks.tick({})

    # -- reading ----------------------------------------------------------------------------------

    @rule(data=st.data(), who=st.sampled_from(["own", "other"]), most=st.integers(1, 9))
    def poll(self, data: st.DataObject, who: str, most: int) -> None:
        log = self.logs[who]
        since = data.draw(st.integers(0, self.model.current))
        live = sorted(self.ticks.views)
        some = data.draw(st.none() | st.lists(st.sampled_from(live), unique=True)) if live else None
        wanted = set(live) if some is None else set(some)
        polled = log.poll(since, most, some)
        found = [it for changes in polled for it in events_of(changes)]
        expected = self.model.after(since, names=wanted)
        assert found == expected[: len(found)]
        assert len(found) <= most
        assert self.model.after(polled.cursor, names=wanted) == expected[len(found) :]
        assert polled.cursor > since or polled.caught_up
        if some is not None:
            assert len(found) == len(expected[:most])

    @rule(data=st.data(), who=st.sampled_from(["own", "other"]))
    def read_a_range(self, data: st.DataObject, who: str) -> None:
        since = data.draw(st.integers(0, self.model.current))
        upto = data.draw(st.none() | st.integers(0, self.model.current + 3))
        name = data.draw(st.sampled_from([None, *sorted(self.ticks.views)]))
        found = [it for changes in self.logs[who].read(name, since, upto) for it in events_of(changes)]
        wanted = set(self.ticks.views) if name is None else {name}
        assert found == self.model.after(since, upto, wanted)

    @rule(data=st.data(), who=st.sampled_from(["own", "other"]))
    def boundary(self, data: st.DataObject, who: str) -> None:
        lsn = data.draw(st.integers(0, self.model.current))
        assert self.logs[who].boundary(lsn) == self.model.boundary(lsn)

    @rule(who=st.sampled_from(["own", "other"]), back=st.integers(-30, 5))
    def lsn_at(self, who: str, back: int) -> None:
        time = self.ticks.clock + back
        assert self.logs[who].lsn_at(moment(time)) == self.model.lsn_at(time)

    @rule(who=st.sampled_from(["own", "other"]), beyond=st.integers(1, 4))
    def fingerprint(self, who: str, beyond: int) -> None:
        log = self.logs[who]
        assert [log.fingerprint(lsn) for lsn in range(1, len(self.crcs) + 1)] == self.crcs
        assert log.fingerprint(len(self.crcs) + beyond) is None
        assert log.fingerprint(0) is None

    @rule(who=st.sampled_from(["own", "other"]), by=st.integers(1, 5))
    def bad_cursors(self, who: str, by: int) -> None:
        with pytest.raises(CursorAhead):
            self.logs[who].poll(self.model.current + by)
        with pytest.raises(InvalidArgument):
            self.logs[who].poll(-by)

    @rule()
    def look_anew(self) -> None:
        self.logs["other"] = self.ticks.reader()

    @invariant()
    def both_end_where_the_model_does(self) -> None:
        if hasattr(self, "logs"):
            for log in self.logs.values():
                assert log.current_lsn == self.model.current
                assert log.oldest_lsn == 1
                assert {it.name: it for it in log.collections} == self.ticks.views

    def some_view(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.ticks.views)))


TestTicksAsAList = TicksAsAList.TestCase
TestTicksAsAList.settings = settings(deadline=None, max_examples=40, stateful_step_count=20)


# -- one thing at a time ----------------------------------------------------------------------------


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": it, "name": f"n{it}"} for it in ids], schema=SCHEMA)


def test_all_views_of_a_tick_are_one_transaction() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("b", SCHEMA)
    ticks.add("a", SCHEMA)
    ticks.tick({"b": [[rows(1, 2)], [rows(3)]], "a": [[rows(4)]]})
    told = list(ticks.log.read())
    assert [(it.collection.name, str(it.lsns)) for it in told] == [
        ("a", "[1, 1]"),
        ("b", "[2, 3]"),
        ("b", "[4, 4]"),
    ]
    assert [it.ends_transaction for it in told] == [False, False, True]
    assert [ticks.log.boundary(lsn) for lsn in range(5)] == [0, 4, 4, 4, 4]


def test_an_update_is_one_event_with_one_lsn() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA, ["id"])
    both = rows(1, 1).append_column("_op", pa.array([Op.UPDATE_BEFORE, Op.UPDATE_AFTER], pa.int8()))
    ticks.tick({"v": [[rows(1)]]})
    ticks.tick({"v": [[both]]})
    assert ticks.log.current_lsn == 2
    [changes] = ticks.log.read("v", 1)
    assert changes.rows.column("_lsn").to_pylist() == [2, 2]


def test_a_log_without_a_manifest_is_empty() -> None:
    ticks = Ticks(MemoryStore())
    store = MemoryStore()
    ticks.store = store
    log = ticks.reader()
    assert (log.current_lsn, log.oldest_lsn, log.newest(), log.tick_of(1)) == (0, 1, None, None)
    assert list(log.read()) == []
    assert log.wait(0, 0.0) == 0


def test_who_waits_is_woken_by_a_commit_here_and_elsewhere() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA)
    found: dict[str, int] = {}
    logs = {"own": ticks.log, "other": ticks.reader()}
    threads = [
        threading.Thread(target=lambda name=name, log=log: found.update({name: log.wait(0, 60)}))  # type: ignore[misc]
        for name, log in logs.items()
    ]
    for it in threads:
        it.start()
    ticks.tick({})  # nothing to read: nobody is woken for good
    ticks.tick({"v": [[rows(1, 2)]]})
    for it in threads:
        it.join()
    assert found == {"own": 2, "other": 2}


def test_who_waits_may_be_told_to_stop() -> None:
    ticks = Ticks(MemoryStore())
    stop = threading.Event()
    done: list[int] = []
    waiting = threading.Thread(target=lambda: done.append(ticks.log.wait(0, until=stop.is_set)))
    waiting.start()
    stop.set()
    ticks.log.wake()
    waiting.join()
    assert done == [0]


def test_a_tail_gives_each_tick_as_it_is_committed() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA)
    ticks.tick({"v": [[rows(1)]]})
    seen: list[int] = []
    for polled in ticks.reader().tail(0, until=lambda: len(seen) == 5):
        seen.extend(row["id"] for changes in polled for row in changes.data.to_pylist())
        ticks.tick({"v": [[rows(len(seen) + 1)]]})
    assert seen == [1, 2, 3, 4, 5]


def test_an_unknown_view_is_told_with_those_there_are() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("sums", SCHEMA)
    with pytest.raises(NotFound, match="sums"):
        ticks.log.read("sum")


@pytest.mark.parametrize("micros", [1_700_000_000_123_457, 1_699_999_999_999_999, 4_102_444_800_000_001])
def test_times_are_compared_to_the_microsecond(micros: int) -> None:
    ticks = Ticks(MemoryStore(), micros - 1)
    ticks.add("v", SCHEMA)
    ticks.tick({"v": [[rows(1)]]})
    ticks.clock = micros
    ticks.tick({"v": [[rows(2)]]})
    assert ticks.log.lsn_at(moment(micros - 1)) == 1
    assert ticks.log.lsn_at(moment(micros)) == 2
    assert ticks.log.lsn_at(moment(micros + 1)) is None
    assert ticks.log.lsn_at(datetime(1960, 1, 1, tzinfo=UTC)) == 1
    with pytest.raises(InvalidArgument, match="time zone"):
        ticks.log.lsn_at(datetime(2024, 1, 1))  # noqa: DTZ001


def test_no_byte_of_a_file_of_changes_changes_unnoticed() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA)
    manifest = ticks.tick({"v": [[rows(1, 2), rows(3)]]})
    (file,) = manifest.views["v"].files
    data = ticks.store.get(file.name)
    for i in range(len(data)):
        changed = bytearray(data)
        changed[i] ^= 0x10
        ticks.store.put(file.name, bytes(changed))
        with pytest.raises(DamagedBytes) as caught:
            [it.data for it in ticks.reader().read()]
        assert caught.value.subject == file.name
    ticks.store.put(file.name, data[:-1])
    with pytest.raises(DamagedBytes):
        [it.data for it in ticks.reader().read()]
    ticks.store.delete(file.name)
    with pytest.raises(NotFound):
        [it.data for it in ticks.reader().read()]


def test_a_damaged_manifest_is_named_and_never_passed_over() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA)
    for number in range(4):
        ticks.tick({"v": [[rows(number)]]})
    name = f"{FOLDER}/manifest/{3:020d}.json"
    data = bytearray(ticks.store.get(name))
    data[len(data) // 2] ^= 1
    ticks.store.put(name, bytes(data))
    with pytest.raises(DamagedBytes) as caught:
        list(ticks.reader().read())
    assert caught.value.subject == name


def test_many_manifests_are_found_by_few_looks() -> None:
    ticks = Ticks(MemoryStore())
    ticks.add("v", SCHEMA)
    for number in range(300):
        ticks.tick({"v": [[rows(number)]]} if number % 3 == 0 else {})
    log = ticks.reader()
    assert [log.boundary(lsn) for lsn in range(101)] == list(range(101))
    found = log.tick_of(50)
    assert isinstance(found, Manifest)
    assert (found.first_lsn, found.last_lsn) == (50, 50)


def test_a_log_in_a_folder_reads_the_same(tmp_path: Path) -> None:
    ticks = Ticks(LocalStore(tmp_path, fsync=False))
    ticks.add("v", SCHEMA)
    ticks.tick({"v": [[rows(1), rows(2)], [rows(3)]]})
    assert [row["id"] for it in ticks.reader().read() for row in it.data.to_pylist()] == [1, 2, 3]
