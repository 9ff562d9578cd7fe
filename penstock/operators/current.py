"""`current`: the one row that each key has now, in a bag that holds at most one per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.errors import KeyConflict
from penstock.operators.batches import gathered, numbers
from penstock.spine import HASH, Spine
from penstock.spine.consolidate import consolidated
from penstock.spine.layout import Int64s

__all__ = ["current"]


def current(spine: Spine, keys: pa.RecordBatch) -> tuple[Int64s, pa.RecordBatch]:
    """For each key the number of its row in the batch, −1 where it has none; and that batch, in stored form.

    Cost: one look-up. Versions that were taken back are still in the runs until these are merged; only keys
    that have some are added up.
    """
    places, batches = [np.empty(0, np.int64)], []
    for at, rows in spine.matches(keys):
        places.append(at)
        batches.append(rows)
    at = np.concatenate(places)
    rows = gathered(spine.layout.stored, batches, "spine")
    weights = numbers(rows, WEIGHT)
    seen = np.bincount(at, minlength=keys.num_rows)
    if len(at) and (int(seen.max()) > 1 or not (weights == 1).all()):
        at, rows = _added_up(spine, at, rows)
        hash_at = rows.schema.get_field_index(HASH)
        rows = rows.set_column(hash_at, rows.schema.field(hash_at), keys.column(HASH).take(pa.array(at)))
        weights = numbers(rows, WEIGHT)
        seen = np.bincount(at, minlength=keys.num_rows)
        if int(seen.max(initial=0)) > 1 or not (weights == 1).all():
            raise KeyConflict(
                "a key has more than one row, or a row that was taken away more often than it came",
                subject="state of an operator",
                hint="The state is not what the operator wrote: recover it from the last manifest.",
            )
    found = np.full(keys.num_rows, -1)
    found[at] = np.arange(len(at))
    return found, rows


def _added_up(spine: Spine, at: Int64s, rows: pa.RecordBatch) -> tuple[Int64s, pa.RecordBatch]:
    order = np.argsort(at, kind="stable")
    index = pa.array(order)
    columns = [it.take(index) for it in rows.columns]
    hash_at = rows.schema.get_field_index(HASH)
    # The number of the key takes the place of the hash: rows of one key stand together, and are compared.
    columns[hash_at] = pa.array(at[order])
    columns = consolidated(spine.layout, at[order].view(np.uint64), columns)
    left = columns[hash_at].to_numpy()
    return left, pa.RecordBatch.from_arrays(columns, schema=rows.schema)
