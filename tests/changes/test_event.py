from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.changelog import ChangelogRecord
from penstock.changes.event import ChangeEvent, Delete, Insert, Snapshot, Update, Watermark
from penstock.changes.op import EventType, Op
from penstock.errors import InvalidArgument, ReservedName, SchemaMismatch
from tests.arrow_strategies import batches, schemas
from tests.row_model import multiset

ONE = pa.record_batch({"id": [1, 2], "total": [10.0, 7.5]})
TWO = pa.record_batch({"id": [1, 2], "total": [12.5, 7.5]})


def every_kind() -> list[ChangeEvent]:
    return [
        ChangeEvent.insert(ONE, 1_000, 5),
        ChangeEvent.delete(ONE, 1_000, 5),
        ChangeEvent.update(ONE, TWO, 1_000, 5),
        ChangeEvent.watermark(1_000),
        ChangeEvent.snapshot(ONE, 1_000),
    ]


def test_an_insert_says_what_came_when_and_under_which_number() -> None:
    event = ChangeEvent.insert(ONE, timestamp=1_000, sequence=42)
    assert isinstance(event, Insert)
    assert (event.event_type, event.timestamp, event.sequence) == (EventType.INSERT, 1_000, 42)
    assert event.data is ONE
    assert event.has_data


def test_a_delete_says_what_is_gone() -> None:
    event = ChangeEvent.delete(ONE, timestamp=2_000, sequence=43)
    assert isinstance(event, Delete)
    assert (event.event_type, event.timestamp, event.sequence) == (EventType.DELETE, 2_000, 43)
    assert event.data is ONE
    assert event.has_data


def test_an_update_holds_both_sides() -> None:
    event = ChangeEvent.update(ONE, TWO, timestamp=3_000, sequence=44)
    assert isinstance(event, Update)
    assert (event.event_type, event.timestamp, event.sequence) == (EventType.UPDATE, 3_000, 44)
    assert event.old is ONE
    assert event.new is TWO
    assert event.has_data


def test_a_watermark_has_a_time_and_nothing_else() -> None:
    event = ChangeEvent.watermark(4_000)
    assert isinstance(event, Watermark)
    assert (event.event_type, event.timestamp, event.sequence) == (EventType.WATERMARK, 4_000, None)
    assert not event.has_data
    assert event.row_count == 0


def test_a_snapshot_has_rows_and_no_number() -> None:
    event = ChangeEvent.snapshot(ONE, 5_000)
    assert isinstance(event, Snapshot)
    assert (event.event_type, event.timestamp, event.sequence) == (EventType.SNAPSHOT, 5_000, None)
    assert event.data is ONE
    assert event.has_data


def test_rows_are_counted_and_an_update_counts_its_new_side() -> None:
    assert [event.row_count for event in every_kind()] == [2, 2, 2, 0, 2]


def test_a_clone_is_equal_and_shares_every_buffer() -> None:
    for event in every_kind():
        for clone in (event.clone(), copy.copy(event), copy.deepcopy(event)):
            assert clone == event
            assert type(clone) is type(event)
            for mine, theirs in zip(event._batches, clone._batches, strict=True):
                for a, b in zip(mine.columns, theirs.columns, strict=True):
                    assert [buffer and buffer.address for buffer in a.buffers()] == [
                        buffer and buffer.address for buffer in b.buffers()
                    ]


def test_a_clone_takes_no_memory_however_large_its_event() -> None:
    event = ChangeEvent.snapshot(pa.record_batch({"x": np.arange(1_000_000)}), 0)
    before = pa.total_allocated_bytes()
    clones = [event.clone() for _ in range(1_000)]
    assert pa.total_allocated_bytes() == before
    assert all(clone == event for clone in clones[::100])


def test_events_match_by_variant_and_by_position() -> None:
    def told(event: ChangeEvent) -> tuple[Any, ...]:
        match event:
            case Insert(data=d, sequence=s):
                return ("insert", d.num_rows, s)
            case Delete(d, when, s):
                return ("delete", d.num_rows, when, s)
            case Update(old, new, _, _):
                return ("update", old.num_rows, new.num_rows)
            case Watermark(when):
                return ("watermark", when)
            case Snapshot(d, when):
                return ("snapshot", d.num_rows, when)
        return ()

    assert [told(event) for event in every_kind()] == [
        ("insert", 2, 5),
        ("delete", 2, 1_000, 5),
        ("update", 2, 2),
        ("watermark", 1_000),
        ("snapshot", 2, 1_000),
    ]


