"""`netted`: a tick's changes without what cancels out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import can_hash, xxhash64
from penstock.changes.names import WEIGHT
from penstock.changes.rows import canonical, group
from penstock.operators.batches import columns, numbers
from penstock.operators.groups import Groups, added_up, grouped
from penstock.spine import HASH

__all__ = ["netted"]


def netted(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The changes, canonical; where some take away what others bring, equal rows are added up.

    An update of a column that was left out since is −row +row of one and the same row: hence this.
    Cost: nothing where rows only come or only go, else a hash and a sort.

    >>> changes = {"x": ["a", "b", "a"], "_hash": [1, 2, 1], "_weight": [-1, 1, 1]}
    >>> netted(pa.record_batch(changes), ["x"]).to_pylist()
    [{'x': 'b', '_hash': 2, '_weight': 1}]
    """
    clean = [canonical(it) for it in rows.columns]
    rows = pa.RecordBatch.from_arrays(clean, schema=rows.schema)
    weights = numbers(rows, WEIGHT)
    if (weights > 0).all() or (weights < 0).all():
        return rows
    groups = _of_equal_rows(rows, columns(rows, names))
    weights = added_up(weights, groups)
    left = np.flatnonzero(weights)
    if len(left) == len(rows):
        return rows
    at = rows.schema.get_field_index(WEIGHT)
    taken = rows.take(pa.array(groups.first[left]))
    return taken.set_column(at, rows.schema.field(at), pa.array(weights[left]))


def _of_equal_rows(rows: pa.RecordBatch, values: Sequence[pa.Array]) -> Groups:
    if all(can_hash(it.type) for it in values):
        return grouped(xxhash64([rows.column(HASH), *values]), values)
    told = group(values, len(rows))
    return Groups(told.ids, told.first)
