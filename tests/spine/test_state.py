"""`ShardState`: what a step sees, what it leaves, and what is left of one that died."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes.hashing import xxhash64
from penstock.errors import InvalidArgument, PenstockError, SchemaMismatch
from penstock.spine import END, Edit, Layout, Runs, ShardState, Slice, Spine, edited
from penstock.spine.policy import Policy
from penstock.store import LocalStore, MemoryStore, ObjectStore, Store
from penstock.store.faulty import Died, Fault, FaultyStore, every_fault

SUMS = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")
BAG = Layout(pa.schema([("k", pa.string()), ("v", pa.int64())]), ("k",), "bag", "v")
LAYOUTS = {"sums": SUMS, "values": BAG}
SMALL = Policy(most_rows=40)


def rows(names: list[str], amounts: list[int]) -> dict[str, pa.RecordBatch]:
    k = pa.array(names)
    hashes = xxhash64([k])
    ones = np.ones(len(names), np.int64)
    return {
        "sums": pa.record_batch({"_hash": hashes, "k": k, "n": pa.array(amounts, pa.int64())}),
        "values": pa.record_batch(
            {"_hash": hashes, "k": k, "v": pa.array(amounts, pa.int64()), "_weight": ones}
        ),
    }


def state(
    store: Store, slices: dict[str, tuple[Slice, ...]], prefix: str, begin: int = 0, end: int = END
) -> ShardState:
    return ShardState(store, Runs(store), LAYOUTS, slices, begin, end, prefix, not slices, policy=SMALL)


def contents(store: Store, slices: dict[str, tuple[Slice, ...]]) -> dict[str, list[object]]:
    return {
        name: sorted(
            (
                row
                for batch in Spine.open(layout, slices.get(name, ()), Runs(store)).scan()
                for row in batch.to_pylist()
            ),
            key=repr,
        )
        for name, layout in LAYOUTS.items()
    }


def applied(slices: dict[str, tuple[Slice, ...]], edits: dict[str, Edit]) -> dict[str, tuple[Slice, ...]]:
    return slices | {name: edited(slices.get(name, ()), [edit]) for name, edit in edits.items()}


def step(
    store: Store, slices: dict[str, tuple[Slice, ...]], prefix: str, at: int
) -> dict[str, tuple[Slice, ...]]:
    it = state(store, slices, prefix)
    for name, batch in rows([f"k{i % 17}" for i in range(at, at + 7)], list(range(7))).items():
        it.add(name, batch)
    return applied(slices, it.finish())


def test_a_step_sees_its_spines_as_they_were_before_it() -> None:
    it = ShardState.in_memory(LAYOUTS)
    assert it.is_new
    for name, batch in rows(["a"], [5]).items():
        it.add(name, batch)
    key = rows(["a"], [0])["sums"].select(["_hash", "k"])
    assert it.spine("sums").sums(key).to_pylist() == [{"n": 0}]
    later = it.after(it.finish(), "1/")
    assert not later.is_new
    assert later.spine("sums").sums(key).to_pylist() == [{"n": 5}]
    assert later.spine("values").extremes(key, None, False).to_pylist() == [5]
    assert it.spine("sums").rows == 0
    assert later.slices["sums"][0].file == "0/sums-0"


def test_a_step_that_adds_nothing_leaves_nothing() -> None:
    it = ShardState.in_memory(LAYOUTS)
    it.add("sums", rows([], [])["sums"])
    it.add("sums", rows(["a", "a"], [1, -1])["sums"])
    assert it.finish() == {}


def test_a_shard_sees_and_takes_its_own_hashes_only() -> None:
    store = MemoryStore()
    slices = step(store, {}, "0/", 0)
    half = END // 2
    low, high = (state(store, slices, f"1/{begin}/", begin, begin + half) for begin in (0, half))
    assert low.spine("sums").rows + high.spine("sums").rows == 6
    batch = rows([f"k{i}" for i in range(30)], [1] * 30)["sums"]
    mine = batch.column(0).to_numpy() >= 0
    low.add("sums", batch.filter(pa.array(mine)))
    with pytest.raises(InvalidArgument, match="range"):
        low.add("sums", batch)
    with pytest.raises(InvalidArgument, match="range"):
        high.add("sums", batch.filter(pa.array(mine)))


def test_what_does_not_fit_is_refused() -> None:
    it = ShardState.in_memory(LAYOUTS)
    with pytest.raises(InvalidArgument, match="no spine 'other'"):
        it.spine("other")
    with pytest.raises(InvalidArgument, match="no spine 'other'"):
        it.add("other", rows(["a"], [1])["sums"])
    with pytest.raises(SchemaMismatch):
        it.add("values", rows(["a"], [1])["sums"])
    with pytest.raises(InvalidArgument, match="bag"):
        it.spine("values").sums(rows(["a"], [1])["values"])
    with pytest.raises(InvalidArgument, match="no order"):
        it.spine("sums").extremes(rows(["a"], [1])["sums"], None, False)
    with pytest.raises(SchemaMismatch, match="one column k"):
        list(it.spine("values").matches(pa.record_batch({"_hash": [1]})))
    with pytest.raises(SchemaMismatch, match="bounds"):
        it.spine("values").extremes(rows(["a"], [1])["sums"], pa.array([1.5]), False)
    with pytest.raises(InvalidArgument, match="batches of 0"):
        list(it.spine("values").matches(rows(["a"], [1])["sums"], 0))
    with pytest.raises(InvalidArgument, match="batches of 0"):
        list(it.spine("values").scan(0))


def test_rows_too_many_for_one_run_in_memory_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spine.state._MOST_BYTES", 100)
    store = MemoryStore()
    it = state(store, {}, "0/")
    for at in range(6):
        for name, batch in rows([f"k{i % 11}" for i in range(20)], list(range(at, at + 20))).items():
            it.add(name, batch)
    slices = applied({}, it.finish())
    plain = ShardState.in_memory(LAYOUTS)
    whole = rows(
        [f"k{i % 11}" for _ in range(6) for i in range(20)], [i + at for at in range(6) for i in range(20)]
    )
    for name, batch in whole.items():
        plain.add(name, batch)
    later = plain.after(plain.finish(), "1/")
    for name in LAYOUTS:
        told = [row for batch in later.spine(name).scan() for row in batch.to_pylist()]
        assert contents(store, slices)[name] == sorted(told, key=repr)


def test_whenever_a_step_dies_nothing_of_it_is_seen_and_another_attempt_succeeds() -> None:
    """At every operation of the store, before, during and after it: what was before stays, whole."""
    store = MemoryStore()
    slices: dict[str, tuple[Slice, ...]] = {}
    for at in range(6):
        slices = step(store, slices, f"{at}/", at)
    before = contents(store, slices)
    blobs = {blob.name: store.get(blob.name) for blob in store.list()}
    calm = FaultyStore(copied(blobs))
    after = contents(calm, step(calm, slices, "6/", 6))
    faults = [
        *every_fault(calm.operations, "die"),
        *every_fault(calm.operations, "fail"),
    ]
    assert len(faults) > 40
    for fault in faults:
        inner = copied(blobs)
        with suppress(Died, PenstockError):
            step(FaultyStore(inner, [fault]), slices, "6/", 6)
        for blob in inner.list():  # what came is whole, whatever it belongs to
            if blob.name not in blobs:
                name = "sums" if "sums" in blob.name else "values"
                assert list(Spine.open(LAYOUTS[name], [Slice(blob.name, 1, 1)], Runs(inner)).scan())
        assert contents(inner, slices) == before
        assert contents(inner, step(inner, slices, "6-again/", 6)) == after


def copied(blobs: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for name, data in blobs.items():
        store.put(name, data)
    return store


def test_a_name_that_is_taken_is_told() -> None:
    store = MemoryStore()
    slices = step(store, {}, "0/", 0)
    with pytest.raises(PenstockError, match="prefix of its own"):
        step(store, slices, "0/", 1)


def test_lost_answers_are_told_as_such() -> None:
    store = FaultyStore(MemoryStore(), [Fault(1, "fail", "after", verb="commit")])
    with pytest.raises(PenstockError) as told:
        step(store, {}, "0/", 0)
    assert told.value.may_have_happened


def test_every_store_keeps_the_same_state(tmp_path: Path, bucket: ObjectStore) -> None:
    told = []
    for store in (MemoryStore(), LocalStore(tmp_path, fsync=False), bucket):
        slices: dict[str, tuple[Slice, ...]] = {}
        for at in range(8):
            slices = step(store, slices, f"state/{at}/", at)
        told.append((contents(store, slices), slices))
    assert told[0] == told[1] == told[2]
