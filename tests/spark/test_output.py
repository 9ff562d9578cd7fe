"""A view's changes as events in frames: every change once, −old right before +new, no event split."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import Op, ZSet
from penstock.changes.names import OP, WEIGHT
from penstock.log.meta import Collection
from penstock.spark import Place, output
from penstock.spark.output import Output, Renamed, events_of
from penstock.spark.registration import registrations
from penstock.store import MemoryStore, Store
from penstock.store.faulty import Died, FaultyStore, every_fault
from penstock.views.commit import following, view_name
from penstock.views.content import changes_in
from penstock.views.manifest import ChangeFile, Manifest
from tests.arrow_strategies import batches, schemas
from tests.row_model import identity, multiset

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


@st.composite
def changes(draw: st.DrawFn, schema: pa.Schema) -> ZSet:
    rows = draw(batches(schema, max_rows=10))
    weights = draw(st.lists(st.sampled_from([-2, -1, -1, 1, 1, 3]), min_size=len(rows), max_size=len(rows)))
    return ZSet(rows, np.array(weights, np.int64))


# -- events -----------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.data())
def test_events_say_just_the_changes(data: st.DataObject) -> None:
    schema = data.draw(schemas(min_columns=1, max_columns=3))
    change = data.draw(changes(schema)).consolidate()
    key = tuple(schema.names[: data.draw(st.integers(0, len(schema) - 1))])
    told = events_of(change, key)
    plain = told.select(schema.names)
    weights = told.column(WEIGHT).to_numpy()
    ops = told.column(OP).to_pylist()
    assert multiset(plain, weights) == multiset(change.rows, change.weights)
    assert [op in (Op.INSERT, Op.UPDATE_AFTER) for op in ops] == (weights > 0).tolist()
    if not key:
        assert set(ops) <= {Op.INSERT, Op.DELETE}
        return
    keys = [tuple(identity(row[name], schema.field(name).type) for name in key) for row in plain.to_pylist()]
    for i, op in enumerate(ops):
        if op == Op.UPDATE_BEFORE:
            assert (ops[i + 1], keys[i + 1]) == (Op.UPDATE_AFTER, keys[i])
            assert (weights[i], weights[i + 1]) == (-1, 1)
        if op == Op.UPDATE_AFTER:
            assert ops[i - 1] == Op.UPDATE_BEFORE
    rows_of_key = Counter(keys)
    for i, it in enumerate(keys):
        of_it = [j for j, other in enumerate(keys) if other == it]
        if rows_of_key[it] == 2 and sorted(weights[of_it]) == [-1, 1]:
            assert ops[i] in (Op.UPDATE_BEFORE, Op.UPDATE_AFTER), "−old +new of a key is one event"


# -- files ------------------------------------------------------------------------------------------


def place(store: Store) -> Place:
    return Place(store, store, "runs/7-a", "changes/7-a", "steps/7-a")


def view(schema: pa.Schema = SCHEMA, key: tuple[str, ...] = ("k",)) -> Collection:
    return replace(Collection.define("v", schema, key), id=9)


def stage(store: Store, collection: Collection, consolidated: bool = False) -> Output:
    return Output(view_name(9), collection, collection.key, consolidated, place(store))


def weighted(change: ZSet) -> pa.RecordBatch:
    return change.rows.append_column(WEIGHT, pa.array(change.weights))


def files(store: Store) -> tuple[ChangeFile, ...]:
    """The files, as the manifest of the tick has them."""
    told = registrations(store, "steps/7-a")
    after = following(
        Manifest(1, 1, "d", 1, {}, 1, 0),
        driver="d",
        committed=1,
        frontier={},
        nodes=[],
        views={"v": "v#9"},
        registered=told,
    )
    return after.views["v"].files


def content_of(store: Store, collection: Collection) -> list[pa.RecordBatch]:
    return list(changes_in(store, collection, files(store)))


@settings(max_examples=80)
@given(st.data())
def test_what_is_written_is_read_and_no_frame_splits_an_event(data: st.DataObject) -> None:
    store, collection = MemoryStore(), view()
    some = [data.draw(changes(SCHEMA)) for _ in range(data.draw(st.integers(0, 4)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "FRAME_ROWS", data.draw(st.integers(1, 5)))
        patch.setattr(output, "_GATHERED", data.draw(st.sampled_from([1, 6, 1 << 20])))
        told = list(stage(store, collection)(iter([weighted(it) for it in some])))
    whole = ZSet.concat([ZSet.empty(SCHEMA), *some])
    read = content_of(store, collection)
    found = ZSet.concat(
        [ZSet.empty(SCHEMA), *(ZSet(it.select(SCHEMA.names), it.column(WEIGHT).to_numpy()) for it in read)]
    )
    assert found == whole
    assert sum(it.column("rows")[0].as_py() for it in told) == len(found)
    frames = [frame for file in files(store) for frame in file.frames]
    assert [frame[4] for frame in frames] == [it.num_rows for it in read]
    for batch, (*_, events, rows, _) in zip(read, frames, strict=True):
        assert 0 < events <= rows == batch.num_rows
    if not whole.is_zero():
        assert frames


def test_a_frame_holds_at_most_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "FRAME_ROWS", 10)
    store, collection = MemoryStore(), view()
    pairs = ZSet(
        pa.record_batch({"k": [f"{i // 2:03}" for i in range(70)], "n": list(range(70))}, schema=SCHEMA),
        np.tile([-1, 1], 35),
    )
    list(stage(store, collection, consolidated=True)(iter([weighted(pairs)])))
    (file,) = files(store)
    assert [(events, rows) for _, _, _, events, rows, _ in file.frames] == [(5, 10)] * 7
    monkeypatch.setattr(output, "FRAME_ROWS", 5)
    store = MemoryStore()
    list(stage(store, collection, consolidated=True)(iter([weighted(pairs)])))
    (file,) = files(store)
    assert [(events, rows) for _, _, _, events, rows, _ in file.frames] == [(2, 4)] * 17 + [(1, 2)]


def test_changes_that_cancel_out_leave_no_file() -> None:
    store, collection = MemoryStore(), view()
    one = ZSet(pa.record_batch({"k": ["a"], "n": [1]}, schema=SCHEMA), np.array([1]))
    assert list(stage(store, collection)(iter([weighted(one), weighted(-one)]))) == []
    assert list(store.list()) == []


def test_a_second_attempt_writes_nothing_and_says_the_same() -> None:
    store, collection = MemoryStore(), view()
    one = ZSet(pa.record_batch({"k": ["a"], "n": [1]}, schema=SCHEMA), np.array([1]))
    first = list(stage(store, collection)(iter([weighted(one)])))
    there = [blob.name for blob in store.list()]
    second = list(stage(store, collection)(iter([weighted(one), weighted(one)])))
    assert first == second
    assert [blob.name for blob in store.list()] == there


def test_an_attempt_that_dies_anywhere_leaves_its_changes_whole_or_not_at_all() -> None:
    collection = view()
    rows = pa.record_batch({"k": [f"{i}" for i in range(100)], "n": list(range(100))}, schema=SCHEMA)
    change = ZSet(rows, np.ones(100, np.int64))
    calm = FaultyStore(MemoryStore())
    list(stage(calm, collection)(iter([weighted(change)])))
    deaths = every_fault(calm.operations, "die")
    assert len(deaths) > 8
    for fault in deaths:
        inner = MemoryStore()
        with suppress(Died):
            list(stage(FaultyStore(inner, [fault]), collection)(iter([weighted(change)])))
        list(stage(inner, collection)(iter([weighted(change)])))
        (file,) = files(inner)
        assert (file.events, file.rows) == (100, 100)
        (read,) = content_of(inner, collection)
        assert ZSet(read.select(SCHEMA.names), read.column(WEIGHT).to_numpy()) == change


def test_columns_come_under_the_views_names() -> None:
    renamed = Renamed((("k", "customer"), ("n", "total")), SCHEMA.append(pa.field(WEIGHT, pa.int64())))
    batch = pa.record_batch({"total": [7], "more": [0], "customer": ["a"], WEIGHT: [1]})
    (made,) = renamed(iter([batch]))
    assert made.to_pylist() == [{"k": "a", "n": 7, WEIGHT: 1}]
