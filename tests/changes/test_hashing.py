"""The hash is Spark's: by values that Spark gave, by the plain statement of XXH64, and by Spark itself."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.hashing import can_hash, unsigned, xxhash64
from penstock.errors import InvalidArgument, Unsupported
from tests.arrow_strategies import arrays

_MASK = 2**64 - 1
_P1, _P2, _P3, _P4, _P5 = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def _turn(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(lane: int, word: int) -> int:
    return _turn(lane + word * _P2, 31) * _P1 & _MASK


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * _P2 & _MASK
    h = (h ^ h >> 29) * _P3 & _MASK
    return h ^ h >> 32


def plain_bytes(data: bytes, seed: int) -> int:
    at, size = 0, len(data)
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= size:
            lanes = [
                _round(lane, word)
                for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)
            ]
            at += 32
        h = sum(_turn(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            h = (h ^ _round(0, lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += size
    while at + 8 <= size:
        h = _turn(h & _MASK ^ _round(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4
        at += 8
    if at + 4 <= size:
        h = _turn(h & _MASK ^ struct.unpack_from("<I", data, at)[0] * _P1 & _MASK, 23) * _P2 + _P3
        at += 4
    for byte in data[at:]:
        h = _turn(h & _MASK ^ byte * _P5 & _MASK, 11) * _P1
    return _finish(h & _MASK)


def plain(value: Any, kind: pa.DataType, seed: int) -> int:
    """A number of 4 or 8 bytes hashes exactly as those bytes do."""
    t = pa.types
    if value is None:
        return seed
    if t.is_boolean(kind) or t.is_signed_integer(kind):
        return plain_bytes(struct.pack("<q" if kind == pa.int64() else "<i", value), seed)
    if t.is_floating(kind):
        code = "<f" if kind == pa.float32() else "<d"
        one_nan = bytes.fromhex("0000c07f" if code == "<f" else "000000000000f87f")
        return plain_bytes(one_nan if math.isnan(value) else struct.pack(code, value + 0.0), seed)
    if t.is_date(kind):
        return plain_bytes(struct.pack("<i", (value - dt.date(1970, 1, 1)).days), seed)
    if t.is_timestamp(kind):
        gone = value - dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return plain_bytes(struct.pack("<q", gone // dt.timedelta(microseconds=1)), seed)
    if t.is_duration(kind):
        return plain_bytes(struct.pack("<q", value // dt.timedelta(microseconds=1)), seed)
    if t.is_decimal(kind):
        unscaled = int(value.scaleb(kind.scale, decimal.Context(prec=60)))
        if kind.precision <= 18:
            return plain_bytes(struct.pack("<q", unscaled), seed)
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return plain_bytes(unscaled.to_bytes(size, "big", signed=True), seed)
    if t.is_struct(kind):
        for field in kind:
            seed = plain(value[field.name], field.type, seed)
        return seed
    if isinstance(value, list):
        for item in value:
            seed = plain(item, kind.value_type, seed)
        return seed
    return plain_bytes(value.encode() if isinstance(value, str) else value, seed)


def plain_rows(columns: list[pa.Array]) -> list[int]:
    hashes = [42] * len(columns[0])
    for column in columns:
        hashes = [plain(v, column.type, h) for v, h in zip(column.to_pylist(), hashes, strict=True)]
    return [h - 2**64 if h >= 2**63 else h for h in hashes]


LEAVES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(19, 4),
    pa.decimal128(38, 10),
    pa.null(),
]


def hashable_types() -> st.SearchStrategy[pa.DataType]:
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.one_of(
            inner.map(pa.list_),
            inner.map(pa.large_list),
            inner.map(lambda kind: pa.list_(kind, 2)),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
            ),
        ),
        max_leaves=4,
    )


@settings(deadline=None, max_examples=300)
@given(st.data(), st.lists(hashable_types(), min_size=1, max_size=3), st.integers(0, 7))
def test_every_type_hashes_as_its_plain_statement(
    data: st.DataObject, kinds: list[pa.DataType], rows: int
) -> None:
    columns = [data.draw(arrays(kind, rows)) for kind in kinds]
    assert xxhash64(columns).tolist() == plain_rows(columns)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=150)), max_size=12), st.integers(0, 3))
def test_bytes_of_every_length_hash_as_their_plain_statement(items: list[bytes | None], skip: int) -> None:
    column = pa.array(items, pa.binary()).slice(skip)
    assert xxhash64([column]).tolist() == plain_rows([column])


def test_rows_of_many_blocks_hash_as_if_each_were_alone() -> None:
    words = [None if i % 7 == 0 else "x" * (i % 131) + str(i) for i in range(40_000)]
    numbers = pa.array(range(40_000))
    texts = pa.chunked_array([words[:15_000], words[15_000:]])
    hashes = xxhash64([texts, numbers])
    sample = [0, 1, 16_383, 16_384, 32_768, 39_999]
    expected = plain_rows([pa.array([words[i] for i in sample]), numbers.take(pa.array(sample))])
    assert hashes[sample].tolist() == expected
    assert len(np.unique(hashes)) == 40_000


GOLDEN = [
    (pa.bool_(), True, -6698625589789238999),
    (pa.int32(), 1, -6698625589789238999),
    (pa.int64(), 1, -7001672635703045582),
    (pa.float64(), -0.0, -5252525462095825812),
    (pa.float64(), 0.0, -5252525462095825812),
    (pa.float32(), -0.0, 3614696996920510707),
    (pa.float64(), math.nan, -3127944061524951246),
    (pa.float32(), math.nan, 2692338816207849720),
    (pa.binary(), b"", -7444071767201028348),
    (pa.null(), None, 42),
    (pa.decimal128(18, 2), decimal.Decimal("12.34"), -3802813071951760351),
    (pa.decimal128(19, 2), decimal.Decimal("12.34"), 804797035677707363),
    (pa.list_(pa.int32()), [1, None, 2], -8133857028838179022),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.string())]),
        {"a": 1, "b": None, "c": "x"},
        8510603489595372987,
    ),
    (pa.duration("us"), dt.timedelta(days=1), 5650310968337874586),
    (pa.time64("ns"), dt.time(12, 34, 56, 789123), -7049403885817377017),
]


@pytest.mark.parametrize(("kind", "value", "expected"), GOLDEN, ids=lambda it: str(it)[:30])
def test_the_hash_is_the_one_that_spark_gave(kind: pa.DataType, value: Any, expected: int) -> None:
    assert xxhash64([pa.array([value], kind)]).tolist() == [expected]


def test_null_leaves_the_hash_of_the_columns_before_it() -> None:
    one, nothing = pa.array([1], pa.int32()), pa.array([None], pa.int64())
    assert xxhash64([nothing, one]).tolist() == xxhash64([one]).tolist() == xxhash64([one, nothing]).tolist()


def test_every_nan_is_one_and_what_a_null_hides_does_not_matter() -> None:
    nans = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000001, 7], np.uint64)
    shown = pa.array(nans.view(np.float64)[:3])
    hidden = pa.array(nans.view(np.float64), mask=np.array([True, True, True, True]))
    assert set(xxhash64([shown]).tolist()) == {-3127944061524951246}
    assert set(xxhash64([hidden]).tolist()) == {42}


def test_times_of_other_units_hash_by_their_microseconds() -> None:
    seconds = pa.array([1_772_323_200, None], pa.timestamp("s"))
    assert xxhash64([seconds]).tolist() == xxhash64([seconds.cast(pa.timestamp("us"))]).tolist()
    spans = pa.array([dt.timedelta(seconds=-3)], pa.duration("ms"))
    assert xxhash64([spans]).tolist() == xxhash64([spans.cast(pa.duration("us"))]).tolist()


def test_a_dictionary_and_a_view_hash_as_their_values() -> None:
    words = pa.array(["a", None, "b" * 40, "a"])
    expected = xxhash64([words]).tolist()
    assert xxhash64([words.dictionary_encode()]).tolist() == expected
    assert xxhash64([words.cast(pa.string_view())]).tolist() == expected
    assert xxhash64([words.cast(pa.binary()).cast(pa.binary_view())]).tolist() == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
        pa.uint64(),
        pa.float16(),
        pa.timestamp("ns"),
        pa.time32("s"),
        pa.decimal256(40, 1),
        pa.list_(pa.uint8()),
    ],
    ids=str,
)
def test_a_type_that_spark_does_not_hash_is_refused(kind: pa.DataType) -> None:
    assert not can_hash(kind)
    with pytest.raises(Unsupported):
        xxhash64([pa.nulls(2, kind)])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="2 rows and not 1"):
        xxhash64([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidArgument, match="no column"):
        xxhash64([])


def test_no_column_hashes_as_the_seed() -> None:
    assert xxhash64([], 2).tolist() == [42, 42]
    assert unsigned(np.array([-(2**63), 1])).tolist() == [2**63, 1]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield session
    session.stop()


def _many_values(rows: int) -> dict[str, pa.Array]:
    """A column of each type: edge cases, then random values, every tenth NULL."""
    rng = random.Random(7)

    def fill(kind: pa.DataType, edges: list[Any], make: Any) -> pa.Array:
        values = edges + [make() for _ in range(rows - len(edges))]
        return pa.array([None if i % 10 == 9 else value for i, value in enumerate(values)], kind)

    def integers(bits: int) -> list[int]:
        return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]

    def number() -> Any:
        return rng.choice([rng.uniform(-1e6, 1e6), float(rng.randrange(100)), 10.0 ** rng.uniform(-30, 30)])

    def text() -> str:
        return "".join(rng.choice("abz0 äß語🦆") for _ in range(rng.choice([3, 8, 20, 40, 100])))

    def big(digits: int, scale: int) -> decimal.Decimal:
        unscaled = rng.randrange(-(10 ** rng.randrange(1, digits + 1)), 10 ** rng.randrange(1, digits + 1))
        return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60))

    def edges_of(digits: int, scale: int) -> list[decimal.Decimal]:
        near = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**15, -(2**15), 10**digits - 1, 1 - 10**digits]
        if digits > 18:
            near += [2**63 - 1, 2**63, -(2**63), -(2**63) - 1]
        return [decimal.Decimal(n).scaleb(-scale, decimal.Context(prec=60)) for n in near]

    floats = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 5e-324, 1.4e-45]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    far = [dt.datetime(1, 1, 3, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)]
    moments = [epoch, *far, epoch - dt.timedelta(microseconds=1)]

    def moment() -> dt.datetime:
        return epoch + dt.timedelta(microseconds=rng.randrange(-(10**15), 2 * 10**15))

    pair = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.float64()))])
    made: dict[str, pa.Array] = {
        "boolean": fill(pa.bool_(), [True, False], lambda: rng.random() < 0.5),
        "float": fill(pa.float32(), floats[:6], number),
        "double": fill(pa.float64(), floats, number),
        "string": fill(pa.string(), ["", "a", "x" * 31, "x" * 32, "x" * 33, "x" * 1000], text),
        "binary": fill(pa.binary(), [bytes(range(n)) for n in range(100)], lambda: rng.randbytes(50)),
        "date": fill(
            pa.date32(), [m.date() for m in moments], lambda: epoch.date() + dt.timedelta(rng.randrange(9**5))
        ),
        "timestamp": fill(pa.timestamp("us", tz="UTC"), moments, moment),
        "timestamp_ntz": fill(pa.timestamp("us"), moments, moment),
        "interval": fill(
            pa.duration("us"), [dt.timedelta(0)], lambda: dt.timedelta(seconds=rng.uniform(-9, 9))
        ),
        "texts": fill(pa.list_(pa.string()), [[], [None], ["", None]], lambda: [text() for _ in range(3)]),
        "struct": fill(
            pair,
            [{"a": None, "b": None, "c": None}, {"a": 1, "b": None, "c": [-0.0, None, math.nan]}],
            lambda: {"a": rng.randrange(9), "b": text(), "c": [number()] * rng.randrange(4)},
        ),
        "structs": fill(pa.list_(pair), [[]], lambda: [{"a": rng.randrange(9), "b": text(), "c": None}] * 2),
    }
    for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64())):
        made[str(kind)] = fill(
            kind, integers(bits), lambda bits=bits: rng.randrange(2**bits) - 2 ** (bits - 1)
        )
    for digits, scale in ((5, 2), (18, 0), (18, 6), (19, 0), (38, 10), (38, 38)):
        made[f"decimal_{digits}_{scale}"] = fill(
            pa.decimal128(digits, scale), edges_of(digits, scale)[: 13 if digits > 5 else 8],
            lambda d=digits, s=scale: big(d, s),
        )  # fmt: skip
    return made


@pytest.mark.spark
def test_spark_gives_the_same_hash_for_thousands_of_values_of_every_type(spark: Any) -> None:
    columns = _many_values(3_000)
    table = pa.table(columns)
    frame = spark.createDataFrame(table)
    each = frame.selectExpr(*(f"xxhash64({name}) AS {name}" for name in columns)).toArrow()
    for name, column in columns.items():
        assert xxhash64([column]).tolist() == each.column(name).to_pylist(), name
    together = frame.selectExpr(f"xxhash64({', '.join(columns)}) AS h").toArrow().column("h").to_pylist()
    assert xxhash64(list(columns.values())).tolist() == together
