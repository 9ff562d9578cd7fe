"""Run files: what Arrow reads of them, and that no flipped, lost or foreign byte is ever taken for a row."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import (
    AlreadyExists,
    DamagedBytes,
    InvalidArgument,
    NotFound,
    SchemaMismatch,
    Unsupported,
)
from penstock.spine import Layout, Runs, Slice, Spine, arrange, write_run
from penstock.spine.run_format import BLOCK, TAIL_BYTES, crc32c
from penstock.spine.runs import opened
from penstock.store import LocalStore, MemoryStore, Store
from tests.spine.spine_model import batch_of, content_of, histories

LAYOUT = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")

MANY = Layout(
    pa.schema(
        [
            ("text", pa.string()),
            ("long_text", pa.large_string()),
            ("amount", pa.decimal128(20, 2)),
            ("flag", pa.bool_()),
            ("when", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("pair", pa.struct([("a", pa.int32()), ("b", pa.float64())])),
            ("fixed", pa.binary(3)),
            ("nothing", pa.null()),
            ("entries", pa.map_(pa.string(), pa.int8())),
            ("v", pa.float64()),
        ]
    ),
    ("text", "amount"),
    "bag",
    "v",
)


def many_rows(count: int) -> pa.RecordBatch:
    rng = np.random.default_rng(count)
    columns = {
        "text": [None if i % 7 == 0 else f"customer {i}" for i in range(count)],
        "long_text": ["x" * (i % 50) for i in range(count)],
        "amount": [Decimal(i) / 4 if i % 5 else None for i in range(count)],
        "flag": [[True, False, None][i % 3] for i in range(count)],
        "when": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i) for i in range(count)],
        "tags": [None if i % 4 == 0 else ["a", None, str(i)][: i % 4] for i in range(count)],
        "pair": [None if i % 6 == 0 else {"a": i, "b": -0.0 if i % 2 else i / 8} for i in range(count)],
        "fixed": [bytes([i % 256, 1, 2]) for i in range(count)],
        "nothing": [None] * count,
        "entries": [[("a", i % 100)] for i in range(count)],
        "v": rng.random(count).tolist(),
        "_weight": [1] * count,
    }
    kinds = {field.name: field.type for field in MANY.schema} | {"_weight": pa.int64()}
    arrays = {name: pa.array(column, kinds[name]) for name, column in columns.items()}
    return pa.record_batch({**arrays, "_hash": rng.integers(-(2**63), 2**63 - 1, count)})


def one(name: str = "run") -> tuple[MemoryStore, Slice]:
    store = MemoryStore()
    rows = pa.record_batch({"k": ["a", "b", "c"], "n": [1, 2, 3], "_hash": [1, -1, 7]})
    return store, write_run(store, name, LAYOUT, arrange(LAYOUT, rows))


def scanned(store: Store, it: Slice, layout: Layout) -> pa.Table:
    return pa.Table.from_batches(Spine.open(layout, [it], Runs(store)).scan(), layout.stored)


@given(histories(), st.data())
@settings(deadline=None, max_examples=50)
def test_what_is_written_is_read_and_any_arrow_reads_it_too(history, data) -> None:  # type: ignore[no-untyped-def]
    row = st.tuples(
        st.sampled_from(history.keys), st.sampled_from(history.rests), st.sampled_from([-1, 1, 2])
    )
    rows = arrange(history.layout, batch_of(history, data.draw(st.lists(row, min_size=1, max_size=20))))
    store = MemoryStore()
    if not rows.num_rows:
        with pytest.raises(InvalidArgument, match="one at least"):
            write_run(store, "r", history.layout, rows)
        return
    cut = data.draw(st.integers(0, rows.num_rows))
    it = write_run(store, "r", history.layout, [rows.slice(0, cut), rows.slice(cut)])
    assert (it.rows, it.bytes) == (rows.num_rows, store.stat("r").size)
    expected = content_of(history, [rows])
    spine = Spine.open(history.layout, [it], Runs(store))
    assert spine.rows == rows.num_rows
    assert content_of(history, spine.scan()) == expected
    assert content_of(history, pa.ipc.open_stream(store.get("r"))) == expected


def test_a_mapped_run_is_read_in_place(tmp_path) -> None:  # type: ignore[no-untyped-def]
    store = LocalStore(tmp_path, fsync=False)
    rows = arrange(MANY, many_rows(3000))
    it = write_run(store, "runs/1", MANY, rows)
    mapped = store.map("runs/1")
    before = pa.total_allocated_bytes()
    batch = opened(mapped, MANY, "runs/1").batch
    assert pa.total_allocated_bytes() == before
    for column in batch.columns:
        for buffer in column.buffers():
            if buffer:
                assert mapped.address <= buffer.address <= mapped.address + mapped.size - buffer.size
                assert buffer.address % 8 == 0
    assert scanned(store, it, MANY).equals(pa.Table.from_batches([rows]))


def test_bytes_of_a_written_run_never_change_and_its_name_is_taken() -> None:
    store, _ = one()
    before = store.get("run")
    with pytest.raises(AlreadyExists, match="prefix of its own"):
        write_run(
            store, "run", LAYOUT, arrange(LAYOUT, pa.record_batch({"k": ["z"], "n": [9], "_hash": [5]}))
        )
    assert store.get("run") == before


@pytest.mark.parametrize("count", [3, 300])
def test_every_flipped_byte_is_found_and_named(count: int) -> None:
    """All bytes of a small run, then some of each block of a larger one, padding and tables included."""
    store = MemoryStore()
    rows = arrange(MANY, many_rows(count))
    it = write_run(store, "runs/7", MANY, rows)
    good = store.get("runs/7")
    step = 1 if count < 10 else 97
    for at in range(0, len(good), step):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        store.put("runs/7", bytes(bad))
        with pytest.raises(DamagedBytes, match=r"at byte \d+") as told:
            scanned(store, it, MANY)
        assert told.value.subject == "runs/7"
        offset = int(str(told.value.what).rpartition(" ")[2])
        assert offset <= at
        if "block" in told.value.what:
            assert at - offset < BLOCK


def test_a_look_up_tells_no_wrong_row_whatever_byte_is_flipped() -> None:
    """A look-up touches little: it may not see damage elsewhere, but what it says is right."""
    store = MemoryStore()
    rng = np.random.default_rng(3)
    keys = np.arange(4000)
    rows = pa.record_batch(
        {
            "k": [f"key {i}" for i in keys],
            "n": keys + 1,
            "_hash": rng.permutation(2**64 // 4000 * keys.astype(object) % 2**64 - 2**63).astype(np.int64),
        }
    )
    it = write_run(store, "r", LAYOUT, arrange(LAYOUT, rows))
    good = store.get("r")
    wanted = rng.choice(4000, 5, replace=False)
    some = rows.take(pa.array(wanted)).select(["_hash", "k"])
    expected = (wanted + 1).tolist()
    found = 0
    for at in range(5, len(good), 641):
        bad = bytearray(good)
        bad[at] ^= 16
        store.put("r", bytes(bad))
        try:
            told = Spine.open(LAYOUT, [it], Runs(store)).sums(some)
        except DamagedBytes:
            found += 1
            continue
        assert told.column(0).to_pylist() == expected
    assert 10 < found < len(good) // 641


@pytest.mark.parametrize("left", [0, 1, TAIL_BYTES - 1, TAIL_BYTES, 500, -1])
def test_a_run_cut_short_is_damaged(left: int) -> None:
    store, it = one()
    store.put("run", store.get("run")[:left])
    with pytest.raises(DamagedBytes) as told:
        scanned(store, it, LAYOUT)
    assert told.value.subject == "run"


def test_a_run_with_bytes_behind_it_is_damaged() -> None:
    store, it = one()
    store.put("run", store.get("run") + bytes(64))
    with pytest.raises(DamagedBytes, match="not the last bytes of a run"):
        scanned(store, it, LAYOUT)
    store, it = one()
    good = store.get("run")
    store.put("run", bytes(64) + good)
    with pytest.raises(DamagedBytes, match="bytes and was"):
        scanned(store, it, LAYOUT)


def test_a_run_that_is_gone_is_not_found() -> None:
    store, it = one()
    store.delete("run")
    with pytest.raises(NotFound):
        scanned(store, it, LAYOUT)


def test_a_run_of_a_later_format_asks_for_a_newer_penstock() -> None:
    store, it = one()
    good = store.get("run")
    tail = bytearray(good[-TAIL_BYTES:])
    struct.pack_into("<I", tail, 12, 2)
    struct.pack_into("<I", tail, 8, crc32c(bytes(tail[12:])))
    store.put("run", good[:-TAIL_BYTES] + tail)
    with pytest.raises(Unsupported, match="format 2"):
        scanned(store, it, LAYOUT)


def test_a_run_of_another_layout_is_refused() -> None:
    store, it = one()
    other = Layout(pa.schema([("k", pa.string()), ("m", pa.int64())]), ("k",), "sums")
    with pytest.raises(InvalidArgument, match="rows of"):
        scanned(store, it, other)


def test_rows_that_are_not_arranged_are_refused() -> None:
    store = MemoryStore()
    schema = LAYOUT.stored
    unsorted = pa.RecordBatch.from_arrays(
        [pa.array([-1, 1]), pa.array(["a", "b"]), pa.array([1, 2])], schema=schema
    )
    with pytest.raises(InvalidArgument, match="sorted by hash"):
        write_run(store, "r", LAYOUT, unsorted)
    with pytest.raises(InvalidArgument, match="one at least"):
        write_run(store, "r", LAYOUT, [])
    with pytest.raises(SchemaMismatch):
        write_run(store, "r", LAYOUT, pa.record_batch({"k": ["a"], "n": [1], "_hash": [5]}))
    assert not list(store.list())
