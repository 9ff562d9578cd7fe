from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.changes.changelog import (
    CHANGELOG_DTYPE,
    OP_WEIGHTS,
    ChangelogBuffer,
    ChangelogRecord,
    ChangelogRef,
    changelog_refs,
)
from penstock.changes.op import Op
from penstock.errors import InvalidArgument

OPS = st.sampled_from(list(Op))
REFS = st.builds(
    ChangelogRef, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(-(2**15), 2**15 - 1), OPS
)


def array(refs: list[ChangelogRef]) -> np.ndarray:
    return np.array([tuple(ref) for ref in refs], CHANGELOG_DTYPE)


def listed(refs: np.ndarray) -> list[ChangelogRef]:
    return [ChangelogRef.from_record(record) for record in refs]


def test_an_insert_record_adds_one() -> None:
    record = ChangelogRecord.insert("hello", 1_000)
    assert (record.data, record.weight, record.timestamp, record.op) == ("hello", 1, 1_000, Op.INSERT)
    assert record.is_insert
    assert not record.is_delete


def test_a_delete_record_takes_one_away() -> None:
    record = ChangelogRecord.delete("goodbye", 2_000)
    assert (record.data, record.weight, record.timestamp, record.op) == ("goodbye", -1, 2_000, Op.DELETE)
    assert record.is_delete
    assert not record.is_insert


def test_a_retraction_is_the_old_side_taken_away_and_the_new_side_added() -> None:
    before, after = ChangelogRecord.retraction("old", "new", 3_000)
    assert (before.data, before.weight, before.op) == ("old", -1, Op.UPDATE_BEFORE)
    assert (after.data, after.weight, after.op) == ("new", 1, Op.UPDATE_AFTER)
    assert before.timestamp == after.timestamp == 3_000


def test_a_weight_of_zero_neither_adds_nor_takes_away() -> None:
    for op in Op:
        record = ChangelogRecord("x", 0, 0, op)
        assert not record.is_insert
        assert not record.is_delete


@given(st.integers(-3, 3), OPS)
def test_a_weight_and_an_operation_that_contradict_each_other_are_refused(weight: int, op: Op) -> None:
    if weight * op.weight < 0:
        with pytest.raises(InvalidArgument, match="contradict"):
            ChangelogRecord("x", weight, 0, op)
    else:
        assert ChangelogRecord("x", weight, 0, op).weight == weight


def test_a_records_numbers_have_64_bits() -> None:
    assert ChangelogRecord("x", 2**63 - 1, -(2**63), Op.INSERT).weight == 2**63 - 1
    for weight, timestamp in ((2**63, 0), (1, 2**63), (1, -(2**63) - 1), (1, 0.5)):
        with pytest.raises(InvalidArgument):
            ChangelogRecord("x", weight, timestamp, Op.INSERT)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="operation"):
        ChangelogRecord("x", 1, 0, 9)  # type: ignore[arg-type]


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ChangelogRecord.insert("x", 0).weight = 2  # type: ignore[misc]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2))))
def test_the_weights_of_records_sum_to_the_multiset(changes: list[tuple[str, int]]) -> None:
    records = [
        ChangelogRecord(word, weight, 0, Op.DELETE if weight < 0 else Op.INSERT) for word, weight in changes
    ]
    bag = dict.fromkeys("abc", 0)
    for word, weight in changes:
        bag[word] += weight
    for word in "abc":
        assert sum(record.weight for record in records if record.data == word) == bag[word]


@given(st.lists(OPS))
def test_an_update_as_a_pair_moves_no_total(ops: list[Op]) -> None:
    total = sum(op.weight for op in ops)
    pairs = [ChangelogRecord.retraction(i, i + 1, 0) for i in range(len(ops))]
    assert total + sum(before.weight + after.weight for before, after in pairs) == total


