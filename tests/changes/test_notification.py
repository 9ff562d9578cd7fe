from __future__ import annotations

import dataclasses
import threading
import tracemalloc
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.changes.notification import (
    CACHE_LINE,
    NOTIFICATION_DTYPE,
    NotificationRef,
    NotificationRing,
    aligned_refs,
    gaps,
)
from penstock.changes.op import EventType
from penstock.errors import InvalidArgument

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
REFS = st.builds(
    NotificationRef, U64, U32, st.sampled_from(list(EventType)), U32, st.integers(-(2**63), 2**63 - 1), U64
)


def array(refs: list[NotificationRef]) -> np.ndarray:
    made = aligned_refs(len(refs))
    for i, ref in enumerate(refs):
        made[i] = ref.as_tuple()
    return made


def listed(refs: np.ndarray) -> list[NotificationRef]:
    return [NotificationRef.from_record(record) for record in refs]


def test_a_reference_fills_one_cache_line_exactly() -> None:
    assert NOTIFICATION_DTYPE.itemsize == CACHE_LINE == 64
    assert {name: NOTIFICATION_DTYPE.fields[name][1] for name in NOTIFICATION_DTYPE.names} == {
        "sequence": 0,
        "source_id": 8,
        "event_type": 12,
        "row_count": 16,
        "timestamp": 24,
        "batch_offset": 32,
    }
    for kind, offset in NOTIFICATION_DTYPE.fields.values():
        assert offset % kind.itemsize == 0


def test_the_bytes_of_a_reference_stay_where_they_are() -> None:
    refs = aligned_refs(1)
    refs[0] = (1, 2, EventType.SNAPSHOT, 3, -4, 5)
    expected = "0100000000000000 02000000 04 000000 03000000 00000000 fcffffffffffffff 0500000000000000"
    assert refs.tobytes() == bytes.fromhex(expected) + bytes(24)


@pytest.mark.parametrize("count", [1, 3, 1_000])
def test_storage_begins_at_a_cache_line_and_is_zero(count: int) -> None:
    for _ in range(20):
        refs = aligned_refs(count)
        assert refs.ctypes.data % CACHE_LINE == 0
        assert refs.nbytes == count * CACHE_LINE
        assert not refs.view(np.uint8).any()
    assert len(aligned_refs(0)) == 0


def test_the_rings_own_lines_are_aligned_and_so_are_those_it_hands_out() -> None:
    ring = NotificationRing(7)
    assert ring._bytes.ctypes.data % CACHE_LINE == 0
    ring.push_many(aligned_refs(5))
    assert ring.drain().ctypes.data % CACHE_LINE == 0


@given(REFS)
def test_a_reference_is_a_value(ref: NotificationRef) -> None:
    assert NotificationRef.from_record(array([ref])[0]) == ref
    assert hash(dataclasses.replace(ref)) == hash(ref)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ref.sequence = 1  # type: ignore[misc]
    assert not hasattr(ref, "__dict__")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sequence": 2**64},
        {"sequence": -1},
        {"source_id": 2**32},
        {"event_type": 5},
        {"event_type": "insert"},
        {"row_count": -1},
        {"row_count": 1.0},
        {"timestamp": 2**63},
        {"batch_offset": 2**64},
    ],
)
def test_what_does_not_fit_its_place_is_refused(wrong: dict[str, Any]) -> None:
    good = {"sequence": 0, "source_id": 0, "event_type": 0, "row_count": 0, "timestamp": 0, "batch_offset": 0}
    with pytest.raises(InvalidArgument):
        NotificationRef(**(good | wrong))
    if "sequence" not in wrong and wrong.get("event_type") != "insert":
        del good["sequence"]
        for ring in (NotificationRing(2), NotificationRing(0)):  # a full ring complains as well
            with pytest.raises(InvalidArgument):
                ring.push_fields(**(good | wrong))
            assert (len(ring), ring.next_sequence) == (0, 0)


