from __future__ import annotations

import dataclasses
import json
import math
import random
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.record import (
    ABSENT,
    DEFAULT_TERM,
    ChangeOperation,
    ChangeRecord,
    changed_columns,
    changed_columns_many,
    public_kind,
)
from penstock.errors import InvalidArgument, MalformedMessage
from tests.arrow_strategies import batches, schemas

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
U64 = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**80), 2**80),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
RECORDS = st.builds(
    ChangeRecord,
    lsn=U64,
    timestamp=U64,
    operation=st.sampled_from(list(ChangeOperation)),
    collection=TEXT,
    entity_id=U64,
    entity_kind=st.one_of(st.sampled_from(["row", "node", "edge", "kv", "document", "vector", "item"])),
    entity_bytes=st.one_of(st.none(), st.binary(max_size=6)),
    metadata=st.one_of(st.just(ABSENT), JSON),
    refresh_records=st.one_of(st.none(), st.lists(st.binary(max_size=3), max_size=3).map(tuple)),
    term=U64,
)


def decode(**fields: Any) -> ChangeRecord:
    return ChangeRecord.decode(json.dumps({"operation": "update"} | fields).encode())


def test_a_record_comes_back_from_its_json() -> None:
    record = ChangeRecord(
        lsn=7,
        timestamp=1_234,
        operation=ChangeOperation.UPDATE,
        collection="users",
        entity_id=42,
        entity_kind="row",
        entity_bytes=bytes([1, 2, 3]),
        metadata={"role": "admin"},
        term=3,
    )
    assert ChangeRecord.decode(record.encode()) == record
    assert orjson.loads(record.encode()) == {
        "term": 3,
        "lsn": 7,
        "timestamp": 1_234,
        "operation": "update",
        "collection": "users",
        "rid": 42,
        "kind": "row",
        "entity_bytes_hex": "010203",
        "metadata": {"role": "admin"},
    }


def test_a_refresh_comes_back_with_every_entry_in_order_also_empty_ones() -> None:
    records = [b"\x10\x20\x30", b"\xaa\xbb", b""]
    record = ChangeRecord.for_refresh(11, 99, "mv_orders_summary", records).with_term(4)
    decoded = ChangeRecord.decode(record.encode())
    assert (decoded.term, decoded.operation, decoded.collection) == (
        4,
        ChangeOperation.REFRESH,
        "mv_orders_summary",
    )
    assert decoded.refresh_records == tuple(records)
    assert (record.entity_kind, decoded.kind, decoded.entity_bytes) == ("refresh", "item", None)


def test_a_record_from_before_there_were_terms_has_the_first_term() -> None:
    legacy = b'{"lsn":9,"timestamp":1,"operation":"delete","collection":"users","rid":5,"kind":"row"}'
    decoded = ChangeRecord.decode(legacy)
    assert (decoded.term, decoded.lsn, decoded.entity_id) == (DEFAULT_TERM, 9, 5)
    assert DEFAULT_TERM == 1


@settings(deadline=None, max_examples=300)
@given(RECORDS)
def test_encoding_and_decoding_changes_nothing(record: ChangeRecord) -> None:
    decoded = ChangeRecord.decode(record.encode())
    assert decoded == record
    assert repr(decoded) == repr(record)  # 1, 1.0 and True are told apart
    for other in (bytearray(record.encode()), memoryview(record.encode())):
        assert ChangeRecord.decode(other) == record


@given(TEXT)
def test_a_kind_goes_out_by_its_public_name_and_keeps_it(kind: str) -> None:
    record = ChangeRecord(1, 1, ChangeOperation.INSERT, "c", entity_kind=kind)
    assert ChangeRecord.decode(record.encode()).entity_kind == record.kind == public_kind(kind)
    assert public_kind(public_kind(kind)) == public_kind(kind)


@pytest.mark.parametrize(
    ("kind", "public"),
    [
        *[(kind, "row") for kind in ("table", "entity", "row")],
        *[(kind, "node") for kind in ("graph_node", "node")],
        *[(kind, "edge") for kind in ("graph_edge", "edge")],
        *[(kind, "kv") for kind in ("kv", "kv_pair", "my_kv_document_vector")],
        *[(kind, "document") for kind in ("document", "documents", "vector_document")],
        *[(kind, "vector") for kind in ("vector", "vectors")],
        *[(kind, "item") for kind in ("", "refresh", "rows", "TABLE", "nodes")],
    ],
)
def test_kinds_have_the_names_that_the_outside_knows(kind: str, public: str) -> None:
    assert public_kind(kind) == public