def test_a_reference_has_twelve_bytes_without_holes_between() -> None:
    assert CHANGELOG_DTYPE.itemsize == 12
    assert {name: CHANGELOG_DTYPE.fields[name][1] for name in CHANGELOG_DTYPE.names} == {
        "batch_offset": 0,
        "row_index": 4,
        "weight": 8,
        "op": 10,
    }
    one = changelog_refs([3], batch_offset=1, row_index=2, weights=-3)
    assert one.tobytes() == bytes([1, 0, 0, 0, 2, 0, 0, 0, 0xFD, 0xFF, 3, 0])


def test_weights_by_operation_are_those_of_the_operations() -> None:
    assert OP_WEIGHTS.tolist() == [op.weight for op in Op]
    with pytest.raises(ValueError, match="read-only"):
        OP_WEIGHTS[0] = 7


@settings(deadline=None)
@given(st.lists(REFS, max_size=20))
def test_references_made_in_bulk_are_those_made_one_by_one(refs: list[ChangelogRef]) -> None:
    columns = [list(column) for column in zip(*refs, strict=True)] or [[], [], [], []]
    made = changelog_refs(columns[3], batch_offset=columns[0], row_index=columns[1], weights=columns[2])
    assert listed(made) == refs


@given(st.lists(OPS, max_size=20), st.integers(0, 2**32 - 1))
def test_rows_are_numbered_and_weights_follow_the_operations_unless_given(ops: list[Op], offset: int) -> None:
    made = changelog_refs(np.array(ops, np.int8), batch_offset=offset)
    assert listed(made) == [ChangelogRef(offset, row, op.weight, op) for row, op in enumerate(ops)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ops": [4]},
        {"ops": [-1]},
        {"ops": [0.0]},
        {"ops": [[0]]},
        {"ops": 0},
        {"batch_offset": 2**32},
        {"batch_offset": [1, 2]},
        {"row_index": [-1]},
        {"row_index": [1.5]},
        {"row_index": [0, 1]},
        {"weights": [2**15]},
        {"weights": []},
    ],
)
def test_references_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        changelog_refs(**({"ops": [0], "batch_offset": 0} | wrong))


def test_a_drained_buffer_is_empty_and_takes_as_many_again() -> None:
    buffer = ChangelogBuffer(1_024)
    for _ in range(3):
        for i in range(100):
            assert buffer.push(ChangelogRef(i, 0, 1, Op.INSERT))
        assert (len(buffer), buffer.is_empty) == (100, False)
        drained = buffer.drain()
        assert drained["batch_offset"].tolist() == list(range(100))
        assert (len(buffer), buffer.is_empty, len(buffer.drain())) == (0, True, 0)


def test_filling_and_draining_take_no_memory_per_reference() -> None:
    refs = changelog_refs(np.zeros(100_000, np.int8), batch_offset=0)
    buffer = ChangelogBuffer(100_000)
    buffer.push_many(refs)
    buffer.drain()
    tracemalloc.start()
    for _ in range(3):
        assert buffer.push_many(refs) == 100_000
        drained = buffer.drain()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(drained) == 100_000
    assert peak < 10_000


def test_what_is_drained_cannot_be_written_to() -> None:
    buffer = ChangelogBuffer(2)
    buffer.push(ChangelogRef(0, 0, 1, Op.INSERT))
    with pytest.raises(ValueError, match="read-only"):
        buffer.drain()["weight"] = 5


def test_a_retraction_goes_in_whole_or_not_at_all() -> None:
    pair = ChangelogRef(0, 1, -1, Op.UPDATE_BEFORE), ChangelogRef(0, 2, 1, Op.UPDATE_AFTER)
    buffer = ChangelogBuffer(3)
    assert buffer.push_retraction(*pair)
    assert not buffer.push_retraction(*pair)
    assert listed(buffer.drain()) == list(pair)
    with pytest.raises(InvalidArgument, match="-U side first"):
        buffer.push_retraction(pair[1], pair[0])
    with pytest.raises(InvalidArgument):
        buffer.push_retraction(pair[0], ChangelogRef(0, 2**32, 1, Op.UPDATE_AFTER))
    assert buffer.is_empty


