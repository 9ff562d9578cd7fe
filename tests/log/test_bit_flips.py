"""Every byte of a small log is changed in turn: what is read is as it was, or the change is told."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pytest

from penstock.changes.op import Op
from penstock.errors import CursorAhead, DamagedBytes, FileChanged
from penstock.log.format import FRAME_BYTES, HEAD_BYTES, Kind
from penstock.log.log import Log
from penstock.log.options import LogOptions
from penstock.store.interface import Store
from tests.log.growing_memory import GrowingMemory
from tests.log.log_model import ManualClock
from tests.log.logs import changes_of

SMALL = pa.schema([("id", pa.int16())])
WIDE = pa.schema([("id", pa.int64()), ("text", pa.string()), ("more", pa.list_(pa.int8()))])
FIRST = "segments/00000000000000000001.segment"
OPTIONS = LogOptions(fsync="never", segment_bytes=4096, ring_bytes=0)
Mode = Literal["read", "write"]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # an index that is not used is logged


@dataclass(frozen=True)
class Sample:
    """A log's files, what is read from it, and where its frames begin."""

    blobs: dict[str, bytes]
    content: list[Any]
    ends: list[int]  # of its transactions, as LSNs
    last: str  # the segment that was written when it was left
    places: dict[str, list[int]]  # of the heads, headers and bodies of each segment


def content_of(store: Store, mode: Mode) -> list[Any]:
    with Log.open(store, mode, OPTIONS) as log:
        return read_from(log)


def read_from(log: Log) -> list[Any]:
    found = [
        (it.collection.name, it.lsns, it.is_refresh, it.ends_transaction, it.committed, it.rows)
        for it in log.read()
    ]
    small = [it.lsns for it in log.read("small")]
    assert small == [lsns for name, lsns, *_ in found if name == "small"]
    return found


def write(store: GrowingMemory, *, again: bool) -> Log:
    """A sealed segment and one that is being written, with something of everything.

    Opened ``again`` amid the latter, so that a mark stands between its frames.
    """
    log = Log.create(store, OPTIONS, log_id=bytes(range(16)), clock=ManualClock())
    log.add_collection("small", SMALL)
    log.add_collection("wide", WIDE, ["id"])
    left, _ = log.split_range("wide", 1)
    log.split_range("wide", left.id)
    log.promote(2)
    small = pa.record_batch([pa.array([1, 2], pa.int16())], schema=SMALL)
    row: dict[str, object] = {"id": 1, "text": "one", "more": [1]}
    update = [(Op.UPDATE_BEFORE, row), (Op.UPDATE_AFTER, row | {"text": None}), (Op.DELETE, row)]
    while len(list(store.list("segments/"))) == 1 or log.current_lsn % 4:
        log.append("small", small)
        with log.transaction() as transaction:
            transaction.append("wide", changes_of(WIDE, update))
            transaction.append("small", small.append_column("_weight", pa.array([3, -1])))
        log.refresh("wide", pa.RecordBatch.from_pylist([row], schema=WIDE))
        log.emit("insert", "wide", after=row, changed_columns=["text"])
    log.append("small", small)
    if again:
        log.close()
        log = Log.open(store, options=OPTIONS, clock=ManualClock())
    log.append("wide", changes_of(WIDE, update))
    return log


def sample(*, closed: bool, again: bool | None = None) -> Sample:
    store = GrowingMemory()
    log = write(store, again=closed if again is None else again)
    if closed:
        log.close()
    blobs = store.blobs
    last = max(name for name in blobs if name.startswith("segments/"))
    places = {name: list(places_of(blobs[name])) for name in blobs if name.startswith("segments/")}
    content = content_of(GrowingMemory(blobs), "read")
    return Sample(blobs, content, [lsns.last for _, lsns, _, ends, *_ in content if ends], last, places)


