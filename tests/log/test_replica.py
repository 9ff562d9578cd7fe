"""A replica holds what its primary's transactions hold, whatever comes, and can take the primary's place."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import (
    Closed,
    CursorAhead,
    CursorExpired,
    DidNotHappen,
    Divergence,
    Fenced,
    Gap,
    InUse,
    NotFound,
    Unsupported,
)
from penstock.log import Log, LogOptions, LogSource, Replica, Shipment, TransactionRecord, Verdict
from penstock.store import LocalStore
from tests.log.log_model import Event, ManualClock, events_of
from tests.log.logs import FAST, changes_of, make_log
from tests.log.mortal_store import MortalStore, every_death

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
OTHER = pa.schema([("n", pa.float64())])
SMALL = LogOptions(fsync="never", segment_bytes=4096)
FAR = 1 << 40


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"n{it}" for it in ids]}, SCHEMA)


def content(log: Log, since: int = 0) -> list[tuple[int, Event]]:
    return [event for changes in log.read(since=since) for event in events_of(changes)]


def store(folder: Path) -> LocalStore:
    return LocalStore(folder, fsync=False)


@pytest.fixture
def primary(tmp_path: Path) -> Any:
    with make_log(tmp_path / "primary") as log:
        log.add_collection("users", SCHEMA, key=["id"])
        log.add_collection("other", OTHER)
        yield log


@pytest.fixture
def replica(tmp_path: Path) -> Any:
    with Replica(store(tmp_path / "replica"), FAST) as it:
        yield it


def everything(primary: Log, replica: Replica) -> None:
    assert replica.lsn == primary.current_lsn
    assert content(replica.log) == content(primary)
    assert replica.log.id == primary.id
    assert replica.log.collections == primary.collections


def records(log: Log, since: int | None = None, max_bytes: int = 1 << 30) -> list[TransactionRecord]:
    return list(LogSource(log).ship(since, max_bytes).records)


def test_a_copy_has_the_primarys_transactions_times_and_collections(primary: Log, replica: Replica) -> None:
    primary.append("users", rows(1, 2))
    old, new = {"id": 2, "name": "n2"}, {"id": 2, "name": "N2"}
    primary.emit("update", "users", before=old, after=new, changed_columns=["name"])
    with primary.transaction() as t:
        t.append("users", rows(3))
        t.append("other", pa.table({"n": [0.5, 1.5]}, OTHER))
    primary.refresh("users", rows(7))
    assert replica.pull(LogSource(primary)) == 4
    everything(primary, replica)
    assert [it.ends_transaction for it in replica.log.read()] == [True, True, False, True, True]
    assert replica.pull(LogSource(primary)) == 0


def test_a_primary_in_another_process_is_followed_through_its_folder(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    primary.append("users", rows(1))
    with Log.open(tmp_path / "primary", "read") as reader:
        source = LogSource(reader)
        assert replica.pull(source) == 1
        primary.add_collection("late", OTHER)
        primary.append("late", pa.table({"n": [2.0]}, OTHER))
        assert source.wait(1, 30) == 2
        assert replica.pull(source) == 1
    everything(primary, replica)


def test_a_primary_without_events_makes_an_empty_copy(primary: Log, replica: Replica) -> None:
    assert replica.lsn is None
    with pytest.raises(NotFound, match="no copy of anything yet"):
        _ = replica.log
    assert replica.pull(LogSource(primary)) == 0
    assert replica.lsn == 0
    assert replica.log.collections == primary.collections
    primary.append("users", rows(1))
    assert replica.pull(LogSource(primary)) == 1
    everything(primary, replica)


def test_a_shipment_holds_about_so_many_bytes_and_at_least_one_transaction(
    primary: Log, replica: Replica
) -> None:
    for i in range(10):
        primary.append("users", rows(i))
    assert [len(records(primary, 0, most)) for most in (1, 1000, 1 << 20)] == [1, 3, 10]
    assert [replica.pull(LogSource(primary), 1) for _ in range(11)] == [1] * 10 + [0]
    everything(primary, replica)


def test_following_goes_on_until_it_is_told_otherwise(primary: Log, replica: Replica) -> None:
    stop = threading.Event()
    replica.pull(LogSource(primary))
    follower = threading.Thread(
        target=replica.follow, args=(LogSource(primary),), kwargs={"until": stop.is_set}
    )
    follower.start()
    try:
        for i in range(50):
            primary.append("users", rows(i))
        assert replica.log.wait(49, 30) == 50
    finally:
        stop.set()
        primary.wake()
        follower.join(30)
    assert not follower.is_alive()
    everything(primary, replica)


def test_a_copy_is_read_and_waited_for_as_any_log_but_not_written(primary: Log, replica: Replica) -> None:
    primary.append("users", rows(1, 2))
    replica.pull(LogSource(primary))
    log = replica.log
    assert [len(it) for it in log.poll(0)] == [2]
    writes: list[Callable[[], object]] = [
        lambda: log.append("users", rows(3)),
        lambda: log.emit("insert", "users", after={"id": 3, "name": "x"}),
        lambda: log.refresh("users", rows(3)),
        lambda: log.transaction(),
        lambda: log.add_collection("more", OTHER),
        lambda: log.promote(5),
        lambda: log.split_range("users", 1),
    ]
    for write in writes:
        with pytest.raises(Unsupported, match="the log is a replica's"):
            write()
    log.sync()
    log.retain()
    assert log.trim(2) == 1, "the newest transaction stays"
    everything(primary, replica)


def test_a_copy_of_a_copy_is_a_copy(primary: Log, replica: Replica, tmp_path: Path) -> None:
    primary.append("users", rows(1, 2))
    replica.pull(LogSource(primary))
    with Replica(store(tmp_path / "third"), FAST) as third:
        assert third.pull(LogSource(replica.log)) == 1
        everything(primary, third)
        primary.append("users", rows(3))
        assert third.pull(LogSource(primary)) == 1, "and may follow the first one"
        everything(primary, third)


def test_ranges_that_were_split_and_merged_come_with_the_events(primary: Log, replica: Replica) -> None:
    primary.append("users", rows(*range(10)))
    left, right = primary.split_range("users", 1)
    primary.append("users", rows(*range(10, 20)))
    shipment = LogSource(primary).ship(None)
    primary.merge_ranges("users", left.id, right.id)
    replica.take(shipment)
    assert [it.id for it in replica.log.ranges("users")] == [2, 3]
    replica.pull(LogSource(primary))
    assert replica.log.ranges("users") == primary.ranges("users")
    for it in (1, 2, 3, 4):
        mine, theirs = replica.log.read_range("users", it), primary.read_range("users", it)
        assert [some.rows for some in mine] == [some.rows for some in theirs]
    replica.take(shipment)
    assert replica.log.ranges("users") == primary.ranges("users"), "an older table takes nothing back"


def test_the_first_record_anchors_wherever_it_is(primary: Log, replica: Replica) -> None:
    for i in range(4):
        primary.append("users", rows(i, i + 10))
    _, second, third, fourth = records(primary)
    assert replica.apply(third) is Verdict.APPLY
    assert (replica.log.oldest_lsn, replica.lsn) == (5, 6)
    assert replica.apply(second) is Verdict.SKIP
    assert replica.apply(fourth) is Verdict.APPLY
    assert content(replica.log, 4) == content(primary, 4)
    with pytest.raises(CursorExpired) as expired:
        replica.log.poll(0)
    assert expired.value.earliest == 5


def test_records_apply_in_order_and_once(primary: Log, replica: Replica) -> None:
    for i in range(3):
        primary.append("users", rows(i))
    first, second, third = records(primary)
    assert [replica.apply(it) for it in (first, second, second, first, third, third)] == [
        Verdict.APPLY,
        Verdict.APPLY,
        Verdict.REPEAT,
        Verdict.SKIP,
        Verdict.APPLY,
        Verdict.REPEAT,
    ]
    everything(primary, replica)


def test_a_gap_is_refused_and_tells_what_is_missing(primary: Log, replica: Replica) -> None:
    for i in range(3):
        primary.append("users", rows(i, i))
    first, _, third = records(primary)
    replica.apply(first)
    with pytest.raises(Gap, match="LSN 5 came, and LSN 3 has not come yet"):
        replica.apply(third)
    with pytest.raises(Gap):
        replica.take(LogSource(primary).ship(4))
    assert replica.lsn == 2


@pytest.mark.parametrize(
    "said",
    [
        [rows(9)],
        [rows(1, 2)],
        [changes_of(SCHEMA, [])],
    ],
    ids=["another row", "a longer transaction", "nothing, then another"],
)
def test_another_history_of_the_same_log_is_divergence(
    tmp_path: Path, replica: Replica, said: list[pa.Table]
) -> None:
    clock = ManualClock()
    ours, theirs = (
        Log.create(store(tmp_path / name), FAST, log_id=b"1" * 16, clock=clock) for name in ("a", "b")
    )
    with ours, theirs:
        for log in (ours, theirs):
            log.add_collection("users", SCHEMA, key=["id"])
            log.append("users", rows(0))
        ours.append("users", rows(1))
        for batch in said:
            theirs.append("users", batch)
        clock.time += 1
        theirs.append("users", rows(3))
        replica.pull(LogSource(ours))
        for give in (
            lambda: replica.apply(records(theirs)[1]),
            lambda: replica.pull(LogSource(theirs)),
        ):
            with pytest.raises(Divergence):
                give()
        assert content(replica.log) == content(ours)


def test_a_primary_that_lost_events_and_wrote_others_is_found_out(tmp_path: Path, replica: Replica) -> None:
    """As when it was not synced and the power went: the LSNs go on as if nothing had been."""
    with make_log(tmp_path / "log") as log:
        log.add_collection("users", SCHEMA, key=["id"])
        log.append("users", rows(1))
        log.sync()
        shutil.copytree(tmp_path / "log", tmp_path / "older")
        log.append("users", rows(2))
        replica.pull(LogSource(log))
    with Log.open(store(tmp_path / "older"), options=FAST) as log:
        with pytest.raises(CursorAhead, match="the copy has LSN 2, and its primary ends at LSN 1"):
            replica.pull(LogSource(log))
        log.append("users", rows(3))
        with pytest.raises(Divergence):
            replica.pull(LogSource(log))
        log.append("users", rows(4))
        with pytest.raises(Divergence, match="what came at LSN 2 to 2 is not what was applied there"):
            replica.pull(LogSource(log))


def test_another_log_is_refused(primary: Log, replica: Replica, tmp_path: Path) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    with make_log(tmp_path / "another") as another:
        another.add_collection("users", SCHEMA, key=["id"])
        another.append("users", rows(1))
        another.append("users", rows(2))
        with pytest.raises(Divergence, match=f"the records are of the log {another.id}"):
            replica.pull(LogSource(another))
    everything(primary, replica)


def test_a_collection_of_the_same_name_and_another_definition_is_divergence(
    tmp_path: Path, replica: Replica
) -> None:
    logs = [Log.create(store(tmp_path / name), FAST, log_id=b"1" * 16) for name in ("a", "b")]
    for log, schema in zip(logs, (SCHEMA, OTHER), strict=True):
        log.add_collection("users", schema)
    replica.pull(LogSource(logs[0]))
    with pytest.raises(Divergence, match="the primary's collection 'users' is not the copy's"):
        replica.pull(LogSource(logs[1]))
    for log in logs:
        log.close()


def test_ranges_split_in_another_way_are_divergence(tmp_path: Path, replica: Replica) -> None:
    logs = [Log.create(store(tmp_path / name), FAST, log_id=b"1" * 16) for name in ("a", "b")]
    for at, log in enumerate(logs, 1):
        log.add_collection("users", SCHEMA, key=["id"])
        log.split_range("users", 1, at << 60)
    replica.pull(LogSource(logs[0]))
    with pytest.raises(Divergence, match="split or merged ranges in different ways"):
        replica.pull(LogSource(logs[1]))
    for log in logs:
        log.close()


def test_a_cursor_that_the_primary_no_longer_keeps_is_told(tmp_path: Path, replica: Replica) -> None:
    with make_log(tmp_path / "log", SMALL) as log:
        log.add_collection("users", SCHEMA, key=["id"])
        log.append("users", rows(0))
        replica.pull(LogSource(log))
        for i in range(20):
            log.append("users", rows(*[i] * 50))
        oldest = log.trim(500)
        assert oldest > 2
        with pytest.raises(CursorExpired) as expired:
            replica.pull(LogSource(log))
        assert expired.value.earliest == oldest
        with Replica(store(tmp_path / "new"), FAST) as new:
            while new.pull(LogSource(log)):
                pass
            assert (new.log.oldest_lsn, new.lsn) == (oldest, log.current_lsn)
            assert content(new.log, oldest - 1) == content(log, oldest - 1)


def test_a_promoted_replica_refuses_its_old_primary_before_anything_else(
    primary: Log, replica: Replica
) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    primary.append("users", rows(2))
    new = replica.promote()
    try:
        assert (primary.term, new.term, replica.term) == (1, 2, 2)
        assert new.append("users", rows(3)).first == 2
        for late in (lambda: replica.pull(LogSource(primary)), lambda: replica.apply(records(primary)[-1])):
            with pytest.raises(Fenced, match="term 1, and term 2 has taken over"):
                late()
        assert [row["id"] for it in new.read() for row in it.data.to_pylist()] == [1, 3]
    finally:
        new.close()


def test_who_follows_the_new_primary_refuses_the_old_one(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    with Replica(store(tmp_path / "third"), FAST) as third, replica.promote(7) as new:
        third.pull(LogSource(primary))
        assert third.term == 1
        third.pull(LogSource(new))
        assert third.term == 7, "also without a record of that term"
        primary.append("users", rows(2))
        with pytest.raises(Fenced, match="term 1, and term 7"):
            third.pull(LogSource(primary))
        new.append("users", rows(3))
        third.pull(LogSource(new))
        everything(new, third)
    with Replica(store(tmp_path / "third"), FAST) as third, pytest.raises(Fenced):
        third.apply(records(primary)[0])


def test_an_old_primary_that_wrote_on_cannot_follow_the_new_one(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    with replica.promote() as new:
        primary.append("users", rows(2))
        new.append("users", rows(3))
        primary.close()
        with Replica(store(tmp_path / "primary"), FAST) as old, pytest.raises(Divergence):
            old.pull(LogSource(new))


def test_an_old_primary_that_did_not_write_on_follows_the_new_one(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    with replica.promote() as new:
        primary.close()
        new.append("users", rows(3))
        with Replica(store(tmp_path / "primary"), FAST) as old:
            assert old.pull(LogSource(new)) == 1
            everything(new, old)
            assert old.log.term == 2


def test_a_term_that_is_not_higher_does_not_take_over(primary: Log, replica: Replica) -> None:
    primary.promote(5)
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    for term in (1, 5):
        with pytest.raises(Fenced, match=f"the term {term} is not above 5"):
            replica.promote(term)
    primary.append("users", rows(2))
    assert replica.pull(LogSource(primary)) == 1, "it still follows"
    replica.promote(6).close()


def test_a_replica_that_was_promoted_or_closed_follows_nobody(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    primary.append("users", rows(1))
    replica.pull(LogSource(primary))
    replica.promote().close()
    replica.close()
    primary.promote(3)
    primary.append("users", rows(2))
    with pytest.raises(Closed, match="it was promoted"):
        replica.pull(LogSource(primary))
    with Replica(store(tmp_path / "replica"), FAST) as again:
        assert again.pull(LogSource(primary)) == 1
        again.close()
        with pytest.raises(Closed, match="it was closed"):
            again.apply(records(primary)[0])


def test_it_goes_on_after_a_restart_and_still_knows_what_it_applied_last(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    for i in range(3):
        primary.append("users", rows(i))
    first, second, third = records(primary)
    replica.apply(first)
    replica.apply(second)
    with pytest.raises(InUse):
        Replica(store(tmp_path / "replica"), FAST)
    replica.close()
    with Replica(store(tmp_path / "replica"), FAST) as again:
        assert (again.lsn, again.term) == (2, 1)
        assert [again.apply(it) for it in (first, second, third)] == [
            Verdict.SKIP,
            Verdict.REPEAT,
            Verdict.APPLY,
        ]
        everything(primary, again)


def test_an_empty_copy_that_is_opened_again_takes_only_what_follows_its_beginning(
    primary: Log, replica: Replica, tmp_path: Path
) -> None:
    for i in range(3):
        primary.append("users", rows(i))
    first, second, third = records(primary)
    replica.take(Shipment(first.meta, 1, 3, None, ()))
    replica.close()
    with Replica(store(tmp_path / "replica"), FAST) as again:
        assert again.lsn == 1
        assert again.apply(first) is Verdict.SKIP
        with pytest.raises(Gap):
            again.apply(third)
        assert [again.apply(it) for it in (second, third)] == [Verdict.APPLY] * 2
        assert content(again.log, 1) == content(primary, 1)


def test_retention_of_a_copy_leaves_what_the_next_record_is_compared_with(
    primary: Log, tmp_path: Path
) -> None:
    kept = LogOptions(fsync="never", segment_bytes=4096, retain_bytes=0)
    place = store(tmp_path / "replica")
    for i in range(30):
        primary.append("users", rows(*[i] * 100))
    last = records(primary)[-1]
    with Replica(place, kept) as replica:
        replica.pull(LogSource(primary))
    with Replica(place, kept) as replica:
        assert replica.log.oldest_lsn > 1
        assert replica.apply(last) is Verdict.REPEAT


def test_a_death_at_any_moment_leaves_a_copy_that_goes_on(tmp_path: Path) -> None:
    with make_log(tmp_path / "primary", SMALL) as primary:
        primary.add_collection("users", SCHEMA, key=["id"])
        for i in range(4):
            primary.append("users", rows(*[i] * 100))
        primary.split_range("users", 1)
        primary.promote(3)
        primary.append("users", rows(5))
        source = LogSource(primary)
        folders = (tmp_path / str(i) for i in range(1_000_000))

        def script(mortal: MortalStore) -> None:
            replica = Replica(mortal, SMALL)
            while replica.pull(source, 1):
                pass
            replica.close()

        deaths = 0
        for folder in every_death(lambda: next(folders), script):
            deaths += 1
            with Replica(store(folder), SMALL) as replica:
                while replica.pull(source):
                    pass
                everything(primary, replica)
                assert replica.log.ranges("users") == primary.ranges("users")
                assert replica.term == 3
        assert deaths > 40


def shipped(log: Log, since: int | None = None) -> Shipment:
    return LogSource(log).ship(since)


def test_a_shipment_comes_back_from_its_bytes_as_it_was(primary: Log, replica: Replica) -> None:
    for i in range(3):
        primary.append("users", rows(i, i + 5))
    with primary.transaction() as t:
        t.append("users", rows(9))
        t.refresh("other", pa.table({"n": [1.0]}, OTHER))
    for since in (None, 2, 8):
        shipment = shipped(primary, since)
        back = Shipment.decode(shipment.encode())
        assert (back.meta, back.since, back.current_lsn) == (shipment.meta, shipment.since, 8)
        assert (back.before is None) == (shipment.before is None) == (since is None)
        if back.before and shipment.before and back.before.digest and shipment.before.digest:
            assert back.before.digest() == shipment.before.digest()
            assert back.before.last_lsn == since
        assert [it.place.digest() for it in back.records] == [it.place.digest() for it in shipment.records]
        assert [str(it) for it in back.records] == [str(it) for it in shipment.records]
        assert [it.bodies for it in back.records] == [it.bodies for it in shipment.records]
    assert replica.take(Shipment.decode(shipped(primary).encode())) == 4
    everything(primary, replica)


def test_every_flipped_or_missing_byte_of_a_shipment_is_noticed(primary: Log) -> None:
    primary.append("users", rows(1))
    with primary.transaction() as t:
        t.append("users", rows(2))
        t.append("other", pa.table({"n": [1.0]}, OTHER))
    data = shipped(primary, 1).encode()
    for i in range(len(data)):
        with pytest.raises(DidNotHappen):
            Shipment.decode(data[:i] + bytes([data[i] ^ 0x10]) + data[i + 1 :])
    whole = 0
    for i in range(len(data)):
        try:
            records = Shipment.decode(data[:i]).records
        except DidNotHappen:
            continue
        whole += 1
        assert records == (), "what is cut off at the end of a transaction is a shorter shipment"
    assert whole == 1


class PrimaryAndReplicas(RuleBasedStateMachine):
    """Two places; one is the primary. The model is the primary's log: the copy is a prefix of it, always."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.number = 0
        self.primary = make_log(self.folder / "0", SMALL)
        self.primary.add_collection("users", SCHEMA, key=["id"])
        self.place = store(self.folder / "1")
        self.replica = Replica(self.place, SMALL)
        self.seen: list[Shipment] = []

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.replica.close()
            self.primary.close()
            shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 3), size=st.integers(1, 60))
    def append(self, count: int, size: int) -> None:
        with self.primary.transaction() as t:
            for _ in range(count):
                self.number += 1
                t.append("users", rows(*[self.number] * size))

    @rule()
    def refresh(self) -> None:
        self.number += 1
        self.primary.refresh("users", rows(self.number))

    @rule()
    def split(self) -> None:
        alive = self.primary.ranges(
            "users", FAR
        )  # perhaps split beyond the end, by a primary that is no more
        self.primary.split_range("users", alive[-1].id)

    @rule(most=st.sampled_from([1, 2000, 1 << 20]), as_bytes=st.booleans())
    def pull(self, most: int, as_bytes: bool) -> None:
        shipment = LogSource(self.primary).ship(self.replica.lsn, most)
        if as_bytes:
            shipment = Shipment.decode(shipment.encode())
        self.seen.append(shipment)
        assert self.replica.take(shipment) == len(shipment.records)
        assert self.replica.log.ranges("users", FAR) == self.primary.ranges("users", FAR)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        shipment = data.draw(st.sampled_from(self.seen))
        before = self.replica.lsn
        if shipment.term < self.replica.term:
            with pytest.raises(Fenced):
                self.replica.take(shipment)
        else:
            assert self.replica.take(shipment) == 0
        assert self.replica.lsn == before

    @rule()
    def restart(self) -> None:
        self.replica.close()
        self.replica = Replica(self.place, SMALL)

    @precondition(lambda self: self.replica.lsn is not None)
    @rule()
    def take_over(self) -> None:
        """The replica gets the primary's place, and a new one begins to follow it."""
        old, promoted = self.primary, self.replica
        self.primary = promoted.promote()
        if old.current_lsn:
            with pytest.raises(Fenced):
                promoted.take(LogSource(old).ship(None))
        old.close()
        self.place = store(self.folder / str(self.number + 1_000_000))
        self.number += 1
        self.replica = Replica(self.place, SMALL)
        self.replica.pull(LogSource(self.primary), 1)

    @invariant()
    def the_copy_is_a_prefix(self) -> None:
        if hasattr(self, "replica") and self.replica.lsn is not None:
            assert content(self.replica.log) == content(self.primary)[: self.replica.lsn]


TestPrimaryAndReplicas = PrimaryAndReplicas.TestCase
TestPrimaryAndReplicas.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)
