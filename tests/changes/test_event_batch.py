from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changes.event import ChangeEvent
from penstock.changes.event_batch import ChangeEventBatch
from penstock.errors import InvalidArgument

ROWS = pa.record_batch({"id": [1, 2, 3]})


def insert(sequence: int) -> ChangeEvent:
    return ChangeEvent.insert(ROWS, 0, sequence)


def test_a_batch_knows_its_source_its_range_and_its_rows() -> None:
    events = [insert(5), ChangeEvent.update(ROWS, ROWS, 0, 6), ChangeEvent.delete(ROWS.slice(1), 0, 7)]
    batch = ChangeEventBatch("orders", events)
    assert (batch.source, batch.start_sequence, batch.end_sequence) == ("orders", 5, 8)
    assert (len(batch), batch.total_rows, batch.is_empty) == (3, 8, False)
    assert list(batch) == events
    assert batch.events == tuple(events)


def test_an_empty_batch_has_the_empty_range() -> None:
    batch = ChangeEventBatch("orders", [])
    assert (batch.start_sequence, batch.end_sequence, len(batch), batch.total_rows) == (0, 0, 0, 0)
    assert batch.is_empty
    assert list(batch) == []


def test_a_trailing_watermark_does_not_shrink_the_range() -> None:
    batch = ChangeEventBatch("orders", [insert(5), insert(6), ChangeEvent.watermark(9)])
    assert (batch.start_sequence, batch.end_sequence) == (5, 7)


def test_a_leading_snapshot_does_not_hide_where_the_range_begins() -> None:
    batch = ChangeEventBatch("orders", [ChangeEvent.snapshot(ROWS, 0), insert(5)])
    assert (batch.start_sequence, batch.end_sequence) == (5, 6)


def test_events_without_a_sequence_make_no_range() -> None:
    batch = ChangeEventBatch("orders", [ChangeEvent.snapshot(ROWS, 0), ChangeEvent.watermark(1)])
    assert (batch.start_sequence, batch.end_sequence, len(batch)) == (0, 0, 2)


@given(st.lists(st.one_of(st.none(), st.integers(0, 50))))
def test_the_range_is_from_the_first_to_after_the_last_sequence(sequences: list[int | None]) -> None:
    numbers = sorted(number for number in sequences if number is not None)
    given_out = iter(numbers)
    events = [ChangeEvent.watermark(0) if s is None else insert(next(given_out)) for s in sequences]
    batch = ChangeEventBatch("s", iter(events))
    expected = (numbers[0], numbers[-1] + 1) if numbers else (0, 0)
    assert (batch.start_sequence, batch.end_sequence) == expected


def test_the_last_sequence_there_is_has_an_end_after_it() -> None:
    assert ChangeEventBatch("s", [insert(2**64 - 1)]).end_sequence == 2**64


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="5 comes after 6"):
        ChangeEventBatch("orders", [insert(6), ChangeEvent.watermark(0), insert(5)])


def test_batches_are_equal_by_content() -> None:
    batch = ChangeEventBatch("orders", [insert(1)])
    assert batch == ChangeEventBatch("orders", [insert(1)])
    assert hash(batch) == hash(ChangeEventBatch("orders", [insert(1)]))
    assert batch != ChangeEventBatch("orders", [insert(2)])
    assert batch != ChangeEventBatch("other", [insert(1)])
    assert batch != [insert(1)]


def test_a_batch_cannot_be_changed() -> None:
    batch = ChangeEventBatch("orders", [insert(1)])
    for name in ("source", "events", "start_sequence", "other"):
        with pytest.raises(AttributeError):
            setattr(batch, name, 1)


def test_a_repr_tells_source_range_and_size() -> None:
    assert repr(ChangeEventBatch("o", [insert(1)])) == "ChangeEventBatch('o', [1, 2), 1 event, 3 rows)"