def places_of(data: bytes) -> Iterator[int]:
    yield 0
    at = HEAD_BYTES
    while at < len(data):
        yield at
        body = int.from_bytes(data[at + 8 : at + 16], "little")
        if body:
            yield at + FRAME_BYTES
        at += FRAME_BYTES + -(-body // 64) * 64


@pytest.fixture(scope="module")
def left() -> Sample:
    """What a writer leaves that closes its log."""
    return sample(closed=True)


@pytest.fixture(scope="module")
def torn() -> Sample:
    """What a writer leaves that is killed: nothing says that the end was synced."""
    return sample(closed=False)


def flipped(data: bytes, at: int, pattern: int) -> bytes:
    return data[:at] + bytes([data[at] ^ pattern]) + data[at + 1 :]


def patterns(at: int) -> tuple[int, ...]:
    """One bit, another one from byte to byte, and all eight."""
    return 1 << at % 8, 0xFF


def place_told(error: DamagedBytes) -> tuple[str, int]:
    """The file and the byte that an error names."""
    found = re.search(r"bytes? (\d+)", error.what)
    assert found, error
    return error.subject, int(found[1])


def check(left: Sample, blobs: dict[str, bytes], name: str, at: int, mode: Mode) -> bool:
    """Whether the change at this byte is told, with its place; if not, all is as it was."""
    told = None
    try:
        assert content_of(GrowingMemory(blobs), mode) == left.content, (name, at)
    except DamagedBytes as error:
        told = error
    if told is not None:
        subject, place = place_told(told)
        assert subject.endswith(name), told
        assert place == max(it for it in left.places.get(name, [0]) if it <= at), (at, told)
    return told is not None


def test_the_sample_has_every_kind_of_file(left: Sample) -> None:
    kinds = sorted({name.partition("/")[0] for name in left.blobs})
    assert kinds == ["index", "meta.json", "segments"]
    assert [len(it) for it in left.places.values()] > [10, 5]
    assert len(left.content) > 10


@pytest.mark.parametrize("mode", ["read", "write"])
def test_each_flipped_byte_of_the_last_segment_is_told_with_its_place(left: Sample, mode: Mode) -> None:
    """Save for the mark at its end, which holds nothing and is cut like any torn end."""
    data = left.blobs[left.last]
    for at in range(len(data)):
        for pattern in patterns(at):
            told = check(left, left.blobs | {left.last: flipped(data, at, pattern)}, left.last, at, mode)
            assert told == (at < len(data) - FRAME_BYTES), at


@pytest.mark.parametrize("mode", ["read", "write"])
def test_each_flipped_byte_of_a_sealed_segment_is_told_with_its_place(left: Sample, mode: Mode) -> None:
    """Without its index; with it headers are not read from the segment."""
    data = left.blobs[FIRST]
    without = {name: content for name, content in left.blobs.items() if not name.startswith("index/")}
    for at in range(len(data)):
        for pattern in patterns(at)[: 1 if mode == "write" else None]:
            assert check(left, without | {FIRST: flipped(data, at, pattern)}, FIRST, at, mode), at


def test_each_flipped_byte_of_an_indexed_segment_is_told_or_not_read(left: Sample) -> None:
    data = left.blobs[FIRST]
    headers = [it for it in left.places[FIRST][1:] if data[it : it + 4] == b"FRM1"]
    for at in range(len(data)):
        told = check(left, left.blobs | {FIRST: flipped(data, at, 1 << at % 8)}, FIRST, at, "read")
        assert told != any(it <= at < it + FRAME_BYTES for it in headers), at


@pytest.mark.parametrize("mode", ["read", "write"])
def test_each_flipped_byte_of_what_the_log_is_is_told(left: Sample, mode: Mode) -> None:
    """Identity, term, collections, and the ranges of their keys."""
    data = left.blobs["meta.json"]
    assert b'"ranges"' in data
    for at in range(len(data)):
        for pattern in patterns(at):
            changed = left.blobs | {"meta.json": flipped(data, at, pattern)}
            assert check(left, changed, "meta.json", at, mode), at


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("which", [0, -1], ids=["sealed", "last"])
def test_a_byte_that_flips_under_an_open_log_is_told_when_it_is_read_or_was_read_before(
    left: Sample, which: int, mode: Mode
) -> None:
    name = sorted(left.places)[which]
    data = left.blobs[name]
    told = 0
    for at in range(0, len(data), 3):
        store = GrowingMemory(left.blobs)
        with Log.open(store, mode, OPTIONS) as log:
            store.put(name, flipped(data, at, 1 << at % 8))
            try:
                assert read_from(log) == left.content
            except DamagedBytes as error:
                told += 1
                subject, place = place_told(error)
                assert subject == name
                assert place == max(it for it in left.places[name] if it <= at)
    assert told > len(data) // 10


@pytest.mark.parametrize("mode", ["read", "write"])
def test_no_flipped_or_missing_byte_of_an_index_matters(left: Sample, mode: Mode) -> None:
    (name,) = (it for it in left.blobs if it.startswith("index/"))
    data = left.blobs[name]
    for at in range(len(data)):
        for changed in (flipped(data, at, 1 << at % 8), data[:at]):
            assert not check(left, left.blobs | {name: changed}, name, at, mode), at


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_flipped_byte_where_no_sync_is_known_of_costs_whole_transactions_and_is_told(
    torn: Sample, mode: Mode
) -> None:
    """What a killed process wrote last may be torn, so it is not called damage; but it is kept aside."""
    data = torn.blobs[torn.last]
    for at in range(len(data)):
        store = GrowingMemory(torn.blobs | {torn.last: flipped(data, at, 1 << at % 8)})
        if at < HEAD_BYTES:  # it was made whole, so it is no torn end
            with pytest.raises(DamagedBytes):
                Log.open(store, mode, OPTIONS)
            continue
        with Log.open(store, mode, OPTIONS) as log:
            end = log.current_lsn
            assert end in [0, *torn.ends]
            assert end < torn.ends[-1]
            if mode == "write":
                assert log.recovered is not None
                start = len(data) - log.recovered.torn_bytes
                assert start <= at
                assert store.get(log.recovered.kept_as) == store_end(data, at, start)
        if at % 16 == 0:
            assert content_of(store, "read") == [it for it in torn.content if it[1].last <= end]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_flipped_byte_is_told_up_to_where_a_later_frame_knows_of_a_sync(mode: Mode) -> None:
    """Of a log that was closed, opened again, written, and killed: up to the mark, and the mark itself."""
    resumed = sample(closed=False, again=True)
    data = resumed.blobs[resumed.last]
    starts = [it for it in resumed.places[resumed.last] if data[it : it + 4] == b"FRM1"]
    mark = next(it for it in starts if data[it + 60] == Kind.MARK)
    assert starts[0] < mark < starts[-1]
    for at in range(HEAD_BYTES, mark + FRAME_BYTES):
        changed = resumed.blobs | {resumed.last: flipped(data, at, 1 << at % 8)}
        assert check(resumed, changed, resumed.last, at, mode), at
    for at in range(mark + FRAME_BYTES, len(data), 5):
        with Log.open(
            GrowingMemory(resumed.blobs | {resumed.last: flipped(data, at, 1)}), mode, OPTIONS
        ) as log:
            assert log.current_lsn < resumed.ends[-1]


def store_end(data: bytes, at: int, start: int) -> bytes:
    return flipped(data, at, 1 << at % 8)[start:]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_the_last_segment_cut_at_any_byte_gives_its_whole_transactions(left: Sample, mode: Mode) -> None:
    data = left.blobs[left.last]
    found = set()
    for size in range(HEAD_BYTES, len(data)):
        store = GrowingMemory(left.blobs | {left.last: data[:size]})
        with Log.open(store, mode, OPTIONS) as log:
            end = log.current_lsn
            torn = size - max(it for it in left.places[left.last] if it <= size)
            if mode == "write" and torn:
                assert log.recovered is not None
                assert log.recovered.torn_bytes >= torn
        assert content_of(store, "read") == [it for it in left.content if it[1].last <= end]
        found.add(end)
    assert found == {it for it in left.ends if it >= int(left.last[9:29]) - 1}


def test_a_last_segment_cut_within_its_head_is_told(left: Sample) -> None:
    for size in range(HEAD_BYTES):
        with pytest.raises(DamagedBytes) as raised:
            Log.open(GrowingMemory(left.blobs | {left.last: left.blobs[left.last][:size]}), "read")
        assert place_told(raised.value) == (left.last, 0)


def test_a_log_cut_at_any_byte_goes_on_from_its_last_whole_transaction(left: Sample) -> None:
    data = left.blobs[left.last]
    more = pa.record_batch([pa.array([7], pa.int16())], schema=SMALL)
    for size in range(HEAD_BYTES, len(data), 5):
        store = GrowingMemory(left.blobs | {left.last: data[:size]})
        with Log.open(store, "write", OPTIONS) as log:
            end = log.current_lsn
            assert log.append("small", more).first == end + 1
        content = content_of(store, "read")
        assert content[:-1] == [it for it in left.content if it[1].last <= end]
        assert content[-1][-1].column(0).to_pylist() == [7]


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_sealed_segment_cut_at_any_byte_is_told(left: Sample, mode: Mode) -> None:
    data = left.blobs[FIRST]
    for size in range(len(data)):
        with pytest.raises(DamagedBytes) as raised:
            content_of(GrowingMemory(left.blobs | {FIRST: data[:size]}), mode)
        subject, place = place_told(raised.value)
        assert subject == FIRST
        assert place <= size


def test_a_reader_is_told_when_the_log_shrinks_under_it(left: Sample) -> None:
    store = GrowingMemory(left.blobs)
    with Log.open(store, "read") as log:
        end = log.current_lsn
        store.put(left.last, left.blobs[left.last][: -2 * FRAME_BYTES])
        with pytest.raises(FileChanged, match=r"had \d+ bytes and has"):
            log.poll(end)
    with Log.open(store, "read") as log, pytest.raises(CursorAhead):
        log.poll(end)
