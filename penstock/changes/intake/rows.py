"""`rows_of`: whatever people hand in → a batch of exactly the columns that are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.changes.intake.convert import convert_chunks
from penstock.changes.intake.given import Given, given
from penstock.changes.intake.refused import NoRoom, Refused, closest, listed, mismatch, missing, spell
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["column_of", "rows_of"]


def rows_of(
    data: Any, schema: pa.Schema, *, subject: str = "rows", columns: Iterable[str] | None = None
) -> pa.RecordBatch:
    """The rows as a batch of this schema, or an error that names the row, the column and the value.

    Law: nothing is lost. A value is taken if it can be told from what is kept what was given; so ``"10.00"``
    is a DECIMAL(12,2) and ``"1.005"`` is none, and ``3.0`` is a BIGINT and ``3.7`` is none. The one exception
    is FLOAT, which takes the nearest of a double's values. A column that is not given is NULL.
    ``columns`` says which columns positional rows hold, and in which order (else all, as in the schema);
    data that has names is then taken by position, too, but for dictionaries.
    Cost: nothing is copied where the data is right as it is; else one cast per column, and for Python's
    objects a few passes over each.

    >>> at = pa.field("at", pa.timestamp("us", "UTC"))
    >>> schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(12, 2)), at])
    >>> rows_of([{"id": 1, "amount": "10.00", "at": "2024-01-31T12:00:00+01:00"}], schema).to_pylist()
    [{'id': 1, 'amount': Decimal('10.00'), 'at': datetime.datetime(2024, 1, 31, 11, 0, tzinfo=...)}]
    >>> rows_of([(1, "10.00"), (2, "1.005")], schema, subject="table 'orders'", columns=["id", "amount"])
    Traceback (most recent call last):
    penstock.errors.SchemaMismatch: [schema-mismatch] table 'orders': row 1, column 'amount': '1.005' is not
    taken as DECIMAL(12,2), for it has more than 2 digits after the point. Nothing was taken. ...
    """
    names = schema.names if columns is None else _checked(columns, schema, subject)
    kinds = {name: schema.field(name).type for name in names}
    found = given(data, names, kinds, subject, positional=columns is not None)
    made = [column_of(found, field, subject) for field in schema]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def column_of(found: Given, field: pa.Field, subject: str) -> pa.Array:
    """One column of what was given, as its field wants it."""
    values = found.columns.get(field.name)
    if values is None:
        if not field.nullable and found.rows:
            raise missing(0, field.name, False, subject)
        return pa.nulls(found.rows, field.type)
    try:
        return convert_chunks(values, field)
    except Refused as refused:
        if refused.value is None and not refused.path and not field.nullable:
            raise missing(refused.row, field.name, True, subject) from None
        raise mismatch(refused, field.name, subject) from None
    except NoRoom as error:
        raise InvalidArgument(
            f"the column {field.name!r} has more text or items than one batch holds (2 GiB)",
            subject=subject,
            hint="Hand the rows in in several parts.",
        ) from error
    except pa.ArrowException as error:
        raise SchemaMismatch(
            f"the column {field.name!r} cannot be read as {spell(field.type)} ({error})",
            subject=subject,
            hint="Convert the column before handing it in.",
        ) from error


def _checked(columns: Iterable[str], schema: pa.Schema, subject: str) -> list[str]:
    names = list(columns)
    for name in names:
        if name not in schema.names:
            raise SchemaMismatch(
                f"there is no column {name!r}",
                subject=subject,
                hint=f"{closest(name, schema.names)}The columns are {listed(schema.names)}.",
            )
        if names.count(name) > 1:
            raise InvalidArgument(
                f"the column {name!r} is named twice", subject=subject, hint="Name each column once."
            )
    return names
