from __future__ import annotations

import datetime as dt
import random
import string
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.changes.intake import changes_of, convert, rows_of
from penstock.errors import PenstockError
from tests.arrow_strategies import FLAT, arrays, batches, flat_types
from tests.row_model import identity

ODD_FLAT = [
    *FLAT,
    pa.uint16(),
    pa.uint32(),
    pa.float16(),
    pa.large_binary(),
    pa.date64(),
    pa.timestamp("s"),
    pa.timestamp("ms", "Europe/Paris"),
    pa.timestamp("ns"),
    pa.time32("s"),
    pa.time64("ns"),
    pa.duration("ns"),
    pa.decimal128(38, 0),
    pa.decimal256(50, 20),
]
TIMES = ["2024-01-31", "2024-01-31T12:00Z", "2024-01-31 12:00:00.5", "12:00:01"]
TEXTS = st.sampled_from(["0", "-0", "1.5", "1.50", "12345678901", "x", *TIMES])


def told(batch: pa.RecordBatch) -> list[Any]:
    return [
        [identity(value, field.type) for value in column.to_pylist()]
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]


@settings(max_examples=100, deadline=None)
@given(batches())
def test_what_was_kept_is_what_was_handed_in(batch: pa.RecordBatch) -> None:
    schema = batch.schema
    rows = batch.to_pylist()
    for data in (
        batch,
        pa.Table.from_batches([batch.slice(0, 2), batch.slice(2)]),
        rows,
        [tuple(row.values()) for row in rows],
        {name: batch.column(name) for name in schema.names},
    ):
        kept = rows_of(data, schema)
        assert kept.schema.equals(schema)
        kept.validate(full=True)
        assert told(kept) == told(batch)


@settings(max_examples=50, deadline=None)
@given(batches())
def test_with_every_part_not_null_too(batch: pa.RecordBatch) -> None:
    """The same values pass through the parts of nested types, which must look at each."""
    schema = pa.schema([pa.field(it.name, needed(it.type)) for it in batch.schema])
    loose = pa.schema([(it.name, it.type) for it in batch.schema])
    try:
        kept = rows_of(batch, schema)
    except PenstockError:
        for data in (batch, batch.to_pylist()):
            with pytest.raises(PenstockError, match="may not be NULL"):
                rows_of(data, schema)
    else:
        assert told(kept) == told(batch)
        assert told(rows_of(batch.to_pylist(), schema)) == told(batch)
        assert told(rows_of(kept, loose)) == told(batch)


