"""What `encode` writes beside the values, and what it refuses."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.changes.debezium import Encoded, Source, decode, encode
from penstock.changes.op import Op
from penstock.errors import ArithmeticOverflow, InvalidArgument, ReservedName, Unsupported

SOURCE = Source("shop", "db", "orders", schema="inv", version="1")
NOW = 1_706_140_800_000_000_000
INSERT, OLD, NEW, DELETE = Op.INSERT, Op.UPDATE_BEFORE, Op.UPDATE_AFTER, Op.DELETE


def changes(*rows: tuple[Op, int, str], **more: pa.Array) -> pa.RecordBatch:
    ops, ids, texts = zip(*rows, strict=True)
    return pa.record_batch({"id": ids, "a": texts, "_op": pa.array(ops, pa.int8()), **more})


def told(encoded: Encoded) -> list[Any]:
    return [value and orjson.loads(value) for value in encoded.values.to_pylist()]


def images(encoded: Encoded) -> list[Any]:
    return [value and (value["op"], value["before"], value["after"]) for value in told(encoded)]


def test_an_update_is_one_message_with_both_images() -> None:
    encoded = encode(
        changes((INSERT, 1, "x"), (OLD, 1, "x"), (NEW, 1, "y"), (DELETE, 1, "y")), SOURCE, key=["id"]
    )
    x, y = {"id": 1, "a": "x"}, {"id": 1, "a": "y"}
    assert images(encoded) == [("c", None, x), ("u", x, y), ("d", y, None)]
    assert encoded.keys.to_pylist() == ['{"id":1}'] * 3
    assert encoded.rows.tolist() == [0, 2, 3]


def test_an_update_that_moves_the_key_is_a_delete_and_a_create() -> None:
    moved = changes((OLD, 1, "x"), (NEW, 2, "x"))
    encoded = encode(moved, SOURCE, key=["id"], tombstones=True)
    old, new = {"id": 1, "a": "x"}, {"id": 2, "a": "x"}
    assert images(encoded) == [("d", old, None), None, ("c", None, new)]
    assert encoded.keys.to_pylist() == ['{"id":1}', '{"id":1}', '{"id":2}']
    assert encoded.rows.tolist() == [0, 0, 1]
    assert images(encode(moved, SOURCE)) == [("u", old, new)]


def test_a_new_side_alone_is_an_update_whose_before_is_unknown() -> None:
    encoded = encode(changes((NEW, 1, "x")), SOURCE)
    assert images(encoded) == [("u", None, {"id": 1, "a": "x"})]
    assert decode(encoded.values).rows[0].before_unknown.all()


def test_a_snapshot_reads() -> None:
    encoded = encode(changes((INSERT, 1, "x")), SOURCE, snapshot=True)
    assert images(encoded) == [("r", None, {"id": 1, "a": "x"})]
    assert told(encoded)[0]["source"]["snapshot"] == "true"
    with pytest.raises(InvalidArgument, match="row 1 of a snapshot is not an INSERT"):
        encode(changes((INSERT, 1, "x"), (DELETE, 1, "x")), SOURCE, snapshot=True)


def test_a_message_tells_its_source_and_times() -> None:
    moment = pa.array([1_700_000_000_123_456], pa.int64()).view(pa.timestamp("us", "UTC"))
    (message,) = told(
        encode(changes((INSERT, 1, "x"), _ts=moment, _lsn=pa.array([77])), SOURCE, processed_ns=NOW)
    )
    assert message["source"] == {
        "version": "1",
        "connector": "penstock",
        "name": "shop",
        "ts_ms": 1_700_000_000_123,
        "snapshot": "false",
        "db": "db",
        "sequence": '[null,"77"]',
        "ts_us": 1_700_000_000_123_456,
        "ts_ns": 1_700_000_000_123_456_000,
        "schema": "inv",
        "table": "orders",
        "txId": None,
        "lsn": 77,
    }
    assert (message["ts_ms"], message["ts_us"], message["ts_ns"]) == (NOW // 10**6, NOW // 10**3, NOW)
    assert message["transaction"] is None


def test_a_message_may_carry_its_schema_as_kafka_connect_writes_it() -> None:
    encoded = encode(changes((INSERT, 1, "x")), SOURCE, key=["id"], schema=True)
    schema = told(encoded)[0]["schema"]
    assert (schema["name"], schema["optional"]) == ("shop.inv.orders.Envelope", False)
    assert [field["field"] for field in schema["fields"]] == [
        *("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
    ]
    assert schema["fields"][1] == {
        "type": "struct",
        "fields": [
            {"type": "int64", "optional": True, "field": "id"},
            {"type": "string", "optional": True, "field": "a"},
        ],
        "optional": True,
        "name": "shop.inv.orders.Value",
        "field": "after",
    }
    assert orjson.loads(encoded.keys[0].as_py()) == {
        "schema": {
            "type": "struct",
            "fields": [{"type": "int64", "optional": True, "field": "id"}],
            "optional": False,
            "name": "shop.inv.orders.Key",
        },
        "payload": {"id": 1},
    }


def test_without_key_columns_keys_are_null() -> None:
    assert encode(changes((INSERT, 1, "x")), SOURCE).keys.to_pylist() == [None]


def test_an_empty_batch_is_no_message() -> None:
    for part in (changes((INSERT, 1, "x"))[:0], changes((OLD, 1, "x"), (NEW, 1, "y"))[:0]):
        encoded = encode(part, SOURCE, key=["id"], schema=True, tombstones=True)
        assert len(encoded.values) == len(encoded.keys) == len(encoded.rows) == 0


def test_slices_views_and_dictionaries_are_written_as_their_values() -> None:
    texts = pa.array(["-", "ada", 'b"ob', "-"])
    plain = pa.record_batch({"a": texts, "_op": pa.array([INSERT] * 4, pa.int8())})[1:3]
    for column in (texts.dictionary_encode(), texts.cast(pa.string_view()), texts.cast(pa.large_string())):
        batch = pa.record_batch({"a": column, "_op": pa.array([INSERT] * 4, pa.int8())})[1:3]
        expected = encode(plain, SOURCE, key=["a"], processed_ns=NOW)
        found = encode(batch, SOURCE, key=["a"], processed_ns=NOW)
        assert found.values.equals(expected.values)
        assert found.keys.equals(expected.keys)


def one(column: pa.Array, **more: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": column, "_op": pa.array([INSERT], pa.int8()), **more})


MOMENT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("batch", "options", "error"),
    [
        (pa.record_batch({"x": [1]}), {}, InvalidArgument),
        (pa.record_batch({"x": [1], "_op": [0.0]}), {}, InvalidArgument),
        (pa.record_batch({"x": [1], "_op": pa.array([None], pa.int8())}), {}, InvalidArgument),
        (pa.record_batch({"x": [1], "_op": pa.array([4], pa.int8())}), {}, InvalidArgument),
        (pa.record_batch({"x": [1], "_op": pa.array([OLD], pa.int8())}), {}, InvalidArgument),
        (one(pa.array([1]), _weight=pa.array([2])), {}, InvalidArgument),
        (one(pa.array([1]), _weight=pa.array([-1])), {}, InvalidArgument),
        (one(pa.array([1]), _lsn=pa.array([None], pa.int64())), {}, InvalidArgument),
        (one(pa.array([1]), _lsn=pa.array(["x"])), {}, InvalidArgument),
        (one(pa.array([1]), _ts=pa.array([2**62], pa.int64()).view(MOMENT)), {}, ArithmeticOverflow),
        (one(pa.array([1])), {"key": ["y"]}, InvalidArgument),
        (one(pa.array([1])), {"key": ["x", "x"]}, InvalidArgument),
        (one(pa.array([1])), {"decimals": "exact"}, InvalidArgument),
        (one(pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))), {}, InvalidArgument),
        (one(pa.array([2**62], pa.timestamp("s"))), {}, ArithmeticOverflow),
        (one(pa.array([2**62], pa.duration("s"))), {}, ArithmeticOverflow),
        (
            pa.RecordBatch.from_arrays(
                [pa.array([None], pa.int64()), pa.array([0], pa.int8())],
                schema=pa.schema([pa.field("x", pa.int64(), nullable=False), ("_op", pa.int8())]),
            ),
            {},
            InvalidArgument,
        ),
        (
            pa.RecordBatch.from_arrays(
                [pa.array([1]), pa.array([1]), pa.array([0])], names=["x", "x", "_op"]
            ),
            {},
            InvalidArgument,
        ),
        (
            one(pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])),
            {},
            Unsupported,
        ),
        (
            one(pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])),
            {},
            Unsupported,
        ),
    ],
)
def test_what_messages_cannot_tell_is_refused(
    batch: pa.RecordBatch, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        encode(batch, SOURCE, **options)


def test_penstocks_own_columns_are_no_data() -> None:
    batch = one(pa.array([1]), _weight=pa.array([1]), _shard=pa.array([7]))
    assert told(encode(batch, SOURCE))[0]["after"] == {"x": 1}
    with pytest.raises((InvalidArgument, ReservedName)):
        encode(batch, SOURCE, key=["_shard"])
