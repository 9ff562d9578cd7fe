"""The emitter against a model of a few lines: what is called, with which row, in which order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.log import framing
from penstock.log.framing import FixedRows
from penstock.log.row_emitter import RowEmitter, RowSubscription
from penstock.log.watched_file import WatchedFile

HEADER, ROW = 3, 4
Plan = dict[int, str]
"""What a subscriber does when it is given which row; counted from the row it begins with."""

plans = st.dictionaries(
    st.integers(0, 6),
    st.sampled_from(["fail", "leave", "other leaves", "subscribe", "append", "append and fail", "close"]),
    max_size=3,
)


class Boom(Exception):
    pass


@dataclass
class ModelSubscriber:
    number: int
    begin: int
    plan: Plan
    next: int
    subscribed: bool = True
    failed: bool = False


@dataclass
class Model:
    """Says what is to happen. Knows nothing of reads, turns or positions in a file."""

    size: int = 0
    next: int = 0
    closed: bool = False
    subscribers: list[ModelSubscriber] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)

    @property
    def complete(self) -> int:
        return max(0, self.size - HEADER) // ROW

    @property
    def live(self) -> list[ModelSubscriber]:
        return [it for it in self.subscribers if it.subscribed and not it.failed]

    def subscribe(self, plan: Plan) -> None:
        self.subscribers.append(ModelSubscriber(len(self.subscribers) + 1, self.next, plan, self.next))

    def leave(self, number: int) -> None:
        self.subscribers[number - 1].subscribed = False

    def notify(self) -> None:
        while self.live and not self.closed:
            row = min(it.next for it in self.live)
            if row >= self.complete:
                return
            self.next = max(self.next, row + 1)
            for it in self.live:
                if it.next == row:
                    it.next += 1
                    self.calls.append((it.number, row))
                    self.act(it, row)
        if not self.closed:
            self.next = max(self.next, self.complete)

    def act(self, it: ModelSubscriber, row: int) -> None:
        match it.plan.get(row - it.begin):
            case "leave":
                self.leave(it.number)
            case "other leaves":
                self.leave(it.number % len(self.subscribers) + 1)
            case "subscribe" if not self.closed:
                self.subscribe({1: "leave"})
            case "append" | "append and fail" if not self.closed:
                self.size += ROW + 1
            case "close":
                self.closed = True
        if "fail" in it.plan.get(row - it.begin, ""):
            it.failed = True
            raise Boom(it.number, row)


class RowEmitterMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.model = Model()
        self.calls: list[tuple[int, int]] = []
        self.many: list[tuple[RowSubscription, int, list[int]]] = []
        self.subscriptions: list[RowSubscription] = []

    @initialize(size=st.integers(0, 30), at_once=st.sampled_from([1, 2 * ROW, 1000]))
    def begin(self, size: int, at_once: int) -> None:
        self.patch.setattr(framing, "READ_BYTES", at_once)
        self.file = WatchedFile(Path(self.folder.name) / "rows", create=True)
        self.file.append(self.bytes_from(0, size))
        self.model.size = size
        self.model.next = self.model.complete
        self.emitter = RowEmitter(self.file, FixedRows(ROW, HEADER))

    @rule(count=st.integers(1, 30))
    def append(self, count: int) -> None:
        self.both(lambda: self.append_bytes(count), count)

    @rule(count=st.integers(1, 30))
    def grow_untold(self, count: int) -> None:
        with self.file.path.open("ab") as other:
            other.write(self.bytes_from(self.model.size, count))
        self.model.size += count

    @rule()
    def notify(self) -> None:
        self.both(self.file.notify, 0)

    @precondition(lambda self: not self.model.closed and len(self.subscriptions) < 8)
    @rule(plan=plans)
    def subscribe(self, plan: Plan) -> None:
        self.subscribe_both(plan)
        self.model.subscribe(plan)

    @precondition(lambda self: not self.model.closed and len(self.many) < 2)
    @rule()
    def subscribe_rows(self) -> None:
        seen: list[int] = []

        def callback(first: int, data: memoryview, count: int) -> None:
            assert data == self.bytes_from(HEADER + first * ROW, count * ROW)
            seen.extend(range(first, first + count))

        self.many.append((self.emitter.subscribe_rows(callback), self.model.next, seen))
        # It counts among the others, but nothing it does is planned.
        self.subscriptions.append(self.many[-1][0])
        self.model.subscribers.append(
            ModelSubscriber(len(self.subscriptions), self.model.next, {}, self.model.next)
        )

    @precondition(lambda self: self.subscriptions)
    @rule(which=st.integers(0, 20))
    def unsubscribe(self, which: int) -> None:
        number = which % len(self.subscriptions) + 1
        self.subscriptions[number - 1]()
        self.model.leave(number)

    @precondition(lambda self: self.model.size > 60)
    @rule()
    def close(self) -> None:
        self.emitter.close()
        self.model.closed = True

    @invariant()
    def ids_and_failures_agree(self) -> None:
        assert [it.id for it in self.subscriptions] == list(range(1, len(self.model.subscribers) + 1))
        assert [it.failed is not None for it in self.subscriptions] == [
            it.failed for it in self.model.subscribers
        ]

    def teardown(self) -> None:
        self.patch.undo()
        self.file.close()
        self.folder.cleanup()

    def both(self, drive: Callable[[], object], count: int) -> None:
        """Drive the emitter and the model; both do the same, or fail with the same error."""
        self.model.size += count
        expected: Boom | None = None
        try:
            self.model.notify()
        except Boom as error:
            expected = error
        # What the model's callbacks append is appended by the emitter's own; see `act`.
        self.written = self.model.size
        raised: Boom | None = None
        try:
            drive()
        except Boom as error:
            raised = error
        assert (raised and raised.args) == (expected and expected.args)
        self.check_calls(complete=expected is None and not self.model.closed)

    def check_calls(self, complete: bool) -> None:
        batched = {it.id for it, _, _ in self.many}
        expected = [call for call in self.model.calls if call[0] not in batched]
        assert self.calls == expected
        assert self.file.size == self.model.size
        for subscription, begin, seen in self.many:
            model = self.model.subscribers[subscription.id - 1]
            assert seen == list(range(begin, begin + len(seen)))
            assert model.next - begin <= len(seen) <= max(0, self.model.complete - begin)
            if complete and model.subscribed:
                assert len(seen) == max(0, self.model.complete - begin)

    def subscribe_both(self, plan: Plan) -> None:
        number = len(self.subscriptions) + 1

        def callback(index: int, row: memoryview) -> None:
            assert row == self.bytes_from(HEADER + index * ROW, ROW)
            self.calls.append((number, index))
            self.act(number, index, begin, plan)

        subscription = self.emitter.subscribe(callback)
        begin = subscription.next.index
        self.subscriptions.append(subscription)

    def act(self, number: int, index: int, begin: int, plan: Plan) -> None:
        action = plan.get(index - begin, "")
        closed = self.emitter._turn.closed
        match action:
            case "leave":
                self.subscriptions[number - 1]()
            case "other leaves":
                self.subscriptions[number % len(self.subscriptions)]()
            case "subscribe" if not closed:
                self.subscribe_both({1: "leave"})
            case "append" | "append and fail" if not closed:
                self.append_bytes(ROW + 1)
            case "close":
                self.emitter.close()
        if "fail" in action:
            raise Boom(number, index)

    def append_bytes(self, count: int) -> None:
        self.file.append(self.bytes_from(self.file.size, count))

    @staticmethod
    def bytes_from(offset: int, count: int) -> bytes:
        """The bytes of the file, each told by its place."""
        return bytes((place * 89 + place // 251) % 256 for place in range(offset, offset + count))


TestRowEmitterMachine = RowEmitterMachine.TestCase
TestRowEmitterMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=25)
