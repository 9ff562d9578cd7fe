"""`TableWriter`: how people change the tables they own. Each call is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changes import Op
from penstock.changes.intake import changes_of, rows_of
from penstock.changes.names import OP
from penstock.changes.rows import group
from penstock.errors import InvalidArgument, KeyConflict
from penstock.log import Log
from penstock.lsn import LsnRange
from penstock.views.catalog import Table

__all__ = ["Append", "TableWriter"]

Append = Callable[[str, pa.RecordBatch], LsnRange | None]
"""Appends a batch to a collection: at once, or as part of a transaction that is open."""


class TableWriter:
    """Writes one table. Rows may be Arrow, pandas, Polars, dictionaries or tuples; strings are taken for
    decimals and times; what does not fit is refused, and told by column and row."""

    def __init__(self, table: Table, append: Append) -> None:
        self.table = table
        self._append = append

    @property
    def _subject(self) -> str:
        return f"table {self.table.name!r}"

    def insert(self, rows: Any, columns: Iterable[str] | None = None) -> LsnRange | None:
        """Add rows. In a table with a key, a row whose key is there already takes the old one's place."""
        batch = rows_of(rows, self.table.schema, subject=self._subject, columns=columns)
        if self.table.key:
            self._refuse_twice(batch)
        return self._write(batch, np.full(len(batch), Op.INSERT, np.int8))

    def upsert(self, rows: Any, columns: Iterable[str] | None = None) -> LsnRange | None:
        """Say what the rows of these keys are now, be they new or not."""
        self._need_key("upsert")
        batch = rows_of(rows, self.table.schema, subject=self._subject, columns=columns)
        return self._write(batch, np.full(len(batch), Op.UPDATE_AFTER, np.int8))

    def delete(self, rows: Any) -> LsnRange | None:
        """Take rows away: by their keys alone, or in a table without a key by the whole row, once each."""
        schema, key = self.table.schema, self.table.key
        if not key:
            batch = rows_of(rows, schema, subject=self._subject)
            return self._write(batch, np.full(len(batch), Op.DELETE, np.int8))
        wanted = pa.schema([schema.field(name) for name in key])
        keys = rows_of(_only(rows, key), wanted, subject=self._subject)
        columns = [keys.column(it.name) if it.name in key else pa.nulls(len(keys), it.type) for it in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=_nullable(schema))
        return self._write(batch, np.full(len(batch), Op.DELETE, np.int8))

    def append_changes(self, rows: Any) -> LsnRange | None:
        """Changes as they are: rows with `_op` or `_weight`, as a database's own log tells them."""
        return self._append(
            self.table.collection.name,
            changes_of(rows, self.table.schema, key=self.table.key, subject=self._subject),
        )

    def checked(self, rows: Any) -> pa.RecordBatch:
        """Rows of exactly the table's columns, whatever they come as."""
        return rows_of(rows, self.table.schema, subject=self._subject)

    def _write(self, batch: pa.RecordBatch, ops: np.ndarray[Any, np.dtype[np.int8]]) -> LsnRange | None:
        for name in self.table.key:
            column = batch.column(name)
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise InvalidArgument(
                    f"the key column {name!r} is NULL in row {row}",
                    subject=self._subject,
                    hint="Give every row a key.",
                )
        if not batch.num_rows:
            return None
        return self._append(self.table.collection.name, batch.append_column(OP, pa.array(ops)))

    def _refuse_twice(self, batch: pa.RecordBatch) -> None:
        grouping = group([batch.column(name) for name in self.table.key], len(batch))
        if grouping.count < len(batch):
            again = int(np.flatnonzero(grouping.first[grouping.ids] != np.arange(len(batch)))[0])
            first = int(grouping.first[grouping.ids[again]])
            key = {name: batch.column(name)[again].as_py() for name in self.table.key}
            raise KeyConflict(
                f"rows {first} and {again} have the same key {key}",
                subject=self._subject,
                hint="Leave one of them out, or use upsert(), of which the last one counts.",
            )

    def _need_key(self, what: str) -> None:
        if not self.table.key:
            raise InvalidArgument(
                f"{what} needs a key, and the table has none",
                subject=self._subject,
                hint="Create it with a PRIMARY KEY, or use insert() and delete().",
            )


def appending(log: Log) -> Append:
    """Each append is a transaction of its own."""
    return log.append


def _only(rows: Any, key: tuple[str, ...]) -> Any:
    """The key columns of rows that may have more."""
    if isinstance(rows, dict):
        rows = [rows]
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        return [{name: row.get(name) for name in key} for row in rows]
    if isinstance(rows, list) and len(key) == 1 and rows and not isinstance(rows[0], tuple | list):
        return [(row,) for row in rows]
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows.select(list(key))
    return rows[list(key)] if hasattr(rows, "columns") else rows


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([it.with_nullable(True) for it in schema])
