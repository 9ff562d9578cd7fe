"""`Pipeline`: the views that advance together, tick by tick, and the one driver that advances them.

A tick takes all views from one frontier to the next in one Spark job, and one atomic create commits it.
Before that nothing of it is visible, after it everything is; a driver that dies anywhere leaves orphans,
which the next one collects. Who takes over commits an empty tick under a higher term first: so the driver
before it can commit no more, and finds itself fenced.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from penstock.errors import InvalidArgument, NotFound
from penstock.log import Collection, ReadableLog
from penstock.plan import Aggregate, Keyed, Node, Scan, in_order, inputs, is_stateful
from penstock.spark import Executor, Job, Pieces, Place, Registration, Source, TypesBySpark, ViewChanges
from penstock.spark.executor import Upkeep
from penstock.spine import Slice
from penstock.store import LocalStore, Store
from penstock.views.catalog import Catalog, CatalogStore, View
from penstock.views.commit import fold_name, following
from penstock.views.compiled import Compiled, compiled
from penstock.views.content import Fold
from penstock.views.deltas import OpenLog, delta
from penstock.views.driver import Clock, Driver, now
from penstock.views.manifest import ChangeFile, Manifest
from penstock.views.states import SpineRows
from penstock.views.tick_log import TickLog

__all__ = ["DEFAULT_ROWS", "Inputs", "Pipeline", "Ticked"]

_logger = logging.getLogger(__name__)

DEFAULT_ROWS = 4_000_000
"""Rows of a tick, unless told otherwise: more in one go are not quicker, and need more memory."""
_TINY = 50_000
"""Up to so many rows a tick is one task: a shuffle costs more than it gains."""
_SHARD_ROWS = 1_000_000
"""Rows of a tick that one task is given at most."""
_FOLD_ROWS = 100_000
"""Loose rows of a view that are never worth folding."""


class Inputs:
    """The logs that pipelines read, by the name that plans have for them."""

    def __init__(self, open_log: Callable[[str], ReadableLog], reopener: Callable[[str], OpenLog]) -> None:
        self.log = open_log
        self.reopener = reopener


@dataclass(frozen=True, slots=True)
class Ticked:
    """One tick, as progress tells it."""

    tick: int
    rows: int
    """Rows taken in."""
    events: Mapping[str, int]
    """Changes of each view."""
    seconds: float
    lag: int
    """Events that were waiting in the inputs when it ended."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What a tick is to do."""

    frontier: Mapping[str, int]
    sources: Mapping[Node, Source]
    wanted: set[str]
    """The views that have something to be told."""
    adopting: bool
    """Whether these views are new and catch up with the others: then all is computed as if for the first
    time, and only what nobody has yet is kept."""

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources.values())


