"""Hypothesis strategies for Arrow types, arrays and batches, nested to a small depth."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["arrays", "batches", "flat_types", "schemas", "types", "values"]

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
    if t.is_floating(kind):
        width = kind.bit_width
        return st.one_of(
            st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1.5]), st.floats(width=width)
        )
    if t.is_string(kind) or t.is_large_string(kind):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    if t.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if t.is_binary(kind):
        return st.binary(max_size=4)
    if t.is_date(kind):
        return st.dates()
    if t.is_timestamp(kind):
        zone = dt.UTC if kind.tz else None
        return st.datetimes().map(lambda when: when.replace(tzinfo=zone))
    if t.is_time(kind):
        return st.times()
    if t.is_duration(kind):
        return st.timedeltas(dt.timedelta(days=-1000), dt.timedelta(days=1000))
    if t.is_decimal(kind):
        top = 10**kind.precision - 1
        context = decimal.Context(prec=60)
        return st.integers(-top, top).map(lambda n: context.scaleb(decimal.Decimal(n), -kind.scale))
    if t.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type, field.nullable) for field in kind})
    if t.is_map(kind):
        same = str if t.is_floating(kind.key_type) else None
        keys = _values(kind.key_type).map(lambda key: abs(key) if same else key)
        return st.lists(st.tuples(keys, values(kind.item_type)), max_size=3, unique_by=lambda p: repr(p[0]))
    if t.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    return st.lists(values(kind.value_type), max_size=3)


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType, size: int) -> pa.Array:
    """An array of the type; now and then a slice of a longer one, as real batches are."""
    before = draw(st.integers(0, 2))
    items = draw(st.lists(values(kind), min_size=size + before, max_size=size + before))
    return pa.array(items, kind).slice(before)


@st.composite
def schemas(draw: st.DrawFn, min_columns: int = 1, max_columns: int = 3) -> pa.Schema:
    kinds = draw(st.lists(types(), min_size=min_columns, max_size=max_columns))
    return pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema | None = None, max_rows: int = 8) -> pa.RecordBatch:
    schema = schema if schema is not None else draw(schemas())
    size = draw(st.integers(0, max_rows))
    columns = [draw(arrays(field.type, size)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
