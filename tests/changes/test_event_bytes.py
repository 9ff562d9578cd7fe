from __future__ import annotations

import decimal
import random
import struct
import tracemalloc
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.event import ChangeEvent
from penstock.changes.event_batch import ChangeEventBatch
from penstock.changes.event_bytes import Kind, to_bytes
from penstock.errors import DamagedBytes, InvalidArgument, PenstockError, Unsupported
from tests.arrow_strategies import batches, schemas

ROWS = pa.record_batch({"id": [1, 2, None], "name": ["ada", "", None], "tags": [[1], None, []]})
TIMES = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.integers(0, 2**64 - 1)


def mixed() -> ChangeEventBatch:
    return ChangeEventBatch(
        "orders",
        [
            ChangeEvent.snapshot(ROWS, -5),
            ChangeEvent.insert(ROWS.slice(1), 10, 2**63),
            ChangeEvent.update(ROWS, ROWS.slice(0, 3), 11, 2**63),
            ChangeEvent.watermark(12),
            ChangeEvent.delete(pa.record_batch({"other": [1.5]}), 13, 2**64 - 1),
        ],
    )


@st.composite
def events(draw: st.DrawFn, schema: pa.Schema) -> ChangeEvent:
    batch, when, number = draw(batches(schema)), draw(TIMES), draw(NUMBERS)
    return draw(
        st.sampled_from(
            [
                ChangeEvent.insert(batch, when, number),
                ChangeEvent.delete(batch, when, number),
                ChangeEvent.update(batch, batch.slice(0), when, number),
                ChangeEvent.snapshot(batch, when),
                ChangeEvent.watermark(when),
            ]
        )
    )


def assert_same(read: ChangeEvent, written: ChangeEvent) -> None:
    assert read == written
    assert type(read) is type(written)
    for a, b in zip(read._batches, written._batches, strict=True):
        assert a.schema.equals(b.schema, check_metadata=True)
        # As text, so that also NaN and −0.0 must be what they were.
        assert [repr(c.to_pylist()) for c in a.columns] == [repr(c.to_pylist()) for c in b.columns]


def sealed(content: bytes) -> bytes:
    """The bytes with a checksum that agrees, as damage that CRC32C does not see would have."""
    return content[:4] + struct.pack("<I", google_crc32c.value(content[8:])) + content[8:]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_an_event_comes_back_as_it_was(data: st.DataObject) -> None:
    event = data.draw(events(data.draw(schemas())))
    assert_same(ChangeEvent.from_bytes(event.to_bytes()), event)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_a_batch_comes_back_as_it_was(data: st.DataObject) -> None:
    choices = data.draw(st.lists(schemas(), min_size=1, max_size=3))
    members = [
        data.draw(events(schema)) for schema in data.draw(st.lists(st.sampled_from(choices), max_size=5))
    ]
    numbered = [event for event in members if event.sequence is not None]
    if [e.sequence for e in numbered] != sorted(e.sequence or 0 for e in numbered):
        members = [event for event in members if event.sequence is None] + numbered[:1]
    source = data.draw(st.text(st.characters(exclude_categories=["Cs"])))
    batch = ChangeEventBatch(source, members)
    read = ChangeEventBatch.from_bytes(batch.to_bytes())
    assert read.source == source
    assert (read.start_sequence, read.end_sequence) == (batch.start_sequence, batch.end_sequence)
    for a, b in zip(read, batch, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array([["a", "b"], None, ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", None])),
        pa.array([[1], None, [2, 3]], pa.list_view(pa.int32())),
        pa.array(["longer than twelve bytes", "", None], pa.string_view()),
        pa.array([decimal.Decimal("1.00"), None, decimal.Decimal(10**40)], pa.decimal256(60, 2)),
        pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([0, 0, 0])]),
        pa.UnionArray.from_sparse(
            pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(list("xyz"))]
        ),
        pa.array([b"0123456789abcdef", None, b"fedcba9876543210"], pa.uuid()),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type)[:24],
)
def test_columns_of_every_type_come_back_also_as_slices(column: pa.Array) -> None:
    schema = pa.schema([pa.field("c", column.type, metadata={"unit": "€"})], metadata={"table": "t"})
    whole = pa.RecordBatch.from_arrays([column], schema=schema)
    batch = ChangeEventBatch("s", [ChangeEvent.insert(whole, 0, 1), ChangeEvent.insert(whole.slice(1), 0, 2)])
    for read, written in zip(ChangeEventBatch.from_bytes(batch.to_bytes()), batch, strict=True):
        assert read._batches[0].equals(written._batches[0], check_metadata=True)


