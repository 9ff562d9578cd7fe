"""docs/FORMAT-runs.md, held against a reader made from it, and a run that every later version must read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes.hashing import xxhash64
from penstock.spine import Layout, Runs, Slice, Spine, arrange, write_run
from penstock.store import LocalStore
from tests.spine.run_reader import crc, read_run

FIXTURES = Path(__file__).parent.parent / "fixtures" / "spine"

LAYOUT = Layout(
    pa.schema([("customer", pa.string()), ("amount", pa.decimal128(12, 2)), ("tags", pa.list_(pa.string()))]),
    ("customer",),
    "bag",
    "amount",
)


def orders() -> pa.RecordBatch:
    """1,300 rows, NULLs among them, two of them twice and one that cancels."""
    count = 1300
    names = [None if i % 50 == 7 else f"customer {i % 200}" for i in range(count)]
    customer = pa.array([*names, "twice", "twice", "gone", "gone"])
    amount = pa.array([*(i * 37 % 10_000 - 5_000 for i in range(count)), 1, 1, 2, 2])
    tags = [None if i % 3 == 0 else [f"t{i % 4}", None][: i % 3] for i in range(count)]
    return pa.record_batch(
        {
            "_hash": xxhash64([customer]),
            "customer": customer,
            "amount": amount.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "tags": pa.array([*tags, [], [], None, None], pa.list_(pa.string())),
            "_weight": np.array([1] * count + [1, 1, 1, -1]),
        }
    )


def test_the_checksum_is_the_one_of_the_page() -> None:
    assert crc(b"123456789") == 0xE3069283


def test_a_reader_made_from_the_page_reads_what_is_written(tmp_path: Path) -> None:
    it = write_run(LocalStore(tmp_path, fsync=False), "runs/1", LAYOUT, arrange(LAYOUT, orders()))
    found = read_run(tmp_path / "runs" / "1")
    assert found.rows.equals(arrange(LAYOUT, orders()))
    assert found.schema == LAYOUT.schema
    assert found.description == {"layout": LAYOUT.to_json(), "group": "runs/1"}
    assert it == Slice("runs/1", found.rows.num_rows, (tmp_path / "runs" / "1").stat().st_size)


def test_a_run_of_format_1_is_read_for_ever() -> None:
    """Written by the first version: neither file nor what is read of it may change."""
    found = read_run(FIXTURES / "run-1")
    assert found.rows.num_rows == 1301
    store = LocalStore(FIXTURES, fsync=False)
    spine = Spine.open(LAYOUT, [Slice("run-1", 1301, 0)], Runs(store))
    assert pa.Table.from_batches(spine.scan()).equals(pa.Table.from_batches([arrange(LAYOUT, orders())]))
    keys = pa.record_batch(
        {"_hash": xxhash64([pa.array(["customer 3", "twice"])]), "customer": ["customer 3", "twice"]}
    )
    assert [str(it) for it in spine.extremes(keys, None, False).to_pylist()] == ["-4889.00", "1.00"]


@pytest.mark.parametrize("name", ["run-1"])
def test_any_arrow_reads_the_fixture(name: str) -> None:
    with (FIXTURES / name).open("rb") as file:
        assert pa.ipc.open_stream(file).read_all().num_rows == 1301
