"""A view's content is the sum of its changes, whenever and in however many parts they are folded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.changes import ZSet
from penstock.changes.names import WEIGHT
from penstock.errors import DamagedBytes, Divergence
from penstock.spark.output import events_of
from penstock.spark.registration import registrations
from penstock.spine import Runs
from penstock.views.commit import fold_name
from penstock.views.content import Fold, read_content
from tests.arrow_strategies import batches, schemas
from tests.row_model import multiset
from tests.views.ticks import Ticks, memory

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


FLAT = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.decimal128(20, 2),
]
KINDS = st.sampled_from(FLAT).flatmap(
    lambda kind: st.sampled_from(
        [kind, kind, pa.list_(kind), pa.struct([("a", kind), ("b", pa.int32())]), pa.map_(pa.string(), kind)]
    )
)
"""Columns as Spark has them."""


def read(ticks: Ticks, name: str = "v") -> pa.Table:
    content = ticks.newest.views[name].content
    runs = Runs(ticks.store)
    return read_content(ticks.store, runs, ticks.views[name], content, ticks.loose(name))


def bag(table: pa.Table) -> dict[object, int]:
    found: dict[object, int] = {}
    for batch in table.to_batches():
        for row, weight in multiset(batch, np.ones(len(batch), np.int64)).items():
            found[row] = found.get(row, 0) + weight
    return found


class ContentAsABag(RuleBasedStateMachine):
    """Rows come and go, each as often as it likes, but never more often than it came."""

    @initialize(schema=st.just(SCHEMA) | schemas(kinds=KINDS), keyed=st.booleans())
    def begin(self, schema: pa.Schema, keyed: bool) -> None:
        self.ticks = Ticks(memory())
        self.schema = schema
        self.view = self.ticks.add("v", schema, schema.names[:1] if keyed else [])
        self.content = ZSet.empty(schema)

    @rule(data=st.data(), folds=st.sampled_from([0, 0, 0, 1, 2, 8]))
    def tick(self, data: st.DataObject, folds: int) -> None:
        parts = []
        for _ in range(data.draw(st.integers(0, 2))):
            frames = []
            for _ in range(data.draw(st.integers(0, 2))):
                change = self.change(data)
                if not change.is_zero():
                    self.content = (self.content + change).consolidate()
                    frames.append(events_of(change, ()))
            if frames:
                parts.append(frames)
        folds = folds if "v" in self.ticks.newest.views else 0
        self.ticks.tick({"v": parts}, {"v": folds} if folds else {})

    def change(self, data: st.DataObject) -> ZSet:
        new = data.draw(batches(self.schema, max_rows=5))
        copies = data.draw(st.lists(st.integers(1, 3), min_size=len(new), max_size=len(new)))
        change = ZSet(new, np.array(copies, np.int64))
        if len(self.content):
            gone = data.draw(st.sets(st.integers(0, len(self.content) - 1)))
            at = sorted(gone)
            weights = [data.draw(st.integers(1, int(self.content.weights[i]))) for i in at]
            rows = self.content.rows.take(pa.array(at, pa.int64()))
            change = change - ZSet(rows, np.array(weights, np.int64))
        return change.consolidate()

    @invariant()
    def it_is_the_sum_of_its_changes(self) -> None:
        if hasattr(self, "ticks") and "v" in self.ticks.newest.views:
            found = read(self.ticks)
            assert found.schema.equals(self.schema)
            assert bag(found) == multiset(self.content.rows, self.content.weights)
            told = [changes.zset() for changes in self.ticks.log.read("v")]
            assert ZSet.concat([ZSet.empty(self.schema), *told]) == self.content


TestContentAsABag = ContentAsABag.TestCase
TestContentAsABag.settings = settings(deadline=None, max_examples=40, stateful_step_count=12)


# -- one thing at a time ----------------------------------------------------------------------------


def rows(*numbers: int, weight: int = 1) -> pa.RecordBatch:
    batch = pa.record_batch({"k": [f"k{it}" for it in numbers], "n": list(numbers)}, schema=SCHEMA)
    return events_of(ZSet(batch, np.full(len(numbers), weight)), ())


def filled(ticks: int = 3) -> Ticks:
    made = Ticks(memory())
    made.add("v", SCHEMA, ["k"])
    for number in range(ticks):
        made.tick({"v": [[rows(*range(10 * number, 10 * number + 10))]]})
    return made


def test_folding_leaves_only_what_came_after() -> None:
    ticks = filled()
    assert ticks.newest.views["v"].loose == 30
    ticks.tick({"v": [[rows(99)]]}, {"v": 4})
    state = ticks.newest.views["v"]
    assert (state.loose, state.folded) == (1, 30)
    assert len(ticks.loose("v")) == 1
    assert sorted(read(ticks).column("n").to_pylist()) == [*range(30), 99]


def test_a_content_that_is_gone_is_folded_to_nothing() -> None:
    ticks = filled(1)
    ticks.tick({}, {"v": 1})
    ticks.tick({"v": [[rows(*range(10), weight=-1)]]})
    assert read(ticks).num_rows == 0
    ticks.tick({}, {"v": 2})
    assert read(ticks).num_rows == 0


def test_a_second_attempt_at_folding_changes_nothing() -> None:
    ticks = filled()
    place = ticks.place(9)
    view, state = ticks.views["v"], ticks.newest.views["v"]
    fold = Fold(fold_name(view.id), view, state.content, ticks.loose("v"), 2, place)
    numbers = pa.record_batch({"id": [0, 1]})
    first = [it.to_pylist() for it in fold(iter([numbers]))]
    there = [blob.name for blob in ticks.store.list()]
    assert [it.to_pylist() for it in fold(iter([numbers]))] == first
    assert [blob.name for blob in ticks.store.list()] == there
    assert len(registrations(place.scratch, place.steps)) == 2


def test_a_row_that_is_there_less_than_never_is_told_and_not_shown() -> None:
    ticks = filled(1)
    ticks.tick({"v": [[rows(99, weight=-1)]]})
    with pytest.raises(Divergence, match="'v'"):
        read(ticks)


@pytest.mark.parametrize("which", ["changes", "run"])
def test_no_byte_of_a_content_changes_unnoticed(which: str) -> None:
    ticks = filled(1)
    if which == "run":
        ticks.tick({}, {"v": 1})
        (piece,) = ticks.newest.views["v"].content
        name = piece.file
    else:
        (file,) = ticks.newest.views["v"].files
        name = file.name
    data = ticks.store.get(name)
    for i in range(0, len(data), 3):
        changed = bytearray(data)
        changed[i] ^= 0x40
        ticks.store.put(name, bytes(changed))
        with pytest.raises(DamagedBytes) as caught:
            read(ticks)
        assert caught.value.subject == name
    ticks.store.put(name, data)
    assert read(ticks).num_rows == 10


def test_a_view_that_nothing_tells_rows_of_apart_is_a_bag() -> None:
    ticks = Ticks(memory())
    ticks.add("v", SCHEMA)
    ticks.tick({"v": [[rows(1, 1, 2, weight=2)]]})
    ticks.tick({"v": [[rows(1, weight=-3)]]}, {"v": 1})
    assert sorted(read(ticks).column("n").to_pylist()) == [1, 2, 2]
    assert WEIGHT not in read(ticks).column_names
