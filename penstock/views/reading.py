"""Reading what is there now, without Spark: contents of tables and views at one frontier.

A view is read as of its pipeline's newest tick, and so are the tables beside it in one query: at the frontier
of that tick. Tables alone are read as of their log's newest transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from penstock.changes import ZSet
from penstock.changes.names import WEIGHT
from penstock.errors import InvalidArgument, NotFound, NotReady
from penstock.log import Changes, ReadableLog
from penstock.log.content import Content
from penstock.spine import Runs
from penstock.store import Store
from penstock.views.catalog import Table, View
from penstock.views.content import copies, read_content
from penstock.views.manifest import Manifest
from penstock.views.pipeline import Pipeline

__all__ = ["TableReader", "ViewReader"]

_ATTEMPTS = 5


class TableReader:
    """The content of one table. What was read once is kept, and moved forward by what changed since."""

    def __init__(self, table: Table, log: Callable[[], ReadableLog]) -> None:
        self.table = table
        self._log = log
        self._contents: list[Content] = []
        self._lock = threading.Lock()

    def table_at(self, lsn: int | None = None) -> pa.Table:
        """The rows as of an LSN between transactions (default: now)."""
        log = self._log()
        upto = log.current_lsn if lsn is None else min(lsn, log.current_lsn)
        with self._lock:
            content = self._at(log, upto)
            return content.table().cast(self.table.schema)

    def _at(self, log: ReadableLog, upto: int) -> Content:
        """A content that is not beyond it yet: one follows the head, another the views' frontier."""
        reach = [it for it in self._contents if it.lsn <= upto]
        if reach:
            content = max(reach, key=lambda it: it.lsn)
        else:
            content = Content(log, self.table.collection.name)
            self._contents = [*self._contents[-1:], content]
        content.advance(upto)
        return content


class ViewReader:
    """One view as its readers see it: content and changes."""

    def __init__(self, view: View, pipeline: Pipeline, store: Store, runs: Runs) -> None:
        self.view = view
        self._pipeline = pipeline
        self._store = store
        self._runs = runs
        self._kept: tuple[int, pa.Table] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"View({self.name!r})"

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def sql(self) -> str:
        """The query it keeps the answer of."""
        return self.view.sql

    @property
    def schema(self) -> pa.Schema:
        return self.view.schema

    @property
    def log(self) -> ReadableLog:
        """The log that its changes are a collection of."""
        return self._pipeline.log

    def changes(self, since: int = 0, upto: int | None = None) -> Iterator[Changes]:
        """Its changes after ``since``, as any log gives them."""
        return self._pipeline.log.read(self.name, since, upto)

    def snapshot(self, as_of: int | None = None) -> pa.Table:
        """Its rows now, or as they were when its log had reached this LSN."""
        manifest, rows = self.now()
        if as_of is None or as_of >= manifest.last_lsn:
            if as_of is not None:
                self._pipeline.log.check_cursor(as_of)
            return rows
        if self._pipeline.log.boundary(as_of) != as_of:
            raise InvalidArgument(
                f"LSN {as_of} is in the middle of a tick",
                subject=f"view {self.name!r}",
                hint=f"Ask for {self._pipeline.log.boundary(as_of)}: views change a tick at a time.",
            )
        content = ZSet.from_arrow(rows)
        for changes in self.changes(as_of, manifest.last_lsn):
            content = content - changes.zset()
        back = content.consolidate()
        table = pa.Table.from_batches([back.rows.append_column(WEIGHT, pa.array(back.weights))])
        return copies(table, self.view.collection)

    def now(self) -> tuple[Manifest, pa.Table]:
        """The newest tick, and the rows as of it."""
        for attempt in range(_ATTEMPTS):
            manifest = self._pipeline.log.newest()
            with self._lock:
                if self._kept is not None and manifest is not None and self._kept[0] == manifest.tick:
                    return manifest, self._kept[1]
            try:
                found = self._read(manifest)
            except NotFound:
                # A run was merged away while we read, many ticks later: look at the newest tick again.
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            with self._lock:
                self._kept = (found[0].tick, found[1])
            return found
        raise AssertionError("each attempt returns or raises")

    def _read(self, manifest: Manifest | None) -> tuple[Manifest, pa.Table]:
        state = None if manifest is None else manifest.views.get(self.name)
        number = f"{self.name}#{self.view.collection.id}"
        if manifest is None or state is None or state.collection != number:
            raise NotReady(
                "it has not been computed yet",
                subject=f"view {self.name!r}",
                hint="Refresh the database first: db.refresh().",
            )
        loose = self._pipeline.loose_files(manifest, self.name)
        return manifest, read_content(self._store, self._runs, self.view.collection, state.content, loose)


def frontier_of(manifests: Mapping[str, Manifest], log: str) -> int | None:
    """How far all these pipelines have read a log; None where none of them reads it."""
    told = [it.frontier[log] for it in manifests.values() if log in it.frontier]
    return min(told) if told else None
