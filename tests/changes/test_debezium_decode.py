"""What messages are, what is kept apart, and what is refused: everything but the values in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from penstock.changes.debezium import Decoded, Kind, RowEvents, decode
from penstock.errors import InvalidArgument, MalformedMessage, SchemaMismatch, Unsupported
from tests.changes.debezium_fixtures import said

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.string())])


def message(op: str, before: Any = None, after: Any = None, **source: Any) -> bytes:
    told = {"op": op, "before": before, "after": after, "source": {"table": "t", "ts_ms": 1, **source}}
    return orjson.dumps({**told, "ts_ms": 2})


def row(number: int, a: str | None = "x") -> dict[str, Any]:
    return {"id": number, "a": a}


def events(*messages: bytes, schema: pa.Schema | None = SCHEMA, **options: Any) -> RowEvents:
    (found,) = decode(messages, schema, **options).rows
    return found


CREATE = message("c", None, row(1))


def test_messages_come_as_text_or_bytes_of_any_kind_or_as_arrow() -> None:
    expected = decode([CREATE]).rows[0].changes()
    forms: list[Any] = [[CREATE.decode()], [bytearray(CREATE)], [memoryview(CREATE)], iter([CREATE])]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        forms += [pa.array([CREATE.decode()], kind), pa.chunked_array([pa.array([CREATE.decode()], kind)])]
    for form in forms:
        assert decode(form).rows[0].changes().equals(expected)


def test_nothing_to_decode_is_nothing_decoded() -> None:
    for none in ([], pa.array([], pa.string())):
        decoded = decode(none, SCHEMA, [])
        assert len(decoded) == 0
        assert decoded.rows == decoded.tombstones == ()
        assert list(decoded.in_order()) == []


@pytest.mark.parametrize("wrong", [[7], pa.array([7]), [CREATE, {"op": "c"}]])
def test_what_is_no_text_and_no_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"messages(\[\d\])? is a"):
        decode(wrong)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b'{"op":"c"', "is not JSON"),
        (b"{" + b'"a":{' * 2_000, "is not JSON"),
        ("\ud800", "half of a surrogate pair"),
        (b"7", "is 7, not an object"),
        (b"[]", r"is \[\], not an object"),
        (b"{}", "has no op"),
        (b'{"id":1,"a":"x"}', "has no op"),
        (b'{"op":"x"}', "op is 'x'"),
        (b'{"op":7}', "op is 7"),
        (b'{"op":"c","after":{}}', "source: None is not an object"),
        (b'{"op":"c","after":{},"source":7}', "source: 7 is not an object"),
        (b'{"op":"c","after":{},"source":{}}', "source.table: None is not text"),
        (b'{"op":"c","after":{},"source":{"table":["t"]}}', r"source.table: \['t'\] is not text"),
        (b'{"op":"c","after":{},"source":{"table":"t","lsn":"7"}}', "source.lsn: '7' is not an integer"),
        (b'{"op":"c","after":{},"source":{"table":"t","ts_ms":9223372036854775807}}', "beyond 64 bits"),
        (
            b'{"op":"c","after":{},"source":{"table":"t"},"transaction":[]}',
            "transaction: .* is not an object",
        ),
        (b'{"op":"m","source":{"table":""}}', "message: it is missing"),
        (b'{"status":"MAYBE","id":"1"}', "status: 'MAYBE' is not BEGIN or END"),
        (b'{"status":"END"}', "id: it is missing"),
        (b'{"ddl":null,"source":{"table":"t"}}', "ddl: it is missing"),
        (b'{"schema":{"type":"struct"},"payload":{}}', "is not a Kafka Connect schema"),
        (b'{"schema":{"type":"decimal"},"payload":{}}', "is not a Kafka Connect schema"),
        (b'{"schema":{"type":"struct","fields":[{"type":"int8"}]},"payload":{}}', r"schema.fields\[0\]"),
        (b'{"schema":{"type":"array","items":7},"payload":null}', "value.schema.items"),
    ],
)
def test_a_message_that_is_none_is_refused_with_its_number(wrong: Any, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why) as error:
        decode([CREATE, wrong])
    assert error.value.subject == "message 1"
    assert error.value.hint


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        *(("c", row(1), row(1)), ("c", None, None), ("c", None, 7), ("r", row(1), None)),
        *(("u", row(1), None), ("u", 7, row(1)), ("d", None, row(1)), ("d", row(1), row(1)), ("d", [], None)),
    ],
)
def test_images_that_do_not_go_with_the_op_are_refused(op: str, before: Any, after: Any) -> None:
    with pytest.raises(MalformedMessage, match="makes no sense") as error:
        decode([CREATE, message(op, before, after)])
    assert error.value.subject == "message 1"


def test_a_wrapper_is_taken_off_however_it_is_written() -> None:
    payload = CREATE.decode()
    told = '{"type":"struct","fields":[{"type":"struct","fields":[],"field":"after"}]}'
    for text in (
        f'{{"schema":null,"payload":{payload}}}',
        f'{{"payload":{payload},"schema":null}}',
        f' {{ "schema" : null , "payload" : {payload} }} ',
    ):
        assert events(text.encode()).changes().equals(events(CREATE).changes())
    # A row that looks like a wrapper is a row.
    odd = message("c", None, {"schema": None, "payload": 7})
    assert decode([odd]).rows[0].after.to_pylist() == [{"schema": None, "payload": 7}]
    # A default that looks like the place where the payload begins is none.
    tricky = told.replace(
        '"fields":[]', '"fields":[{"type":"string","default":"\\"payload\\":","field":"a"}]'
    )
    wrapped = f'{{"schema":{tricky},"payload":{message("c", None, {"a": "x"}).decode()}}}'
    assert decode([wrapped]).rows[0].after.to_pylist() == [{"a": "x"}]


def test_a_wrapper_without_the_type_of_its_rows_is_refused() -> None:
    text = f'{{"schema":{{"type":"struct","fields":[]}},"payload":{CREATE.decode()}}}'
    with pytest.raises(MalformedMessage, match="does not tell the type of its rows"):
        decode([text])


def test_everything_is_told_apart_and_in_order() -> None:
    heartbeat = b'{"ts_ms":5}'
    begin = b'{"status":"BEGIN","id":"571","ts_ms":4}'
    end = orjson.dumps(
        {"status": "END", "id": "571", "event_count": 2}
        | {"data_collections": [{"data_collection": "s.t", "event_count": 2}], "ts_ms": 6}
    )
    logical = orjson.dumps(
        {"op": "m", "source": {"table": "", "lsn": 9}, "message": {"prefix": "p", "content": "aGk="}}
    )
    truncate = orjson.dumps({"op": "t", "source": {"db": "d", "table": "t"}})
    other = message("c", None, {"k": 7}, table="other")
    messages = [heartbeat, begin, CREATE, CREATE, other, CREATE, None, end, logical, truncate]
    decoded = decode(messages, {"t": SCHEMA})
    assert [Kind(kind).name for kind in decoded.kinds] == [
        *("HEARTBEAT", "TRANSACTION", "ROW", "ROW", "ROW", "ROW", "TOMBSTONE"),
        *("TRANSACTION", "LOGICAL", "TRUNCATE"),
    ]
    assert [
        (kind.name, len(part) if not isinstance(part, pa.RecordBatch) else part.num_rows)
        for kind, part in decoded.in_order()
    ] == [
        *(("HEARTBEAT", 1), ("TRANSACTION", 1), ("ROW", 2), ("ROW", 1), ("ROW", 1), ("TOMBSTONE", 1)),
        *(("TRANSACTION", 1), ("LOGICAL", 1), ("TRUNCATE", 1)),
    ]
    assert [part.collection.id for part in decoded.rows] == ["t", "other"]
    told = said(decoded)
    assert told[0] == {"kind": "HEARTBEAT", "ts": 5_000}
    assert told[7]["data_collections"] == [{"data_collection": "s.t", "event_count": 2}]
    assert (told[8]["prefix"], told[8]["content"], told[8]["lsn"]) == ("p", b"hi", 9)
    assert (told[9]["db"], told[9]["table"]) == ("d", "t")


def test_a_column_that_the_schema_does_not_have_is_refused_left_out_or_taken_in() -> None:
    wider = message("c", None, {**row(2), "b": 7})
    with pytest.raises(MalformedMessage, match="'b' is not in the schema") as error:
        events(CREATE, wider)
    assert error.value.subject == "message 1"
    assert events(CREATE, wider, on_new_column="ignore").after.to_pylist() == [row(1), row(2)]
    added = events(CREATE, wider, on_new_column="add")
    assert added.after.to_pylist() == [{**row(1), "b": None}, {**row(2), "b": 7}]
    assert added.schema.field("b").type == pa.int64()


def test_a_column_that_messages_do_not_have_is_null_where_that_is_allowed() -> None:
    assert events(message("c", None, {"id": 1})).after.to_pylist() == [row(1, None)]
    with pytest.raises(MalformedMessage, match=r"after\.id: it is missing or NULL") as error:
        events(CREATE, message("c", None, {"a": "x"}))
    assert error.value.subject == "message 1"
    assert events(message("d", {"a": "x"}, None)).before.to_pylist() == [{"id": None, "a": "x"}]


def test_columns_and_empty_rows_without_any_schema() -> None:
    found = events(message("c", None, {"b": 1}), message("c", None, {"a": "x"}), schema=None)
    assert found.after.to_pylist() == [{"b": 1, "a": None}, {"b": None, "a": "x"}]
    nothing = events(message("c", None, {}), schema=None)
    assert nothing.schema.names == []
    assert len(nothing) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"on_new_column": "drop"},
        {"replica_identity": "index"},
        {"decimals": "exact"},
        {"schema": {"t": 7}},
        {"keys": [b"{}", None]},
    ],
)
def test_choices_that_do_not_exist_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        decode([CREATE], **options)


def test_messages_with_and_without_their_schema_are_two_parts_of_one_collection() -> None:
    field = {
        "type": "struct",
        "optional": True,
        "fields": [{"type": "int32", "field": "id", "optional": True}],
    }
    schema = {"type": "struct", "fields": [{**field, "field": "before"}, {**field, "field": "after"}]}
    wrapped = orjson.dumps({"schema": schema, "payload": orjson.loads(message("c", None, {"id": 2}))})
    decoded = decode([message("c", None, {"id": 1}), wrapped])
    assert [part.schema.field("id").type for part in decoded.rows] == [pa.int64(), pa.int32()]
    assert [event["after"]["id"] for event in said(decoded)] == [1, 2]


def test_keys_have_the_types_of_their_columns_and_tombstones_those_of_the_keys() -> None:
    schema = pa.schema([("id", pa.int8()), ("a", pa.string())])
    decoded = decode([CREATE, None, CREATE, None], schema, [b'{"id":1}', b'{"id":2}', None, None])
    (rows,) = decoded.rows
    assert rows.key is not None
    assert rows.key.schema.field("id").type == pa.int8()
    assert rows.key.to_pylist() == [{"id": 1}, {"id": None}]
    keyed, keyless = decoded.tombstones
    assert keyed.key is not None
    assert keyed.key.schema.field("id").type == pa.int8()
    assert keyed.key.to_pylist() == [{"id": 2}]
    assert keyless.key is None
    assert keyless.index.tolist() == [3]


def test_a_key_may_tell_its_own_type() -> None:
    told = {"type": "struct", "fields": [{"type": "int32", "field": "day", "name": "io.debezium.time.Date"}]}
    key = orjson.dumps({"schema": told, "payload": {"day": 19_724}})
    (tombstones,) = decode([None], keys=[key]).tombstones
    assert tombstones.key is not None
    assert tombstones.key.schema.field("day").type == pa.date32()
    rows = decode([CREATE], keys=[key]).rows[0]
    assert rows.key is not None
    assert rows.key.schema.field("day").type == pa.date32()


@pytest.mark.parametrize(
    ("key", "why"),
    [(b"7", r"key: 7 is not an object"), (b"{", "the key is not JSON"), (b'{"id":"x"}', "key.id: 'x'")],
)
def test_a_key_that_is_none_is_refused(key: bytes, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why) as error:
        decode([CREATE, CREATE], SCHEMA, [b'{"id":1}', key])
    assert error.value.subject == "message 1"


def test_an_update_without_its_old_row_is_kept_and_is_no_insert() -> None:
    found = events(message("u", None, row(1, "new")), CREATE)
    assert found.before_unknown.tolist() == [True, False]
    assert found.known.tolist() == [False, True]
    assert found.after.to_pylist()[0] == row(1, "new")
    with pytest.raises(Unsupported, match=r"1 of 2 events do not tell their whole change, message 0 for one"):
        found.changes()
    assert found.where(found.known).changes().num_rows == 1
    assert found.slice(1, 1).changes().num_rows == 1


DELETE_OF_KEY = message("d", row(7, None), None, connector="postgresql")


def test_a_before_image_of_the_key_alone_is_not_taken_for_the_row() -> None:
    keys = [b'{"id":7}']
    assert not events(DELETE_OF_KEY, keys=keys).known.any()
    assert events(DELETE_OF_KEY, keys=keys).key_only.all()
    assert events(DELETE_OF_KEY, keys=keys, replica_identity="full").known.all()
    whole = message("d", row(7), None, connector="postgresql")
    assert events(whole, keys=keys).known.all()
    assert not events(whole, keys=keys, replica_identity="default").known.any()
    for connector in ("mysql", "penstock"):
        assert events(message("d", row(7, None), None, connector=connector), keys=keys).known.all()


def test_one_update_without_a_before_shows_that_no_before_is_whole() -> None:
    whole = message("d", row(7), None, connector="postgresql")
    update = message("u", None, row(7), connector="postgresql")
    assert events(whole, update, keys=[b'{"id":7}', b'{"id":7}']).key_only.tolist() == [True, False]


def test_without_keys_nobody_knows_which_columns_the_key_has() -> None:
    assert events(message("d", row(0), None, connector="postgresql")).key_only.all()
    assert not events(message("d", row(7), None, connector="postgresql")).key_only.any()


@pytest.mark.parametrize(
    "filled", [None, 0, 0.0, False, "", "AA==", [], {}, "1970-01-01T00:00:00Z", "00:00:00Z"]
)
def test_what_filling_in_may_have_put_there_is_not_taken_for_a_value(filled: Any) -> None:
    lone = message("d", {"id": 7, "b": filled}, None, connector="postgresql")
    assert events(lone, schema=None, keys=[b'{"id":7}']).key_only.all()
    other = message("d", {"id": 7, "b": "y"}, None, connector="postgresql")
    assert not events(other, schema=None, keys=[b'{"id":7}']).key_only.any()


def test_a_default_that_the_wire_tells_is_what_filling_in_puts_there() -> None:
    columns = [
        {"type": "int64", "field": "id", "optional": False},
        {"type": "string", "field": "a", "optional": True, "default": "none"},
    ]
    field = {"type": "struct", "fields": columns, "optional": True}
    schema = {"type": "struct", "fields": [{**field, "field": "before"}, {**field, "field": "after"}]}

    def deleted(a: str) -> bytes:
        payload = orjson.loads(message("d", row(7, a), None, connector="postgresql"))
        return orjson.dumps({"schema": schema, "payload": payload})

    assert events(deleted("none"), schema=None, keys=[b'{"id":7}']).key_only.all()
    assert not events(deleted(""), schema=None, keys=[b'{"id":7}']).key_only.any()


GONE = "__debezium_unavailable_value"
GONE_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        (pa.string(), GONE),
        (pa.binary(), GONE_BASE64),
        (pa.list_(pa.string()), [GONE]),
        (pa.list_(pa.int64()), list(GONE.encode())),
        (pa.list_(pa.float64()), list(GONE.encode())),
        (pa.list_(pa.bool_()), [True] * len(GONE)),
        (pa.list_(pa.binary()), [GONE_BASE64]),
        (pa.map_(pa.string(), pa.string()), {GONE: GONE}),
    ],
)
def test_a_value_that_was_not_sent_is_neither_null_nor_a_value(kind: pa.DataType, spelled: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", kind)])
    found = events(message("u", None, {"id": 1, "a": spelled}), message("c", None, {"id": 1}), schema=schema)
    assert found.unavailable["a"].tolist() == [True, False]
    assert found.after.column("a").to_pylist() == [None, None]
    assert found.before_unavailable == {}


def test_a_value_that_was_not_sent_may_stand_where_null_may_not_and_in_a_before() -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("a", pa.string(), nullable=False)])
    both = events(message("u", row(1, GONE), row(1, GONE)), schema=schema, replica_identity="full")
    assert both.unavailable["a"].all()
    assert both.before_unavailable["a"].all()
    assert not both.known.any()
    after = events(message("u", row(1, "old"), row(1, GONE)), schema=schema, replica_identity="full")
    assert after.known.all()
    assert after.changes().select(["a", "_weight"]).to_pylist() == [
        {"a": "old", "_weight": -1},
        {"a": "old", "_weight": 1},
    ]


def test_the_connector_may_have_been_given_another_word_for_it() -> None:
    found = events(message("u", None, row(1, "gone")), placeholder="gone")
    assert found.unavailable["a"].all()
    assert "a" not in events(message("u", None, row(1, GONE)), placeholder="gone").unavailable


def test_changes_need_names_that_are_the_users() -> None:
    with pytest.raises(InvalidArgument, match="'_op'"):
        events(message("c", None, {"_op": 1}), schema=None).changes()


def test_time_and_place_are_told_where_all_messages_tell_them() -> None:
    both = events(message("c", None, row(1), lsn=5), message("c", None, row(2), lsn=6)).changes()
    assert both.column("_lsn").to_pylist() == [5, 6]
    assert both.column("_ts").cast(pa.int64()).to_pylist() == [1_000, 1_000]
    one = events(message("c", None, row(1), lsn=5), message("c", None, row(2))).changes()
    assert "_lsn" not in one.schema.names


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"ts_us": 7, "ts_ms": 1}, 7),
        ({"ts_ms": 7}, 7_000),
        ({"ts_ms": None, "ts_ns": 7_999}, 7),
        ({"ts_ms": None}, None),
    ],
)
def test_the_finest_time_is_taken(told: dict[str, Any], expected: int | None) -> None:
    position = events(message("c", None, row(1), **told)).position
    assert position.column("ts").cast(pa.int64()).to_pylist() == [expected]


def test_a_snapshot_flag_is_text_however_it_is_written() -> None:
    for told, expected in ((True, "true"), ("last", "last"), (False, "false"), (None, None)):
        position = events(message("r", None, row(1), snapshot=told)).position
        assert position.column("snapshot").to_pylist() == [expected]


def test_parts_of_events_are_picked_with_all_that_belongs_to_them() -> None:
    found: Decoded = decode(
        [message("u", row(1, "a"), row(1, GONE)), message("c", None, row(2)), message("d", row(3), None)],
        SCHEMA,
        [b'{"id":1}', b'{"id":2}', b'{"id":3}'],
        replica_identity="full",
    )
    (rows,) = found.rows
    chosen = rows.where(np.array([True, False, True]))
    assert (len(chosen), chosen.index.tolist(), chosen.op.to_pylist()) == (2, [0, 2], ["u", "d"])
    assert chosen.unavailable["a"].tolist() == [True, False]
    assert rows.slice(1, 2).unavailable == {}
    assert chosen.key is not None
    assert chosen.key.to_pylist() == [{"id": 1}, {"id": 3}]
    assert chosen.position.num_rows == 2


def test_a_schema_mismatch_between_messages_names_the_collection() -> None:
    def told(kind: str) -> bytes:
        field = {"type": "struct", "fields": [{"type": kind, "field": "id", "optional": True}]}
        schema = {"type": "struct", "fields": [{**field, "field": "after"}]}
        return orjson.dumps(
            {"schema": schema, "payload": orjson.loads(message("c", None, {"id": None}, db="d"))}
        )

    with pytest.raises(SchemaMismatch) as error:
        decode([told("int32"), told("string")])
    assert error.value.subject == "d.t"
