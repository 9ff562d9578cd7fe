"""`changes_of`: rows with operations or weights → a batch that a log appends as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.intake.given import Given, given
from penstock.changes.intake.refused import missing, show
from penstock.changes.intake.rows import column_of
from penstock.changes.names import LSN, META_FIELDS, OP
from penstock.changes.op import Op
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["changes_of"]

_OP_FIELD, _WEIGHT_FIELD, _, _TS_FIELD = META_FIELDS
_META = (_OP_FIELD, _WEIGHT_FIELD, _TS_FIELD)

_NAMES = {
    "insert": Op.INSERT,
    "i": Op.INSERT,
    "update_before": Op.UPDATE_BEFORE,
    "update_after": Op.UPDATE_AFTER,
    "update": Op.UPDATE_AFTER,
    "u": Op.UPDATE_AFTER,
    "delete": Op.DELETE,
    "d": Op.DELETE,
    **{op.short.lower(): op for op in Op},
}

_NUMBERS = frozenset(Op)


def changes_of(
    data: Any, schema: pa.Schema, *, key: Iterable[str] = (), subject: str = "changes"
) -> pa.RecordBatch:
    """The changes as a batch: the columns of ``schema``; then ``_op``, ``_weight``, ``_ts``, where given.

    ``_op`` holds numbers (`Op`) or names, in capitals or not: insert or I, update_before, update_after or
    update or U, delete or D, and Flink's +I, -U, +U, -D. Everything else is as `rows_of` says; but where rows
    have a ``key``, those that go need no more than that: NOT NULL holds for rows that come.

    >>> schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    >>> changes_of([{"_op": "I", "id": 1, "name": "ada"}, {"_op": "-D", "id": 2}], schema).to_pylist()
    [{'id': 1, 'name': 'ada', '_op': 0}, {'id': 2, 'name': None, '_op': 3}]
    """
    names = [*schema.names, *(field.name for field in _META)]
    kinds = {field.name: field.type for field in (*schema, *_META)}
    kinds[OP] = pa.string()
    if isinstance(data, pa.RecordBatch | pa.Table) and LSN in data.schema.names:
        raise InvalidArgument(
            f"the changes have a column {LSN!r}",
            subject=subject,
            hint="The log gives LSNs itself: drop the column.",
        )
    found = given(data, names, kinds, subject, unnamed=schema.names)
    fields = [field for field in _META if field.name in found.columns]
    meta = [
        _operations(found, subject) if it is _OP_FIELD else column_of(found, it, subject) for it in fields
    ]
    columns = schema
    wanted = frozenset(key)
    if wanted and OP in found.columns:
        loose = [it if it.name in wanted else it.with_nullable(True) for it in schema]
        columns = pa.schema(loose, schema.metadata)
    rows = [column_of(found, field, subject) for field in columns]
    if columns is not schema:
        _check_needed(rows, schema, meta[0], found, subject)
    return pa.RecordBatch.from_arrays([*rows, *meta], schema=pa.schema([*columns, *fields], schema.metadata))


def _check_needed(rows: list[pa.Array], schema: pa.Schema, ops: pa.Array, found: Given, subject: str) -> None:
    """Refuse a NULL that may not be in a row that comes."""
    comes = np.isin(ops.to_numpy(), (Op.INSERT, Op.UPDATE_AFTER))
    for column, field in zip(rows, schema, strict=True):
        if not field.nullable and column.null_count:
            wrong = comes & column.is_null().to_numpy(zero_copy_only=False)
            if wrong.any():
                raise missing(int(np.argmax(wrong)), field.name, field.name in found.columns, subject)


def _operations(found: Given, subject: str) -> pa.Array:
    """The operations as numbers. Each distinct one is looked at once."""
    values = found.columns[OP]
    if isinstance(values, list):
        return pa.array([_operation(value, row, subject) for row, value in enumerate(values)], pa.int8())
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    row, parts = 0, [pa.array([], pa.int8())]
    for chunk in chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else pc.dictionary_encode(chunk, "encode")
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        codes = _codes(encoded.dictionary.to_pylist())
        told = codes[indices]  # the last one is for NULL
        if (told < 0).any():
            at = int(np.argmax(told < 0))
            _operation(chunk[at].as_py(), row + at, subject)
        parts.append(pa.array(told))
        row += len(chunk)
    return pa.concat_arrays(parts)


def _codes(values: list[Any]) -> npt.NDArray[np.int8]:
    codes = [_known(value) for value in values]
    return np.array([*(-1 if op is None else op for op in codes), -1], np.int8)


def _operation(value: Any, row: int, subject: str) -> Op:
    op = _known(value)
    if op is None:
        raise SchemaMismatch(
            f"row {row}, column {OP!r}: {show(value)} is not an operation",
            subject=subject,
            hint="Use insert, update_before, update_after or delete, one of +I, -U, +U and -D, or 0 to 3.",
        )
    return op


def _known(value: Any) -> Op | None:
    if isinstance(value, str):
        return _NAMES.get(value.lower().replace("−", "-"))
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and value in _NUMBERS:
        return Op(int(value))  # a float where pandas had missing values beside
    return None
