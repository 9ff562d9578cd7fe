from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import ChangeEvent, ChangelogRecord, GroupedCountColumn, LateDataRetractions, Op, ZSet
from penstock.changes.pickable import decoded, pickable, pickable_rows, pickable_type
from tests.arrow_strategies import any_types, arrays
from tests.row_model import identity

RUNS = pc.run_end_encode(pa.array([7, 7, None, 7]))
ODD = {
    "string view": pa.array(
        ["ada", "ada", None, "a text too long to stay within its view"], pa.string_view()
    ),
    "binary view": pa.array([b"\0", b"\0", None, b""], pa.binary_view()),
    "list view": pa.array([[1], [1], None, []], pa.list_view(pa.int64())),
    "runs": RUNS,
    "list of views": pa.array([["ada"], ["ada"], None, [None]], pa.list_(pa.string_view())),
    "struct of views": pa.array(
        [{"a": "x"}, {"a": "x"}, None, {"a": None}], pa.struct({"a": pa.string_view()})
    ),
    "map of views": pa.array(
        [[("k", "x")], [("k", "x")], None, []], pa.map_(pa.string_view(), pa.string_view())
    ),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        pa.array([0, 0, None, 1], pa.int8()), pa.array(["x", "y"], pa.string_view())
    ),
    "dictionary of lists": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2], pa.int8()), pa.array([[0.0], [-0.0], []])
    ),
    "half floats": pa.array([0.0, -0.0, None, 1.5], pa.float16()),
    "intervals": pa.array([(1, 2, 3), (1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
    "bytes of no width": pa.array([b"", b"", None, b""], pa.binary(0)),
    "lists of no items": pa.array([[], [], None, []], pa.list_(pa.float64(), 0)),
    "structs without fields": pa.array([{}, {}, None, {}], pa.struct([])),
    "uuids": pa.array([b"u" * 16, b"u" * 16, None, b"v" * 16], pa.uuid()),
}
"""Four rows each: two equal ones, NULL, and one that is another, if the type has any."""


def named(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["x"])


@settings(deadline=None, max_examples=300)
@given(st.data(), any_types())
def test_values_stay_what_they_are_and_can_be_picked(data: st.DataObject, kind: pa.DataType) -> None:
    array = data.draw(arrays(kind, 4))
    easy = pickable(array)
    easy.validate(full=True)
    assert easy.type == pickable_type(kind)
    told = [identity(value, kind) for value in array.to_pylist()]
    assert [identity(value, easy.type) for value in easy.to_pylist()] == told
    picked = easy.take(pa.array([3, 0])).to_pylist()
    assert [identity(value, easy.type) for value in picked] == [told[3], told[0]]
    assert [identity(value, kind) for value in decoded(array).to_pylist()] == told


def test_what_can_be_picked_already_is_not_touched() -> None:
    batch = pa.record_batch({"a": [1], "b": [[{"c": "x"}]], "d": pa.array(["y"]).dictionary_encode()})
    assert pickable_rows(batch) is batch


@pytest.mark.parametrize("name", ODD)
def test_columns_of_every_kind_go_through_a_z_set(name: str) -> None:
    for column in (ODD[name], pa.concat_arrays([ODD[name]] * 3).slice(4, 4)):
        z = ZSet(named(column), np.array([1, 1, 2, -1]))
        assert z == ZSet(named(column), np.array([2, 0, 2, -1]))
        assert (z - z).is_zero()
        assert z.consolidate().total_weight == 3
        assert len(z.filter([False, True, True, False]).consolidate()) == 2
        assert repr(z).startswith("ZSet(4 rows: +1 (x=")


@pytest.mark.parametrize("name", ODD)
def test_columns_of_every_kind_go_through_events_and_late_data(name: str) -> None:
    column = ODD[name]
    event = ChangeEvent.insert(named(column), 1, 2)
    assert ChangeEvent.from_bytes(event.to_bytes()) == event
    twice = ChangeEvent.from_changelog_record(ChangelogRecord(named(column), -2, 1, Op.DELETE), 3)
    assert twice.to_zset() == ZSet(named(column), np.full(4, -2))
    late, windows = LateDataRetractions(), np.arange(4)
    assert late.check_many(windows, column, 1).first.all()
    assert late.check_many(windows, column, 2).unchanged.all()
    shifted = pa.concat_arrays([column.slice(2), column.slice(0, 2)])
    assert late.check_many(windows, shifted, 3).corrected[2:].any()


def test_a_null_inside_a_dictionary_or_a_run_is_not_counted() -> None:
    inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), pa.array(["a", None]))
    for column, expected in ((inside, 1), (RUNS, 3), (ODD["string view"], 3)):
        count = GroupedCountColumn(column.type)
        count.update(np.zeros(len(column), np.int64), column)
        assert count.finalize().to_pylist() == [expected]