@pytest.mark.parametrize("operation", [None, "", "INSERT", "upsert", 1, True, ["insert"], {"insert": 1}])
def test_an_operation_that_is_missing_or_unknown_is_an_error(operation: Any) -> None:
    with pytest.raises(MalformedMessage, match="operation"):
        decode(operation=operation)
    with pytest.raises(MalformedMessage, match="no operation"):
        ChangeRecord.decode(b'{"lsn":1}')


@pytest.mark.parametrize("operation", ["insert", "update", "delete", "refresh"])
def test_the_four_operations_are_known(operation: str) -> None:
    assert decode(operation=operation).operation is ChangeOperation(operation)


def test_what_is_missing_has_its_default() -> None:
    record = decode()
    assert record == ChangeRecord(0, 0, ChangeOperation.UPDATE, "", 0, "entity", None, ABSENT, None, 1)
    assert record.metadata is ABSENT


@pytest.mark.parametrize("value", [None, "7", True, [7], {"n": 7}, -1, 7.5, 2**64, 1e300, -0.5])
def test_a_number_that_is_none_counts_as_missing(value: Any) -> None:
    record = decode(term=value, lsn=value, timestamp=value, rid=value)
    assert (record.term, record.lsn, record.timestamp, record.rid) == (1, 0, 0, 0)


@pytest.mark.parametrize("value", [0, 7, 2**53 + 1, 2**63, 2**64 - 1])
def test_integers_of_64_bits_stay_as_they_are(value: int) -> None:
    record = decode(term=value, lsn=value, timestamp=value, rid=value)
    assert (record.term, record.lsn, record.timestamp, record.rid) == (value,) * 4
    assert orjson.loads(record.encode())["lsn"] == value


def test_a_whole_number_written_as_a_double_is_taken() -> None:
    assert ChangeRecord.decode(b'{"operation":"insert","lsn":7.0,"term":2e0}').lsn == 7
    assert ChangeRecord.decode(b'{"operation":"insert","lsn":7.0,"term":2e0}').term == 2


def test_the_older_names_serve_when_the_newer_ones_are_not_there() -> None:
    assert decode(entity_id=5, entity_kind="node").entity_id == 5
    assert decode(entity_id=5, entity_kind="node").entity_kind == "node"
    both = decode(rid=6, entity_id=5, kind="edge", entity_kind="node")
    assert (both.entity_id, both.entity_kind) == (6, "edge")
    # Present and of a wrong type is not the same as not there: the older name is not asked.
    wrong = decode(rid=None, entity_id=5, kind=None, entity_kind="node")
    assert (wrong.entity_id, wrong.entity_kind) == (0, "entity")


@pytest.mark.parametrize("value", [None, 7, True, ["x"]])
def test_a_text_that_is_none_counts_as_missing(value: Any) -> None:
    record = decode(collection=value, kind=value, entity_bytes_hex=value)
    assert (record.collection, record.entity_kind, record.entity_bytes) == ("", "entity", None)


@pytest.mark.parametrize("text", ["0", "0g", "zz", "0x00", "00 11", " 00", "00\n", "é1", "00,11"])
def test_hex_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(MalformedMessage, match="entity_bytes_hex"):
        decode(entity_bytes_hex=text)
    with pytest.raises(MalformedMessage, match="refresh_records_hex"):
        decode(refresh_records_hex=["00", text])


def test_hex_in_either_case_is_bytes_and_no_digits_are_no_bytes() -> None:
    assert decode(entity_bytes_hex="aAbB").entity_bytes == b"\xaa\xbb"
    assert decode(entity_bytes_hex="").entity_bytes == b""


def test_refresh_records_are_an_array_of_texts_or_null() -> None:
    assert decode().refresh_records is None
    assert decode(refresh_records_hex=None).refresh_records is None
    assert decode(refresh_records_hex=[]).refresh_records == ()
    assert decode(refresh_records_hex=["02", "", "01"]).refresh_records == (b"\x02", b"", b"\x01")
    for wrong in ("00", 7, {}, False):
        with pytest.raises(MalformedMessage, match="not an array"):
            decode(refresh_records_hex=wrong)
    for entry in (None, 7, ["00"]):
        with pytest.raises(MalformedMessage, match="not text"):
            decode(refresh_records_hex=["00", entry])


