"""The plain statement of what a log is: a list of events. And batches to fill both with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from penstock.changes.op import Op
from penstock.log.changes import Changes
from penstock.log.meta import Collection
from tests.arrow_strategies import arrays
from tests.row_model import identity

__all__ = ["Event", "ManualClock", "Model", "Side", "appended", "events_of", "moment"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


class ManualClock:
    """Stands still until it is moved, be it backwards."""

    def __init__(self, time: int = 1_000_000) -> None:
        self.time = time

    def __call__(self) -> int:
        return self.time


@dataclass(frozen=True)
class Side:
    """One row of an event."""

    row: str  # the representation of its values, in which NaN equals NaN
    op: int
    weight: int
    ts: int | None = None  # None: the time of the commit


@dataclass(frozen=True)
class Event:
    """What happened once: one row, two rows for an update, the whole content for a refresh."""

    sides: tuple[Side, ...]
    collection: str = ""
    changed: tuple[str, ...] | None = None
    refresh: bool = False
    committed: int = 0
    ends: bool = False


@dataclass
class Model:
    """Events by LSN: the one at ``events[i]`` has LSN ``i + 1``. Those below ``oldest`` are not kept."""

    events: list[Event] = field(default_factory=list)
    oldest: int = 1
    time: int = 0

    @property
    def current(self) -> int:
        return len(self.events)

    def commit(self, transaction: list[tuple[str, list[Event]]], clock: int) -> None:
        flat = [(name, event) for name, events in transaction for event in events]
        if not flat:
            return
        self.time = max(self.time, clock)
        for i, (name, event) in enumerate(flat):
            sides = tuple(
                Side(it.row, it.op, it.weight, self.time if it.ts is None else it.ts) for it in event.sides
            )
            self.events.append(
                Event(sides, name, event.changed, event.refresh, self.time, i == len(flat) - 1)
            )

    def after(
        self, since: int, upto: int | None = None, names: set[str] | None = None
    ) -> list[tuple[int, Event]]:
        upto = self.current if upto is None else min(upto, self.current)
        return [
            (lsn, self.events[lsn - 1])
            for lsn in range(since + 1, upto + 1)
            if names is None or self.events[lsn - 1].collection in names
        ]

    def boundary(self, lsn: int) -> int:
        while lsn and not self.events[lsn - 1].ends:
            lsn += 1
        return lsn

    def lsn_at(self, time: int) -> int | None:
        kept = range(self.oldest, self.current + 1)
        return next((lsn for lsn in kept if self.events[lsn - 1].committed >= time), None)


def events_of(changes: Changes) -> list[tuple[int, Event]]:
    """The events that a reader was given, in the model's terms."""
    rows = changes.rows
    width = len(changes.collection.schema)
    assert rows.schema.names[width:] == ["_op", "_weight", "_lsn", "_ts"]
    assert rows.num_rows == changes.data.num_rows
    shown = _shown(changes.data)
    ops, weights, lsns = (rows.column(name).to_pylist() for name in ("_op", "_weight", "_lsn"))
    times = rows.column("_ts").view(pa.int64()).to_pylist()
    committed = (changes.committed - _EPOCH) // timedelta(microseconds=1)
    sides: dict[int, list[Side]] = {lsn: [] for lsn in changes.lsns}
    for parts in zip(shown, ops, weights, times, lsns, strict=True):
        sides[parts[-1]].append(Side(*parts[:-1]))
    changed = [None] * len(changes) if changes.is_refresh else changes.changed_columns()
    found = []
    for (lsn, some), told in zip(sides.items(), changed, strict=True):
        ends = changes.ends_transaction and lsn == changes.last_lsn
        told = None if told is None else tuple(told)
        found.append(
            (lsn, Event(tuple(some), changes.collection.name, told, changes.is_refresh, committed, ends))
        )
    return found


def _shown(batch: pa.RecordBatch) -> list[str]:
    columns = [column.to_pylist() for column in batch.columns]
    return [repr(row) for row in zip(*columns, strict=True)]


KINDS = {
    "insert": (Op.INSERT,),
    "delete": (Op.DELETE,),
    "update": (Op.UPDATE_BEFORE, Op.UPDATE_AFTER),
    "new side only": (Op.UPDATE_AFTER,),
}


@st.composite
def appended(
    draw: st.DrawFn, collection: Collection, max_events: int = 5, plain: bool = False
) -> tuple[pa.RecordBatch | pa.Table, list[Event]]:
    """Something to append, and the events that it means."""
    schema = collection.schema
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), max_size=max_events))
    style = "inserts" if plain else draw(st.sampled_from(["inserts", "ops", "weights", "both"]))
    if style == "inserts":
        kinds = ["insert"] * len(kinds)
    elif style == "weights":
        kinds = [kind if kind in ("insert", "delete") else "insert" for kind in kinds]
    sizes = [len(KINDS[kind]) for kind in kinds]
    count = sum(sizes)
    batch = pa.RecordBatch.from_arrays([draw(arrays(it.type, count)) for it in schema], schema=schema)
    ops = [op for kind in kinds for op in KINDS[kind]]
    copies = [1] * len(kinds)
    if style in ("weights", "both"):
        copies = draw(st.lists(st.integers(0, 3), min_size=len(kinds), max_size=len(kinds)))
    weights = [op.weight * n for kind, n in zip(kinds, copies, strict=True) for op in KINDS[kind]]
    times = draw(st.none() | st.lists(st.integers(0, 10**15), min_size=count, max_size=count))
    names = st.lists(st.sampled_from(schema.names), max_size=2)
    told = draw(st.none() | st.lists(st.none() | names, min_size=len(kinds), max_size=len(kinds)))

    events, row = [], 0
    shown = _shown(batch)
    for i, kind in enumerate(kinds):
        span = range(row, row + sizes[i])
        row += sizes[i]
        if copies[i]:
            sides = tuple(Side(shown[j], int(ops[j]), weights[j], times[j] if times else None) for j in span)
            changed = told[i] if told else None
            if changed is None and kind == "update":
                changed = _differing(batch, span)
            events.append(Event(sides, changed=None if changed is None else tuple(changed)))

    if style in ("ops", "both"):
        batch = batch.append_column("_op", pa.array([int(op) for op in ops], pa.int8()))
    if style in ("weights", "both"):
        batch = batch.append_column("_weight", pa.array(weights, pa.int64()))
    if times is not None:
        batch = batch.append_column("_ts", pa.array(times, pa.timestamp("us", tz="UTC")))
    if told is not None:
        each = [it for it, size in zip(told, sizes, strict=True) for _ in range(size)]
        batch = batch.append_column("_changed", pa.array(each, pa.list_(pa.string())))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=2)))
    if not draw(st.booleans()):
        return batch, events
    bounds = [0, *cuts, count]
    pieces = [batch.slice(a, b - a) for a, b in pairwise(bounds)]
    return pa.Table.from_batches(pieces, batch.schema), events


def _differing(batch: pa.RecordBatch, pair: range) -> list[str]:
    """The columns in which two rows differ, as Spark's GROUP BY tells values apart."""
    old, new = pair
    rows = batch.to_pylist()
    return [
        it.name
        for it in batch.schema
        if identity(rows[old][it.name], it.type) != identity(rows[new][it.name], it.type)
    ]
