"""A log's own frames, as a row emitter gives them: each once, in order, when its transaction is whole."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DamagedBytes
from penstock.log import Collection, Log, LogFrames, LogOptions, RowEmitter, WatchedFile, framing
from penstock.log.format import FRAME_BYTES, HEAD_BYTES, Kind
from penstock.log.segment import blob_name
from tests.log.child import child_writing
from tests.log.log_model import Event, events_of
from tests.log.logs import make_log, open_log

SCHEMA = pa.schema([("id", pa.int64())])


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": numbers}, SCHEMA)


def segment(folder: Path, first_lsn: int = 1) -> Path:
    return folder / blob_name(first_lsn)


class Told:
    """What an emitter over a segment's frames told."""

    def __init__(self, file: WatchedFile, collections: dict[int, Collection]) -> None:
        self.frames = LogFrames.of(file)
        self.collections = collections
        self.kinds: list[Kind] = []
        self.events: list[tuple[int, Event]] = []
        self._changed = threading.Condition()
        self.emitter = RowEmitter(file, self.frames)
        self.emitter.subscribe(self, start=self.frames.start)

    def __call__(self, index: int, row: memoryview) -> None:
        assert index == len(self.kinds)
        with self._changed:
            self.kinds.append(self.frames.frame(row).kind)
            changes = self.frames.changes(row, self.collections)
            if changes is not None:
                self.events += events_of(changes)
            self._changed.notify_all()

    def wait_for(self, events: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= events, 30)


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with make_log(tmp_path) as it:
        it.add_collection("a", SCHEMA, key=["id"])
        it.add_collection("b", SCHEMA)
        yield it


def content(log: Log) -> list[tuple[int, Event]]:
    return [event for changes in log.read() for event in events_of(changes)]


def test_another_process_is_told_of_each_append_by_following_the_segment(log: Log, tmp_path: Path) -> None:
    log.append("a", ids(1))
    with WatchedFile(segment(tmp_path)) as file:
        told = Told(file, log.meta.by_id)
        with file.follow(pytest.fail):
            told.wait_for(1)
            for i in range(2, 30):
                log.append("a", ids(i))
                told.wait_for(i)
            with log.transaction() as t:
                t.append("a", ids(30, 31))
                t.append("b", ids(32))
                t.refresh("a", ids(33))
            told.wait_for(33)
            assert told.events == content(log)
    assert told.kinds == [Kind.CHANGES] * 31 + [Kind.REFRESH]


def test_marks_and_the_seal_are_frames_without_changes(tmp_path: Path) -> None:
    options = LogOptions(fsync="never", segment_bytes=4096)
    with make_log(tmp_path, options) as log:
        log.add_collection("a", SCHEMA)
        log.append("a", ids(1))
    with open_log(tmp_path, options) as log:
        log.append("a", ids(*range(600)))
        with WatchedFile(segment(tmp_path)) as file:
            told = Told(file, log.meta.by_id)
            file.notify()
            assert told.kinds == [Kind.CHANGES, Kind.MARK, Kind.CHANGES, Kind.SEAL]
            assert told.events == content(log)
            assert segment(tmp_path, 602).exists()


def whole_file(folder: Path) -> bytes:
    with make_log(folder) as log:
        log.add_collection("a", SCHEMA)
        log.append("a", ids(1, 2))
        with log.transaction() as t:
            t.append("a", ids(3))
            t.append("a", ids(4))
            t.refresh("a", ids(5, 6))
        log.append("a", ids(7))
    return segment(folder).read_bytes()


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, offset: int, length: int) -> memoryview:
        assert offset + length <= len(self.data)
        return memoryview(self.data)[offset : offset + length]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return whole_file(tmp_path_factory.mktemp("log"))


def ends_of_transactions(data: bytes) -> list[tuple[int, int]]:
    """After how many frames and at which byte transactions end, found by walking through the file."""
    frames, offset, found = 0, HEAD_BYTES, []
    every = LogFrames.of(Bytes(data))
    while offset < len(data):
        frame = every.frame(memoryview(data)[offset:])
        frames, offset = frames + 1, offset + frame.frame_bytes
        if frame.ends:
            found.append((frames, offset))
    return found


def test_a_frame_is_complete_when_its_transaction_is(data: bytes) -> None:
    file, ends = Bytes(data), ends_of_transactions(data)
    assert [frames for frames, _ in ends] == [1, 4, 5, 6], "three appends, one of three frames, and a mark"
    frames = LogFrames.of(file)
    for size in range(HEAD_BYTES, len(data) + 1):
        count, end = max(((n, at) for n, at in ends if at <= size), default=(0, HEAD_BYTES))
        position = frames.skip(file, frames.start, size)
        assert (position.index, position.offset) == (count, end)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([1, 64, 100, 300, 1 << 20]))
def test_pieces_of_any_size_give_the_same_frames(data: bytes, draw: st.DataObject, at_once: int) -> None:
    ends = ends_of_transactions(data)
    file = Bytes(data)
    frames = LogFrames.of(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "READ_BYTES", at_once)
        size = draw.draw(st.integers(HEAD_BYTES, len(data)))
        begun = draw.draw(st.integers(0, sum(at <= size for _, at in ends)))
        position = frames.start if not begun else framing.Position(*ends[begun - 1])
        got = b""
        for items in frames.read(file, position, size):
            assert items.start == position
            got += bytes(items.items_from(items.start.index))
            position = items.stop
        assert position == frames.skip(file, frames.start, size)
        first = HEAD_BYTES if not begun else ends[begun - 1][1]
        assert got == data[first : position.offset]


def test_a_flipped_byte_is_told_with_its_place_and_gives_no_wrong_row(data: bytes) -> None:
    """Each byte of the file in turn; what was given before the bad place was right."""
    for at in range(len(data)):
        bad = Bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        got: list[bytes] = []

        def read(bad: Bytes = bad, got: list[bytes] = got) -> None:
            frames = LogFrames.of(bad)
            given = frames.read(bad, frames.start, len(data))
            got.extend(bytes(items.items_from(items.start.index)) for items in given)

        with pytest.raises(DamagedBytes, match="at byte"):
            read()
        right = b"".join(got)
        assert data[HEAD_BYTES:].startswith(right)
        assert HEAD_BYTES + len(right) <= at or at < HEAD_BYTES


def test_a_frame_of_an_unknown_collection_is_not_guessed_at(data: bytes) -> None:
    file = Bytes(data)
    frames = LogFrames.of(file)
    first = next(frames.read(file, frames.start, len(data))).item(0)
    with pytest.raises(DamagedBytes, match="unknown collection"):
        frames.changes(first, {})


def test_growth_in_pieces_from_another_process_gives_each_frame_once(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    path.write_bytes(data[:HEAD_BYTES])
    heard: list[bytes] = []
    done = threading.Event()

    def row(index: int, row: memoryview) -> None:
        heard.append(bytes(row))
        if index == 5:
            done.set()

    with WatchedFile(path) as file, child_writing(path) as child:
        RowEmitter(file, LogFrames.of(file)).subscribe(row)
        with file.follow(pytest.fail):
            body = data[HEAD_BYTES:]
            child.write(*[body[i : i + 37] for i in range(0, len(body), 37)])
            assert done.wait(30)
    assert b"".join(heard) == data[HEAD_BYTES:]
    assert all(len(it) >= FRAME_BYTES for it in heard)
