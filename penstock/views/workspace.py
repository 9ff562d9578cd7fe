"""`Workspace`: a database's rooms put together: catalog, logs, pipelines, and one Spark session.

`penstock.Database` is its public face; statements are executed in `penstock.views.statements`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import Closed, InvalidArgument, NotFound, Unsupported
from penstock.log import LogOptions, ReadableLog, Transaction
from penstock.lsn import LsnRange
from penstock.spark import Executor, runs_of, session
from penstock.store import Store, open_store
from penstock.views.catalog import MAIN, Catalog, CatalogStore, Table
from penstock.views.compiled import views_log
from penstock.views.logs import TableLogs, TickLogOf
from penstock.views.pipeline import Inputs, Pipeline, Ticked
from penstock.views.progress import Progress, showing
from penstock.views.reading import TableReader, ViewReader
from penstock.views.result import Result
from penstock.views.running import Running, stopping_on_signals
from penstock.views.tables import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TableHandle", "ViewStatus", "Workspace"]


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """How far a view is, and how large."""

    name: str
    pipeline: str
    tick: int
    lsn: int
    """The LSN its log has reached."""
    waiting: int
    """Events in its pipeline's inputs that it does not account for yet."""
    state_bytes: int
    """Size of the pipeline's state, which its views share."""


class TableHandle(TableWriter):
    """A table, to write (see `TableWriter`) and to read."""

    def __init__(
        self, table: Table, append: Callable[[str, pa.RecordBatch], LsnRange | None], reader: TableReader
    ) -> None:
        super().__init__(table, append)
        self._reader = reader

    def __repr__(self) -> str:
        return f"Table({self.table.name!r})"

    def rows(self) -> Result:
        """Its rows as they are now."""
        return Result(self._reader.table_at())


