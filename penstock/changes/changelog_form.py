"""Changelog form: the user's columns and, behind them, ``_op`` and ``_weight``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.changelog import OP_WEIGHTS
from penstock.changes.names import OP, WEIGHT, check_user_schema, user_columns
from penstock.changes.op import Op
from penstock.changes.pickable import decoded
from penstock.changes.weights import as_weights
from penstock.errors import InvalidArgument

__all__ = ["from_changelog", "integers", "not_arrow", "one_batch", "to_changelog", "user_rows"]

Int64s = npt.NDArray[np.int64]
_SUBJECT = "ZSet"
_FIELDS = (pa.field(OP, pa.int8(), nullable=False), pa.field(WEIGHT, pa.int64(), nullable=False))


def from_changelog(data: pa.RecordBatch | pa.Table) -> tuple[pa.RecordBatch, Int64s]:
    """The user's rows and their weights: those of ``_weight``, else those of the operations."""
    batch = one_batch(data)
    names, rows = batch.schema.names, user_rows(batch)
    if OP not in names:
        if WEIGHT not in names:
            raise InvalidArgument(
                f"there is neither a column {OP!r} nor one {WEIGHT!r}",
                subject=_SUBJECT,
                hint="Use from_arrow for plain rows.",
            )
        return rows, integers(batch, WEIGHT)
    by_op = _weights_of_ops(integers(batch, OP))
    if WEIGHT not in names:
        return rows, by_op
    weights = integers(batch, WEIGHT)
    against = np.sign(weights) * by_op < 0
    if against.any():
        at = int(against.argmax())
        raise InvalidArgument(
            f"row {at} has the weight {weights[at]}, and its operation counts {by_op[at]:+d}",
            subject=_SUBJECT,
            hint="+I and +U add (weight > 0); -D and -U take away (weight < 0).",
        )
    return rows, weights


def user_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that are the user's."""
    names = batch.schema.names
    mine = set(user_columns(names))
    rows = batch.select([i for i, name in enumerate(names) if name in mine])
    check_user_schema(rows.schema, _SUBJECT)
    return rows


def to_changelog(rows: pa.RecordBatch, weights: Int64s) -> pa.RecordBatch:
    """Rows with +I where copies are added and -D where they are taken away, and how many."""
    ops = np.where(weights > 0, Op.INSERT, Op.DELETE).astype(np.int8)
    for field, column in zip(_FIELDS, (ops, weights), strict=True):
        rows = rows.append_column(field, pa.array(column))
    return rows


def one_batch(data: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """Arrow rows in one piece."""
    if isinstance(data, pa.RecordBatch):
        return data
    if not isinstance(data, pa.Table):
        raise not_arrow(data)
    columns = [column.combine_chunks() for column in data.columns]
    flat = [
        (column.chunk(0) if column.num_chunks else pa.array([], column.type))
        if isinstance(column, pa.ChunkedArray)
        else column
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(flat, schema=data.schema)


def integers(batch: pa.RecordBatch, name: str) -> Int64s:
    """A column of integers without NULLs."""
    if batch.schema.names.count(name) > 1:
        raise InvalidArgument(
            f"the column {name!r} is there more than once", subject=_SUBJECT, hint="Leave one of them."
        )
    column = decoded(batch.column(name))
    if column.null_count:
        raise InvalidArgument(
            f"{column.null_count} values of the column {name!r} are NULL",
            subject=_SUBJECT,
            hint="Give every row one.",
        )
    if not pa.types.is_integer(column.type):
        raise InvalidArgument(
            f"the column {name!r} is {column.type}", subject=_SUBJECT, hint="Give 64-bit integers."
        )
    return as_weights(column.to_numpy(), _SUBJECT)


def not_arrow(data: object) -> InvalidArgument:
    return InvalidArgument(
        f"{type(data).__name__} is not Arrow data",
        subject=_SUBJECT,
        hint="Give a pyarrow RecordBatch; from_arrow takes a Table too.",
    )


def _weights_of_ops(ops: Int64s) -> Int64s:
    if len(ops) and not 0 <= ops.min() <= ops.max() < len(Op):
        raise InvalidArgument(
            f"the column {OP!r} holds something that is not the number of an operation",
            subject=_SUBJECT,
            hint=f"Use {', '.join(f'{int(op)} for {op.short}' for op in Op)}.",
        )
    weights: Int64s = OP_WEIGHTS[ops].astype(np.int64)
    return weights