def test_half_an_update_is_never_taken_from_many() -> None:
    ops = [Op.INSERT, Op.UPDATE_BEFORE, Op.UPDATE_AFTER, Op.DELETE]
    for capacity, taken in ((0, 0), (1, 1), (2, 1), (3, 3), (4, 4), (9, 4)):
        assert ChangelogBuffer(capacity).push_many(changelog_refs(ops, batch_offset=0)) == taken


def test_what_does_not_fit_the_layout_is_refused_also_when_full() -> None:
    for buffer in (ChangelogBuffer(0), ChangelogBuffer(1)):
        for wrong in (
            ChangelogRef(-1, 0, 1, Op.INSERT),
            ChangelogRef(0, 2**32, 1, Op.INSERT),
            ChangelogRef(0, 0, 2**15, Op.INSERT),
            ChangelogRef(0, 0, 1, 4),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidArgument):
                buffer.push(wrong)
        for refs in (np.zeros(1, np.int64), np.zeros((1, 1), CHANGELOG_DTYPE)):
            with pytest.raises(InvalidArgument, match="references"):
                buffer.push_many(refs)
        assert buffer.is_empty
    with pytest.raises(InvalidArgument, match="capacity is -1"):
        ChangelogBuffer(-1)


def test_every_other_reference_of_an_array_can_be_pushed() -> None:
    refs = changelog_refs(np.zeros(10, np.int8), batch_offset=0)
    buffer = ChangelogBuffer(10)
    assert buffer.push_many(refs[::2]) == 5
    assert buffer.drain()["row_index"].tolist() == [0, 2, 4, 6, 8]


class BufferMachine(RuleBasedStateMachine):
    """The buffer against a list; what was drained last must stay as it was until the next drain."""

    @initialize(capacity=st.integers(0, 9))
    def make(self, capacity: int) -> None:
        self.buffer = ChangelogBuffer(capacity)
        self.capacity = capacity
        self.model: list[ChangelogRef] = []
        self.drained: tuple[np.ndarray, list[ChangelogRef]] | None = None

    @rule(ref=REFS)
    def push(self, ref: ChangelogRef) -> None:
        fits = len(self.model) < self.capacity
        assert self.buffer.push(ref) is fits
        if fits:
            self.model.append(ref)

    @rule(before=REFS, after=REFS)
    def push_retraction(self, before: ChangelogRef, after: ChangelogRef) -> None:
        pair = [before._replace(op=Op.UPDATE_BEFORE), after._replace(op=Op.UPDATE_AFTER)]
        fits = len(self.model) + 2 <= self.capacity
        assert self.buffer.push_retraction(*pair) is fits
        if fits:
            self.model += pair

    @rule(refs=st.lists(REFS, max_size=6))
    def push_many(self, refs: list[ChangelogRef]) -> None:
        room = refs[: self.capacity - len(self.model)]
        rest = refs[len(room) :]
        if room and rest and (room[-1].op, rest[0].op) == (Op.UPDATE_BEFORE, Op.UPDATE_AFTER):
            room.pop()
        assert self.buffer.push_many(array(refs)) == len(room)
        self.model += room

    @rule()
    def drain(self) -> None:
        drained = self.buffer.drain()
        assert listed(drained) == self.model
        self.drained = (drained, self.model)
        self.model = []

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "buffer"):
            assert len(self.buffer) == len(self.model)
            assert self.buffer.is_empty is (not self.model)
            assert self.buffer.capacity == self.capacity
            if self.drained:
                assert listed(self.drained[0]) == self.drained[1]


TestBufferAgainstAList = BufferMachine.TestCase
TestBufferAgainstAList.settings = settings(deadline=None, max_examples=80, stateful_step_count=30)