@pytest.mark.parametrize(
    "name", ["data", "old", "new", "timestamp", "sequence", "event_type", "row_count", "x"]
)
def test_nothing_about_an_event_can_be_set(name: str) -> None:
    for event in every_kind():
        with pytest.raises(AttributeError):
            setattr(event, name, 1)


def test_an_event_is_of_one_of_the_five_kinds() -> None:
    with pytest.raises(InvalidArgument, match=r"ChangeEvent\.insert"):
        ChangeEvent()


def test_an_update_whose_sides_differ_in_columns_is_refused() -> None:
    for other in (
        pa.record_batch({"id": [1, 2], "sum": [1.0, 2.0]}),
        pa.record_batch({"id": [1, 2], "total": [1, 2]}),
        pa.record_batch({"total": [1.0, 2.0], "id": [1, 2]}),
        ONE.select(["id"]),
    ):
        with pytest.raises(SchemaMismatch):
            ChangeEvent.update(ONE, other, 0, 1)


def test_an_update_whose_sides_differ_in_length_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="2 old rows and 1 new"):
        ChangeEvent.update(ONE, TWO.slice(1), 0, 1)


@pytest.mark.parametrize("number", [-1, 2**64, 1.0, "1", None, True])
def test_a_sequence_is_a_number_of_64_bits_without_sign(number: Any) -> None:
    with pytest.raises(InvalidArgument, match="sequence"):
        ChangeEvent.insert(ONE, 0, number)
    with pytest.raises(InvalidArgument, match="sequence"):
        ChangeEvent.update(ONE, TWO, 0, number)


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63, 1.5, "1", None, False])
def test_a_timestamp_is_a_number_of_64_bits_with_sign(number: Any) -> None:
    for make in (ChangeEvent.watermark, lambda when: ChangeEvent.snapshot(ONE, when)):
        with pytest.raises(InvalidArgument, match="timestamp"):
            make(number)


def test_the_outermost_numbers_are_taken_and_numpys_too() -> None:
    event = ChangeEvent.insert(ONE, -(2**63), 2**64 - 1)
    assert (event.timestamp, event.sequence) == (-(2**63), 2**64 - 1)
    event = ChangeEvent.delete(ONE, np.int64(7), np.uint64(8))  # type: ignore[arg-type]
    assert (type(event.timestamp), type(event.sequence), event.sequence) == (int, int, 8)


def test_rows_come_as_a_record_batch() -> None:
    table = pa.table({"id": [1]})
    for make in (
        lambda: ChangeEvent.insert(table, 0, 1),
        lambda: ChangeEvent.update(ONE, table, 0, 1),
        lambda: ChangeEvent.snapshot([{"id": 1}], 0),
    ):
        with pytest.raises(InvalidArgument, match="RecordBatch"):
            make()


@pytest.mark.parametrize(
    ("op", "kind"),
    [(Op.INSERT, Insert), (Op.DELETE, Delete), (Op.UPDATE_BEFORE, Delete), (Op.UPDATE_AFTER, Insert)],
)
def test_a_changelog_record_becomes_an_insert_or_a_delete_that_shares_its_batch(op: Op, kind: type) -> None:
    event = ChangeEvent.from_changelog_record(ChangelogRecord(ONE, op.weight, 9, op), sequence=3)
    assert type(event) is kind
    assert event.data is ONE
    assert (event.timestamp, event.sequence) == (9, 3)


def test_a_batch_of_records_is_numbered_on_from_the_first_sequence() -> None:
    before, after = ChangelogRecord.retraction(ONE, TWO, 4)
    records = [ChangelogRecord.insert(ONE, 1), before, after, ChangelogRecord.delete(TWO, 5)]
    events = ChangeEvent.from_changelog_records(records, first_sequence=10)
    assert events == [
        ChangeEvent.insert(ONE, 1, 10),
        ChangeEvent.delete(ONE, 4, 11),
        ChangeEvent.insert(TWO, 4, 12),
        ChangeEvent.delete(TWO, 5, 13),
    ]
    assert ChangeEvent.from_changelog_records([], 10) == []


@pytest.mark.parametrize("weight", [-3, -1, 0, 1, 2])
def test_a_records_weight_is_kept_as_copies_of_its_rows(weight: int) -> None:
    op = Op.DELETE if weight < 0 else Op.INSERT
    event = ChangeEvent.from_changelog_record(ChangelogRecord(ONE, weight, 0, op), 1)
    assert event.row_count == 2 * abs(weight)
    assert event.to_zset() == ChangeEvent.insert(ONE, 0, 1).to_zset() * weight


