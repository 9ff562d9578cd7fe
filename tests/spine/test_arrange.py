from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ArithmeticOverflow, InvalidArgument, SchemaMismatch
from penstock.spine import Layout, arrange
from penstock.spine.arrange import arrange_pieces, sorting
from penstock.spine.order import before
from tests.spine.spine_model import Content, History, batch_of, content_of, histories

LAYOUT = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")


@given(histories(), st.data())
@settings(deadline=None)
def test_arranging_keeps_the_content_and_puts_it_in_order(history: History, data: st.DataObject) -> None:
    row = st.tuples(
        st.sampled_from(history.keys), st.sampled_from(history.rests), st.sampled_from([-2, -1, 1, 1, 3])
    )
    pieces = data.draw(st.lists(st.lists(row, max_size=15), min_size=1, max_size=3))
    content = Content(history)
    arranged = []
    for rows in pieces:
        content.add(rows)
        arranged.append(arrange(history.layout, batch_of(history, rows)))
        check_order(history.layout, arranged[-1])
    whole = arrange_pieces(history.layout, arranged)
    check_order(history.layout, whole)
    assert content_of(history, [whole] if whole.num_rows else []) == content.within(0, 2**64)


def check_order(layout: Layout, batch: pa.RecordBatch) -> None:
    assert batch.schema.equals(layout.stored)
    hashes = batch.column(0).to_numpy().view(np.uint64)
    assert (hashes[1:] >= hashes[:-1]).all()
    if layout.order is not None and len(hashes) > 1:
        values = batch.column(layout.order)
        falls = before(values.slice(1), values.slice(0, len(values) - 1))
        assert not (falls & (hashes[1:] == hashes[:-1])).any()


@given(
    st.lists(
        st.one_of(
            st.integers(0, 2**64 - 1),
            st.integers(0, 3),
            st.integers(2**64 - 3, 2**64 - 1),
            st.integers(2**40, 2**40 + 9),
        ),
        max_size=60,
    )
)
def test_sorting_is_stable_also_where_hashes_differ_in_low_bits_only(hashes: list[int]) -> None:
    given_ = np.array(hashes, np.uint64)
    order = sorting(given_)
    expected = np.argsort(given_, kind="stable").tolist()
    assert (list(range(len(hashes))) if order is None else order.tolist()) == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"_hash": [1], "k": ["a"]},
        {"_hash": [1], "k": ["a"], "n": [1.5]},
        {"k": ["a"], "n": [1]},
    ],
)
def test_columns_that_do_not_fit_are_named(columns: dict[str, list[object]]) -> None:
    with pytest.raises(SchemaMismatch, match="no one column"):
        arrange(LAYOUT, pa.record_batch(columns))


@pytest.mark.parametrize("columns", [{"_hash": [None], "n": [1]}, {"_hash": [1], "n": [None]}])
def test_a_hash_or_a_sum_is_never_null(columns: dict[str, list[object]]) -> None:
    rows = {name: pa.array(column, pa.int64()) for name, column in columns.items()}
    with pytest.raises(InvalidArgument, match="NULL"):
        arrange(LAYOUT, pa.record_batch({**rows, "k": ["a"]}))


def test_a_sum_that_leaves_64_bits_is_an_error_and_one_that_comes_back_is_none() -> None:
    top = 2**63 - 1
    with pytest.raises(ArithmeticOverflow):
        arrange(LAYOUT, pa.record_batch({"_hash": [1, 1], "k": ["a", "a"], "n": [top, 1]}))
    whole = arrange(
        LAYOUT, pa.record_batch({"_hash": [1, 1, 1, 1], "k": ["a"] * 4, "n": [top, top, -top, -5]})
    )
    assert whole.column("n").to_pylist() == [top - 5]