def test_a_full_ring_answers_false_and_still_counts() -> None:
    ring = NotificationRing(2, first_sequence=10)
    ref = NotificationRef(999, 1, EventType.INSERT, 1, 0, 0)
    assert [ring.push(ref) for _ in range(5)] == [True, True, False, False, False]
    assert (ring.pushed, ring.dropped, len(ring), ring.next_sequence) == (2, 3, 2, 15)
    first = ring.drain()
    assert ring.push(ref)
    second = ring.drain()
    assert (first["sequence"].tolist(), second["sequence"].tolist()) == ([10, 11], [15])
    seen = gaps(first, 10)
    assert (seen.total, seen.next_expected) == (0, 12)
    missing = gaps(second, seen.next_expected)
    assert (missing.starts.tolist(), missing.sizes.tolist(), missing.total) == ([12], [3], 3)


def test_drops_after_the_last_reference_show_in_the_next_sequence() -> None:
    ring = NotificationRing(1)
    ring.push_many(aligned_refs(4))
    assert ring.next_sequence - gaps(ring.drain(), 0).next_expected == 3


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 2**63))
def test_gaps_tell_exactly_what_is_missing(kept: list[bool], start: int) -> None:
    sequences = [start + i for i, keep in enumerate(kept) if keep]
    refs = aligned_refs(len(sequences))
    refs["sequence"] = np.array(sequences, np.uint64)
    found = gaps(refs, start)
    told = {
        number
        for first, size in zip(found.starts.tolist(), found.sizes.tolist(), strict=True)
        for number in range(first, first + size)
    }
    reach = sequences[-1] + 1 if sequences else start
    assert told == {start + i for i, keep in enumerate(kept) if not keep and start + i < reach}
    assert (found.total, found.next_expected) == (len(told), reach)


def test_a_sequence_that_goes_back_is_refused() -> None:
    refs = aligned_refs(3)
    refs["sequence"] = [5, 7, 6]
    with pytest.raises(InvalidArgument, match="6 comes where 8"):
        gaps(refs, 5)
    with pytest.raises(InvalidArgument, match="5 comes where 6"):
        gaps(refs, 6)
    for expected in (-1, 2**64):
        with pytest.raises(InvalidArgument):
            gaps(refs, expected)


