"""One change message at a time says what a batch of them says."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import Envelope, Source, debezium
from penstock.errors import InvalidArgument

SOURCE = Source("shop", "default", "orders", 42)
TIME = 1_706_140_800_000
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: not name.startswith("_"))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=12)
TEXT = st.text(max_size=6)


def test_an_insert_is_a_create_without_a_before() -> None:
    text = Envelope.insert({"id": 1, "amount": 100}, SOURCE, TIME).to_json()
    assert '"op":"c"' in text
    assert '"before"' not in text
    told = orjson.loads(text)
    assert list(told) == ["op", "ts_ms", "source", "after"]
    assert told["ts_ms"] == TIME
    assert told["after"] == {"id": 1, "amount": 100}
    assert told["source"] == {
        "version": SOURCE.told_version,
        "connector": "penstock",
        "name": "shop",
        "db": "default",
        "sequence": 42,
        "table": "orders",
    }


def test_a_delete_an_update_and_a_read_carry_the_images_they_have() -> None:
    old, new = {"id": 1, "amount": 100}, {"id": 1, "amount": 101}
    delete = orjson.loads(Envelope.delete(old, SOURCE, TIME).to_json())
    update = orjson.loads(Envelope.update(old, new, SOURCE, TIME).to_json())
    read = orjson.loads(Envelope.read(new, SOURCE, TIME).to_json())
    assert (delete["op"], delete["before"], "after" in delete) == ("d", old, False)
    assert (update["op"], update["before"], update["after"]) == ("u", old, new)
    assert (read["op"], read["after"], "before" in read) == ("r", new, False)


@pytest.mark.parametrize("envelope", [Envelope.insert, Envelope.read])
def test_decode_reads_an_envelope_as_a_message(envelope: Any) -> None:
    text = envelope({"id": 7, "name": "ada"}, SOURCE, TIME).to_json()
    (events,) = debezium.decode([text]).rows
    assert events.changes().select(["id", "name", "_op"]).to_pylist() == [{"id": 7, "name": "ada", "_op": 0}]


@settings(deadline=None, max_examples=300)
@given(row=st.dictionaries(NAMES, PLAIN, min_size=1, max_size=5))
def test_an_envelope_writes_a_row_as_encode_writes_it(row: dict[str, Any]) -> None:
    batch = pa.RecordBatch.from_pylist([row]).append_column("_op", pa.array([0], pa.int8()))
    in_bulk = debezium.encode(batch, SOURCE).values[0].as_py()
    alone = Envelope.insert(row, SOURCE, 0).to_json()
    after = alone[alone.index(',"after":') + 1 : -1]
    assert after in in_bulk
    assert orjson.loads(alone)["after"] == row


@settings(deadline=None, max_examples=300)
@given(st.floats())
def test_a_float_is_the_number_that_encode_writes(value: float) -> None:
    batch = pa.record_batch({"x": [value], "_op": pa.array([0], pa.int8())})
    in_bulk = orjson.loads(debezium.encode(batch, SOURCE).values[0].as_py())["after"]["x"]
    alone = orjson.loads(Envelope.insert({"x": value}, SOURCE, 0).to_json())["after"]["x"]
    assert type(alone) is type(in_bulk)
    assert repr(alone) == repr(in_bulk)
    assert math.isfinite(value) == isinstance(alone, float)


def test_other_values_are_written_as_the_arrow_values_they_become() -> None:
    row = {"balance": Decimal("1.50"), "bin": b"hello", "tags": ["a", None], "f": math.inf}
    after = orjson.loads(Envelope.insert(row, SOURCE, 0).to_json())["after"]
    assert after == {"balance": "AJY=", "bin": "aGVsbG8=", "tags": ["a", None], "f": "Infinity"}
    text = orjson.loads(Envelope.insert(row, SOURCE, 0).to_json(decimals="string"))["after"]
    assert text["balance"] == "1.50"


@given(TEXT, TEXT, TEXT, st.none() | TEXT | st.integers(-(2**63), 2**63 - 1), st.none() | TEXT, TEXT, TEXT)
def test_a_source_says_the_same_as_text_and_as_a_dictionary(
    name: str, db: str, table: str, sequence: Any, schema: str | None, connector: str, version: str
) -> None:
    source = Source(name, db, table, sequence, schema, connector, version)
    assert source.to_json() == orjson.dumps(source.to_dict()).decode()


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, -(2**63) - 1])
def test_an_integer_that_no_column_could_hold_is_refused_alone_too(number: int) -> None:
    with pytest.raises(InvalidArgument, match="'n' has no form in Arrow"):
        Envelope.insert({"n": number}, SOURCE, 0).to_json()


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (Envelope("x", 0, SOURCE), InvalidArgument),
        (Envelope("c", 2**63, SOURCE), InvalidArgument),
        (Envelope("c", True, SOURCE), InvalidArgument),
        (Envelope.insert({"n": object()}, SOURCE, 0), InvalidArgument),
        (Envelope.insert({"n": "\ud800"}, SOURCE, 0), InvalidArgument),
        (Envelope.insert({"\ud800": 1}, SOURCE, 0), InvalidArgument),
        (Envelope.insert({7: 1}, SOURCE, 0), InvalidArgument),  # type: ignore[dict-item]
        (Envelope.insert({"n": [{"a": 1}, {"a": "x"}]}, SOURCE, 0), InvalidArgument),
        (Envelope.insert({"n": 1}, Source("\ud800", "d", "t"), 0), InvalidArgument),
        (Envelope.insert({"n": 1}, Source("s", "d", "t", 1.5), 0), InvalidArgument),  # type: ignore[arg-type]
    ],
)
def test_what_no_message_can_carry_is_refused(envelope: Envelope, error: type[Exception]) -> None:
    with pytest.raises(error):
        envelope.to_json()


def test_a_way_to_write_decimals_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="decimals='exact'"):
        Envelope.insert({"n": 1}, SOURCE, 0).to_json(decimals="exact")  # type: ignore[arg-type]
