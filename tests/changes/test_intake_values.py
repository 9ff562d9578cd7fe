from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.changes.intake import rows_of
from penstock.errors import SchemaMismatch

UTC = dt.UTC
MONEY = pa.decimal128(12, 2)
STAMP = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
NOON = dt.datetime(2024, 1, 31, 12, tzinfo=UTC)


def name_of(part: Any) -> str:
    return str(part)[:40] if isinstance(part, str | pa.DataType) else type(part).__name__


def taken(value: Any, kind: pa.DataType) -> Any:
    """What is kept of one value: the same, however it is handed in."""
    schema = pa.schema([("x", kind)])
    kept = rows_of([{"x": value}], schema).column(0)
    assert kept.type == kind
    among = rows_of([(None,), (value,)], schema).column(0)
    assert among.slice(1).equals(kept) or kept.to_pylist() != kept.to_pylist()
    return kept.to_pylist()[0]


def refused(value: Any, kind: pa.DataType, why: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        rows_of([{"x": None}, {"x": value}], pa.schema([("x", kind)]), subject="table 't'")
    assert "table 't': row 1, column 'x" in str(caught.value)
    assert why in str(caught.value)


LAST = dt.datetime.max  # noqa: DTZ901
PAIR = pa.struct([("a", pa.int64()), ("b", pa.date32())])
NEEDED = pa.field("a", pa.int64(), nullable=False)
COUNTS = pa.map_(pa.string(), pa.int64())
PARIS = dt.timezone(dt.timedelta(hours=1))
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "kind", "kept"),
    [
        (True, pa.bool_(), True),
        (np.bool_(False), pa.bool_(), False),
        (3, pa.int8(), 3),
        (3.0, pa.int64(), 3),
        (2.0**60, pa.int64(), 2**60),
        (np.int16(3), pa.int64(), 3),
        (np.float32(3), pa.int64(), 3),
        (Decimal("3.00"), pa.int64(), 3),
        (Level.HIGH, pa.int64(), 3),
        (2**64 - 1, pa.uint64(), 2**64 - 1),
        (3, pa.float64(), 3.0),
        (2**60, pa.float64(), 2.0**60),
        (Decimal("0.1"), pa.float64(), 0.1),
        (0.1, pa.float32(), float(np.float32(0.1))),
        (float("inf"), pa.float32(), float("inf")),
        ("1.5", MONEY, Decimal("1.50")),
        ("-.5", MONEY, Decimal("-0.50")),
        ("1e2", MONEY, Decimal("100.00")),
        ("1.500000", MONEY, Decimal("1.50")),
        ("9999999999.99", MONEY, Decimal("9999999999.99")),
        (12, MONEY, Decimal("12.00")),
        (12.34, MONEY, Decimal("12.34")),
        (np.float32(0.1), MONEY, Decimal("0.10")),
        (Decimal("1E+3"), MONEY, Decimal("1000.00")),
        (1e22, pa.decimal128(38, 0), Decimal(10**22)),
        ("a", pa.string(), "a"),
        (ID, pa.string(), str(ID)),
        (Colour.RED, pa.string(), "red"),
        (np.str_("a"), pa.large_string(), "a"),
        (b"a", pa.binary(), b"a"),
        (bytearray(b"a"), pa.binary(), b"a"),
        (memoryview(b"ab"), pa.binary(2), b"ab"),
        (ID, pa.binary(16), ID.bytes),
        (dt.date(2024, 1, 31), pa.date32(), dt.date(2024, 1, 31)),
        ("2024-01-31", pa.date32(), dt.date(2024, 1, 31)),
        (NOON.replace(hour=0, tzinfo=None), pa.date32(), dt.date(2024, 1, 31)),
        (np.datetime64("2024-01-31"), pa.date32(), dt.date(2024, 1, 31)),
        (NOON, STAMP, NOON),
        (dt.datetime(2024, 1, 31, 13, tzinfo=PARIS), STAMP, NOON),
        (NOON.replace(tzinfo=None), STAMP, NOON),
        (dt.date(2024, 1, 31), STAMP, NOON.replace(hour=0)),
        (np.datetime64("2024-01-31T12:00"), STAMP, NOON),
        (pd.Timestamp("2024-01-31T12:00Z"), STAMP, NOON),
        (LAST, NAIVE, LAST),
        ("2024-01-31", STAMP, NOON.replace(hour=0)),
        ("2024-01-31 12:00", STAMP, NOON),
        ("2024-01-31T12:00:00Z", STAMP, NOON),
        ("2024-01-31T12:00:00.000", STAMP, NOON),
        ("2024-01-31T13:00:00.000000000+01:00", STAMP, NOON),
        ("2024-01-31 11:00:00-01", STAMP, NOON),
        ("2024-01-31 17:30:00+0530", STAMP, NOON),
        ("2024-01-31T12:00:00", NAIVE, NOON.replace(tzinfo=None)),
        (dt.time(12, 30), pa.time64("us"), dt.time(12, 30)),
        ("12:30", pa.time64("us"), dt.time(12, 30)),
        ("12:30:00.5", pa.time64("us"), dt.time(12, 30, 0, 500_000)),
        (dt.timedelta(days=1), pa.duration("us"), dt.timedelta(days=1)),
        (np.timedelta64(1, "D"), pa.duration("us"), dt.timedelta(days=1)),
        (["1.5", 2], pa.list_(MONEY), [Decimal("1.50"), Decimal("2.00")]),
        ((1, None), pa.list_(pa.int64(), 2), [1, None]),
        (np.array([1, 2]), pa.large_list(pa.int64()), [1, 2]),
        ({"b": "2024-01-31"}, PAIR, {"a": None, "b": dt.date(2024, 1, 31)}),
        ((1, None), PAIR, {"a": 1, "b": None}),
        ({"k": "1.5"}, pa.map_(pa.string(), MONEY), [("k", Decimal("1.50"))]),
        ([("k", 1)], pa.map_(pa.string(), pa.int64()), [("k", 1)]),
        ([{"k": []}], pa.list_(pa.map_(pa.string(), pa.list_(pa.int64()))), [[("k", [])]]),
        (pa.scalar("1.5"), MONEY, Decimal("1.50")),
        (np.datetime64("NaT"), STAMP, None),
    ],
    ids=name_of,
)  # fmt: skip
def test_a_value_is_taken_when_nothing_is_lost(value: Any, kind: pa.DataType, kept: Any) -> None:
    assert taken(value, kind) == kept


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (1, pa.bool_(), "1 is not taken as BOOLEAN, which takes True and False"),
        ("true", pa.bool_(), "which takes True and False"),
        (True, pa.int64(), "True is not taken as BIGINT, which takes whole numbers"),
        (3.7, pa.int64(), "3.7 is not taken as BIGINT, for it is not a whole number"),
        ("3", pa.int64(), "'3' is not taken as BIGINT, which takes whole numbers"),
        (128, pa.int8(), "128 is not taken as TINYINT, whose range it leaves"),
        (-1, pa.uint8(), "whose range it leaves"),
        (2.0**63, pa.int64(), "whose range it leaves"),
        (Decimal("1E+999999"), pa.int64(), "whose range it leaves"),
        (Decimal("1E-999999"), pa.int64(), "not a whole number"),
        (float("nan"), pa.int64(), "which has no NaN and no infinity"),
        (10**5000, pa.int64(), "whose range it leaves"),
        (2**53 + 1, pa.float64(), "which cannot hold it exactly"),
        (10**400, pa.float64(), "whose range it leaves"),
        (Decimal("0.1000000000000000000001"), pa.float64(), "which cannot hold it exactly"),
        (2**24 + 1, pa.float32(), "which cannot hold it exactly"),
        (1e300, pa.float32(), "whose range it leaves"),
        (False, pa.float64(), "which takes numbers"),
        ("1.005", MONEY, "'1.005' is not taken as DECIMAL(12,2), for it has more than 2 digits after"),
        (1.005, MONEY, "for it has more than 2 digits after the point"),
        (0.1 + 0.2, MONEY, "for it has more than 2 digits after the point"),
        (Decimal("0.001"), MONEY, "for it has more than 2 digits after the point"),
        ("12345678901.00", MONEY, "whose range it leaves"),
        (10**10, MONEY, "whose range it leaves"),
        (10**37, pa.decimal128(38, 10), "whose range it leaves"),
        ("12345678901234567890123456789012345678", pa.decimal128(38, 10), "whose range it leaves"),
        (2**62, pa.decimal128(38, 30), "whose range it leaves"),
        (float("nan"), MONEY, "nan is not taken as DECIMAL(12,2), which has no NaN and no infinity"),
        (Decimal("sNaN"), MONEY, "which has no NaN"),
        ("NaN", MONEY, "for it is not written as a number"),
        ("", MONEY, "for it is not written as a number"),
        (" 1", MONEY, "for it is not written as a number"),
        ("1_000", MONEY, "for it is not written as a number"),
        ("٣", MONEY, "for it is not written as a number"),
        (True, MONEY, "which takes numbers"),
        (5, pa.string(), "5 is not taken as STRING, which takes texts"),
        (b"a", pa.string(), "which takes texts"),
        ("\ud800", pa.string(), "surrogate"),
        ("a", pa.binary(), "which takes bytes"),
        (b"abc", pa.binary(2), "for it has 3 bytes and not 2"),
        ("2024-02-30", pa.date32(), "for there is no such day"),
        ("31.01.2024", pa.date32(), "for it is not written like 2024-01-31"),
        (NOON, pa.date32(), "which would forget the time of day"),
        (19_753, pa.date32(), "which takes dates"),
        ("2024-01-31T25:00", STAMP, "for there is no such time of day"),
        ("2024-01-31T12:00:00+99:00", STAMP, "for there is no such time zone"),
        ("0000-01-01", STAMP, "for there is no such day"),
        ("yesterday", STAMP, "for it is not written like 2024-01-31T12:00:00Z"),
        ("2024-01-31T12:00:00.0000001", STAMP, "which is not as fine as that"),
        (pd.Timestamp("2024-01-31").replace(nanosecond=5), STAMP, "which is not as fine as that"),
        (1_700_000_000, STAMP, "which takes times"),
        (NOON, NAIVE, "which has no time zone and would forget the one given"),
        ("2024-01-31T12:00:00Z", NAIVE, "which has no time zone"),
        (np.datetime64("2024-01", "M"), STAMP, "NumPy's unit"),
        (np.datetime64(2**62, "D"), STAMP, "whose range it leaves"),
        (dt.time(12, tzinfo=UTC), pa.time64("us"), "which has no time zone"),
        ("24:00", pa.time64("us"), "for there is no such time of day"),
        (5, pa.duration("us"), "which takes durations"),
        (5, pa.list_(pa.int64()), "5 is not taken as ARRAY<BIGINT>, which takes lists"),
        ("ab", pa.list_(pa.string()), "which takes lists"),
        ([1, "x"], pa.list_(pa.int64()), "x[1]': 'x' is not taken as BIGINT"),
        ([1], pa.list_(pa.int64(), 2), "for it has 1 items and not 2"),
        ([None], pa.list_(NEEDED), "x[0]': None is not taken as BIGINT, which may not be NULL"),
        ({"a": 1, "bb": 2}, PAIR, "for it has no field 'bb'. Did you mean 'b'? The fields are a, b"),
        ((1,), PAIR, "for it has 1 values and not 2"),
        ({"a": {"b": 1.5}}, pa.struct([("a", pa.struct([("b", pa.int64())]))]), "x.a.b': 1.5 is not taken"),
        ({}, pa.struct([NEEDED]), "x.a': None is not taken as BIGINT, which may not be NULL"),
        ({"k": 1.5}, pa.map_(pa.string(), pa.int64()), "x[value 0]': 1.5"),
        ({5: 1}, pa.map_(pa.string(), pa.int64()), "x[key 0]': 5"),
        ({None: 1}, pa.map_(pa.string(), pa.int64()), "x[key 0]': None"),
        ([1], pa.map_(pa.string(), pa.int64()), "which takes dictionaries"),
        (object, pa.int64(), "which takes whole numbers"),
        (1, pa.null(), "for which nothing but NULL is taken"),
        ("x" * 1000, pa.int64(), "xxx'… is not taken"),
    ],
    ids=name_of,
)  # fmt: skip
def test_a_value_is_refused_when_something_would_be(value: Any, kind: pa.DataType, why: str) -> None:
    refused(value, kind, why)


