from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import Closed, FileChanged, InvalidArgument
from penstock.log import framing
from penstock.log.framing import FixedRows, Position
from penstock.log.row_emitter import RowEmitter
from penstock.log.subscribers import Subscribers
from penstock.log.watched_file import WatchedFile
from tests.log.frames import LengthPrefixed, frame

Seen = list[tuple[int, bytes]]


@pytest.fixture
def file(tmp_path: Path) -> WatchedFile:
    (tmp_path / "rows").write_bytes(b"head")
    return WatchedFile(tmp_path / "rows")


def rows(file: WatchedFile) -> RowEmitter:
    return RowEmitter(file, FixedRows(2, header=4))


def into(seen: Seen) -> Callable[[int, memoryview], None]:
    return lambda index, row: seen.append((index, bytes(row)))


def grow(file: WatchedFile, data: bytes) -> None:
    """As another process does: nobody is told."""
    with file.path.open("ab") as other:
        other.write(data)


def test_a_partial_row_is_given_once_when_it_is_complete(file: WatchedFile) -> None:
    seen: Seen = []
    rows(file).subscribe(into(seen))
    file.append(b"a")
    assert seen == []
    file.append(b"")
    file.append(b"Ab")
    assert seen == [(0, b"aA")]
    file.append(b"BccD")
    assert seen == [(0, b"aA"), (1, b"bB"), (2, b"cc")]


def test_rows_complete_before_the_start_are_not_given_and_a_partial_one_is(file: WatchedFile) -> None:
    file.append(b"aabbc")
    seen: Seen = []
    rows(file).subscribe(into(seen))
    file.notify()
    assert seen == []
    file.append(b"C")
    assert seen == [(2, b"cC")]


def test_a_header_that_is_not_whole_yet_is_waited_for(tmp_path: Path) -> None:
    with WatchedFile(tmp_path / "rows", create=True) as file:
        seen: Seen = []
        RowEmitter(file, FixedRows(2, header=4)).subscribe(into(seen))
        for byte in b"headaabb":
            file.append(bytes([byte]))
        assert seen == [(0, b"aa"), (1, b"bb")]


class GrowsWhenAsked:
    """A file that another thread makes grow at the very moments between which an emitter begins."""

    def __init__(self) -> None:
        self.data = b"aa"
        self.closed = False
        self.subscribed = threading.Event()
        self.grower = threading.Thread(target=self.notify)
        self._subscribers: Subscribers[Callable[[], object]] = Subscribers()
        self._asked = 0

    @property
    def size(self) -> int:
        self._asked += 1
        if self._asked == 1:
            size = len(self.data)
            self.data += b"bb"  # after the size was taken, before the emitter has heard it
            self.grower.start()
            self.grower.join(0.05)
            assert self.grower.is_alive()  # it waits until the emitter has begun
            return size
        assert self.subscribed.wait(10)
        return len(self.data)

    def read(self, offset: int, length: int) -> memoryview:
        return memoryview(self.data)[offset : offset + length]

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        self.data += b"cc"  # growth while the emitter subscribes is before its start
        return self._subscribers.subscribe(callback)

    def notify(self) -> None:
        for callback in self._subscribers.snapshot():
            callback()


def test_growth_between_subscribing_and_taking_the_size_is_not_lost() -> None:
    file = GrowsWhenAsked()
    seen: Seen = []
    RowEmitter(file, FixedRows(2)).subscribe(into(seen))
    file.subscribed.set()
    file.grower.join(10)
    assert seen == [(2, b"bb")]


def test_rows_come_to_subscribers_in_order_of_registration_row_by_row(file: WatchedFile) -> None:
    emitter = rows(file)
    said: list[tuple[str, int]] = []
    for name in "zebra":
        emitter.subscribe(lambda index, row, name=name: said.append((name, index)))  # type: ignore[misc]
    file.append(b"aabbcc")
    assert said == [(name, index) for index in range(3) for name in "zebra"]