def test_dictionaries_that_change_between_events_come_back() -> None:
    rows = [
        pa.record_batch({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["z"], ["b"])
    ]
    batch = ChangeEventBatch("s", [ChangeEvent.insert(batch, 0, i) for i, batch in enumerate(rows)])
    read = ChangeEventBatch.from_bytes(batch.to_bytes())
    assert [event._batches[0].column(0).to_pylist() for event in read] == [["a", "b"], ["z"], ["b"]]


def test_rows_without_columns_come_back() -> None:
    none = pa.record_batch({"x": [1, 2]}).select([])
    assert ChangeEvent.from_bytes(ChangeEvent.snapshot(none, 0).to_bytes()).row_count == 2


def test_the_sides_of_an_update_keep_their_own_schema() -> None:
    old = ROWS.replace_schema_metadata({"side": "old"})
    read = ChangeEvent.from_bytes(ChangeEvent.update(old, ROWS, 0, 1).to_bytes())
    assert [batch.schema.metadata for batch in read._batches] == [{b"side": b"old"}, None]


def test_a_schema_that_events_share_is_written_once() -> None:
    rows = pa.record_batch({"a_column_with_a_name": [1]})
    many = [ChangeEvent.insert(rows, 0, i) for i in range(50)] + [ChangeEvent.update(rows, rows, 0, 51)]
    assert ChangeEventBatch("s", many).to_bytes().count(b"a_column_with_a_name") == 1
    other = ChangeEvent.snapshot(rows.rename_columns(["another_column"]), 0)
    stored = ChangeEventBatch("s", [many[0], other, many[1], other]).to_bytes()
    assert (stored.count(b"a_column_with_a_name"), stored.count(b"another_column")) == (1, 1)


def test_reading_shares_the_bytes_when_they_cannot_change() -> None:
    stored = ChangeEvent.snapshot(pa.record_batch({"x": np.arange(100_000)}), 0).to_bytes()
    before = pa.total_allocated_bytes()
    event = ChangeEvent.from_bytes(stored)
    assert pa.total_allocated_bytes() - before < 10_000
    assert event.row_count == 100_000


def test_reading_copies_bytes_that_can_change() -> None:
    event = ChangeEvent.snapshot(ROWS, 0)
    stored = bytearray(event.to_bytes())
    for given_bytes in (stored, memoryview(stored), memoryview(stored).toreadonly(), pa.py_buffer(stored)):
        read = ChangeEvent.from_bytes(given_bytes)
        intact = bytes(stored)
        stored[:] = bytes(len(stored))
        assert read == event
        stored[:] = intact


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_found(mask: int) -> None:
    for stored, read in (
        (mixed().to_bytes(), ChangeEventBatch.from_bytes),
        (ChangeEvent.watermark(7).to_bytes(), ChangeEvent.from_bytes),
    ):
        for at in range(len(stored)):
            damaged = bytearray(stored)
            damaged[at] ^= mask
            with pytest.raises(DamagedBytes):
                read(bytes(damaged))


def test_every_cut_and_every_addition_is_found() -> None:
    stored = mixed().to_bytes()
    for length in range(len(stored)):
        with pytest.raises(DamagedBytes):
            ChangeEventBatch.from_bytes(stored[:length])
    with pytest.raises(DamagedBytes):
        ChangeEventBatch.from_bytes(stored + b"\0")
    with pytest.raises(DamagedBytes):
        ChangeEventBatch.from_bytes(sealed(stored + bytes(8)))


def test_forty_thousand_random_and_mutated_inputs_give_only_our_errors() -> None:
    chance = random.Random(20_260_101)
    whole = mixed()
    stored = whole.to_bytes()
    for _ in range(40_000):
        if chance.random() < 0.2:
            damaged = chance.choice([b"", b"PsCE"]) + chance.randbytes(chance.randrange(200))
        else:
            damaged = mutated(stored, chance)
        for read in (ChangeEventBatch.from_bytes, ChangeEvent.from_bytes):
            with pytest.raises(DamagedBytes):
                read(damaged)
    assert ChangeEventBatch.from_bytes(stored) == whole


def test_ten_thousand_wrong_headers_under_a_right_checksum_give_only_our_errors() -> None:
    chance = random.Random(20_260_102)
    whole = mixed()
    stored = whole.to_bytes()
    table = stored.index(b"orders") + 8  # up to here it is our own format; then Arrow's streams follow
    read_whole = 0
    for _ in range(10_000):
        damaged = bytearray(stored)
        for _ in range(chance.choice([1, 1, 2, 4])):
            damaged[chance.randrange(8, table)] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
        try:
            read = ChangeEventBatch.from_bytes(sealed(bytes(damaged)))
        except (DamagedBytes, Unsupported):
            continue
        assert len(read) == len(whole)
        read_whole += 1
    assert 0 < read_whole < 9_000


def mutated(stored: bytes, chance: random.Random) -> bytes:
    while True:
        damaged = bytearray(stored)
        for _ in range(chance.choice([1, 1, 2, 8, 64])):
            at = chance.randrange(len(damaged) + 1)
            piece = chance.randrange(1, 16)
            match chance.randrange(4):
                case 0:
                    damaged[at : at + 1] = chance.randbytes(len(damaged[at : at + 1]))
                case 1:
                    del damaged[at : at + piece]
                case 2:
                    damaged[at:at] = chance.randbytes(piece)
                case 3:
                    damaged[at : at + piece] = stored[-piece:]
        if bytes(damaged) != stored:
            return bytes(damaged)


def test_no_memory_is_taken_on_the_word_of_a_length() -> None:
    stored = mixed().to_bytes()
    huge = 2**60
    lies = [
        stored[:16] + struct.pack("<Q", huge) + stored[24:],  # the length of the whole, before the checksum
        sealed(stored[:16] + struct.pack("<Q", huge) + stored[24:]),
        sealed(stored[:24] + struct.pack("<I", 2**32 - 1) + stored[28:]),  # how many events
        sealed(stored[:28] + struct.pack("<I", 2**32 - 1) + stored[32:]),  # how many streams
        sealed(stored[:32] + struct.pack("<I", 2**32 - 1) + stored[36:]),  # how long the name
    ]
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    for lie in lies:
        with pytest.raises(DamagedBytes):
            ChangeEventBatch.from_bytes(lie)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert pa.total_allocated_bytes() == before


def stored_as(kind: Kind, events: list[ChangeEvent], claimed: list[ChangeEvent], extra: bytes = b"") -> bytes:
    """Bytes whose checksum agrees, with the streams of ``events`` under the table of ``claimed``."""
    real = to_bytes(kind, "", [event._stored for event in events])
    table = to_bytes(kind, "", [event._stored for event in claimed])[40 : 40 + 32 * len(claimed)]
    body = struct.pack("<I", len(claimed)) + real[28:40] + table + real[40 + 32 * len(events) :] + extra
    return sealed(real[:16] + struct.pack("<Q", len(body)) + body)


def test_a_table_and_streams_that_do_not_fit_each_other_are_damage() -> None:
    one, two = ChangeEvent.insert(ROWS, 0, 1), ChangeEvent.insert(ROWS, 0, 2)
    good = stored_as(Kind.BATCH, [one, two], [one, two])
    assert list(ChangeEventBatch.from_bytes(good)) == [one, two]
    for wrong, why in (
        (stored_as(Kind.BATCH, [one, two], [one]), "more batches than events"),
        (stored_as(Kind.BATCH, [one], [one, two]), "fewer batches than events"),
        (stored_as(Kind.BATCH, [one], [one], bytes(8)), "8 bytes are left over"),
        (stored_as(Kind.BATCH, [one, two], [two, one]), "1 comes after 2"),
    ):
        with pytest.raises(DamagedBytes, match=why):
            ChangeEventBatch.from_bytes(wrong)
    for events in ([], [one, two]):
        with pytest.raises(DamagedBytes, match="one is expected"):
            ChangeEvent.from_bytes(stored_as(Kind.EVENT, events, events))


def test_a_later_format_is_said_to_be_one() -> None:
    stored = mixed().to_bytes()
    with pytest.raises(Unsupported, match="version 2"):
        ChangeEventBatch.from_bytes(sealed(stored[:8] + struct.pack("<H", 2) + stored[10:]))


def test_an_event_and_a_batch_are_not_read_as_each_other() -> None:
    event = ChangeEvent.watermark(1)
    with pytest.raises(DamagedBytes, match="batch"):
        ChangeEventBatch.from_bytes(event.to_bytes())
    with pytest.raises(DamagedBytes, match="event"):
        ChangeEvent.from_bytes(ChangeEventBatch("s", [event]).to_bytes())


@pytest.mark.parametrize("given_thing", ["text", None, 7, [1, 2]])
def test_what_is_not_bytes_is_refused(given_thing: Any) -> None:
    with pytest.raises(InvalidArgument):
        ChangeEvent.from_bytes(given_thing)


def test_a_source_that_is_not_text_cannot_be_stored() -> None:
    with pytest.raises(PenstockError, match="surrogate"):
        ChangeEventBatch("\ud800", []).to_bytes()


def test_the_format_stays_as_it_is() -> None:
    parts = [
        "50734345 00000000",  # magic, checksum
        "0100 0100 00000000 3000000000000000",  # version 1, one event, 48 bytes follow
        "01000000 00000000 00000000 00000000",  # one event, no stream, no name
        "0700000000000000 0000000000000000",  # timestamp 7, no sequence
        "00000000 00000000 03 00000000000000",  # no streams, a watermark
    ]
    stored = sealed(bytes.fromhex("".join(parts)))
    assert ChangeEvent.from_bytes(stored) == ChangeEvent.watermark(7)
    assert ChangeEvent.watermark(7).to_bytes() == stored
