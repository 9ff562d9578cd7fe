"""Changes as they concern single keys: for readers that look at some of a collection's keys only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import UInt64s, unsigned, xxhash64
from penstock.changes.op import Op
from penstock.changes.rows import same_rows
from penstock.log.changes import Changes
from penstock.log.rows import Int8s

__all__ = ["key_hashes", "key_ops"]


def key_hashes(changes: Changes) -> UInt64s:
    """The hash of each row's key, unsigned."""
    data = changes.data
    return unsigned(xxhash64([data.column(name) for name in changes.collection.key], data.num_rows))


def key_ops(changes: Changes) -> Int8s:
    """The operation of each row on its own key.

    Law: an update that gives a row another key is the delete of the old key and the insert of the new one,
    with the same LSN. So what a reader is told of a key does not depend on which other keys it looks at.
    """
    ops = changes.ops
    pairs = np.flatnonzero((ops[:-1] == Op.UPDATE_BEFORE) & (ops[1:] == Op.UPDATE_AFTER))
    if not len(pairs):
        return ops
    before, after = pa.array(pairs), pa.array(pairs + 1)
    columns = [changes.data.column(name) for name in changes.collection.key]
    same = same_rows([it.take(before) for it in columns], [it.take(after) for it in columns], len(pairs))
    moved = pairs[~same]
    if not len(moved):
        return ops
    by_key = ops.copy()
    by_key[moved] = Op.DELETE
    by_key[moved + 1] = Op.INSERT
    return by_key