def test_ids_count_from_1_and_unsubscribing_is_idempotent_also_after_closing(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []
    first, second = emitter.subscribe(into([])), emitter.subscribe(into(seen))
    first()
    first.unsubscribe()
    assert [first.id, second.id, emitter.subscribe_rows(print).id] == [1, 2, 3]
    file.append(b"aa")
    emitter.close()
    second()
    first()
    assert seen == [(0, b"aa")]


@pytest.mark.parametrize("wrong", [None, 7])
def test_what_cannot_be_called_is_refused_before_anything_happens(file: WatchedFile, wrong: object) -> None:
    emitter = rows(file)
    for subscribe in (emitter.subscribe, emitter.subscribe_rows):
        with pytest.raises(InvalidArgument, match="cannot be called"):
            subscribe(wrong)  # type: ignore[arg-type]
    assert emitter.subscribe(into([])).id == 1


def test_who_subscribes_inside_a_callback_begins_with_the_next_row(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []

    def first(index: int, row: memoryview) -> None:
        if index == 1:
            emitter.subscribe(into(seen))

    emitter.subscribe(first)
    file.append(b"aabbccdd")
    assert seen == [(2, b"cc"), (3, b"dd")]


def test_who_is_unsubscribed_inside_a_callback_still_has_that_row_and_no_other(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []

    def first(index: int, row: memoryview) -> None:
        if index == 1:
            second()

    emitter.subscribe(first)
    second = emitter.subscribe(into(seen))
    file.append(b"aabbccdd")
    assert seen == [(0, b"aa"), (1, b"bb")]


def test_one_failing_subscriber_makes_nobody_see_a_row_again_or_miss_one(file: WatchedFile) -> None:
    emitter = rows(file)
    before: Seen = []
    behind: Seen = []
    failing: list[int] = []

    def fails(index: int, row: memoryview) -> None:
        failing.append(index)
        if index == 1:
            raise LookupError("mine")

    emitter.subscribe(into(before))
    failed = emitter.subscribe(fails)
    emitter.subscribe(into(behind))
    with pytest.raises(LookupError, match="mine"):
        file.append(b"aabbcc")
    assert before == [(0, b"aa"), (1, b"bb")]  # the chain stopped at row 1
    assert behind == [(0, b"aa")]
    file.notify()
    every = [(0, b"aa"), (1, b"bb"), (2, b"cc")]
    assert before == every
    assert behind == every
    assert failing == [0, 1]  # the row it failed at was given; it gets no more
    assert isinstance(failed.failed, LookupError)
    assert emitter.failed == (failed,)
    assert "failed with LookupError('mine')" in repr(failed)
    failed()
    assert not emitter.failed


def test_errors_that_stop_a_program_do_not_mark_the_subscriber(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []

    def interrupted(index: int, row: memoryview) -> None:
        if index == 0:
            raise KeyboardInterrupt
        seen.append((index, bytes(row)))

    emitter.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        file.append(b"aabb")
    assert emitter.failed == ()
    file.notify()
    assert seen == [(1, b"bb")]


def test_after_a_failure_a_new_subscriber_begins_with_the_next_row_nobody_was_given(
    file: WatchedFile,
) -> None:
    emitter = rows(file)

    def fails(index: int, row: memoryview) -> None:
        raise LookupError

    emitter.subscribe(fails)
    with pytest.raises(LookupError):
        file.append(b"aabb")
    seen: Seen = []
    emitter.subscribe(into(seen))
    file.append(b"cc")
    assert seen == [(1, b"bb"), (2, b"cc")]


def test_without_subscribers_rows_pass_unread(file: WatchedFile) -> None:
    emitter = rows(file)
    file.append(b"aabb")
    seen: Seen = []
    subscription = emitter.subscribe(into(seen))
    assert subscription.next == Position(2, 8)
    file.append(b"cc")
    assert seen == [(2, b"cc")]


def test_a_callback_that_appends_neither_waits_for_itself_nor_changes_the_order(file: WatchedFile) -> None:
    emitter = rows(file)
    said: list[tuple[str, int]] = []

    def appends(index: int, row: memoryview) -> None:
        said.append(("first", index))
        if index < 4:
            file.append(b"xyxy" if index == 0 else b"xy")
            assert said[-1] == ("first", index)  # nothing was given in between

    emitter.subscribe(appends)
    emitter.subscribe(lambda index, row: said.append(("second", index)))
    file.append(b"aabb")
    assert said == [(name, index) for index in range(7) for name in ("first", "second")]


def test_notifications_of_many_threads_take_turns_and_rows_stay_in_order(tmp_path: Path) -> None:
    data = os.urandom(4000)
    (tmp_path / "rows").write_bytes(b"")
    file = WatchedFile(tmp_path / "rows")
    emitter = RowEmitter(file, FixedRows(2))
    seen: Seen = []
    inside: list[int] = []

    def callback(index: int, row: memoryview) -> None:
        inside.append(index)
        assert len(inside) == 1
        os.sched_yield()
        seen.append((index, bytes(row)))
        inside.pop()

    emitter.subscribe(callback)
    done = threading.Event()

    def notify() -> None:
        while not done.is_set():
            file.notify()

    threads = [threading.Thread(target=notify) for _ in range(4)]
    for thread in threads:
        thread.start()
    for begin in range(0, len(data), 7):
        grow(file, data[begin : begin + 7])
    done.set()
    for thread in threads:
        thread.join(20)
    file.notify()
    assert seen == [(i, data[2 * i : 2 * i + 2]) for i in range(2000)]


def test_closing_waits_for_the_notification_that_runs_and_gives_no_row_afterwards(file: WatchedFile) -> None:
    emitter = rows(file)
    inside, go_on = threading.Event(), threading.Event()
    said: list[object] = []

    def first(index: int, row: memoryview) -> None:
        inside.set()
        assert go_on.wait(10)
        said.append(index)

    def close() -> None:
        emitter.close()
        said.append("closed")

    emitter.subscribe(first)
    emitter.subscribe(lambda index, row: said.append(bytes(row)))
    appender = threading.Thread(target=file.append, args=(b"aabb",))
    appender.start()
    assert inside.wait(10)
    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go_on.set()
    closer.join(10)
    appender.join(10)
    assert said == [0, b"aa", "closed"]  # the row being given was everybody's
    file.append(b"cc")
    assert len(said) == 3


def test_closing_inside_a_callback_ends_after_the_row_and_is_idempotent(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []

    def closes(index: int, row: memoryview) -> None:
        emitter.close()
        emitter.close()

    emitter.subscribe(closes)
    emitter.subscribe(into(seen))
    file.append(b"aabb")
    assert seen == [(0, b"aa")]
    emitter.close()
    with pytest.raises(Closed):
        emitter.subscribe(into(seen))
    file.append(b"cc")
    assert seen == [(0, b"aa")]


def test_closing_the_file_inside_a_callback_ends_after_the_row(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []
    emitter.subscribe(lambda index, row: file.close())
    emitter.subscribe(into(seen))
    file.append(b"aabb")
    assert seen == [(0, b"aa")]
    with pytest.raises(Closed):
        emitter.subscribe(into(seen))


def test_two_emitters_on_one_file_are_independent(file: WatchedFile) -> None:
    seen: tuple[Seen, Seen] = ([], [])
    one, other = rows(file), RowEmitter(file, FixedRows(3, header=4))
    one.subscribe(into(seen[0]))
    other.subscribe(into(seen[1]))
    file.append(b"aabbcc")
    one.close()
    file.append(b"ddd")
    assert seen == ([(0, b"aa"), (1, b"bb"), (2, b"cc")], [(0, b"aab"), (1, b"bcc"), (2, b"ddd")])


def test_a_file_that_shrank_gives_an_error_and_no_rows_ever_after(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []
    emitter.subscribe(into(seen))
    file.append(b"aabb")
    os.truncate(file.path, 6)
    with pytest.raises(FileChanged, match="it shrank"):
        file.notify()
    grow(file, b"garbage!")
    with pytest.raises(FileChanged, match="it shrank"):
        file.notify()
    assert seen == [(0, b"aa"), (1, b"bb")]
    assert emitter.failed == ()


def test_an_emitter_is_not_made_on_a_file_that_changed_and_leaves_nothing_behind(file: WatchedFile) -> None:
    file.path.unlink()
    with pytest.raises(FileChanged):
        rows(file)
    assert len(file._subscribers) == 0


def test_rows_are_given_as_views_and_stay_good(file: WatchedFile) -> None:
    kept: list[memoryview] = []
    rows(file).subscribe(lambda index, row: kept.append(row))
    file.append(b"aabb")
    file.append(b"cc")
    file.close()
    assert [bytes(row) for row in kept] == [b"aa", b"bb", b"cc"]
    assert kept[0].obj is kept[1].obj  # one read, no copy
    assert all(row.readonly for row in kept)


def test_a_fast_consumer_gets_many_rows_in_one_call(
    file: WatchedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "READ_BYTES", 6)
    emitter = RowEmitter(file, FixedRows(2, header=4))
    said: list[tuple[str, object]] = []
    emitter.subscribe(lambda index, row: said.append(("before", index)))
    emitter.subscribe_rows(lambda first, data, count: said.append(("many", (first, bytes(data), count))))
    emitter.subscribe(lambda index, row: said.append(("after", index)))
    file.append(b"aabbccdde")
    many = [said.index(("many", it)) for it in [(0, b"aabbcc", 3), (3, b"dd", 1)]]
    assert many == [1, 8]  # in its turn at the first row of each read
    others = [it for it in said if it[0] != "many"]
    assert others == [(name, index) for index in range(4) for name in ("before", "after")]


def test_many_rows_are_a_numpy_array_without_a_copy(tmp_path: Path) -> None:
    with WatchedFile(tmp_path / "rows", create=True) as file:
        got: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        RowEmitter(file, FixedRows(8)).subscribe_rows(
            lambda first, data, count: got.append(np.frombuffer(data, np.int64))
        )
        file.append(np.arange(300_000).tobytes())
        assert len(got) == 3  # of READ_BYTES each
        assert (np.concatenate(got) == np.arange(300_000)).all()


def test_a_failing_batch_consumer_keeps_nothing_from_the_others(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []
    many: list[tuple[int, int]] = []

    def fails(first: int, data: memoryview, count: int) -> None:
        raise LookupError

    emitter.subscribe_rows(lambda first, data, count: many.append((first, count)))
    emitter.subscribe_rows(fails)
    emitter.subscribe(into(seen))
    with pytest.raises(LookupError):
        file.append(b"aabb")
    file.append(b"cc")
    assert many == [(0, 2), (2, 1)]
    assert seen == [(0, b"aa"), (1, b"bb"), (2, b"cc")]


def test_who_subscribes_inside_a_batch_begins_with_the_second_row_of_it(file: WatchedFile) -> None:
    emitter = rows(file)
    seen: Seen = []

    def many(first: int, data: memoryview, count: int) -> None:
        if first == 0:
            emitter.subscribe(into(seen))

    emitter.subscribe_rows(many)
    file.append(b"aabbcc")
    assert seen == [(1, b"bb"), (2, b"cc")]


def test_a_subscriber_may_start_where_another_one_stopped(file: WatchedFile) -> None:
    emitter = rows(file)
    file.append(b"aabb")
    seen: Seen = []
    first = emitter.subscribe(into(seen), start=FixedRows(2, header=4).start)
    assert seen == []
    file.notify()
    assert seen == [(0, b"aa"), (1, b"bb")]
    first()
    file.append(b"ccdd")
    emitter.subscribe(into(seen), start=first.next)
    file.notify()
    assert seen == [(0, b"aa"), (1, b"bb"), (2, b"cc"), (3, b"dd")]


def test_a_start_in_the_past_asked_for_inside_a_callback_is_served_in_the_same_notification(
    file: WatchedFile,
) -> None:
    emitter = rows(file)
    seen: Seen = []

    def first(index: int, row: memoryview) -> None:
        if index == 1:
            emitter.subscribe(into(seen), start=Position(0, 4))

    emitter.subscribe(first)
    file.append(b"aabb")
    assert seen == [(0, b"aa"), (1, b"bb")]


def test_frames_of_any_length_come_once_each_when_their_whole_length_is_there(tmp_path: Path) -> None:
    with WatchedFile(tmp_path / "frames", create=True) as file:
        file.append(frame(b"before") + frame(b"cut short")[:3])
        seen: Seen = []
        many: list[tuple[int, bytes, int]] = []
        emitter = RowEmitter(file, LengthPrefixed())
        emitter.subscribe(into(seen))
        emitter.subscribe_rows(lambda first, data, count: many.append((first, bytes(data), count)))
        file.append(frame(b"cut short")[3:] + frame(b"") + frame(b"c")[:1])
        file.append(b"c")
        assert seen == [(1, frame(b"cut short")), (2, frame(b"")), (3, frame(b"c"))]
        assert many == [(1, frame(b"cut short") + frame(b""), 2), (3, frame(b"c"), 1)]
