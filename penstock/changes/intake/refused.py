"""A value that is not taken, on its way from where it is found to the error that names row and column."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import SchemaMismatch

__all__ = ["NoRoom", "Refused", "closest", "listed", "mismatch", "missing", "show", "spell"]

_SHOWN = 60
_NAMES = 20


class NoRoom(Exception):
    """The values are too many for one Arrow array of the type: its offsets have 32 bits."""


class Refused(Exception):
    """A value that does not fit: in which row, where in it, what it is, what was wanted and why not."""

    def __init__(self, row: int, value: Any, wanted: pa.DataType, why: str, path: str = "") -> None:
        super().__init__(why)
        self.row = row
        self.value = value
        self.wanted = wanted
        self.why = why
        self.path = path

    def moved(self, row: int, path: str = "") -> Refused:
        """The same, told from the row that holds it."""
        return Refused(row, self.value, self.wanted, self.why, path + self.path)


def mismatch(refused: Refused, column: str, subject: str) -> SchemaMismatch:
    """What the user is told of a refused value."""
    where = f"row {refused.row}, column {column + refused.path!r}"
    return SchemaMismatch(
        f"{where}: {show(refused.value)} is not taken as {spell(refused.wanted)}, {refused.why}",
        subject=subject,
        hint="Nothing was taken. Correct the value, or convert the column before handing it in.",
    )


def missing(row: int, column: str, given: bool, subject: str) -> SchemaMismatch:
    """What the user is told of a NULL that may not be."""
    how = "is NULL" if given else "is not given"
    return SchemaMismatch(
        f"row {row}, column {column!r} {how}, and the column is NOT NULL",
        subject=subject,
        hint="Give every row a value.",
    )


def closest(name: object, names: Sequence[str]) -> str:
    """The beginning of a hint: the name that may have been meant, if one is near."""
    if not isinstance(name, str):
        return ""
    folded = {it.casefold(): it for it in names}
    near = difflib.get_close_matches(name.casefold()[:200], folded, n=1)
    return f"Did you mean {folded[near[0]]!r}? " if near else ""


def listed(names: Sequence[str]) -> str:
    """Names for a hint; of very many, the first."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def show(value: Any) -> str:
    """The value as Python writes it, shortened; whatever it is, this does not fail."""
    if isinstance(value, str | bytes) and len(value) > _SHOWN:
        value = value[:_SHOWN]
        text = f"{value!r}…"
    else:
        try:
            text = repr(value)
        except Exception:
            text = f"a value of type {type(value).__name__}"  # an int of thousands of digits, for one
    return text if len(text) <= _SHOWN + 10 else text[:_SHOWN] + "…"


def spell(kind: pa.DataType) -> str:
    """The type as Spark SQL writes it, where Spark has it.

    >>> spell(pa.map_(pa.string(), pa.list_(pa.decimal128(12, 2))))
    'MAP<STRING, ARRAY<DECIMAL(12,2)>>'
    """
    t = pa.types
    if t.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if t.is_timestamp(kind) and kind.unit == "us":
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if t.is_map(kind):
        return f"MAP<{spell(kind.key_type)}, {spell(kind.item_type)}>"
    if t.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {spell(field.type)}' for field in kind)}>"
    if t.is_list(kind) or t.is_large_list(kind):
        return f"ARRAY<{spell(kind.value_type)}>"
    return _SPELLED.get(kind, str(kind))


_SPELLED = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.null(): "VOID",
}