def test_a_weight_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ZSet"):
        ChangeEvent.from_changelog_record(ChangelogRecord(ONE, 2**40, 0, Op.INSERT), 1)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_as_a_z_set_an_event_is_what_it_does_to_a_bag_of_rows(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    old = data.draw(batches(schema))
    new = data.draw(batches(schema))
    size = min(old.num_rows, new.num_rows)
    old, new = old.slice(0, size), new.slice(0, size)
    plus, minus = np.ones(size, np.int64), -np.ones(size, np.int64)
    both = pa.concat_batches([old, new])
    for event, bag in (
        (ChangeEvent.insert(new, 0, 1), multiset(new, plus)),
        (ChangeEvent.snapshot(new, 0), multiset(new, plus)),
        (ChangeEvent.delete(new, 0, 1), multiset(new, minus)),
        (ChangeEvent.update(old, new, 0, 1), multiset(both, np.concatenate([minus, plus]))),
    ):
        z = event.to_zset()
        assert multiset(z.rows, z.weights) == bag


def test_a_watermark_is_no_z_set() -> None:
    with pytest.raises(InvalidArgument, match="has_data"):
        ChangeEvent.watermark(0).to_zset()


def test_an_event_whose_columns_are_not_a_users_is_no_z_set() -> None:
    with pytest.raises(ReservedName):
        ChangeEvent.insert(pa.record_batch({"x": [1], "_weight": [2]}), 0, 1).to_zset()


def test_events_are_equal_by_content() -> None:
    again = pa.record_batch({"id": pa.array([0, 1, 2]).slice(1), "total": [10.0, 7.5]})
    assert ChangeEvent.insert(again, 1_000, 5) == ChangeEvent.insert(ONE, 1_000, 5)
    assert hash(ChangeEvent.insert(again, 1_000, 5)) == hash(ChangeEvent.insert(ONE, 1_000, 5))
    nan, zero = pa.record_batch({"x": [float("nan"), 0.0]}), pa.record_batch({"x": [-float("nan"), -0.0]})
    assert ChangeEvent.snapshot(nan, 0) == ChangeEvent.snapshot(zero, 0)


def test_events_that_differ_in_anything_are_not_equal() -> None:
    different = [
        *every_kind(),
        ChangeEvent.insert(ONE, 1_001, 5),
        ChangeEvent.insert(ONE, 1_000, 6),
        ChangeEvent.insert(TWO, 1_000, 5),
        ChangeEvent.insert(ONE.slice(1), 1_000, 5),
        ChangeEvent.insert(ONE.rename_columns(["id", "sum"]), 1_000, 5),
        ChangeEvent.insert(ONE.cast(pa.schema({"id": pa.int32(), "total": pa.float64()})), 1_000, 5),
        ChangeEvent.insert(ONE.take(pa.array([1, 0])), 1_000, 5),
        ChangeEvent.update(TWO, ONE, 1_000, 5),
        ChangeEvent.update(ONE, ONE, 1_000, 5),
        ChangeEvent.watermark(1_001),
    ]
    for i, left in enumerate(different):
        for j, right in enumerate(different):
            assert (left == right) is (i == j)
    assert different[0] != "an insert"


@settings(deadline=None, max_examples=100)
@given(batches(max_rows=30))
def test_a_repr_is_short_whatever_the_rows(batch: pa.RecordBatch) -> None:
    for event in (ChangeEvent.insert(batch, 1, 2), ChangeEvent.update(batch, batch, 1, 2)):
        text = repr(event)
        assert text.startswith((f"Insert(sequence=2, timestamp=1, {batch.num_rows} row", "Update("))
        assert len(text) < 4_000


def test_a_repr_shows_a_few_rows_and_columns_and_how_many_more_there_are() -> None:
    wide = pa.record_batch({f"c{i}": [f"{i}" * 99] * 5 for i in range(9)})
    text = repr(ChangeEvent.snapshot(wide, 7))
    assert text.startswith("Snapshot(timestamp=7, 5 rows: (c0='0000")
    assert text.endswith(", …), … 2 more)")
    assert len(text) < 800
    assert repr(ChangeEvent.watermark(7)) == "Watermark(timestamp=7)"
    update = ChangeEvent.update(ONE.slice(0, 1), TWO.slice(0, 1), 3, 4)
    assert repr(update) == ("Update(sequence=4, timestamp=3, 1 row: (id=1, total=10.0) → (id=1, total=12.5))")


def test_a_repr_does_not_fail_on_times_that_python_cannot_tell() -> None:
    rows = pa.record_batch(
        {"at": pa.array([2**62], pa.timestamp("s")), "d": pa.array([2**62], pa.duration("s"))}
    )
    assert "<timestamp[s]>" in repr(ChangeEvent.snapshot(rows, 0))