class Pipeline:
    """Advances the views of one pipeline. Used by one thread at a time; reading its log is for anyone."""

    def __init__(
        self,
        store: Store,
        name: str,
        catalog: CatalogStore,
        inputs: Inputs,
        executor: Callable[[], Executor],
        clock: Clock = now,
    ) -> None:
        self.name = name
        self.folder = f"pipelines/{name}"
        self._store = store
        self._catalog = catalog
        self._inputs = inputs
        self._executor = executor
        self._clock = clock
        self._compiled: Compiled | None = None
        self._added_in_vain: set[str] = set()
        self._lock = threading.Lock()
        self.log = TickLog(store, self.folder, f"views of {name!r}", self._collections)
        self._driver = Driver(store, self.folder, self.log, clock)

    # -- ticking --------------------------------------------------------------------------------------

    def refresh(
        self,
        max_rows: int | None = None,
        told: Callable[[Ticked], None] = lambda _: None,
        until: Callable[[], bool] = lambda: False,
    ) -> list[Ticked]:
        """Tick until everything that was in the inputs when it began is accounted for."""
        rows = DEFAULT_ROWS if max_rows is None else max_rows
        if rows < 1:
            raise InvalidArgument(
                f"max_rows_per_tick is {rows}", subject="refresh", hint="Take in at least one row a tick."
            )
        with self._lock:
            ticks: list[Ticked] = []
            goal: dict[str, int] | None = None
            while not until():
                catalog = self._catalog.read()
                if not catalog.of_pipeline(self.name) and self._driver.newest is None:
                    return ticks
                plans = self._plans(catalog)
                before = self._driver.own()
                if goal is None:
                    goal = {log: self._inputs.log(log).current_lsn for log in plans.logs}
                ticked = self._tick(before, catalog, plans, goal, rows)
                if ticked is None:
                    return ticks
                ticks.append(ticked)
                told(ticked)
            return ticks

    def waiting(self) -> int:
        """Events in the inputs that the views do not account for yet."""
        manifest = self.log.newest()
        frontier = {} if manifest is None else manifest.frontier
        logs = (
            {it.log for it in self._catalog.read().tables.values()}
            if self._compiled is None
            else self._compiled.logs
        )
        return sum(max(self._inputs.log(log).current_lsn - frontier.get(log, 0), 0) for log in logs)

    @property
    def inputs(self) -> frozenset[str]:
        """The logs that its views read."""
        return self._plans(self._catalog.read()).logs

    def _tick(
        self, before: Manifest, catalog: Catalog, plans: Compiled, goal: Mapping[str, int], max_rows: int
    ) -> Ticked | None:
        views = {it.name: it for it in catalog.of_pipeline(self.name)}
        numbers = {it.name: f"{it.name}#{it.collection.id}" for it in views.values()}
        new = {
            name
            for name, number in numbers.items()
            if name not in before.views or before.views[name].collection != number
        }
        at = {log: before.frontier.get(log, 0) for log in plans.logs}
        if new and (before.views or any(at.values())):
            step = _Step(at, self._adopting(plans, new, before, at), new, True)
        else:
            frontier = {log: self._next(log, at[log], goal.get(log, 0), max_rows) for log in plans.logs}
            if frontier == at and not new and before.views.keys() == numbers.keys():
                return None
            sources: dict[Node, Source] = {
                scan: self._delta(plans, scan, at[scan.log], frontier[scan.log]) for scan in plans.scans
            }
            touched = {name for name in views if self._touched(plans.plans[name], sources)}
            step = _Step(frontier, sources, new | touched, False)
        began = time.perf_counter()
        place = self._place(before.tick + 1)
        stateful = {node.fingerprint for node in in_order(plans.plans.values()) if is_stateful(node)}
        try:
            registered = self._run(before, views, plans, step, stateful, place) if step.wanted else []
            manifest = following(
                before,
                driver=self._driver.name,
                committed=self._clock(),
                frontier={**before.frontier, **step.frontier},
                nodes=sorted(stateful),
                views=numbers,
                registered=registered,
                rows_in=step.rows,
            )
            self._driver.commit(before, manifest, place)
        except BaseException as error:
            self._driver.give_up(before, place, error)
            raise
        return Ticked(
            manifest.tick,
            step.rows,
            {name: sum(file.events for file in view.files) for name, view in manifest.views.items()},
            time.perf_counter() - began,
            sum(max(goal.get(log, 0) - lsn, 0) for log, lsn in step.frontier.items()),
        )

    def _run(
        self,
        before: Manifest,
        views: Mapping[str, View],
        plans: Compiled,
        step: _Step,
        stateful: set[str],
        place: Place,
    ) -> list[Registration]:
        """The Spark job of a tick."""
        executor = self._executor()
        shards = shards_for(step.rows, executor.parallelism)
        partial = frozenset(
            node.fingerprint
            for node in plans.schemas
            if isinstance(node, Aggregate) and shards > 1 and node.fingerprint not in self._added_in_vain
        )
        job = Job(
            place,
            {name: ViewChanges(plans.plans[name], views[name].collection) for name in sorted(step.wanted)},
            plans.schemas,
            step.sources,
            {} if step.adopting else before.states,
            frozenset(stateful - before.states.keys() if step.adopting else stateful),
            shards,
            partial,
            self._folds(before, views, place, executor.parallelism),
        )
        registered = executor.run(job)
        self._learn(partial, registered, step.rows)
        return registered

    def _learn(self, partial: frozenset[str], registered: Iterable[Registration], rows: int) -> None:
        """Adding up before the shuffle pays where many rows become few; elsewhere it is left out."""
        left: Counter[str] = Counter()
        for it in registered:
            left[it.what] += it.told.get("rows", 0)
        self._added_in_vain.update(node for node in partial if 2 * left[node] > rows)

    def _next(self, log: str, since: int, goal: int, max_rows: int) -> int:
        """Where this tick ends in a log: at the end of a transaction."""
        if goal <= since:
            return since
        end = min(goal, since + max_rows)
        return end if end == goal else self._inputs.log(log).boundary(end)

    def _delta(self, plans: Compiled, scan: Scan, since: int, upto: int) -> Source:
        keyed = any(isinstance(node, Keyed) and node.input == scan for node in plans.schemas)
        log = self._inputs.log(scan.log)
        reopen = self._inputs.reopener(scan.log)
        return delta(log, reopen, scan.collection, plans.schemas[scan], since, upto, keyed)

    def _touched(self, plan: Node, sources: Mapping[Node, Source]) -> bool:
        return any(sources[node].rows for node in in_order([plan]) if isinstance(node, Scan))

    def _adopting(
        self, plans: Compiled, new: set[str], before: Manifest, at: Mapping[str, int]
    ) -> dict[Node, Source]:
        """New views catch up with the others: what there is already comes to them as one change."""
        sources: dict[Node, Source] = {}
        waiting: list[Node] = [plans.plans[name] for name in new]
        while waiting:
            node = waiting.pop()
            if node in sources:
                continue
            state = before.states.get(node.fingerprint)
            if isinstance(node, Keyed) and state is not None:
                sources[node] = self._content(plans, node, state.get("rows", ()))
            elif isinstance(node, Scan):
                sources[node] = self._delta(plans, node, 0, at[node.log])
            else:
                waiting += inputs(node)
        return sources

    def _content(self, plans: Compiled, node: Keyed, slices: tuple[Slice, ...]) -> Source:
        """The rows a keyed table has now, from its spine."""
        rows = sum(it.rows for it in slices)
        parts = shards_for(rows, self._executor().parallelism)
        schema = plans.schemas[node]
        return Pieces(
            [SpineRows(self._store, schema, node.key, slices, i, parts) for i in range(parts)], rows
        )

    def _folds(
        self, before: Manifest, views: Mapping[str, View], place: Place, parallelism: int
    ) -> list[Upkeep]:
        """Folding that is due, as tasks of this tick."""
        found = []
        for name, view in before.views.items():
            if name not in views or f"{name}#{views[name].collection.id}" != view.collection:
                continue
            rows = sum(it.rows for it in view.content)
            if view.loose < _FOLD_ROWS or 2 * view.loose < rows:
                continue
            parts = shards_for(view.loose + rows, parallelism)
            collection = views[name].collection
            files = self.loose_files(before, name)
            fold = Fold(fold_name(collection.id), collection, view.content, files, parts, place)
            found.append(Upkeep(fold, parts))
        return found

    def loose_files(self, manifest: Manifest, view: str) -> tuple[ChangeFile, ...]:
        """The files of changes that the view's content does not hold yet."""
        state = manifest.views[view]
        files: list[ChangeFile] = []
        it = manifest
        while it.last_lsn > state.folded:
            there = it.views.get(view)
            if there is None or there.collection != state.collection:
                break
            files[:0] = there.files
            if it.first_lsn <= state.folded + 1 and it.events:
                break
            try:
                it = self.log.at_tick(it.tick - 1)
            except NotFound:
                break
        return tuple(files)

    def _place(self, tick: int) -> Place:
        scratch = (
            LocalStore(self._store.path, fsync=False) if isinstance(self._store, LocalStore) else self._store
        )
        attempt = f"{tick:012d}-{uuid.uuid4().hex[:8]}"
        return Place(
            self._store,
            scratch,
            f"{self.folder}/runs/{attempt}",
            f"{self.folder}/changes/{attempt}",
            f"{self.folder}/steps/{attempt}",
        )

    # -- plans ----------------------------------------------------------------------------------------

    def _plans(self, catalog: Catalog) -> Compiled:
        if self._compiled is None or self._compiled.version != catalog.version:
            self._compiled = compiled(catalog, self.name, TypesBySpark(self._executor().spark))
        return self._compiled

    def _collections(self) -> Mapping[str, Collection]:
        return {it.name: it.collection for it in self._catalog.read().of_pipeline(self.name)}


def shards_for(rows: int, parallelism: int) -> int:
    """How many shards a tick of so many rows is worth: a power of two."""
    if rows <= _TINY:
        return 1
    wanted = max(parallelism, -(-rows // _SHARD_ROWS))
    return min(1 << (wanted - 1).bit_length(), 1 << 12)