def test_an_explicit_null_is_not_the_absence_of_metadata() -> None:
    assert decode(metadata=None).metadata is None
    assert b'"metadata":null' in decode(metadata=None).encode()
    assert decode().metadata is ABSENT
    assert b"metadata" not in decode().encode()
    assert repr(ABSENT) == "ABSENT"


def test_integers_in_the_metadata_stay_integers_whatever_their_size() -> None:
    numbers = [2**53 + 1, 2**64 - 1, 2**64, -(2**63) - 1, 10**300, 1e300, 0.5, 2.0**70]
    record = decode(metadata={"numbers": numbers}, kind="row")
    assert repr(record.metadata["numbers"]) == repr(numbers)
    assert ChangeRecord.decode(record.encode()) == record


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"7", b'"insert"', b"\xff", b"\xef\xbb\xbf{}", b'{"operation":"insert"}x'],
)
def test_what_is_not_a_json_object_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        ChangeRecord.decode(data)


@pytest.mark.parametrize("depth", [1, 127, 200, 900, 2_000])
def test_metadata_that_could_not_be_written_again_is_not_read(depth: int) -> None:
    data = b'{"operation":"insert","kind":"row","metadata":' + b"[" * depth + b"]" * depth + b"}"
    if depth > 128:
        with pytest.raises(MalformedMessage):
            ChangeRecord.decode(data)
    else:
        record = ChangeRecord.decode(data)
        assert ChangeRecord.decode(record.encode()) == record


def test_depth_elsewhere_does_no_harm() -> None:
    deep = b"[" * 1_000 + b"]" * 1_000
    huge = b"1" + b"0" * 30
    assert ChangeRecord.decode(b'{"operation":"insert","x":' + deep + b"}").lsn == 0
    with pytest.raises(MalformedMessage, match="deep"):
        ChangeRecord.decode(b'{"operation":"insert","metadata":' + huge + b',"x":' + deep + b"}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"lsn": -1},
        {"timestamp": 2**64},
        {"term": True},
        {"entity_id": 1.0},
        {"operation": "insert"},
        {"collection": b"c"},
        {"collection": "\ud800"},
        {"entity_kind": None},
        {"entity_bytes": "00"},
        {"refresh_records": ("00",)},
        {"metadata": math.nan},
        {"metadata": [math.inf]},
        {"metadata": {1: 2}},
        {"metadata": {"a": (1,)}},
        {"metadata": {"a": [0, {"b": b""}]}},
        {"metadata": "\udfff"},
        {"metadata": {"\ud800": 1}},
    ],
    ids=repr,
)
def test_a_record_that_could_not_be_written_is_not_made(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {"lsn": 1, "timestamp": 1, "operation": ChangeOperation.INSERT, "collection": "c"}
    with pytest.raises(InvalidArgument):
        ChangeRecord(**(good | wrong))


def test_only_inserts_and_updates_carry_their_entity() -> None:
    carried = {
        operation: ChangeRecord.for_entity(
            1, 2, operation, "c", entity_id=3, entity_kind="table", entity_bytes=b"x"
        ).entity_bytes
        for operation in ChangeOperation
    }
    assert carried == {
        ChangeOperation.INSERT: b"x",
        ChangeOperation.UPDATE: b"x",
        ChangeOperation.DELETE: None,
        ChangeOperation.REFRESH: None,
    }


def test_a_term_is_given_to_a_copy() -> None:
    record = ChangeRecord.for_refresh(1, 2, "c", [])
    assert record.with_term(9) == dataclasses.replace(record, term=9)
    assert record.term == DEFAULT_TERM
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.term = 2  # type: ignore[misc]


def test_fifty_thousand_random_and_mutated_inputs_give_a_record_or_only_our_error() -> None:
    chance = random.Random(20_260_103)
    seeds = [
        ChangeRecord(
            7, 1, ChangeOperation.UPDATE, "users", 4, "row", b"\1\2", {"a": [1, 2.5, None, "é"]}
        ).encode(),
        ChangeRecord.for_refresh(2**64 - 1, 99, "mv", [b"\xaa", b""]).encode(),
        ChangeRecord(1, 1, ChangeOperation.DELETE, "c", metadata=2**90).encode(),
    ]
    words = [
        b"null",
        b"-1",
        b"1e999",
        b'"',
        b"\\u",
        b"[",
        b"}",
        b"\xff",
        b"\0",
        b"18446744073709551616",
        b"true",
        b":",
    ]
    outcomes = {"record": 0, "error": 0}
    for _ in range(50_000):
        data = bytearray(chance.choice(seeds)) if chance.random() < 0.9 else bytearray(chance.randbytes(20))
        for _ in range(chance.choice([1, 1, 2, 6])):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    data[at : at + 1] = chance.randbytes(1)
                case 1:
                    del data[at : at + chance.randrange(1, 9)]
                case 2:
                    data[at:at] = chance.choice(words)
                case 3:
                    data[at : at + chance.randrange(6)] = chance.choice(words)
        try:
            record = ChangeRecord.decode(bytes(data))
        except MalformedMessage:
            outcomes["error"] += 1
            continue
        outcomes["record"] += 1
        again = ChangeRecord.decode(record.encode())
        assert dataclasses.replace(record, entity_kind=record.kind) == again
    assert min(outcomes.values()) > 2_000


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 1), st.sampled_from([0.0, -0.0, 1.5, math.nan]), st.just("1")
)


