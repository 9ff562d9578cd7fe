"""Change records applied one by one to a target that keeps rows in a dictionary."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.record import ChangeOperation, ChangeRecord
from penstock.errors import DidNotHappen, Divergence, Fenced, Gap
from penstock.log.record_replica import Applied, RecordReplica, payload_digest
from penstock.log.replica_rules import Verdict

INSERT, UPDATE, DELETE, REFRESH = ChangeOperation


class Contents:
    """Rows by number for each collection; it may be told to fail before it does anything."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, bytes]] = {}
        self.applied: Applied | None = None
        self.fails = False

    def apply(self, record: ChangeRecord, applied: Applied) -> None:
        if self.fails:
            raise ConnectionError("the target is away")
        rows = self.rows.setdefault(record.collection, {})
        if record.operation is REFRESH:
            self.rows[record.collection] = dict(enumerate(record.refresh_records or ()))
        elif record.operation is DELETE:
            rows.pop(record.entity_id, None)
        else:
            assert record.entity_bytes is not None
            rows[record.entity_id] = record.entity_bytes
        self.applied = applied

    def keep(self, applied: Applied) -> None:
        self.applied = applied


def record(lsn: int, value: bytes = b"v", term: int = 1, rid: int = 1, **more: Any) -> ChangeRecord:
    return ChangeRecord(lsn, 1000 + lsn, INSERT, "users", rid, "row", value, term=term, **more)


def replica(*records: ChangeRecord) -> tuple[RecordReplica, Contents]:
    target = Contents()
    it = RecordReplica(target)
    for each in records:
        assert it.apply(each) is Verdict.APPLY
    return it, target


def test_records_apply_in_order_and_once() -> None:
    it, target = replica(record(7, b"a"), record(8, b"b"))
    assert it.apply(record(8, b"b")) is Verdict.REPEAT
    assert it.apply(record(7, b"another")) is Verdict.SKIP
    assert it.apply(record(9, b"c", rid=2)) is Verdict.APPLY
    assert target.rows == {"users": {1: b"b", 2: b"c"}}
    assert it.applied == target.applied
    assert it.applied is not None
    assert (it.applied.lsn, it.applied.term) == (9, 1)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (record(8, b"other"), Divergence),
        (record(10, b"x"), Gap),
        (record(9, b"x", term=0), Fenced),
        (record(8, b"b", term=0), Fenced),
    ],
    ids=["divergence", "gap", "stale", "stale-repeat"],
)
def test_a_refused_record_changes_nothing(other: ChangeRecord, error: type[DidNotHappen]) -> None:
    it, target = replica(record(7, b"a"), record(8, b"b"))
    before = copy.deepcopy((target.rows, target.applied, it.applied))
    with pytest.raises(error):
        it.apply(other)
    assert (target.rows, target.applied, it.applied) == before


def test_a_refresh_replaces_the_collection_and_repeats_as_nothing() -> None:
    refresh = ChangeRecord.for_refresh(2, 5, "users", [b"x", b"", b"y"])
    it, target = replica(record(1), refresh)
    assert target.rows == {"users": {0: b"x", 1: b"", 2: b"y"}}
    assert it.apply(ChangeRecord.decode(refresh.encode())) is Verdict.REPEAT
    with pytest.raises(Divergence):
        it.apply(ChangeRecord.for_refresh(2, 5, "users", [b"x", b"y", b""]))


def test_a_record_sent_again_by_a_new_primary_is_the_same_record() -> None:
    it, target = replica(record(1))
    assert it.apply(record(1, term=5)) is Verdict.REPEAT
    assert target.applied is not None
    assert target.applied.term == 5, "a newer term is kept, so that it holds after a restart"
    with pytest.raises(Fenced):
        RecordReplica(target, target.applied).apply(record(2, term=4))


def test_it_goes_on_after_a_restart_from_what_the_target_kept() -> None:
    _, target = replica(record(1, b"a"), record(2, b"b"))
    assert target.applied is not None
    again = RecordReplica(target, Applied.from_json(target.applied.to_json()))
    assert again.apply(record(2, b"b")) is Verdict.REPEAT
    with pytest.raises(Divergence):
        again.apply(record(2, b"c"))
    assert again.apply(record(3, b"c")) is Verdict.APPLY


def test_a_target_that_fails_is_given_the_record_again() -> None:
    it, target = replica(record(1, b"a"))
    target.fails = True
    with pytest.raises(ConnectionError):
        it.apply(record(2, b"b", term=2))
    assert it.applied == target.applied
    target.fails = False
    assert it.apply(record(2, b"b")) is Verdict.APPLY, "the term of a record that failed was not taken over"


def test_the_payload_is_what_is_said_and_not_how() -> None:
    left = record(1, metadata={"a": 1, "b": [None]})
    assert payload_digest(left) == payload_digest(record(1, metadata={"b": [None], "a": 1}, term=9))
    others = [record(1), record(1, metadata=None), record(2, metadata=left.metadata), record(1, b"w")]
    assert len({payload_digest(it) for it in [left, *others]}) == 5


@st.composite
def histories(draw: st.DrawFn) -> list[ChangeRecord]:
    found = []
    for lsn in range(1, draw(st.integers(1, 12)) + 1):
        rid, value = draw(st.integers(1, 3)), draw(st.binary(max_size=2))
        match draw(st.sampled_from([INSERT, UPDATE, DELETE, REFRESH])):
            case ChangeOperation.REFRESH as operation:
                found.append(ChangeRecord(lsn, 1, operation, "t", refresh_records=(value, b"")))
            case operation:
                found.append(ChangeRecord(lsn, 1, operation, "t", rid, "row", value))
    return found


@settings(deadline=None, max_examples=200)
@given(histories(), st.data())
def test_however_records_come_the_target_holds_a_prefix_of_the_history(
    history: list[ChangeRecord], data: st.DataObject
) -> None:
    contents = []
    oracle = RecordReplica(model := Contents())
    for each in history:
        oracle.apply(each)
        contents.append(copy.deepcopy(model.rows))
    it, target = replica(history[0])
    for index in data.draw(st.lists(st.integers(0, len(history) - 1), max_size=40)):
        assert target.applied is not None
        sent = history[index]
        if data.draw(st.booleans()):
            it = RecordReplica(target, target.applied)  # a restart
        if sent.lsn != target.applied.lsn + 1 and data.draw(st.booleans()):
            sent = record(sent.lsn, b"something else")
        with contextlib.suppress(Gap, Divergence):
            it.apply(sent)
        assert target.rows == contents[target.applied.lsn - 1]