def test_arrays_of_another_kind_are_refused() -> None:
    ring = NotificationRing(4)
    for wrong in (np.zeros(4, np.int64), np.zeros((2, 2), NOTIFICATION_DTYPE)):
        with pytest.raises(InvalidArgument):
            ring.push_many(wrong)
        with pytest.raises(InvalidArgument):
            ring.drain_into(wrong)
    with pytest.raises(InvalidArgument, match="has no sequences"):
        gaps(np.zeros(4, np.int64), 0)  # type: ignore[arg-type]
    read_only = aligned_refs(4)
    read_only.flags.writeable = False
    for unfit in (aligned_refs(8)[::2], read_only):
        with pytest.raises(InvalidArgument, match="one piece"):
            ring.drain_into(unfit)
    for call in (
        lambda: NotificationRing(-1),
        lambda: NotificationRing(1, first_sequence=-1),
        lambda: NotificationRing(1, first_sequence=2**63),
        lambda: aligned_refs(-1),
        lambda: ring.drain(-1),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_pushing_and_draining_take_no_memory_per_reference() -> None:
    ring, refs, out = NotificationRing(60_000), aligned_refs(50_000), aligned_refs(50_000)
    tracemalloc.start()
    for _ in range(5):  # also around the ring's end
        assert ring.push_many(refs) == 50_000
        assert ring.drain_into(out) == 50_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000
    assert out["sequence"].tolist() == list(range(200_000, 250_000))


class RingMachine(RuleBasedStateMachine):
    """The ring against a deque of (sequence, reference), and a consumer that counts what it missed."""

    @initialize(capacity=st.integers(0, 9), first=st.integers(0, 2**63 - 1))
    def make(self, capacity: int, first: int) -> None:
        self.ring = NotificationRing(capacity, first_sequence=first)
        self.capacity = capacity
        self.first = self.next = self.expected = first
        self.model: deque[NotificationRef] = deque()
        self.pushed = self.missed = 0

    def keep(self, ref: NotificationRef) -> bool:
        fits = len(self.model) < self.capacity
        if fits:
            self.model.append(dataclasses.replace(ref, sequence=self.next))
            self.pushed += 1
        self.next += 1
        return fits

    @rule(ref=REFS)
    def push(self, ref: NotificationRef) -> None:
        assert self.ring.push(ref) is self.keep(ref)

    @rule(ref=REFS)
    def push_fields(self, ref: NotificationRef) -> None:
        assert self.ring.push_fields(*ref.as_tuple()[1:]) is self.keep(ref)

    @rule(refs=st.lists(REFS, max_size=12), step=st.sampled_from([1, 2]))
    def push_many(self, refs: list[NotificationRef], step: int) -> None:
        given_refs = array(refs)[::step]
        assert self.ring.push_many(given_refs) == sum([self.keep(ref) for ref in refs[::step]])

    def consume(self, drained: np.ndarray, most: int) -> None:
        count = min(most, len(self.model))
        assert listed(drained) == [self.model.popleft() for _ in range(count)]
        found = gaps(drained, self.expected)
        self.missed += found.total
        self.expected = found.next_expected

    @rule(most=st.one_of(st.none(), st.integers(0, 12)))
    def drain(self, most: int | None) -> None:
        self.consume(self.ring.drain(most), self.capacity if most is None else most)

    @rule(size=st.integers(0, 12))
    def drain_into(self, size: int) -> None:
        out = aligned_refs(size)
        count = self.ring.drain_into(out)
        assert not out[count:].view(np.uint8).any()
        self.consume(out[:count], size)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "ring"):
            assert (len(self.ring), self.ring.capacity) == (len(self.model), self.capacity)
            assert (self.ring.pushed, self.ring.next_sequence) == (self.pushed, self.next)
            assert self.ring.dropped == self.next - self.first - self.pushed
            if not self.model:
                assert self.missed + (self.next - self.expected) == self.ring.dropped


TestRingAgainstADeque = RingMachine.TestCase
TestRingAgainstADeque.settings = settings(deadline=None, max_examples=80, stateful_step_count=30)


def test_one_thread_pushes_while_another_drains_and_no_line_is_torn() -> None:
    ring = NotificationRing(64)
    rounds = 3_000
    done = threading.Event()
    drained: list[np.ndarray] = []

    def produce() -> int:
        total = 0
        for i in range(rounds):
            count = i % 37
            refs = aligned_refs(count)
            # Every field of a line tells its sequence, so a line made of two would show.
            numbers = ring.next_sequence + np.arange(count)
            for name in ("batch_offset", "timestamp", "row_count", "source_id"):
                refs[name] = numbers
            ring.push_many(refs)
            number = ring.next_sequence
            ring.push_fields(number, EventType.INSERT, number, number, number)
            total += count + 1
        done.set()
        return total

    def consume() -> None:
        out = aligned_refs(48)
        while True:
            finished = done.is_set()
            count = ring.drain_into(out)
            drained.append(out[:count].copy())
            if finished and not count:
                return

    consumer = threading.Thread(target=consume)
    consumer.start()
    attempts = produce()
    consumer.join()
    everything = np.concatenate(drained)
    for name in ("batch_offset", "timestamp", "row_count", "source_id"):
        assert (everything[name] == everything["sequence"]).all()
    found = gaps(everything, 0)
    assert found.total + (ring.next_sequence - found.next_expected) == ring.dropped
    assert (ring.pushed, ring.pushed + ring.dropped) == (len(everything), attempts)
