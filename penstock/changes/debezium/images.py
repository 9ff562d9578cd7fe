"""The rows before and after events, as Arrow columns: which columns there are, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.debezium.cells import cells, present
from penstock.changes.debezium.infer import infer
from penstock.changes.debezium.misfit import Misfit, of_field
from penstock.changes.debezium.types import ConnectType, Decimals, arrow_type, connect_type
from penstock.changes.debezium.unavailable import without_placeholders
from penstock.errors import SchemaMismatch

__all__ = ["Column", "Images", "OnNewColumn", "check_nulls", "declared", "picked", "read_images"]

Json = dict[str, Any]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
OnNewColumn = Literal["error", "ignore", "add"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its field in Arrow, how it is spelled, and whether the wire says so itself."""

    field: pa.Field
    kind: ConnectType
    told: bool


@dataclass(frozen=True, slots=True)
class Images:
    """Rows as columns, and for columns with placeholders where those were."""

    columns: dict[str, Column]
    arrays: list[pa.Array]
    unavailable: dict[str, Bools]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self.columns.values()])


def declared(
    given: pa.Schema | None, told: Iterable[tuple[ConnectType, int]], decimals: Decimals, subject: str
) -> dict[str, Column]:
    """The columns that are known before any value is looked at.

    ``told`` are the row types that messages carry, with the number of the first message that does. A column
    that only some of them have is nullable. A column that changes its type between them is refused: what
    comes before and after belongs into different batches.
    """
    kinds: dict[str, tuple[ConnectType, int]] = {}
    nullable: set[str] = set()
    wholes = list(told)
    for row, message in wholes:
        for name, kind in row.fields:
            if name not in kinds:
                kinds[name] = (kind, message)
            elif kinds[name][0] != kind:
                raise SchemaMismatch(
                    f"the type of the column {name!r} changes between message {kinds[name][1]} and {message}",
                    subject=subject,
                    hint="Decode the messages before and after the change apart, or give schema=.",
                )
            if kind.optional:
                nullable.add(name)
    everywhere = (
        set.intersection(*({name for name, _ in row.fields} for row, _ in wholes)) if wholes else set()
    )
    if given is not None:
        return {
            part.name: Column(part, kinds[part.name][0], told=True)
            if part.name in kinds
            else Column(part, connect_type(part.type, optional=part.nullable, decimals=decimals), told=False)
            for part in given
        }
    return {
        name: Column(
            pa.field(name, arrow_type(kind), name in nullable or name not in everywhere), kind, told=True
        )
        for name, (kind, _) in kinds.items()
    }


def read_images(
    rows: Sequence[Json], columns: dict[str, Column], on_new_column: OnNewColumn | None, placeholder: str
) -> Images:
    """Read rows, given as JSON objects, into columns.

    ``on_new_column`` says what becomes of a column that is not declared; None means that none is, so all are
    taken in. Nullability is not looked at here: a before image may lack what the table cannot.
    """
    seen = dict.fromkeys(chain.from_iterable(rows))
    new = [name for name in seen if name not in columns]
    if new and on_new_column == "error":
        at = next(at for at, row in enumerate(rows) if new[0] in row)
        raise Misfit(
            at,
            f"the column {new[0]!r} is not in the schema",
            "Add it to the schema, or choose on_new_column='add' or 'ignore'.",
        )
    taken = [*columns, *(new if on_new_column != "ignore" else [])]
    values = _values_by_name(rows, seen)
    known: dict[str, Column] = {}
    arrays: list[pa.Array] = []
    unavailable: dict[str, Bools] = {}
    for name in taken:
        with of_field(name):
            column = columns.get(name)
            found: Sequence[Any] = values.get(name) or [None] * len(rows)
            kind = None if column is None else column.kind
            found, gone = without_placeholders(found, present(found), kind, placeholder)
            if gone is not None:
                unavailable[name] = gone
            if column is None:
                inferred = infer(found)
                column = Column(pa.field(name, inferred), connect_type(inferred), told=False)
            known[name] = column
            arrays.append(cells(found, column.kind, column.field.type))
    return Images(known, arrays, unavailable)


def _values_by_name(rows: Sequence[Json], names: Iterable[str]) -> dict[str, Sequence[Any]]:
    """Rows turned into columns; a row that lacks a column has NULL there."""
    wanted = list(names)
    if not wanted:
        return {}
    if len(wanted) > 1 and all(len(row) == len(wanted) for row in rows):
        return dict(zip(wanted, zip(*map(itemgetter(*wanted), rows), strict=True), strict=True))
    return {name: [row.get(name) for row in rows] for name in wanted}


def check_nulls(images: Images, rows: Int64s) -> None:
    """Refuse a NULL, in some of the rows, where the schema allows none; a placeholder is no NULL."""
    for (name, column), array in zip(images.columns.items(), images.arrays, strict=True):
        if column.field.nullable or not array.null_count:
            continue
        missing = array.is_null().to_numpy(zero_copy_only=False)
        if name in images.unavailable:
            missing = missing & ~images.unavailable[name]
        if missing[rows].any():
            at = int(rows[missing[rows].argmax()])
            hint = "Declare the column nullable in schema=."
            raise Misfit(at, "it is missing or NULL, and the schema allows neither", hint, f".{name}")


def picked(images: Images, rows: Int64s) -> pa.RecordBatch:
    """One row per event: the image with that number, or all NULL for −1. Numbers ascend."""
    if (rows < 0).all():
        arrays = [pa.nulls(len(rows), array.type) for array in images.arrays]
    elif images.arrays and len(rows) == len(images.arrays[0]) and (rows >= 0).all():
        arrays = images.arrays
    else:
        index = pa.array(rows, mask=rows < 0)
        arrays = [array.take(index) for array in images.arrays]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([column.field.with_nullable(True) for column in images.columns.values()])
    )
