"""The events that the log and its peers write and read: a shop's orders, some hundred bytes each."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

__all__ = ["BATCH", "KEY", "Row", "as_json", "as_tuples", "batches", "orders"]

BATCH = 1_000
KEY = ("id",)

Row = tuple[int, str, str, float, int, int]


def orders(rows: int) -> pa.RecordBatch:
    """Six columns; with the operation that a log stores beside them 99 bytes a row."""
    rng = np.random.default_rng(7)
    customers = pa.array([f"customer {i:06d} of the shop" for i in range(10_000)])
    products = pa.array([f"product {i:06d}, blue" for i in range(10_000)])
    return pa.record_batch(
        {
            "id": np.arange(rows),
            "customer": customers.take(pa.array(rng.integers(0, 10_000, rows))),
            "product": products.take(pa.array(rng.integers(0, 10_000, rows))),
            "amount": np.round(rng.random(rows) * 1_000, 2),
            "count": rng.integers(1, 10, rows),
            "placed": 1_700_000_000_000_000 + np.arange(rows),
        }
    )


def batches(data: pa.RecordBatch, rows: int = BATCH) -> list[pa.RecordBatch]:
    """The same rows, as batches of their own (a slice would carry the whole's buffers along)."""
    table = pa.table(data)
    return [
        pa.RecordBatch.from_pydict(table.slice(at, rows).to_pydict(), schema=table.schema)
        for at in range(0, len(table), rows)
    ]


def as_tuples(batch: pa.RecordBatch) -> list[Row]:
    """What SQLite's ``executemany`` takes."""
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def as_json(batch: pa.RecordBatch) -> list[bytes]:
    """What Redis takes: the least it can be given is one field, so each event is one value."""
    return [orjson.dumps(row) for row in batch.to_pylist()]