@pytest.mark.parametrize(
    ("column", "kind", "why"),
    [
        (pa.array([1.0, 3.7]), pa.int64(), "row 1, column 'x': 3.7"),
        (pa.array([1.0, 0.125]), MONEY, "row 1, column 'x': 0.125"),
        (pa.array([0, 1001], pa.timestamp("ns")), STAMP, "row 1, column 'x': 1970-01-01 00:00:00.000001+1ns"),
        (pa.array([0, 2**60], pa.timestamp("s")), STAMP, "whose range it leaves"),
        (pa.array([0, 1], pa.timestamp("us", "UTC")), NAIVE, "1970-01-01 00:00:00Z is not taken"),
        (pa.array([0, 1], pa.time64("ns")), pa.time64("us"), "1 ns after midnight"),
        (pa.array([0, 2**31 - 1], pa.date32()), STAMP, "whose range it leaves"),
        (pa.array([True, False]), pa.int64(), "row 0, column 'x': True"),
        (pa.array([1, 300]), pa.int8(), "row 1, column 'x': 300"),
        (pa.array([[1], [2, 300]]), pa.list_(pa.int8()), "row 1, column 'x[1]': 300"),
        (pa.array([[1], [2, 3]]), pa.list_(pa.int64(), 1), "row 1, column 'x': [2, 3]"),
        (pa.array([1, 2]), pa.list_(pa.int64()), "which takes lists"),
        (pa.array([{"a": 1, "z": 2}]), pa.struct([("a", pa.int64())]), "it has no field 'z'"),
        (pa.array([{"a": 1}, {"a": 2.5}]), pa.struct([("a", pa.int64())]), "row 1, column 'x.a': 2.5"),
        (pa.array([[("a", 1)]], COUNTS), pa.list_(pa.int64()), "which takes lists"),
        (pa.array([[("a", 300)]], COUNTS), pa.map_(pa.string(), pa.int8()), "x[value 0]': 300"),
        (pa.array([1, 2]), pa.map_(pa.string(), pa.int8()), "which takes maps"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), pa.duration("us"), "which takes durations"),
    ],
    ids=name_of,
)  # fmt: skip
def test_arrow_columns_are_held_to_the_same(column: pa.Array, kind: pa.DataType, why: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        rows_of(pa.table({"x": column}), pa.schema([("x", kind)]))
    assert why in str(caught.value)


def test_the_bad_row_is_found_in_a_long_column() -> None:
    texts = pa.chunked_array([["1.00"] * 10_000, [*["1.00"] * 9_999, "1.005"]])
    with pytest.raises(SchemaMismatch, match=r"row 19999, column 'x': '1\.005'"):
        rows_of(pa.table({"x": texts}), pa.schema([("x", MONEY)]))
    values: list[Any] = [1] * 10_000
    values[7_000] = "seven"
    with pytest.raises(SchemaMismatch, match=r"row 7000, column 'x': 'seven'"):
        rows_of({"x": values}, pa.schema([("x", pa.int64())]))


def test_values_of_many_kinds_may_stand_in_one_column() -> None:
    values = [1, 2.5, "3.25", Decimal("4"), None] * 3000
    kept = rows_of({"x": values}, pa.schema([("x", MONEY)])).column(0)
    assert kept.to_pylist()[:5] == [Decimal("1.00"), Decimal("2.50"), Decimal("3.25"), Decimal("4.00"), None]
    times = [NOON, "2024-01-31T12:00:00Z", dt.date(2024, 1, 31), None]
    assert rows_of({"x": times}, pa.schema([("x", STAMP)])).column(0).to_pylist() == [
        NOON, NOON, NOON.replace(hour=0), None,
    ]  # fmt: skip


def test_a_null_struct_may_have_no_parts_even_where_they_are_wanted() -> None:
    kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    assert taken(None, kind) is None
    schema = pa.schema([("x", kind)])
    loose = pa.array([None, {"a": 1}], pa.struct([("a", pa.int64())]))
    assert rows_of(pa.table({"x": loose}), schema).column(0).to_pylist() == [None, {"a": 1}]


def test_dictionary_and_extension_columns_can_be_wanted() -> None:
    schema = pa.schema([("d", pa.dictionary(pa.int32(), pa.string())), ("u", pa.uuid())])
    kept = rows_of([{"d": "a", "u": ID}, {"d": "a", "u": None}], schema)
    assert kept.schema == schema
    assert kept.to_pylist() == [{"d": "a", "u": ID}, {"d": "a", "u": None}]
    as_text = rows_of(kept, pa.schema([("d", pa.string()), ("u", pa.string())]))
    assert as_text.column("u").to_pylist() == [str(ID), None]
