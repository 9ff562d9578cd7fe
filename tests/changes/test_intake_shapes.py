from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.changes.intake import rows_of
from penstock.errors import InvalidArgument

UTC = dt.UTC
MONEY = pa.decimal128(12, 2)
STAMP = pa.timestamp("us", "UTC")
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("customer", pa.string()),
        ("amount", MONEY),
        ("at", STAMP),
    ]
)
NOON = dt.datetime(2024, 1, 31, 12, tzinfo=UTC)
ROWS = [
    {"id": 1, "customer": "ada", "amount": Decimal("10.00"), "at": NOON},
    {"id": 2, "customer": None, "amount": None, "at": None},
]


class Stream:
    """What Polars, DuckDB and others have: nothing but Arrow's C stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OneBatch:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


Order = namedtuple("Order", ["at", "amount", "id", "customer"])
TABLE = pa.Table.from_pylist(ROWS, schema=ORDERS)
TUPLES = [tuple(row.values()) for row in ROWS]
SHAPES: dict[str, Any] = {
    "table": TABLE,
    "table in chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "batch": TABLE.to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(ORDERS, TABLE.to_batches()),
    "batches": TABLE.to_batches(),
    "stream": Stream(TABLE),
    "array": OneBatch(TABLE.to_batches()[0]),
    "columns in another order": TABLE.select(["at", "id", "amount", "customer"]),
    "dictionaries": ROWS,
    "generator": lambda: (row for row in ROWS),
    "other mappings": [OrderedDict(reversed(row.items())) for row in ROWS],
    "tuples": TUPLES,
    "lists": [list(row) for row in TUPLES],
    "named tuples": [Order(row["at"], row["amount"], row["id"], row["customer"]) for row in ROWS],
    "dictionary of lists": {name: [row[name] for row in ROWS] for name in ORDERS.names},
    "dictionary of columns": {name: TABLE.column(name) for name in ORDERS.names},
    "pandas": TABLE.to_pandas(),
    "pandas of objects": TABLE.to_pandas().astype(object),
    "pandas with an index": TABLE.to_pandas().set_index("id"),
    "pandas with two": TABLE.to_pandas().set_index(["id", "at"]),
    "pandas of Arrow": TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas without names": TABLE.to_pandas().set_axis(range(4), axis=1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_may_come_in_any_shape(shape: str) -> None:
    data = SHAPES[shape]
    batch = rows_of(data() if callable(data) else data, ORDERS)
    assert batch.schema.equals(ORDERS, check_metadata=True)
    assert batch.to_pylist() == ROWS


def test_one_dictionary_is_one_row() -> None:
    assert rows_of(ROWS[0], ORDERS).to_pylist() == ROWS[:1]
    assert rows_of({}, pa.schema([("a", pa.int64())])).to_pylist() == [{"a": None}]


TAGS = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ({"id": 1, "tags": ["a", "b"]}, [(1, ["a", "b"])]),
        ({"id": [1, 2], "tags": [["a"], None]}, [(1, ["a"]), (2, None)]),
        ({"tags": ["a", "b"]}, [(None, ["a", "b"])]),
        ({"tags": pa.array([["a"], ["b"]])}, [(None, ["a"]), (None, ["b"])]),
        ({"id": np.array([1, 2])}, [(1, None), (2, None)]),
        ({"id": pd.Series([1, 2], dtype="Int64")}, [(1, None), (2, None)]),
        ({"id": [], "tags": []}, []),
    ],
)
def test_a_dictionary_holds_columns_where_flat_columns_are_given_lists(data: Any, rows: list[Any]) -> None:
    assert [tuple(row.values()) for row in rows_of(data, TAGS).to_pylist()] == rows


@pytest.mark.parametrize("nothing", [[], (), iter([]), TABLE.slice(0, 0), TABLE.to_pandas().head(0)])
def test_no_rows_are_no_rows(nothing: Any) -> None:
    batch = rows_of(nothing, ORDERS)
    assert (batch.num_rows, batch.schema) == (0, ORDERS)


def test_what_is_right_already_is_not_copied() -> None:
    batch = TABLE.combine_chunks().to_batches()[0]
    kept = rows_of(batch, ORDERS)
    for given, column in zip(batch.columns, kept.columns, strict=True):
        assert [it and it.address for it in given.buffers()] == [it and it.address for it in column.buffers()]


def test_columns_say_what_positional_rows_hold() -> None:
    kept = rows_of([("ada", 1), ("bob", 2)], ORDERS, columns=["customer", "id"])
    assert [(row["id"], row["customer"], row["amount"]) for row in kept.to_pylist()] == [
        (1, "ada", None),
        (2, "bob", None),
    ]
    table = pa.table({"whatever": ["ada"], "it is": [1]})
    assert rows_of(table, ORDERS, columns=["customer", "id"]).to_pylist()[0]["id"] == 1
    assert rows_of(table.to_pandas(), ORDERS, columns=iter(["customer", "id"])).to_pylist()[0]["id"] == 1
    assert rows_of([{"customer": "x", "id": 3}], ORDERS, columns=["id", "customer"]).column(
        "id"
    ).to_pylist() == [3]


def test_columns_that_are_not_given_are_null() -> None:
    kept = rows_of([{"id": 1}, {"id": 2, "customer": "b"}], ORDERS).to_pylist()
    assert kept[0] == {"id": 1, "customer": None, "amount": None, "at": None}


def test_arrow_may_store_values_in_any_way() -> None:
    texts = ["1.50", None, "2.00"]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        plain = pa.array(texts, kind)
        for column in (plain, plain.dictionary_encode() if kind != pa.string_view() else plain):
            kept = rows_of(pa.table({"x": column}), pa.schema([("x", MONEY)]))
            assert kept.column(0).to_pylist() == [Decimal("1.50"), None, Decimal("2.00")]
    ends = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    kept = rows_of(pa.table({"x": ends}), pa.schema([("x", pa.string())]))
    assert kept.column(0).to_pylist() == ["a", "a", "b"]


def test_pandas_says_missing_in_its_own_ways() -> None:
    frame = pd.DataFrame(
        {
            "i": [1.0, np.nan],
            "f": [1.5, np.nan],
            "s": pd.Categorical(["a", None]),
            "t": pd.to_datetime(["2024-01-31T12:00:00Z", None]),
            "o": [Decimal("1.00"), pd.NA],
            "d": [dt.date(2024, 1, 31), pd.NaT],
        }
    )
    schema = pa.schema(
        [
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("s", pa.string()),
            ("t", STAMP),
            ("o", MONEY),
            ("d", pa.date32()),
        ]
    )
    first, second = rows_of(frame, schema).to_pylist()
    assert list(first.values()) == [1, 1.5, "a", NOON, Decimal("1.00"), dt.date(2024, 1, 31)]
    assert set(second.values()) == {None}
    records = [{"t": pd.Timestamp("2024-01-31T13:00", tz="Europe/Paris"), "d": pd.NaT, "i": pd.NA}]
    assert rows_of(records, schema).to_pylist()[0]["t"] == NOON


def test_polars_frames_are_taken() -> None:
    polars = pytest.importorskip("polars", reason="Polars is not installed: pip install polars")
    frame = polars.from_arrow(TABLE).with_columns(polars.col("customer").cast(polars.Categorical))
    assert rows_of(frame, ORDERS).to_pylist() == ROWS
    text = polars.DataFrame({"id": [1, 2], "amount": ["10.00", None], "at": ["2024-01-31T13:00+01:00", None]})
    assert rows_of(text, ORDERS).column("at").to_pylist() == [NOON, None]
    with pytest.raises(InvalidArgument, match="collect"):
        rows_of(frame.lazy(), ORDERS)


def test_all_is_well_without_pandas() -> None:
    code = (
        "import sys\n"
        "class NoPandas:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pandas': raise ImportError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\n"
        "import pyarrow as pa\n"
        "from penstock.changes.intake import rows_of\n"
        "schema = pa.schema([('a', pa.decimal128(3, 1)), ('t', pa.timestamp('us'))])\n"
        "print(rows_of([{'a': '1.5'}, {'a': 2.5, 't': '2024-01-31'}], schema).column('a').to_pylist())\n"
        "print(rows_of(pa.table({'a': [1]}), schema).column('a').to_pylist())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[Decimal('1.5'), Decimal('2.5')]\n[Decimal('1.0')]\n"
