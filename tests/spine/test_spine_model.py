"""A spine against a dictionary: any history, any shards, any order of merges, with hashes that collide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spine import END, Edit, Runs, ShardState, Slice, Spine, edited, shard_range
from penstock.spine.policy import Policy
from penstock.store import MemoryStore
from tests.row_model import identity
from tests.spine.spine_model import (
    EDGES,
    Content,
    History,
    Row,
    batch_of,
    content_of,
    histories,
    key_batch,
    spark_order,
)

SMALL = st.builds(
    Policy,
    most_rows=st.sampled_from([1, 2, 5, 16, 64]),
    share=st.sampled_from([0.2, 0.4, 2.0, 100.0]),
    work=st.sampled_from([1, 8]),
    garbage=st.sampled_from([0.0, 0.25, 10.0]),
)


class Database:
    """Spines of one operator over many ticks, as a driver would keep them."""

    def __init__(self, history: History, policy: Policy) -> None:
        self.history, self.policy = history, policy
        self.store = MemoryStore()
        self.runs = Runs(self.store)
        self.slices: tuple[Slice, ...] = ()
        self.content = Content(history)
        self.ticks = 0

    def tick(self, rows: list[tuple[Row, Row, int]], shards: int, calls: int) -> None:
        edits = []
        for shard in range(shards):
            begin, end = shard_range(shard, shards)
            state = ShardState(
                self.store,
                self.runs,
                {"s": self.history.layout},
                {"s": self.slices},
                begin,
                end,
                f"{self.ticks}/{shard}-",
                self.ticks == 0,
                policy=self.policy,
            )
            mine = [row for row in rows if begin <= self.history.hash_of(row[0]) < end]
            for call in range(calls):
                state.add("s", batch_of(self.history, mine[call::calls]))
            told = state.finish()
            assert {name: Edit.from_json(it.to_json()) for name, it in told.items()} == told
            edits += told.values()
        self.slices = edited(self.slices, edits)
        self.content.add(rows)
        self.ticks += 1

    def spine(self, begin: int = 0, end: int = END) -> Spine:
        return Spine.open(self.history.layout, self.slices, Runs(self.store), begin, end)


@st.composite
def databases(draw: st.DrawFn, kind: str | None = None, order: bool | None = None) -> Database:
    history = draw(histories(kind, order))
    database = Database(history, draw(SMALL))
    row = st.tuples(
        st.sampled_from(history.keys), st.sampled_from(history.rests), st.sampled_from([-2, -1, -1, 1, 1, 2])
    )
    for _ in range(draw(st.integers(0, 5))):
        rows = draw(st.lists(row, max_size=12))
        database.tick(rows, draw(st.sampled_from([1, 1, 2, 4, 8])), draw(st.integers(1, 2)))
    return database


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    begin, end = sorted(draw(st.lists(st.sampled_from(EDGES), min_size=2, max_size=2, unique=True)))
    return begin, end


def with_more(data: st.DataObject, database: Database) -> tuple[Spine, Content]:
    """The spine, perhaps with rows in memory."""
    spine, content = database.spine(), Content(database.history, dict(database.content.counts))
    if data.draw(st.booleans()):
        row = st.tuples(
            st.sampled_from(database.history.keys),
            st.sampled_from(database.history.rests),
            st.sampled_from([-1, 1]),
        )
        rows = data.draw(st.lists(row, max_size=6))
        spine = spine.plus(batch_of(database.history, rows))
        content.add(rows)
    return spine, content


def some_keys(data: st.DataObject, history: History) -> list[Row]:
    return data.draw(st.lists(st.sampled_from(history.keys), max_size=10))


@given(databases(), ranges(), st.integers(1, 9), st.data())
@settings(deadline=None)
def test_a_scan_of_any_range_gives_the_content_in_hash_order(
    database: Database, span: tuple[int, int], batch_rows: int, data: st.DataObject
) -> None:
    spine, content = with_more(data, database)
    batches = list(spine.scan(batch_rows))
    assert content_of(database.history, batches) == content.within(0, END)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    order = [h for batch in batches for h in batch.column(0).to_numpy().view(np.uint64).tolist()]
    assert order == sorted(order)
    part = database.spine(*span)
    assert content_of(database.history, part.scan()) == database.content.within(*span)
    assert part.rows >= len(database.content.within(*span))


@given(databases("sums"), st.data())
@settings(deadline=None)
def test_sums_of_any_keys(database: Database, data: st.DataObject) -> None:
    spine, content = with_more(data, database)
    keys = some_keys(data, database.history)
    told = spine.sums(key_batch(database.history, keys))
    assert told.schema.names == list(database.history.layout.summed)
    assert list(zip(*(column.to_pylist() for column in told.columns), strict=True)) == content.sums(keys)


@given(databases("bag"), st.integers(1, 7), st.data())
@settings(deadline=None)
def test_matches_of_any_keys(database: Database, batch_rows: int, data: st.DataObject) -> None:
    history = database.history
    spine, content = with_more(data, database)
    keys = some_keys(data, history)
    found: list[Counter[Any]] = [Counter() for _ in keys]
    for which, rows in spine.matches(key_batch(history, keys), batch_rows):
        assert 0 < rows.num_rows == len(which) <= batch_rows
        names = [*history.layout.key, *history.rest]
        columns = [rows.column(name).to_pylist() for name in (*names, "_weight")]
        for i, *values in zip(which.tolist(), *columns, strict=True):
            row = (history.hash_of(keys[i]), *history.identity(tuple(values[:-1]), names))
            found[i][row] += values[-1]
    for key, bag in zip(keys, found, strict=True):
        assert {row: (weight,) for row, weight in bag.items() if weight} == content.matches(key)


@given(databases("bag", True), st.booleans(), st.data())
@settings(deadline=None)
def test_extremes_of_any_keys_from_any_bound_that_is_right(
    database: Database, greatest: bool, data: st.DataObject
) -> None:
    history = database.history
    kind = history.layout.schema.field("v").type
    spine, content = with_more(data, database)
    keys = some_keys(data, history)
    expected = [content.extreme(key, greatest) for key in keys]
    bounds = None
    if data.draw(st.booleans()):
        at = history.rest.index("v")
        pool = [rest[at] for rest in history.rests]
        drawn = []
        for right in expected:
            good = [value for value in pool if right is None or not_past(value, right, kind, greatest)]
            drawn.append(data.draw(st.sampled_from([None, *good])))
        bounds = pa.array(drawn, kind)
    told = spine.extremes(key_batch(history, keys), bounds, greatest)
    assert told.type == kind
    assert [identity(value, kind) for value in told.to_pylist()] == expected


def not_past(value: Any, right: Any, kind: pa.DataType, greatest: bool) -> bool:
    mine, its = spark_order(identity(value, kind), kind), spark_order(right, kind)
    return bool(mine >= its if greatest else mine <= its)