def needed(kind: pa.DataType) -> pa.DataType:
    """The same type without NULLs inside, but where there is nothing else."""
    if pa.types.is_struct(kind):
        return pa.struct([part(it.name, it.type) for it in kind])
    if pa.types.is_map(kind):
        return pa.map_(needed(kind.key_type), part("value", kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(part("item", kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(part("item", kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(part("item", kind.value_type))
    return kind


def part(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, needed(kind), nullable=pa.types.is_null(kind))


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switches the fast casts off: then every value is looked at alone."""
    real = convert._fast
    return lambda on: monkeypatch.setattr(convert, "_fast", (lambda values, kind: None) if on else real)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fast_casts_answer_as_the_rules_do(data: st.DataObject, one_by_one: Callable[[bool], None]) -> None:
    source, wanted = data.draw(st.sampled_from(ODD_FLAT)), data.draw(st.sampled_from(ODD_FLAT))
    if pa.types.is_string(source) or pa.types.is_large_string(source):
        column = pa.array(data.draw(st.lists(st.none() | TEXTS, min_size=1, max_size=3)), source)
    elif pa.types.is_floating(source):
        some = (
            st.none() | st.integers(-300, 300).map(lambda n: n / 4) | st.sampled_from([0.1, 1e15 + 0.3, -0.0])
        )
        column = pa.array(data.draw(st.lists(some, min_size=1, max_size=3)), pa.float64()).cast(
            source, safe=False
        )
    else:
        column = data.draw(arrays_of(source))
    agree(column, wanted, one_by_one)
    if source in FLAT:
        agree(column.to_pylist(), wanted, one_by_one)


def arrays_of(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    if kind in FLAT:
        return arrays(kind, 2)
    if pa.types.is_decimal(kind):
        numbers = st.decimals(-(10**9), 10**9, places=min(kind.scale, 2))
        return st.lists(numbers, min_size=2, max_size=2).map(lambda it: pa.array(it, kind))
    if pa.types.is_integer(kind):
        return arrays(pa.uint8(), 2).map(lambda it: it.cast(kind))
    if pa.types.is_large_binary(kind):
        return arrays(pa.binary(), 2).map(lambda it: it.cast(kind))
    top = 80_000 if kind.bit_width == 32 or pa.types.is_time(kind) else 2**62
    count = st.sampled_from([0, 1000, 10**6, 86_400_000]) | st.integers(0, top)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return st.lists(count, min_size=2, max_size=2).map(lambda it: pa.array(it, width).view(kind))


def agree(values: Any, wanted: pa.DataType, one_by_one: Callable[[bool], None]) -> None:
    schema = pa.schema([("x", wanted)])
    answers = []
    for slowly in (False, True):
        one_by_one(slowly)
        try:
            answers.append(rows_of({"x": values}, schema).column(0))
        except PenstockError as error:
            answers.append(str(error))
    one_by_one(False)
    fast, slow = answers
    if isinstance(fast, str) or isinstance(slow, str):
        assert fast == slow
    else:
        assert fast.equals(slow) or str(fast) == str(slow)  # NaN is not equal to itself


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 12))
@example(0.1, 1)
@example(1e22, 0)
@example(5e-324, 12)
def test_a_double_is_a_decimal_only_if_it_comes_back(number: float, scale: int) -> None:
    schema = pa.schema([("x", pa.decimal128(38, scale))])
    for data in ([{"x": number}], pa.table({"x": [number, number]})):
        try:
            kept = rows_of(data, schema).column(0)[0].as_py()
        except PenstockError:
            assert abs(Decimal(repr(number)).as_tuple().exponent) > scale or abs(number) >= 10.0 ** (
                37 - scale
            )
        else:
            assert float(kept) == number
            assert kept == Decimal(repr(number))


# -- garbage ----------------------------------------------------------------------------------------

SCHEMAS = [
    pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())]),
    pa.schema([("a", pa.decimal128(5, 2)), ("b", pa.timestamp("us", "UTC")), ("c", pa.date32())]),
    pa.schema([("a", pa.list_(pa.struct([("a", pa.float32()), ("b", pa.binary(2))]))), ("b", pa.bool_())]),
    pa.schema([("a", pa.map_(pa.string(), pa.list_(pa.int8(), 2))), ("b", pa.timestamp("us"))]),
    pa.schema([("a", pa.time64("us")), ("b", pa.duration("us")), ("c", pa.large_string()), ("d", pa.null())]),
]


ATOMS = [
    *(None, True, 0, -1, 2**31, 10**30, 10**5000, 0.5, 1e308, float("nan"), -0.0, float("inf"), 1j),
    *("", "a", "1.50", "1e400", "\ud800", "2024-01-31", "2024-01-31T12:00Z", "9999-12-31T23:59:59-23:00"),
    *(b"", b"ab", bytearray(b"ab"), memoryview(b"ab"), np.void(b"ab"), uuid.UUID(int=5)),
    *(Decimal("1.5"), Decimal("NaN"), Decimal("1E+99999"), np.float32(0.1), np.int8(5)),
    *(dt.date.min, dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=23)))),
    *(dt.time(1), dt.timedelta.max, dt.UTC),
    *(pd.NaT, pd.NA, pd.Timestamp.max, pd.Timedelta(1)),
    *(np.datetime64("NaT"), np.datetime64("2024-01-31", "ps"), np.datetime64(2**62, "W")),
    *(np.timedelta64(1, "Y"), np.array([]), np.array(5), np.array([[1]]), np.array(["a", 5], object)),
    *(pa.scalar(5), pa.array([1, 2]), pa.array(["x", None]), pa.nulls(3), pa.int64()),
    *(object(), object, len, ..., range(3), {1, 2}, frozenset(), slice(1)),
]


def atom(r: random.Random) -> Any:
    return r.choice(ATOMS)


def thing(r: random.Random, depth: int) -> Any:
    if depth == 0 or r.random() < 0.4:
        return atom(r)
    parts = [thing(r, depth - 1) for _ in range(r.randrange(4))]
    match r.randrange(5):
        case 0:
            return parts
        case 1:
            return tuple(parts)
        case 2:
            return {name(r): part for part in parts}
        case 3:
            return [dict.fromkeys("ab", part) for part in parts]
        case _:
            return iter(parts)


def name(r: random.Random) -> Any:
    return r.choice(
        ["a", "b", "c", "A", "_op", "", 5, None, ("a",), "".join(r.choices(string.printable, k=3))]
    )


def garbage(r: random.Random) -> Any:
    what = r.random()
    if what < 0.6:
        return thing(r, 4)
    if what < 0.8:
        return [
            {it: thing(r, 2) for it in r.sample("abcd", r.randrange(1, 4))} for _ in range(r.randrange(4))
        ]
    if what < 0.97:
        return [tuple(thing(r, 2) for _ in range(r.randrange(1, 4))) for _ in range(r.randrange(4))]
    columns = {str(name(r)) if r.random() < 0.3 else it: [atom(r) for _ in range(2)] for it in "ab"}
    return pd.DataFrame({it: pd.Series(values, dtype=object) for it, values in columns.items()})


def test_garbage_is_refused_with_an_error_of_ours() -> None:
    r = random.Random(20_240_131)
    taken, said = 0, set()
    for _ in range(20_000):
        data, schema = garbage(r), r.choice(SCHEMAS)
        door = changes_of if r.random() < 0.2 else rows_of
        try:
            batch = door(data, schema)
        except PenstockError as error:
            said.add(error.code)
        else:
            taken += 1
            assert batch.schema.names[: len(schema)] == schema.names
            batch.validate(full=True)
    assert 500 < taken < 10_000  # the garbage is near enough to be of use
    assert said == {"schema-mismatch", "invalid-argument"}


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_arrow_of_any_type_is_taken_or_refused(data: st.DataObject) -> None:
    batch = data.draw(batches())
    wanted = pa.schema([(f"c{i}", data.draw(flat_types())) for i in range(batch.num_columns)])
    try:
        kept = rows_of(batch, wanted)
    except PenstockError:
        return
    assert kept.schema == wanted
    kept.validate(full=True)