def test_changed_removed_and_added_columns_are_told_in_this_order() -> None:
    before = {"id": 1, "gone": 2, "age": 41, "name": "ada"}
    after = {"id": 1, "name": "ada", "age": 42, "new": 0}
    assert changed_columns(before, after) == ["gone", "age", "new"]
    assert changed_columns(before, dict(before)) == []


def test_what_changed_is_unknown_without_both_sides() -> None:
    assert changed_columns(None, {"id": 1}) is None
    assert changed_columns({"id": 1}, None) is None
    assert changed_columns({}, {}) == []


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (math.nan, math.nan, False),
        (0.0, -0.0, False),
        (1, 1.0, False),
        (1, True, True),
        (None, False, True),
        (None, None, False),
        (None, math.nan, True),
        ([1, math.nan], [1, math.nan], False),
        ([1], [1, 2], True),
        ({"a": math.nan}, {"a": math.nan}, False),
        ({"a": 1}, {"a": True}, True),
        ({"a": None}, {}, True),
        ("1", 1, True),
    ],
)
def test_values_change_as_rows_differ(before: Any, after: Any, changed: bool) -> None:
    assert changed_columns({"x": before}, {"x": after}) == (["x"] if changed else [])


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_many_updates_at_once_are_told_as_one_by_one(data: st.DataObject) -> None:
    flat = schemas().filter(lambda schema: not any("map" in str(field.type) for field in schema))
    schema, more = data.draw(flat), data.draw(flat)
    old, new = data.draw(batches(schema)), data.draw(batches(schema))
    extra = data.draw(batches(more))
    rows = min(old.num_rows, new.num_rows, extra.num_rows)
    old, new, extra = old.slice(0, rows), new.slice(0, rows), extra.slice(0, rows)
    if data.draw(st.booleans()):
        new = pa.RecordBatch.from_arrays(extra.columns, names=[f"new{i}" for i in range(extra.num_columns)])
    elif rows and data.draw(st.booleans()):
        new = old.take(pa.array([min(i, rows - 2 + rows % 2) for i in range(rows)]))
    known = np.array(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
    expected = [
        changed_columns(before if is_known else None, after)
        for before, after, is_known in zip(old.to_pylist(), new.to_pylist(), known.tolist(), strict=True)
    ]
    assert changed_columns_many(old, new, known).to_pylist() == expected
    assert changed_columns_many(old, new).null_count == 0


def test_a_column_of_another_type_or_of_one_side_is_touched_in_every_row() -> None:
    before = pa.record_batch({"id": [1, 2], "n": pa.array([5, 6], pa.int32()), "gone": [0, 0]})
    after = pa.record_batch({"new": [0, 0], "n": [5, 6], "id": [1, 3]})
    assert changed_columns_many(before, after).to_pylist() == [
        ["n", "gone", "new"],
        ["id", "n", "gone", "new"],
    ]


def test_a_dictionary_is_only_another_way_to_write_its_values() -> None:
    words = pa.array(["a", "b"])
    before, after = pa.record_batch({"w": words}), pa.record_batch({"w": words.dictionary_encode()})
    assert changed_columns_many(before, after).to_pylist() == [[], []]


def test_batches_that_do_not_pair_are_refused() -> None:
    one, two = pa.record_batch({"a": [1]}), pa.record_batch({"a": [1, 2]})
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([1])], names=["a", "a"])
    for before, after in ((one, two), (one, twice), (twice, one)):
        with pytest.raises(InvalidArgument, match="Pair"):
            changed_columns_many(before, after)
    with pytest.raises(InvalidArgument, match="known has the shape"):
        changed_columns_many(one, one, known=[True, False])
