"""Opening run files: each once, by any number of threads, in bounded memory."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DamagedBytes, InvalidArgument, StoreUnavailable
from penstock.spine import Layout, Runs, Slice, Spine, arrange, write_run
from penstock.store import LocalStore, MemoryStore, ObjectStore, Store
from penstock.store.faulty import Fault, FaultyStore

LAYOUT = Layout(pa.schema([("k", pa.int64()), ("n", pa.int64())]), ("k",), "sums")


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    keys = np.arange(first, first + count)
    return arrange(LAYOUT, pa.record_batch({"_hash": keys * 7919, "k": keys, "n": keys + 1}))


def fill(store: Store, files: int, count: int = 50) -> list[Slice]:
    return [write_run(store, f"runs/{at}", LAYOUT, rows(count, at * count)) for at in range(files)]


def maps(store: FaultyStore) -> list[str]:
    return [it.name for it in store.operations if it.verb == "map"]


def test_a_file_is_opened_once(tmp_path: Path) -> None:
    for inner in (MemoryStore(), LocalStore(tmp_path, fsync=False)):
        store = FaultyStore(inner)
        slices = fill(store, 3)
        runs = Runs(store)
        for _ in range(4):
            assert sum(batch.num_rows for batch in Spine.open(LAYOUT, slices, runs).scan()) == 150
        assert maps(store) == ["runs/0", "runs/1", "runs/2"]


def test_no_more_bytes_are_kept_than_allowed_and_what_is_used_is_kept() -> None:
    store = FaultyStore(MemoryStore())
    slices = fill(store, 4)
    runs = Runs(store, keep_bytes=slices[0].bytes * 2 + 10)
    for name in ("0", "1", "0", "2", "0", "1", "0"):
        runs.open(f"runs/{name}", LAYOUT)
    assert maps(store) == ["runs/0", "runs/1", "runs/2", "runs/1"]


def test_mapped_files_are_bounded_in_number_only(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(tmp_path, fsync=False))
    fill(store, 3)
    runs = Runs(store, keep_bytes=0, keep_files=2)
    for name in ("0", "1", "0", "1", "2", "0"):
        runs.open(f"runs/{name}", LAYOUT)
    assert maps(store) == ["runs/0", "runs/1", "runs/2", "runs/0"]


def test_what_a_spine_holds_outlives_the_cache_and_the_file() -> None:
    store = MemoryStore()
    slices = fill(store, 3)
    runs = Runs(store, keep_files=1, keep_bytes=0)
    spine = Spine.open(LAYOUT, slices, runs)
    store.delete(*(it.file for it in slices))
    assert sum(batch.num_rows for batch in spine.scan()) == 150


def test_threads_that_ask_for_one_file_wait_for_one_that_opens_it() -> None:
    gate = threading.Event()
    store = FaultyStore(MemoryStore(), [Fault(1, "delay", "before", verb="map", wait=gate.wait)])
    fill(store, 1)
    runs = Runs(store)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(runs.open, "runs/0", LAYOUT) for _ in range(8)]
        gate.set()
        assert len({id(it.result()) for it in asked}) == 1
    assert maps(store) == ["runs/0"]


def test_a_failure_is_told_to_all_who_wait_and_forgotten() -> None:
    gate = threading.Event()
    failing = Fault(1, "fail", verb="map")
    store = FaultyStore(MemoryStore(), [failing])
    fill(store, 1)
    runs = Runs(store)
    with pytest.raises(StoreUnavailable):
        runs.open("runs/0", LAYOUT)
    assert runs.open("runs/0", LAYOUT).rows == 50
    assert not gate.is_set()


def test_many_threads_read_one_spine_through_a_cache_too_small_for_it() -> None:
    store = MemoryStore()
    slices = fill(store, 12)
    runs = Runs(store, keep_bytes=slices[0].bytes * 3)
    keys = pa.record_batch({"_hash": np.arange(600) * 7919, "k": np.arange(600)})

    def look(seed: int) -> bool:
        for _ in range(20):
            spine = Spine.open(LAYOUT, slices, runs)
            order = np.random.default_rng(seed).permutation(600)
            told = spine.sums(keys.take(pa.array(order))).column(0).to_numpy()
            if not (told == order + 1).all():
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(look, range(6)))


def test_damage_is_told_to_every_reader_again() -> None:
    store = MemoryStore()
    (it,) = fill(store, 1, 2000)
    bad = bytearray(store.get(it.file))
    bad[9000] ^= 1
    store.put(it.file, bytes(bad))
    runs = Runs(store)
    for _ in range(3):
        with pytest.raises(DamagedBytes, match="at byte 8192"):
            list(Spine.open(LAYOUT, [it], runs).scan())


@pytest.mark.parametrize(("keep_bytes", "keep_files"), [(-1, 1), (0, 0)])
def test_a_cache_keeps_something(keep_bytes: int, keep_files: int) -> None:
    with pytest.raises(InvalidArgument, match="one file at least"):
        Runs(MemoryStore(), keep_bytes=keep_bytes, keep_files=keep_files)


def test_runs_of_an_object_store_are_read_once_and_kept(bucket: ObjectStore) -> None:
    store = FaultyStore(bucket)
    slices = fill(store, 2, 1000)
    runs = Runs(store)
    keys = pa.record_batch({"_hash": np.array([5, 1500, 2000]) * 7919, "k": [5, 1500, 2000]})
    for _ in range(3):
        assert Spine.open(LAYOUT, slices, runs).sums(keys).column(0).to_pylist() == [6, 1501, 0]
    assert maps(store) == ["runs/0", "runs/1"]
