"""A log may be as long as it likes: opening reads little of it, and reading it through holds little of it.

`bench/log_large.py` does the same with 100 million events and a clock.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from penstock.log import Log, LogOptions
from penstock.log.format import FRAME_BYTES, HEAD_BYTES
from penstock.store.local import LocalStore

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
SEGMENT = 64 << 10
ROWS = 1000
Mode = Literal["read", "write"]


class CountingStore(LocalStore):
    """Counts the bytes that are read from segments and indexes; maps are counted as they are made."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, fsync=False)
        self.bytes = self.maps = 0

    def read(self, name: str, start: int, length: int) -> bytes:
        found = super().read(name, start, length)
        self.bytes += len(found)
        return found

    def get(self, name: str) -> bytes:
        found = super().get(name)
        self.bytes += len(found) if name != "meta.json" else 0
        return found

    def map(self, name: str) -> pa.Buffer:
        self.maps += 1
        return super().map(name)


def build(folder: Path, segments: int, segment_bytes: int = SEGMENT) -> int:
    """A log of so many full segments and one begun; how many events."""
    options = LogOptions(fsync="never", segment_bytes=segment_bytes, ring_bytes=0)
    with Log.create(LocalStore(folder, fsync=False), options) as log:
        log.add_collection("numbers", SCHEMA)
        while log.stats().segments <= segments:
            first = log.current_lsn
            batch = pa.record_batch([pa.array(np.arange(first, first + ROWS))], schema=SCHEMA)
            for _ in range(1 + (segment_bytes // 20_000) // 4):
                log.append("numbers", batch)
        return log.current_lsn


def bytes_to_open(folder: Path, mode: Mode) -> int:
    store = CountingStore(folder)
    Log.open(store, mode, LogOptions(fsync="never")).close()
    assert store.maps == 0
    return store.bytes


@pytest.mark.parametrize("mode", ["read", "write"])
def test_opening_reads_the_last_segment_and_of_each_other_no_more_than_its_ends(
    mode: Mode, tmp_path: Path
) -> None:
    read = {}
    for segments in (3, 12):
        folder = tmp_path / str(segments)
        build(folder, segments)
        read[segments] = bytes_to_open(folder, mode)
        assert read[segments] <= SEGMENT + 2 * HEAD_BYTES + segments * (HEAD_BYTES + FRAME_BYTES)
    more = read[12] - read[3]
    assert more == (9 * (HEAD_BYTES + FRAME_BYTES) if mode == "write" else 0)


def test_a_poll_anywhere_reads_one_index_and_no_other_segment(tmp_path: Path) -> None:
    end = build(tmp_path, 12)
    store = CountingStore(tmp_path)
    with Log.open(store, "read") as log:
        for cursor in (0, end // 3, end // 2, end - 1):
            store.bytes = store.maps = 0
            (changes,) = log.poll(cursor, 1)
            assert changes.first_lsn == cursor + 1
            assert len(changes.data) == 1
            assert store.bytes <= 4096
            assert store.maps <= 1


def test_an_index_that_is_missing_costs_a_walk_and_the_writer_keeps_it_again(tmp_path: Path) -> None:
    build(tmp_path, 3)
    indexes = sorted((tmp_path / "index").iterdir())
    content = indexes[1].read_bytes()
    indexes[1].unlink()
    cursor = int(indexes[1].stem)
    for mode in ("read", "write"):
        assert not indexes[1].exists()
        with Log.open(CountingStore(tmp_path), mode) as log:
            assert log.poll(cursor, 1).cursor == cursor + 1
    assert indexes[1].read_bytes() == content


@pytest.mark.parametrize("mode", ["read", "write"])
def test_reading_a_log_through_holds_few_of_its_segments(mode: Mode, tmp_path: Path) -> None:
    """Neither Python's memory nor Arrow's grows with the log, and few segments stay mapped."""
    end = build(tmp_path, 40, 512 << 10)
    assert sum(it.stat().st_size for it in (tmp_path / "segments").iterdir()) > 20 << 20
    with Log.open(CountingStore(tmp_path), mode) as log:
        allocated = pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            seen = most_allocated = most_mapped = 0
            for changes in log.read("numbers"):
                seen += len(changes.data)
                most_allocated = max(most_allocated, pa.total_allocated_bytes() - allocated)
                if seen % 50_000 == 0:
                    most_mapped = max(most_mapped, mapped(tmp_path))
            _, most_traced = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == end
    assert most_traced < 1 << 20
    assert most_allocated < 1 << 20
    assert 1 <= most_mapped <= 5


@pytest.mark.parametrize("mode", ["read", "write"])
def test_what_is_read_lies_where_the_file_is_mapped(mode: Mode, tmp_path: Path) -> None:
    """The user's columns are not copied, and aligned as Arrow likes them."""
    store = LocalStore(tmp_path, fsync=False)
    with Log.create(store, LogOptions(fsync="never", ring_bytes=0)) as log:
        log.add_collection("numbers", SCHEMA)
        log.append("numbers", pa.record_batch([pa.array(np.arange(1 << 20))], schema=SCHEMA))
    with Log.open(store, mode, LogOptions(fsync="never", ring_bytes=0)) as log:
        before = pa.total_allocated_bytes()
        (changes,) = log.read("numbers")
        data = changes.data.column(0).buffers()[1]
        assert pa.total_allocated_bytes() - before < 1 << 16
        assert data.address % 64 == 0
        assert not data.is_mutable
        assert changes.data.column(0)[-1].as_py() == (1 << 20) - 1
        assert log.poll(5, 10).changes[0].data.column(0).buffers()[1].address == data.address


def mapped(folder: Path) -> int:
    """How many files of the folder are mapped into this process, where the system tells."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return 1
    return len({line.split()[-1] for line in maps.read_text().splitlines() if str(folder) in line})
