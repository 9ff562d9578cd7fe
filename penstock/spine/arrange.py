"""`arrange`: any rows → the stored form of a run.

Law: the content stays. What comes out is sorted by unsigned hash (in a bag with an order, then by that
column), has every row once, no row of zeros, and canonical values.
Cost: one SIMD sort of 64-bit numbers and one gather per column; real values are compared only where a hash
is there more than once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.changes.rows import canonical
from penstock.errors import SchemaMismatch
from penstock.spine.consolidate import consolidated
from penstock.spine.layout import HASH, Bools, Int64s, Layout, UInt64s, int64s
from penstock.spine.order import sorting_of

__all__ = ["arrange", "arrange_pieces", "sorting"]


def arrange(layout: Layout, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with ``_hash`` (and, for a bag, ``_weight``) in any order → the stored form.

    Columns are found by name; others are left out.

    >>> layout = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")
    >>> rows = pa.record_batch({"k": ["b", "a", "b"], "n": [1, 5, 2], "_hash": [-1, 7, -1]})
    >>> arrange(layout, rows).to_pylist()
    [{'_hash': 7, 'k': 'a', 'n': 5}, {'_hash': -1, 'k': 'b', 'n': 3}]
    """
    columns = []
    for field in layout.stored:
        at = batch.schema.get_all_field_indices(field.name)
        if len(at) != 1 or batch.schema.field(at[0]).type != field.type:
            raise SchemaMismatch(
                f"there is no one column {field.name} {field.type} in ({_spell(batch.schema)})",
                subject="arrange",
                hint="Name and cast the columns as the layout says.",
            )
        columns.append(batch.column(at[0]))
    return _arranged(layout, columns)


def arrange_pieces(layout: Layout, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The sum of several batches of the stored form, in the stored form."""
    if len(pieces) == 1:
        return pieces[0]
    columns = [pa.concat_arrays([piece.column(i) for piece in pieces]) for i in range(len(layout.stored))]
    return _arranged(layout, columns, is_canonical=True)


def _arranged(layout: Layout, columns: list[pa.Array], is_canonical: bool = False) -> pa.RecordBatch:
    for name in layout.summed:
        int64s(columns[layout.stored.get_field_index(name)], name)
    hashes = unsigned(int64s(columns[0], HASH))
    if not is_canonical:
        columns = [canonical(column) for column in columns]
    order = sorting(hashes)
    if order is not None:
        hashes = hashes[order]
    if layout.order is not None:
        order = _ordered(hashes, columns[layout.stored.get_field_index(layout.order)], order)
    if order is not None:
        taken = pa.array(order)
        columns = [column.take(taken) for column in columns]
    return pa.RecordBatch.from_arrays(consolidated(layout, hashes, columns), schema=layout.stored)


def sorting(hashes: UInt64s) -> Int64s | None:
    """The positions of the hashes, the lowest first, equal ones in their order; None where they lie so
    already.

    The top bits of each hash and its position are packed in one number, and numbers are sorted: several times
    faster than sorting positions. Hashes that differ in low bits only are put right afterwards.
    """
    length = len(hashes)
    if length < 2 or bool((hashes[1:] >= hashes[:-1]).all()):
        return None
    low = np.uint64((1 << (length - 1).bit_length()) - 1)
    packed = (hashes & ~low) | np.arange(length, dtype=np.uint64)
    packed.sort()
    order = (packed & low).view(np.int64)
    found = hashes[order]
    if bool((found[1:] < found[:-1]).any()):
        packed &= ~low
        unsure = in_company(packed)
        mixed = np.flatnonzero(unsure)
        order[mixed] = order[mixed][np.argsort(found[mixed], kind="stable")]
    return order


def _ordered(hashes: UInt64s, values: pa.Array, order: Int64s | None) -> Int64s | None:
    """Sort rows of equal hash by value. ``hashes`` are sorted, ``values`` are not yet."""
    mixed = np.flatnonzero(in_company(hashes))
    if not len(mixed):
        sorting_of(values.slice(0, 0) if values.null_count == 0 else values)
        return order
    rows = mixed if order is None else order[mixed]
    by_value = sorting_of(
        values if len(rows) == len(values) and order is None else values.take(pa.array(rows))
    )
    again = sorting(hashes[mixed][by_value])
    rows = rows[by_value if again is None else by_value[again]]
    if order is None:
        order = np.arange(len(hashes))
    order[mixed] = rows
    return order


def in_company(sorted_hashes: UInt64s) -> Bools:
    """Which of the sorted hashes are there more than once."""
    shared = np.zeros(len(sorted_hashes), np.bool_)
    if len(sorted_hashes) > 1:
        same = sorted_hashes[1:] == sorted_hashes[:-1]
        shared[1:] = same
        shared[:-1] |= same
    return shared


def _spell(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
