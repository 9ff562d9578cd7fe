from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.hashing import can_hash, unsigned, xxhash64
from penstock.changes.rows import group
from penstock.errors import Unsupported
from penstock.log.content_hash import row_hashes
from tests.arrow_strategies import arrays, types


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_equal_rows_have_equal_hashes_whatever_slice_they_are_of(data: st.DataObject) -> None:
    kind = data.draw(types())
    column = data.draw(arrays(kind, 6))
    hashes = row_hashes([column], 6)
    ids = group([column], 6).ids
    for i in range(6):
        for j in range(i):
            if ids[i] == ids[j]:
                assert hashes[i] == hashes[j]
    assert hashes[3:].tolist() == row_hashes([column.slice(3)], 3).tolist()


@given(arrays(pa.string(), 5))
def test_where_spark_has_a_hash_it_is_this_one(column: pa.Array) -> None:
    assert can_hash(column.type)
    assert row_hashes([column], 5).tolist() == unsigned(xxhash64([column])).tolist()


ODD = [
    pa.array([1, 2, None], pa.uint64()),
    pa.array([1, 2, None], pa.float16()),
    pa.array([1, 2, None], pa.date64()),
    pa.array([1, 2, None], pa.time32("ms")),
    pa.array([1, 2, None], pa.timestamp("ns")),
    pa.array([1, 2, None], pa.duration("ns")),
    pa.array([1, 2, None], pa.decimal256(50, 2)),
    pa.array([(1, 2, 3), (4, 5, 6), None], pa.month_day_nano_interval()),
    pa.array(["a", "b", None]).dictionary_encode(),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([["a"], ["b"]])),
    pa.array(["a", "b", None], pa.string_view()),
    pa.array(
        [{"x": {"y": [[("k", 1)]]}}, {"x": {"y": [[("k", 2)]]}}, None],
        pa.struct([("x", pa.struct([("y", pa.list_(pa.map_(pa.string(), pa.int64())))]))]),
    ),
]


@pytest.mark.parametrize("column", ODD, ids=lambda it: str(it.type))
def test_types_that_spark_does_not_hash_have_hashes_too(column: pa.Array) -> None:
    one, two, null = row_hashes([column], 3).tolist()
    assert len({one, two, null}) == 3
    again = pa.concat_arrays([column.slice(1), column.slice(0, 1)])
    assert row_hashes([again], 3).tolist() == [two, null, one]


def test_a_type_that_cannot_be_compared_is_refused() -> None:
    column = pa.array([[1], [2]], pa.list_view(pa.int64()))
    with pytest.raises(Unsupported, match="list_view"):
        row_hashes([column], 2)