class Workspace:
    """All that belongs to one database, opened when it is needed."""

    def __init__(
        self,
        place: str | os.PathLike[str] | Store,
        state: str | os.PathLike[str] | Store | None = None,
        spark: SparkSession | None = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        log_options: LogOptions | None = None,
    ) -> None:
        self.store = place if isinstance(place, Store) else open_store(place)
        self.state = self.store if state is None else state if isinstance(state, Store) else open_store(state)
        self.catalog = CatalogStore(self.store)
        self.logs = TableLogs(self.store, log_options)
        self._spark = spark
        self._master, self._settings = master, settings
        self._executor: Executor | None = None
        self._pipelines: dict[str, Pipeline] = {}
        self._readers: dict[tuple[str, int], TableReader] = {}
        self._views: dict[tuple[str, int], ViewReader] = {}
        self._running: list[Running] = []
        self._lock = threading.RLock()
        self._here = threading.local()
        self._closed = False

    @property
    def url(self) -> str:
        return self.store.url

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for running in self._running:
            running.stop()
        self.logs.close()

    def check_open(self) -> None:
        if self._closed:
            raise Closed("the database was closed", subject=self.url, hint="Connect again.")

    # -- what there is --------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        return [it.name for it in self.catalog.read().tables.values()]

    def views(self) -> list[str]:
        return [it.name for it in self.catalog.read().views.values()]

    def table(self, name: str) -> TableHandle:
        self.check_open()
        table = self.catalog.read().table(name)
        return TableHandle(table, lambda collection, batch: self.append(table, batch), self.reader(table))

    def view(self, name: str) -> ViewReader:
        self.check_open()
        view = self.catalog.read().view(name)
        key = (view.name, view.collection.id)
        with self._lock:
            found = self._views.get(key)
            if found is None:
                pipeline = self.pipeline(view.pipeline)
                found = self._views[key] = ViewReader(view, pipeline, self.state, runs_of(self.state))
            return found

    def reader(self, table: Table) -> TableReader:
        key = (table.name, table.collection.id)
        with self._lock:
            found = self._readers.get(key)
            if found is None:
                found = self._readers[key] = TableReader(table, lambda: self.logs.to_read(table.log))
            return found

    def log(self, name: str) -> ReadableLog:
        """A log by the name that plans have for it."""
        if name.startswith("views/"):
            return self.pipeline(name.removeprefix("views/")).log
        if not self.logs.exists(name):
            raise NotFound(f"there is no log {name!r}", subject=self.url, hint="Create a table in it first.")
        return self.logs.to_read(name)

    def pipeline(self, name: str) -> Pipeline:
        with self._lock:
            found = self._pipelines.get(name)
            if found is None:
                inputs = Inputs(self.log, self._reopener)
                found = self._pipelines[name] = Pipeline(
                    self.state, name, self.catalog, inputs, self.executor
                )
            return found

    def _reopener(self, log: str) -> Callable[[], ReadableLog]:
        if log.startswith("views/"):
            pipeline = self.pipeline(log.removeprefix("views/"))
            collections = {it.name: it for it in pipeline.log.collections}
            return TickLogOf(self.state, pipeline.folder, pipeline.log.name, collections)
        return self.logs.reopener(log)

    def executor(self) -> Executor:
        """Spark, started when it is first needed."""
        with self._lock:
            if self._executor is None:
                if self._spark is None:
                    self._spark = session(self._master, self._settings)
                self._executor = Executor(self._spark)
            return self._executor

    # -- writing --------------------------------------------------------------------------------------

    def append(self, table: Table, batch: pa.RecordBatch) -> LsnRange | None:
        """Append to a table's collection: as part of this thread's transaction, where one is open."""
        self.check_open()
        transaction: Transaction | None = getattr(self._here, "transaction", None)
        if transaction is None:
            return self.logs.to_write(table.log).append(table.collection.name, batch)
        if table.log != self._here.log:
            raise Unsupported(
                f"the transaction is of the log {self._here.log!r}, and the table is in {table.log!r}",
                subject=f"table {table.name!r}",
                hint="Only tables of one log can change together.",
            )
        transaction.append(table.collection.name, batch)
        self._here.touched.add(table.collection.id)
        return None

    def check_settled(self, table: Table) -> None:
        """Refuse to evaluate a condition over a table that this thread's transaction has changed already."""
        if table.collection.id in getattr(self._here, "touched", ()):
            raise Unsupported(
                "the transaction has changed this table, and its changes cannot be read before it ends",
                subject=f"table {table.name!r}",
                hint="Do what reads the table first, or end the transaction before.",
            )

    @contextmanager
    def transaction(self, log: str = MAIN) -> Iterator[None]:
        self.check_open()
        if getattr(self._here, "transaction", None) is not None:
            raise InvalidArgument(
                "a transaction of this thread is open already", subject=self.url, hint="End it first."
            )
        with self.logs.to_write(log).transaction() as transaction:
            self._here.transaction, self._here.log, self._here.touched = transaction, log, set()
            try:
                yield
            finally:
                self._here.transaction, self._here.touched = None, set()

    # -- views ----------------------------------------------------------------------------------------

    def refresh(self, max_rows: int | None, progress: Progress | None) -> list[Ticked]:
        self.check_open()
        return self._refresh(max_rows, progress, lambda: False)

    def _refresh(
        self, max_rows: int | None, progress: Progress | None, until: Callable[[], bool]
    ) -> list[Ticked]:
        pipelines = self._in_order()
        ticks: list[Ticked] = []
        with showing(progress, lambda: sum(it.waiting() for it in pipelines)) as told:
            for pipeline in pipelines:
                ticks += pipeline.refresh(max_rows, told, until)
        return ticks

    def _in_order(self) -> list[Pipeline]:
        """The pipelines, each after those whose views it reads."""
        catalog = self.catalog.read()
        left = list(catalog.pipelines())
        done: list[str] = []
        while left:
            ready = [
                name
                for name in left
                if not {views_log(it) for it in left if it != name} & self.pipeline(name).inputs
            ]
            if not ready:
                raise Unsupported(
                    f"the pipelines {', '.join(left)} read each other",
                    subject=self.url,
                    hint="Create their views in one pipeline.",
                )
            done += ready
            left = [name for name in left if name not in ready]
        return [self.pipeline(name) for name in done]

    def run(self, background: bool, max_rows: int | None, progress: Progress | None) -> Running | None:
        self.check_open()
        running = Running(
            lambda until: self._refresh(max_rows, progress, until), self._wait_for_change, self._wake
        )
        self._running.append(running)
        if background:
            return running.start()
        with stopping_on_signals(running):
            running.start()
            while not running.join(0.2):  # signals are handled between two looks
                continue
        return None

    def _wait_for_change(self, until: Callable[[], bool]) -> None:
        """Return when there may be something to do: at the next append, or soon enough to see a new view."""
        names = sorted({it.log for it in self.catalog.read().tables.values()})
        logs = [self.logs.to_read(name) for name in names if self.logs.exists(name)]
        if logs and not any(it.waiting() for it in self._pipelines.values()):
            logs[0].wait(logs[0].current_lsn, 1.0 if len(logs) == 1 else 0.05, until)

    def _wake(self) -> None:
        for name in {it.log for it in self.catalog.read().tables.values()}:
            if self.logs.exists(name):
                self.logs.to_read(name).wake()

    def status(self) -> list[ViewStatus]:
        self.check_open()
        catalog: Catalog = self.catalog.read()
        found = []
        for name in catalog.pipelines():
            pipeline = self.pipeline(name)
            manifest = pipeline.log.newest()
            waiting = pipeline.waiting()
            for view in catalog.of_pipeline(name):
                tick, lsn, size = 0, 0, 0
                if manifest is not None and view.name in manifest.views:
                    tick, lsn = manifest.tick, manifest.last_lsn
                    files = {
                        it.file: it.bytes
                        for state in (*manifest.states.values(), {"": manifest.views[view.name].content})
                        for slices in state.values()
                        for it in slices
                    }
                    size = sum(files.values())
                found.append(ViewStatus(view.name, name, tick, lsn, waiting, size))
        return found

    # -- statements -----------------------------------------------------------------------------------

    def sql(self, text: str, parameters: Sequence[Any] | None = None) -> Result | None:
        from penstock.views.statements import execute

        self.check_open()
        return execute(self, text, parameters)

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> Result:
        from penstock.views.statements import query

        self.check_open()
        return query(self, sql, parameters)
