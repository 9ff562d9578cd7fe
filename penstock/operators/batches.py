"""Batches in and out of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import ArithmeticOverflow, SchemaMismatch
from penstock.spine.layout import Int64s, int64s

__all__ = ["BATCH_ROWS", "changes", "columns", "gathered", "numbers", "products", "taken"]

BATCH_ROWS = 1 << 16
"""How many rows a step yields at a time, at most, where it makes rows out of rows."""

_MAX = 2**63 - 1


def gathered(schema: pa.Schema, batches: Iterable[pa.RecordBatch], subject: str) -> pa.RecordBatch:
    """All rows of an input as one batch, its columns found by name."""
    some = [_fitted(schema, batch, subject) for batch in batches if batch.num_rows]
    if len(some) == 1:
        return some[0]
    if not some:
        return pa.RecordBatch.from_arrays([pa.array([], it.type) for it in schema], schema=schema)
    return pa.concat_batches(some)


def _fitted(schema: pa.Schema, batch: pa.RecordBatch, subject: str) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0 or batch.schema.field(at).type != field.type:
            came = ", ".join(f"{it.name} {it.type}" for it in batch.schema)
            raise SchemaMismatch(
                f"there is no column {field.name} {field.type} in ({came})",
                subject=subject,
                hint="Give each input the columns that the operator's inputs tell.",
            )
        arrays.append(batch.column(at))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def columns(batch: pa.RecordBatch, names: Iterable[str]) -> list[pa.Array]:
    """Some columns, by name."""
    return [batch.column(name) for name in names]


def numbers(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column of int64 without NULL."""
    return int64s(batch.column(name), name)


def taken(arrays: Sequence[pa.Array], rows: Int64s) -> list[pa.Array]:
    """The arrays at these rows; the arrays themselves where that is all of them in order."""
    if arrays and len(rows) == len(arrays[0]) and bool((rows == np.arange(len(rows))).all()):
        return list(arrays)
    index = pa.array(rows)
    return [it.take(index) for it in arrays]


def changes(output: pa.Schema, arrays: Sequence[pa.Array], weights: Int64s) -> Iterator[pa.RecordBatch]:
    """Canonical rows as batches of changes, none of them empty and none of more than so many rows."""
    whole = pa.RecordBatch.from_arrays([*arrays, pa.array(weights)], schema=output)
    for start in range(0, len(weights), BATCH_ROWS):
        yield whole.slice(start, BATCH_ROWS)


def products(left: Int64s, right: Int64s, subject: str) -> Int64s:
    """left · right, refused where it leaves 64 bits."""
    if len(left) and _widest(left) * _widest(right) > _MAX:
        exact = left.astype(object) * right.astype(object)
        if max(exact.max(), -1 - exact.min()) > _MAX:
            raise ArithmeticOverflow(
                "the weight of a pair of rows leaves the range of 64 bits",
                subject=subject,
                hint="No real bag holds so many copies of a row: look for a change applied over and over.",
            )
    return left * right


def _widest(values: Int64s) -> int:
    return max(int(values.max()), -int(values.min()))
