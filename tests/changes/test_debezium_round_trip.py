"""What is encoded is decoded again: identity, and agreement with a plain model, over random batches."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.debezium import Source, decode, encode
from penstock.changes.names import OP, user_columns
from penstock.changes.op import Op
from tests.changes.debezium_model import envelope, raw, row_json, spell
from tests.changes.debezium_strategies import arrays, change_batches, told_types, values

SOURCE = Source("app", "db", 't"1', version="9", schema="inv")
NOW = 1_795_037_988_628_736_952

schemas_on = st.booleans()
spellings = st.sampled_from(["precise", "string", "double"])


def _user(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(user_columns(batch.schema.names))


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Raw rows, for the model."""
    columns = []
    for column in batch.columns:
        made = raw(column)
        columns.append([_number(column.type, value) for value in made])
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)] or [
        {} for _ in range(batch.num_rows)
    ]


def _number(kind: pa.DataType, value: Any) -> Any:
    """`raw` tells floats by their digits; the model wants them as numbers."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_struct(kind):
        return {field.name: _number(field.type, value[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [(_number(kind.key_type, k), _number(kind.item_type, v)) for k, v in value]
    if pa.types.is_nested(kind):
        return [_number(kind.value_type, item) for item in value]
    return value


def _assert_same(left: pa.RecordBatch, right: pa.RecordBatch) -> None:
    assert left.schema.names == right.schema.names
    assert left.schema.types == right.schema.types
    for mine, other in zip(left.columns, right.columns, strict=True):
        assert raw(mine) == raw(other)


@settings(deadline=None, max_examples=250)
@given(change_batches(), schemas_on)
def test_changes_come_back_as_they_were_with_and_without_the_wrapper(
    batch: pa.RecordBatch, schema: bool
) -> None:
    encoded = encode(batch, SOURCE, schema=schema, processed_ns=NOW)
    given_schema = _user(batch).schema
    decoded = decode(encoded.values, given_schema)
    if not batch.num_rows:
        assert decoded.rows == ()
        return
    (events,) = decoded.rows
    assert events.known.all()
    assert events.schema.equals(given_schema)
    changes = events.changes()
    changes.validate(full=True)
    _assert_same(_user(changes), _user(batch))
    assert changes.column(OP).to_pylist() == batch.column(OP).to_pylist()
    if "_lsn" in batch.schema.names:
        assert changes.column("_lsn").to_pylist() == batch.column("_lsn").to_pylist()
    if "_ts" in batch.schema.names:
        assert raw(changes.column("_ts")) == raw(batch.column("_ts"))
    again = encode(changes.drop_columns(["_weight"]), SOURCE, schema=schema, processed_ns=NOW)
    if {"_lsn", "_ts"} <= set(batch.schema.names):
        assert again.values.equals(encoded.values)


@settings(deadline=None, max_examples=250)
@given(change_batches(key=True), schemas_on, st.booleans(), spellings)
def test_encode_writes_what_the_plain_model_writes(
    batch: pa.RecordBatch, schema: bool, tombstones: bool, decimals: Any
) -> None:
    encoded = encode(
        batch, SOURCE, key=["key"], schema=schema, tombstones=tombstones, decimals=decimals, processed_ns=NOW
    )
    expected: list[tuple[bytes | None, int]] = []
    user = _user(batch)
    rows = [row_json(user.schema, row, decimals) for row in _rows(user)]
    ops = batch.column(OP).to_pylist()
    told = {name: raw(batch.column(name)) for name in ("_ts", "_lsn") if name in batch.schema.names}

    def message(op: str, before: Any, after: Any, at: int, key: int) -> None:
        ts, lsn = (told[name][at] if name in told else None for name in ("_ts", "_lsn"))
        expected.append((envelope(op, before, after, SOURCE, ts, lsn, NOW), key))
        if op == "d" and tombstones:
            expected.append((None, key))

    for at, op in enumerate(ops):
        key = rows[at]["key"]
        if op == Op.INSERT:
            message("c", None, rows[at], at, key)
        elif op == Op.DELETE:
            message("d", rows[at], None, at, key)
        elif op == Op.UPDATE_AFTER and rows[at - 1]["key"] == key:
            message("u", rows[at - 1], rows[at], at, key)
        elif op == Op.UPDATE_AFTER:
            message("d", rows[at - 1], None, at - 1, rows[at - 1]["key"])
            message("c", None, rows[at], at, key)

    values = [None if value is None else orjson.loads(value) for value in encoded.values.to_pylist()]
    keys = [orjson.loads(key) for key in encoded.keys.to_pylist()]
    if schema:
        assert all(value is None or value.keys() == {"schema", "payload"} for value in values)
        values = [value and value["payload"] for value in values]
        keys = [key["payload"] for key in keys]
    assert [None if value is None else orjson.dumps(value) for value in values] == [
        value for value, _ in expected
    ]
    assert keys == [{"key": key} for _, key in expected]


@settings(deadline=None, max_examples=150)
@given(st.data(), told_types(), st.integers(0, 4))
def test_the_wrapper_alone_gives_the_same_values_in_the_types_it_can_tell(
    data: st.DataObject, kind: pa.DataType, size: int
) -> None:
    column = data.draw(arrays(kind, size))
    batch = pa.record_batch({"x": column, "_op": pa.array([0] * size, pa.int8())})
    decoded = decode(encode(batch, SOURCE, schema=True).values)
    for events in decoded.rows:
        again = encode(events.changes(), SOURCE, schema=False, processed_ns=NOW).values
        told = [orjson.loads(value)["after"]["x"] for value in again.to_pylist()]
        expected = [spell(kind, _number(kind, value)) for value in raw(column)]
        assert [orjson.dumps(value) for value in told] == [orjson.dumps(value) for value in expected]


@settings(deadline=None, max_examples=60)
@given(
    st.data(),
    st.sampled_from([pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(60, 20), pa.uint64()]),
)
def test_decimals_as_text_are_exact(data: st.DataObject, kind: pa.DataType) -> None:
    column = data.draw(arrays(kind, 4))
    batch = pa.record_batch({"x": column, "_op": pa.array([0] * 4, pa.int8())})
    schema = pa.schema([("x", kind)])
    for wrapped in (False, True):
        encoded = encode(batch, SOURCE, decimals="string", schema=wrapped).values
        (events,) = decode(encoded, schema, decimals="string").rows
        assert raw(events.after.column("x")) == raw(column)


@settings(deadline=None, max_examples=60)
@given(st.lists(values(pa.decimal128(12, 2)), min_size=1, max_size=5))
def test_decimals_as_doubles_are_exact_up_to_fifteen_digits(numbers: list[Any]) -> None:
    batch = pa.record_batch(
        {"x": pa.array(numbers, pa.decimal128(12, 2)), "_op": pa.array([0] * len(numbers), pa.int8())}
    )
    encoded = encode(batch, SOURCE, decimals="double").values
    (events,) = decode(encoded, pa.schema([("x", pa.decimal128(12, 2))]), decimals="double").rows
    assert events.after.column("x").to_pylist() == numbers


def test_a_list_of_nothing_but_nulls_comes_back() -> None:
    batch = pa.record_batch({"x": pa.array([[None], [], None]), "_op": pa.array([0, 0, 0], pa.int8())})
    for part in (batch, batch[1:]):
        (events,) = decode(encode(part, SOURCE).values, _user(batch).schema).rows
        assert events.after.column("x").to_pylist() == part.column("x").to_pylist()


@pytest.mark.parametrize("depth", [40, 90])
def test_types_may_be_nested_deep(depth: int) -> None:
    value: Any = 7
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    batch = pa.record_batch({"x": pa.array([value]), "_op": pa.array([0], pa.int8())})
    for wrapped in (False, True):
        (events,) = decode(encode(batch, SOURCE, schema=wrapped).values, _user(batch).schema).rows
        assert events.after.column("x").to_pylist() == [value]
