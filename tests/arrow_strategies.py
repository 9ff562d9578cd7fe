"""Hypothesis strategies for Arrow types, arrays and batches, nested to a small depth."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["any_types", "arrays", "batches", "flat_types", "schemas", "types", "values"]

FLAT = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.time64("us"),
    pa.duration("us"),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
    pa.null(),
]

RARE = [
    pa.float16(),
    pa.date64(),
    pa.timestamp("s", tz="Europe/Berlin"),
    pa.timestamp("ns"),
    pa.time32("s"),
    pa.time64("ns"),
    pa.duration("s"),
    pa.month_day_nano_interval(),
    pa.decimal256(60, 20),
    pa.large_binary(),
    pa.binary(0),
    pa.string_view(),
    pa.binary_view(),
    pa.list_(pa.int64(), 0),
    pa.struct([]),
]
"""What Spark does not have, or has in another form, and other tools do."""

CODED = [
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.float64()),
    pa.list_(pa.dictionary(pa.int8(), pa.string())),
]
"""Arrow 26 makes dictionaries inside of NULL structs whose indexes lead nowhere, so there are none."""


def flat_types() -> st.SearchStrategy[pa.DataType]:
    return st.sampled_from(FLAT)


def _nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    keys = st.sampled_from([pa.string(), pa.int64(), pa.float64(), pa.date32()])
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
        st.tuples(keys, inner).map(lambda pair: pa.map_(*pair)),
    )


def types(max_leaves: int = 4) -> st.SearchStrategy[pa.DataType]:
    return st.recursive(flat_types(), _nest, max_leaves=max_leaves)


def any_types(max_leaves: int = 4) -> st.SearchStrategy[pa.DataType]:
    """Also what is rare, and views and encodings of what is not."""
    nested = st.recursive(
        st.sampled_from(FLAT + RARE),
        lambda inner: st.one_of(_nest(inner), inner.map(pa.list_view), inner.map(pa.large_list_view)),
        max_leaves=max_leaves,
    )
    return st.one_of(nested, nested, st.sampled_from(CODED))


def _integers(kind: pa.DataType) -> st.SearchStrategy[int]:
    signed = pa.types.is_signed_integer(kind)
    low = -(2 ** (kind.bit_width - 1)) if signed else 0
    high = 2 ** (kind.bit_width - signed) - 1
    return st.one_of(st.integers(max(low, -2), 2), st.integers(low, high))


def values(kind: pa.DataType, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Python values that `pa.array(..., kind)` takes; small ones are likely, so that rows repeat."""
    some = _values(kind)
    return st.one_of(st.none(), some) if nullable else some


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    t = pa.types
    if t.is_null(kind):
        return st.none()
    if t.is_boolean(kind):
        return st.booleans()
    if t.is_integer(kind):
        return _integers(kind)
    if t.is_dictionary(kind):
        return _values(kind.value_type)
    if t.is_floating(kind):
        width = kind.bit_width
        return st.one_of(
            st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5]), st.floats(width=width)
        )
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    if t.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
        return st.binary(max_size=4)
    if t.is_interval(kind):
        return st.tuples(*[st.integers(-2, 2)] * 3).map(pa.MonthDayNano)
    if t.is_decimal(kind):
        top = 10**kind.precision - 1
        context = decimal.Context(prec=60)
        return st.integers(-top, top).map(lambda n: context.scaleb(decimal.Decimal(n), -kind.scale))
    if t.is_temporal(kind):
        return _times(kind)
    if t.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type, field.nullable) for field in kind})
    if t.is_map(kind):
        same = str if t.is_floating(kind.key_type) else None
        keys = _values(kind.key_type).map(lambda key: abs(key) if same else key)
        return st.lists(st.tuples(keys, values(kind.item_type)), max_size=3, unique_by=lambda p: repr(p[0]))
    if t.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    return st.lists(values(kind.value_type), max_size=3)


def _times(kind: pa.DataType) -> st.SearchStrategy[Any]:
    t = pa.types
    if t.is_date(kind):
        return st.dates()
    whole = {"microsecond": 0} if kind.unit == "s" else {}
    if t.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        # 64 bits of nanoseconds hold the years 1678 to 2261.
        years = [dt.datetime.fromisoformat(text) for text in ("1700-01-01", "2200-01-01")]
        some = st.datetimes(*years) if kind.unit == "ns" else st.datetimes()
        return some.map(lambda when: when.replace(tzinfo=zone, **whole))  # type: ignore[arg-type]
    if t.is_time(kind):
        return st.times().map(lambda when: when.replace(**whole))  # type: ignore[arg-type]
    spans = st.timedeltas(dt.timedelta(days=-1000), dt.timedelta(days=1000))
    return spans.map(lambda span: dt.timedelta(seconds=span.days)) if kind.unit == "s" else spans


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType, size: int) -> pa.Array:
    """An array of the type; now and then a slice of a longer one, as real batches are."""
    before, after = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    length = before + size + after
    items = draw(st.lists(values(kind), min_size=length, max_size=length))
    return pa.array(items, kind).slice(before, size)


@st.composite
def schemas(
    draw: st.DrawFn,
    min_columns: int = 1,
    max_columns: int = 3,
    kinds: st.SearchStrategy[pa.DataType] | None = None,
) -> pa.Schema:
    kind = types() if kinds is None else kinds
    drawn = draw(st.lists(kind, min_size=min_columns, max_size=max_columns))
    return pa.schema([(f"c{i}", kind) for i, kind in enumerate(drawn)])


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema | None = None, max_rows: int = 8) -> pa.RecordBatch:
    schema = schema if schema is not None else draw(schemas())
    size = draw(st.integers(0, max_rows))
    columns = [draw(arrays(field.type, size)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
