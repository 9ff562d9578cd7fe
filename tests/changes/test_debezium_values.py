"""What values look like on the wire, what they are read as, and which are refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.changes.debezium import INFINITY, MINUS_INFINITY, decode
from penstock.errors import MalformedMessage, SchemaMismatch, Unsupported
from tests.changes.debezium_model import raw

KAFKA = "org.apache.kafka.connect.data"
TIME = "io.debezium.time"
DECIMAL = {
    "type": "bytes",
    "name": f"{KAFKA}.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "6"},
}
ANY_INT = {"type": "int32", "optional": True}
VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}


def plain(value: Any) -> bytes:
    return orjson.dumps({"op": "c", "before": None, "after": {"x": value}, "source": {"table": "t"}})


def told(value: Any, kind: dict[str, Any]) -> bytes:
    """The message with a schema that says what x is."""
    row = {"type": "struct", "fields": [{"optional": True, "field": "x", **kind}], "optional": True}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    return orjson.dumps({"schema": schema, "payload": orjson.loads(plain(value))})


def read(message: bytes, target: pa.DataType | None = None) -> tuple[pa.DataType, Any]:
    """The type of x and its value; times are the integers that Arrow keeps for them."""
    schema = None if target is None else pa.schema([("x", target)])
    (events,) = decode([message, message], schema).rows
    column = events.after.column("x")
    column.validate(full=True)
    values = raw(column)
    assert values[0] == values[1]
    return column.type, values[0]


def inside(expected: Any, kind: pa.DataType) -> Any:
    """The same as Arrow keeps it."""
    return expected if isinstance(expected, int) else raw(pa.array([expected], kind))[0]


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": 1, **more}


DAY, MOMENT = dt.date(2024, 1, 2), dt.datetime.fromisoformat("2024-01-02T03:04:05")
CLOCK = dt.time(3, 4, 5, 678_901)


@pytest.mark.parametrize(
    ("kind", "value", "target", "expected"),
    [
        ({"type": "boolean"}, True, pa.bool_(), True),
        ({"type": "boolean"}, 0, pa.bool_(), False),
        ({"type": "int8"}, -128, pa.int8(), -128),
        ({"type": "int16"}, 2**15 - 1, pa.int16(), 2**15 - 1),
        ({"type": "int32"}, 7, pa.int32(), 7),
        ({"type": "int64"}, -(2**63), pa.int64(), -(2**63)),
        ({"type": "float"}, 1.25, pa.float32(), 1.25),
        ({"type": "double"}, "NaN", pa.float64(), float("nan")),
        ({"type": "double"}, "-Infinity", pa.float64(), float("-inf")),
        ({"type": "double"}, 7, pa.float64(), 7.0),
        ({"type": "string"}, "é", pa.string(), "é"),
        ({"type": "bytes"}, "AP8=", pa.binary(), b"\0\xff"),
        ({"type": "bytes"}, "", pa.binary(), b""),
        (named("string", "io.debezium.data.Uuid"), "1-2", pa.string(), "1-2"),
        (named("int32", "something.Unknown"), 7, pa.int32(), 7),
        (DECIMAL, "AJY=", pa.decimal128(6, 2), Decimal("1.50")),
        (DECIMAL, "/w==", pa.decimal128(6, 2), Decimal("-0.01")),
        (named("bytes", f"{KAFKA}.Decimal", parameters={"scale": "0"}), "Bw==", pa.decimal128(38, 0), 7),
        (VARIABLE, {"scale": 3, "value": "AJY="}, pa.string(), "0.150"),
        (VARIABLE, {"scale": -2, "value": "Bw=="}, pa.string(), "700"),
        (named("int32", f"{TIME}.Date"), 19_724, pa.date32(), DAY),
        (named("int32", f"{KAFKA}.Date"), 19_724, pa.date32(), DAY),
        (named("int32", f"{TIME}.Time"), 11_045_678, pa.time32("ms"), dt.time(3, 4, 5, 678_000)),
        (named("int32", f"{KAFKA}.Time"), 0, pa.time32("ms"), dt.time(0)),
        (named("int64", f"{TIME}.MicroTime"), 11_045_678_901, pa.time64("us"), CLOCK),
        (named("int64", f"{TIME}.NanoTime"), 11_045_678_901_000, pa.time64("ns"), CLOCK),
        (named("int64", f"{TIME}.Timestamp"), 1_704_164_645_000, pa.timestamp("ms"), MOMENT),
        (named("int64", f"{KAFKA}.Timestamp"), 1_704_164_645_000, pa.timestamp("ms"), MOMENT),
        (named("int64", f"{TIME}.MicroTimestamp"), 1_704_164_645_000_000, pa.timestamp("us"), MOMENT),
        (named("int64", f"{TIME}.MicroDuration"), -1, pa.duration("us"), dt.timedelta(microseconds=-1)),
        (
            named("string", f"{TIME}.ZonedTimestamp"),
            "2024-01-02T03:04:05Z",
            pa.timestamp("us", "UTC"),
            MOMENT,
        ),
        (named("string", f"{TIME}.ZonedTime"), "03:04:05.678901Z", pa.time64("us"), CLOCK),
        (named("string", f"{TIME}.IsoDate"), "2024-01-02Z", pa.date32(), DAY),
        (named("string", f"{TIME}.IsoTime"), "03:04:05.678901Z", pa.time64("us"), CLOCK),
        (named("string", f"{TIME}.IsoTimestamp"), "2024-01-02T03:04:05Z", pa.timestamp("us"), MOMENT),
        (
            named("string", f"{TIME}.Interval"),
            "P1Y-2M3DT-0H0M-0.5S",
            pa.month_day_nano_interval(),
            pa.MonthDayNano([10, 3, -500_000_000]),
        ),
        ({"type": "array", "items": {"type": "int32", "optional": True}}, [1, None], None, [1, None]),
        ({"type": "array", "items": DECIMAL}, ["AJY="], None, [Decimal("1.50")]),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
            {"a": 1},
            None,
            [("a", 1)],
        ),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1, 2]], None, [(1, 2)]),
        (
            {
                "type": "struct",
                "fields": [{**ANY_INT, "field": "a"}, {**DECIMAL, "optional": True, "field": "b"}],
            },
            {"a": 1, "b": "AJY="},
            None,
            {"a": 1, "b": Decimal("1.50")},
        ),
    ],
)
def test_a_type_told_by_the_wire_is_read_as_its_arrow_type(
    kind: dict[str, Any], value: Any, target: pa.DataType | None, expected: Any
) -> None:
    found, value_read = read(told(value, kind))
    assert target is None or found == target
    assert value_read == inside(expected, found)
    assert read(told(None, kind))[1] is None


@pytest.mark.parametrize(
    ("kind", "value", "target", "expected"),
    [
        ({"type": "int32"}, 7, pa.int64(), 7),
        ({"type": "int64"}, 7, pa.int8(), 7),
        ({"type": "int64"}, 7, pa.decimal128(5, 2), Decimal("7.00")),
        ({"type": "int16"}, 1, pa.bool_(), True),
        ({"type": "int64"}, 7, pa.float64(), 7.0),
        ({"type": "double"}, 0.5, pa.float32(), 0.5),
        ({"type": "double"}, "NaN", pa.float32(), float("nan")),
        ({"type": "double"}, 1.5, pa.decimal128(5, 2), Decimal("1.50")),
        ({"type": "double"}, 7.0, pa.uint64(), 7),
        ({"type": "string"}, "1.5e1", pa.decimal128(5, 2), Decimal("15.00")),
        ({"type": "string"}, ".5", pa.decimal256(60, 2), Decimal("0.50")),
        ({"type": "string"}, "-0", pa.decimal128(5, 2), Decimal("0.00")),
        ({"type": "string"}, "18446744073709551615", pa.uint64(), 2**64 - 1),
        ({"type": "string"}, "x", pa.large_string(), "x"),
        ({"type": "string"}, "x", pa.dictionary(pa.int8(), pa.string()), "x"),
        ({"type": "bytes"}, "AP8=", pa.binary(2), b"\0\xff"),
        ({"type": "bytes"}, "AP8=", pa.large_binary(), b"\0\xff"),
        (DECIMAL, "AJY=", pa.decimal128(20, 4), Decimal("1.5000")),
        (DECIMAL, "AMg=", pa.int32(), 2),
        (DECIMAL, "AJY=", pa.binary(), b"\0\x96"),
        (VARIABLE, {"scale": 3, "value": "AJY="}, pa.decimal128(6, 3), Decimal("0.150")),
        (named("int32", f"{TIME}.Date"), 19_724, pa.int32(), 19_724),
        (named("int32", f"{TIME}.Date"), 19_724, pa.date64(), DAY),
        (named("int64", f"{TIME}.Timestamp"), 1_704_164_645_000, pa.timestamp("us"), MOMENT),
        (named("int64", f"{TIME}.MicroTimestamp"), INFINITY, pa.timestamp("us"), INFINITY),
        (named("int64", f"{TIME}.MicroTime"), 86_400_000_000, pa.duration("us"), dt.timedelta(days=1)),
        (
            named("string", f"{TIME}.ZonedTimestamp"),
            "2024-01-02T04:04:05+01:00",
            pa.timestamp("s", "UTC"),
            MOMENT,
        ),
        (named("string", f"{TIME}.ZonedTimestamp"), "x", pa.string(), "x"),
        (named("string", f"{TIME}.IsoDate"), "-0001-01-01", pa.date32(), -719_893),
        ({"type": "array", "items": {"type": "int32"}}, [1, 2], pa.list_(pa.int64(), 2), [1, 2]),
        ({"type": "array", "items": {"type": "int32"}}, [], pa.list_(pa.int64(), 0), []),
        ({"type": "array", "items": {"type": "int32"}}, [1], pa.large_list(pa.int8()), [1]),
    ],
)
def test_what_the_wire_tells_can_be_read_as_another_type_that_holds_it(
    kind: dict[str, Any], value: Any, target: pa.DataType, expected: Any
) -> None:
    found, value_read = read(told(value, kind), target)
    assert found == target
    assert value_read == inside(expected, found)


@pytest.mark.parametrize(
    ("kind", "value", "target", "told_why"),
    [
        ({"type": "boolean"}, 2, None, "2 is not true, false, 1 or 0"),
        ({"type": "boolean"}, "true", None, "'true' is not true or false"),
        ({"type": "int8"}, 128, None, "128 does not fit int8"),
        ({"type": "int64"}, 2**63, None, "does not fit int64"),
        ({"type": "int64"}, True, None, "True is not an integer"),
        ({"type": "int64"}, 1.0, None, "1.0 is not an integer"),
        ({"type": "int64"}, 300, pa.int8(), "300 does not fit int8"),
        ({"type": "int64"}, 2, pa.bool_(), "2 does not fit bool"),
        ({"type": "int64"}, 2**53 + 1, pa.float64(), "does not fit double"),
        ({"type": "int64"}, 10_000, pa.decimal128(5, 2), "does not fit decimal128"),
        ({"type": "int64"}, 7, pa.string(), "which is not read as string"),
        ({"type": "float"}, 1e39, None, "does not fit float"),
        ({"type": "double"}, "infinity", None, "'infinity' is not a number"),
        ({"type": "double"}, 2**53 + 1, None, "is no float exactly"),
        ({"type": "double"}, 0.1, pa.float32(), "more digits"),
        ({"type": "double"}, 0.005, pa.decimal128(5, 2), "does not fit decimal128"),
        ({"type": "double"}, 0.5, pa.decimal128(16, 2), "exact to 15 digits only"),
        ({"type": "double"}, 2.0**60, pa.uint64(), "exact up to 2⁵³ only"),
        ({"type": "string"}, 7, None, "7 is not text"),
        ({"type": "string"}, "1.005", pa.decimal128(5, 2), "'1.005' does not fit"),
        ({"type": "string"}, "1e99999", pa.decimal128(5, 2), "does not fit"),
        ({"type": "string"}, "1_0", pa.decimal128(5, 2), "'1_0' is not a number"),
        ({"type": "string"}, ".", pa.decimal128(5, 2), "'.' is not a number"),
        ({"type": "string"}, "-1", pa.uint64(), "does not fit uint64"),
        ({"type": "string"}, "AP8=", pa.binary(), "which is not read as binary"),
        ({"type": "bytes"}, "AP8", None, "'AP8' is not base64"),
        ({"type": "bytes"}, "AP9=", None, "'AP9=' is not base64"),
        ({"type": "bytes"}, "A=8=", None, "is not base64"),
        ({"type": "bytes"}, "é===", None, "is not base64"),
        ({"type": "bytes"}, "AP8=", pa.binary(3), "does not have 3 bytes"),
        (DECIMAL, "", None, "no bytes are no number"),
        (DECIMAL, "D0JA", None, "more digits than"),
        (DECIMAL, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", None, "so many bytes"),
        (DECIMAL, "AJY=", pa.int32(), "does not fit int32"),
        (DECIMAL, 1.5, None, "is not the base64 text of a decimal"),
        (VARIABLE, {"scale": "3", "value": "AJY="}, None, "is not a decimal with its scale"),
        (VARIABLE, {"scale": 10**9, "value": "AJY="}, None, "is not a decimal with its scale"),
        (VARIABLE, {"scale": 1, "value": ""}, None, "no bytes are no number"),
        (VARIABLE, 7, None, "7 is not a decimal with its scale"),
        (named("int32", f"{TIME}.Time"), 86_400_000, None, "is no time of day"),
        (named("int64", f"{TIME}.MicroTime"), -1, None, "is no time of day"),
        (named("int32", f"{TIME}.Date"), "2024-01-02", None, "is not an integer"),
        (named("string", f"{TIME}.ZonedTimestamp"), "2024-01-02 03:04:05", None, "is not an instant"),
        (named("string", f"{TIME}.ZonedTimestamp"), "2024-02-30T00:00:00Z", None, "is not an instant"),
        (named("string", f"{TIME}.ZonedTimestamp"), "2024-01-02T25:00:00Z", None, "is not an instant"),
        (
            named("string", f"{TIME}.ZonedTimestamp"),
            "2024-01-02T00:00:00.1234567Z",
            None,
            "is not an instant",
        ),
        (named("string", f"{TIME}.ZonedTimestamp"), "2024-01-02T00:00:00+24:00", None, "is not an instant"),
        (named("string", f"{TIME}.ZonedTimestamp"), "+999999999-01-01T00:00:00Z", None, "is not an instant"),
        (named("string", f"{TIME}.ZonedTime"), "24:00Z", None, "is not a time of day"),
        (named("string", f"{TIME}.ZonedTime"), "03:04+01:00", None, "is not a time of day"),
        (named("string", f"{TIME}.IsoDate"), "2024-13-01", None, "is not a date"),
        (named("string", f"{TIME}.IsoDate"), "yesterday", None, "is not a date"),
        (named("string", f"{TIME}.IsoTimestamp"), "2024-01-02", None, "is not a timestamp"),
        (named("string", f"{TIME}.Interval"), "P", None, "is not an interval"),
        (named("string", f"{TIME}.Interval"), "P1DT", None, "is not an interval"),
        (named("string", f"{TIME}.Interval"), "P999999999Y", None, "is not an interval"),
        (
            {"type": "array", "items": {"type": "int32"}},
            [1, "a"],
            None,
            r"after.x\[1\]: 'a' is not an integer",
        ),
        ({"type": "array", "items": {"type": "int32"}}, 7, None, "7 is not an array"),
        ({"type": "array", "items": {"type": "int32"}}, [None], None, r"after.x\[0\]: it is NULL"),
        ({"type": "array", "items": {"type": "int32"}}, [1], pa.list_(pa.int32(), 2), "it has 1 items"),
        ({"type": "array", "items": {"type": "int32"}}, [1], pa.int32(), "arrives as array"),
        (
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
            [],
            None,
            "is not an object",
        ),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, {}, None, "pairs"),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1]], None, "pair"),
        ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1, None]], None, "NULL"),
        (
            {"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}},
            [],
            pa.int32(),
            "arrives as map",
        ),
        ({"type": "struct", "fields": [{"type": "int32", "field": "a"}]}, {"b": 1}, None, "the field 'b'"),
        (
            {"type": "struct", "fields": [{"type": "int32", "field": "a"}]},
            {},
            None,
            "after.x.a: it is missing",
        ),
        ({"type": "struct", "fields": [{"type": "int32", "field": "a"}]}, [], None, "is not an object"),
        (
            {"type": "struct", "fields": [{"type": "int32", "field": "a"}]},
            {"a": 1},
            pa.int32(),
            "arrives as struct",
        ),
    ],
)
def test_a_value_that_is_not_exactly_what_its_type_allows_is_refused_with_its_path(
    kind: dict[str, Any], value: Any, target: pa.DataType | None, told_why: str
) -> None:
    schema = None if target is None else pa.schema([("x", target)])
    with pytest.raises(MalformedMessage, match=told_why) as error:
        decode([told(None, kind), told(value, kind)], schema)
    assert error.value.subject == "message 1"
    assert error.value.what.startswith("after.x")
    assert error.value.hint


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, pa.bool_()),
        (7, pa.int64()),
        (2**64 - 1, pa.uint64()),
        (1.5, pa.float64()),
        ("x", pa.string()),
        (None, pa.null()),
        ([1, None], pa.list_(pa.int64())),
        ({"a": [True]}, pa.struct({"a": pa.list_(pa.bool_())})),
        ({}, pa.struct([])),
    ],
)
def test_without_any_schema_a_value_is_what_json_shows(value: Any, expected: pa.DataType) -> None:
    assert read(plain(value))[0] == expected


@pytest.mark.parametrize(
    ("first", "second", "told_why"),
    [
        (1, "a", "'a' is text, after an integer"),
        ("a", 1.5, "1.5 is a float, after text"),
        (True, 1, "1 is an integer, after a truth value"),
        ([1], ["a"], r"after.x\[0\]: 'a' is text"),
        ({"a": 1}, {"a": []}, r"after.x.a: \[\] is an array"),
        (2**64 - 1, -1, "does not fit int64"),
    ],
)
def test_without_any_schema_a_column_has_one_type(first: Any, second: Any, told_why: str) -> None:
    with pytest.raises(MalformedMessage, match=told_why):
        decode([plain(first), plain(second)])


def test_without_any_schema_integers_and_words_for_what_is_not_finite_go_with_floats() -> None:
    (events,) = decode([plain(1), plain(1.5), plain("NaN")]).rows
    assert repr(events.after.column("x").to_pylist()) == "[1.0, 1.5, nan]"


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_an_integer_beyond_64_bits_is_not_rounded_in_silence(number: int) -> None:
    digits = str(number).encode()
    for around in (
        b'{"x":%s}',
        b'{"x":[%s]}',
        b'{"x":{"a":%s}}',
        b'{"x": 1.5, "y":%s}',
        b'{"x":"\\"","y":[%s]}',
    ):
        message = b'{"op":"c","after":' + around % digits + b',"source":{"table":"t"}}'
        with pytest.raises(MalformedMessage, match="does not fit 64 bits"):
            decode([message])
    kept = decode([b'{"op":"c","after":{"x":"%s"},"source":{"table":"t"}}' % digits])
    assert kept.rows[0].after.column("x").to_pylist() == [str(number)]


def test_values_nested_beyond_reason_are_refused() -> None:
    for depth in (101, 400):
        with pytest.raises(MalformedMessage, match=r"nested deeper|not JSON"):
            decode([plain(None).replace(b"null}", b"[" * depth + b"]" * depth + b"}")])


def test_infinite_timestamps_come_back_as_what_stands_for_them() -> None:
    kind = named("string", f"{TIME}.ZonedTimestamp")
    for text, expected in (
        ("+294247-01-10T04:00:25.200Z", INFINITY),
        ("-290308-12-21T19:59:27.600Z", MINUS_INFINITY),
        ("+292278994-08-16T23:00:00Z", INFINITY),
    ):
        (events,) = decode([told(text, kind)]).rows
        assert events.after.column("x").view(pa.int64()).to_pylist() == [expected], text


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("x", pa.string_view())]),
        pa.schema([("x", pa.list_(pa.binary_view()))]),
        pa.schema([("x", pa.run_end_encoded(pa.int32(), pa.int64()))]),
        pa.schema([("x", pa.dictionary(pa.int8(), pa.list_(pa.int64())))]),
        pa.schema([("x", pa.dense_union([pa.field("a", pa.int64())]))]),
        pa.schema([("x", pa.int64()), ("x", pa.int64())]),
        pa.schema([("x", pa.struct([("a", pa.int64()), ("a", pa.int64())]))]),
    ],
)
def test_types_that_messages_cannot_be_read_into_are_refused_at_once(schema: pa.Schema) -> None:
    with pytest.raises(Unsupported):
        decode([], schema)


def test_a_decimal_outside_what_arrow_holds_is_refused() -> None:
    kind = named("bytes", f"{KAFKA}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "99"})
    with pytest.raises(Unsupported, match="precision 99"):
        decode([told("AJY=", kind)])


def test_a_type_that_changes_between_messages_is_refused_and_both_are_named() -> None:
    with pytest.raises(SchemaMismatch, match="'x' changes between message 0 and 1"):
        decode([told(1, {"type": "int32"}), told(1, {"type": "int64"})])
