"""`connect` and what it returns: names → rooms, and no logic of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.log import LogOptions, ReadableLog
from penstock.store import Store
from penstock.views import Progress, Result, Running, TableHandle, Ticked, ViewReader, ViewStatus, Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Database", "connect"]


def connect(
    place: str | os.PathLike[str] | Store,
    *,
    state: str | os.PathLike[str] | Store | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_options: LogOptions | None = None,
) -> Database:
    """Open the database in a folder; the folder is made by the first table.

    ``state`` is where views and their state are kept, if not there too: say ``s3://bucket/prefix``. Spark is
    started when the first view needs it: the active session or ``spark``, else a new one on ``master``
    (default ``local[*]``; ``sc://…`` for Spark Connect) with ``settings`` on top of Penstock's own.

    >>> import tempfile
    >>> db = connect(tempfile.mkdtemp())
    >>> _ = db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2))")
    >>> _ = db.table("orders").insert([{"id": 1, "customer": "ada", "amount": "10.00"}])
    >>> db.query("SELECT customer, amount FROM orders").rows()
    [{'customer': 'ada', 'amount': Decimal('10.00')}]
    """
    return Database(Workspace(place, state, spark, master, settings, log_options))


class Database:
    """Tables that change, and views that follow. Thread safe; one process at a time writes and refreshes."""

    def __init__(self, workspace: Workspace) -> None:
        """Use `connect`."""
        self._workspace = workspace

    def __repr__(self) -> str:
        return f"Database({self._workspace.url!r})"

    def sql(self, text: str, parameters: Sequence[Any] | None = None) -> Result | None:
        """Run one statement or several; the rows of the last one, if it has any.

        CREATE TABLE, CREATE MATERIALIZED VIEW, DROP, INSERT, UPDATE, DELETE, SHOW, DESCRIBE, SELECT, EXPLAIN
        INCREMENTAL: see docs/sql.md. ``parameters`` are for the ``?`` of a SELECT.
        """
        return self._workspace.sql(text, parameters)

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> Result:
        """Rows of tables and views as they are now, at one frontier. Needs no Spark."""
        return self._workspace.query(sql, parameters)

    def table(self, name: str) -> TableHandle:
        """A table, to write and to read."""
        return self._workspace.table(name)

    def view(self, name: str) -> ViewReader:
        """A view, to read."""
        return self._workspace.view(name)

    def transaction(self) -> AbstractContextManager[None]:
        """Several changes of this thread, all or none::

        with db.transaction():
            accounts.upsert({"id": 1, "balance": 90})
            accounts.upsert({"id": 2, "balance": 110})
        """
        return self._workspace.transaction()

    def refresh(
        self, max_rows_per_tick: int | None = None, *, progress: Progress | None = None
    ) -> list[Ticked]:
        """Bring all views up to what is in the tables now, in as many ticks as it takes."""
        return self._workspace.refresh(max_rows_per_tick, progress)

    def run(
        self,
        *,
        background: bool = False,
        max_rows_per_tick: int | None = None,
        progress: Progress | None = None,
    ) -> Running | None:
        """Keep all views right from now on: here, until SIGTERM or SIGINT, or in the background.

        In the background it returns at once, with what stops it::

            with db.run(background=True):
                ...
        """
        return self._workspace.run(background, max_rows_per_tick, progress)

    def status(self) -> list[ViewStatus]:
        """For each view how far it is, and how large."""
        return self._workspace.status()

    def log(self, name: str = "main") -> ReadableLog:
        """A log, to read: of tables, or ``views/<pipeline>`` with the changes of a pipeline's views."""
        return self._workspace.log(name)

    def tables(self) -> Iterable[str]:
        """The names of the tables."""
        return self._workspace.tables()

    def views(self) -> Iterable[str]:
        """The names of the views."""
        return self._workspace.views()

    def close(self) -> None:
        """Stop what runs and let the next process write. Spark goes on. Idempotent."""
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
