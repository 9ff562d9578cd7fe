"""A changelog made into what a sink takes: rows to upsert and keys to delete, or rows to append.

Law: applied to any table that held what the changelog retracts, the upserts and deletes leave the table
that the changelog leaves. Weights of equal rows are summed first, so order and repetition do not matter.
State: none.
Cost: O(rows), two groupings: one by row, one by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.changelog_form import one_batch, user_rows
from penstock.changes.names import OP, WEIGHT, is_reserved
from penstock.changes.rows import group
from penstock.changes.shown import shown_row
from penstock.changes.zset import ZSet
from penstock.errors import AppendOnly, InvalidArgument, KeyConflict, ReservedName

__all__ = ["Collapsed", "additions", "collapse"]

_MOST_ROWS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Collapsed:
    """What to do to a table by key. No key is in both parts, and none is twice in one."""

    upserts: pa.RecordBatch
    """The rows that are now there, whole."""
    deletes: pa.RecordBatch
    """The keys, and only those columns, that are no longer there."""


def collapse(changes: ZSet | pa.RecordBatch | pa.Table, key: Sequence[str]) -> Collapsed:
    """What the changes do to a table whose rows are told apart by the columns ``key``.

    A key with one row of weight 1 is an upsert of that row, one with only negative rows is a delete, one
    whose rows cancel out is nothing. A key with more than one live row is refused: it is not a key.

    Arrow data may carry Penstock's own columns: weights are in ``_weight``, else they follow ``_op``,
    else each row counts 1; the rest of them plays no part. Keys compare as `penstock.changes.rows` says.

    >>> changes = pa.table({"id": [1, 1, 2], "total": [10.0, 12.5, 7.0], "_weight": [-1, 1, -1]})
    >>> done = collapse(changes, key=["id"])
    >>> done.upserts.to_pylist(), done.deletes.to_pylist()
    ([{'id': 1, 'total': 12.5}], [{'id': 2}])
    """
    key = key if isinstance(key, str) else tuple(key)
    z = _as_zset(changes, "collapse")
    _check_key(z.schema.names, key)
    z = z.consolidate()
    keys = z.rows.select(list(key))
    grouping = group(keys.columns, len(z))
    live = np.flatnonzero(z.weights > 0)
    rows_per_key = np.bincount(grouping.ids[live], minlength=grouping.count)
    excess = (rows_per_key[grouping.ids[live]] > 1) | (z.weights[live] > 1)
    if excess.any():
        raise _conflict(z, keys, grouping.ids, live, int(live[np.argmax(excess)]))
    gone = grouping.first[rows_per_key == 0]
    return Collapsed(z.rows.take(pa.array(live)), keys.take(pa.array(gone)))


def additions(changes: ZSet | pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The rows to append, each as often as its weight says, for a sink that can only append.

    Weights are summed first: a row that was added and taken away again is no row. If anything is then
    still taken away, all is refused, not only that part: the sink would be wrong from there on.

    >>> additions(pa.table({"x": [7, 8, 8], "_weight": [2, 1, -1]})).to_pylist()
    [{'x': 7}, {'x': 7}]
    """
    z = _as_zset(changes, "additions").consolidate()
    if len(z) and z.weights.min() < 0:
        at = int(np.argmax(z.weights < 0))
        raise AppendOnly(
            f"{shown_row(z.rows, at)} has the weight {z.weights[at]}",
            subject="additions",
            hint="Emit only what is final (EMIT ON WINDOW CLOSE or FINAL), or use a sink that takes deletes.",
        )
    if z.total_weight > _MOST_ROWS:
        raise InvalidArgument(
            f"the weights add up to {z.total_weight} rows",
            subject="additions",
            hint="Append them in parts, or look for a change that is applied again and again.",
        )
    if z.total_weight == len(z):
        return z.rows
    return z.rows.take(pa.array(np.repeat(np.arange(len(z)), z.weights)))


def _as_zset(changes: ZSet | pa.RecordBatch | pa.Table, subject: str) -> ZSet:
    """The user's columns with their weights."""
    if isinstance(changes, ZSet):
        return changes
    if not isinstance(changes, pa.RecordBatch | pa.Table):
        raise InvalidArgument(
            f"{type(changes).__name__} is neither a ZSet nor Arrow data",
            subject=subject,
            hint="Give a ZSet, or a pyarrow RecordBatch or Table.",
        )
    if OP in changes.schema.names or WEIGHT in changes.schema.names:
        return ZSet.from_changelog(changes)
    return ZSet.from_arrow(user_rows(one_batch(changes)))


def _check_key(names: list[str], key: Sequence[str]) -> None:
    if isinstance(key, str) or not key or len(set(key)) < len(key):
        raise InvalidArgument(
            f"{key!r} is not a key", subject="collapse", hint="Give one column name or more, each once."
        )
    for name in key:
        if is_reserved(name):
            raise ReservedName(
                f"the key column {name!r} begins with one underscore, and such columns are not data",
                subject="collapse",
                hint="Use columns of the table as the key.",
            )
        if name not in names:
            raise InvalidArgument(
                f"there is no key column {name!r}",
                subject="collapse",
                hint=f"The columns are {', '.join(names)}.",
            )


def _conflict(
    z: ZSet, keys: pa.RecordBatch, ids: npt.NDArray[np.int64], live: npt.NDArray[np.int64], at: int
) -> KeyConflict:
    copies = z.weights[live[ids[live] == ids[at]]]
    return KeyConflict(
        f"the key {shown_row(keys, at)} has {sum(copies.tolist())} live rows",
        subject="collapse",
        hint="Add the columns that tell these rows apart to the key, or look for changes that are missing.",
    )
