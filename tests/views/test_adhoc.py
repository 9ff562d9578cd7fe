from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from penstock.errors import ArithmeticOverflow, BadSql, NotFound, PenstockError, QueryFailed, Unsupported
from penstock.views.adhoc import query
from tests.arrow_strategies import batches
from tests.row_model import identity

ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3]),
        "customer": ["ada", "bob", "ada"],
        "amount": pa.array([Decimal("10.00"), Decimal("2.50"), None], pa.decimal128(12, 2)),
    }
)


def one(sql: str, *parameters: Any, **tables: pa.Table) -> Any:
    """The one value that a query answers."""
    (row,) = query(sql, tables, parameters).to_pylist()
    (value,) = row.values()
    return value


def kind(expression: str) -> str:
    return str(query(f"SELECT {expression} AS x", {}).schema.field("x").type)


# -- tables -----------------------------------------------------------------------------------------


def test_only_tables_that_are_named_are_asked_for() -> None:
    asked = []

    def orders() -> pa.Table:
        asked.append("orders")
        return ORDERS

    def other() -> pa.Table:
        raise AssertionError("nobody wants it")

    tables = {"orders": orders, "other": other, "thing": other}
    assert query("SELECT max(id) AS m FROM Orders o JOIN orders p USING (id)", tables).to_pylist() == [
        {"m": 3}
    ]
    assert asked == ["orders"]
    assert query("WITH r AS (SELECT 1 AS x) SELECT * FROM r", tables).to_pylist() == [{"x": 1}]


NAMES = [
    'we"ird na.me',
    "select",
    "größe",
    "a'b",
    "42",
    "a b;--",
    "x\ny",
    "$1",
    "ta\tb",
    "über-all",
    "[a]",
    ".",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_name(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    table = pa.table({name: [1, 2]})
    assert query(f"SELECT {quoted} FROM {quoted} WHERE {quoted} > ?", {name: table}, [1]).to_pylist() == [
        {name: 2}
    ]


def test_a_name_in_a_text_or_a_comment_is_none() -> None:
    assert one("SELECT 'it''s \"orders\"' -- other\n", orders=ORDERS) == 'it\'s "orders"'


def test_a_table_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(NotFound) as caught:
        query("SELECT * FROM ordrs", {"orders": ORDERS, "items": ORDERS})
    assert caught.value.what == "there is no table or view 'ordrs'"
    assert caught.value.hint == "Did you mean 'orders'? There are items, orders."
    with pytest.raises(NotFound, match="There are none"):
        query("SELECT * FROM ordrs", {})


def test_a_variable_of_the_caller_is_no_table() -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows
    with pytest.raises(NotFound):
        query("SELECT * FROM secret", {})


def test_slices_of_nested_columns_are_read_as_they_are() -> None:
    inner = pa.array([{"x": [{"y": i}], "m": [("k", i)]} for i in range(5)], NESTED)
    outer = pa.StructArray.from_arrays([inner.slice(1)], names=["s"])
    for column in (inner.slice(2), outer, outer.slice(1), pa.array([[i] for i in range(5)]).slice(3)):
        t = pa.table({"c": pa.chunked_array([column, column])})
        assert query("SELECT c FROM t", {"t": t}).column("c").to_pylist() == column.to_pylist() * 2


NESTED = pa.struct([("x", pa.list_(pa.struct([("y", pa.int64())]))), ("m", pa.map_(pa.string(), pa.int64()))])


def test_what_a_table_raises_goes_through() -> None:
    def expired() -> pa.Table:
        raise NotFound("gone", subject="orders", hint="")

    with pytest.raises(NotFound, match="orders: gone"):
        query("SELECT * FROM orders", {"orders": expired})


# -- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [1, 1.5, "'; DROP TABLE orders; --", b"\x00", None, True, Decimal("1.10"), dt.date(2024, 1, 31), [1, 2]],
)
def test_parameters_are_bound_and_never_spliced(value: Any) -> None:
    assert one("SELECT ? AS x", value) == value
    assert query("SELECT $x AS x", {}, {"x": value}).to_pylist() == [{"x": value}]


def test_parameters_that_are_missing_or_too_many_are_told() -> None:
    with pytest.raises(PenstockError, match="parameter"):
        query("SELECT ?", {})
    with pytest.raises(PenstockError, match="parameter"):
        query("SELECT ?", {}, [1, 2])
    with pytest.raises(PenstockError):
        query("SELECT ?", {}, [object()])


# -- walls ------------------------------------------------------------------------------------------

OUTSIDE = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "SELECT * FROM duckdb_extensions()",
    "COPY (SELECT 1) TO '{file}.out'",
    "ATTACH '{file}.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '{file}.d'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CREATE TABLE t AS SELECT 1",
    "DROP VIEW orders",
    "CALL pragma_version()",
    "EXPLAIN SELECT 1",
    "SELECT 1; SELECT 2",
    "SELECT getenv('HOME')",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_there_is_no_way_out(sql: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(PenstockError):
        query(sql.replace("{file}", str(file)), {"orders": ORDERS})
    assert sorted(it.name for it in tmp_path.iterdir()) == ["secret.csv"]


def test_the_working_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    query("SELECT count(*) FROM orders", {"orders": ORDERS})
    with pytest.raises(PenstockError):
        query("SELECT * FROM read_text('.tmp/x')", {})
    assert list(tmp_path.iterdir()) == []


def test_settings_of_one_query_are_not_those_of_the_next() -> None:
    with pytest.raises(Unsupported, match="a statement SET"):
        query("SET threads = 8", {})
    assert one("SELECT current_setting('threads')") == 1
    assert query("SELECT current_setting('threads') AS n", {}, threads=2).to_pylist() == [{"n": 2}]


# -- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "error", "what"),
    [
        ("SELEC 1", BadSql, "syntax error"),
        ("SELECT nope FROM orders", BadSql, '"nope" not found'),
        ("SELECT nofun(id) FROM orders", BadSql, "nofun does not exist"),
        ("SELECT id FROM orders GROUP BY customer", BadSql, "GROUP BY"),
        ("SELECT id / 0 FROM orders", QueryFailed, "Division by zero"),
        ("SELECT id % 0 FROM orders", QueryFailed, "Division by zero"),
        ("SELECT CAST(customer AS INT) FROM orders", QueryFailed, "Could not convert string"),
        ("SELECT 9223372036854775807 + id FROM orders", QueryFailed, "Overflow in addition"),
        ("SELECT error('mine')", QueryFailed, "mine"),
        ("SELECT (SELECT id FROM orders)", QueryFailed, "More than one row"),
        ("SELECT sum(9223372036854775807) FROM orders", ArithmeticOverflow, "'x' has the value"),
        ("SELECT 1::BIGNUM AS x", Unsupported, "the column 'x' is of type BIGNUM"),
        ("SELECT union_value(n := 1) AS x", Unsupported, "the column 'x' is of type UNION"),
    ],
)
def test_errors_are_ours(sql: str, error: type[PenstockError], what: str) -> None:
    with pytest.raises(error) as caught:
        query(sql.replace("sum(9223372036854775807)", "sum(9223372036854775807) AS x"), {"orders": ORDERS})
    assert what in str(caught.value)
    assert caught.value.subject == "query"
    assert "\n" not in str(caught.value)


def test_a_query_that_wants_too_much_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.views import adhoc

    monkeypatch.setattr(adhoc, "_MEMORY_SHARE", 0.001)
    with pytest.raises(QueryFailed, match="Ask for less at a time") as caught:
        query("SELECT a.range, list(b.range) FROM range(5000) a, range(5000) b GROUP BY 1", {})
    assert not caught.value.may_have_happened
    assert one("SELECT 1") == 1


# -- types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("sum(1::INT)", "int64"),
        ("sum(1::BIGINT)", "int64"),
        ("sum(1.5::DECIMAL(12,2))", "decimal128(38, 2)"),
        ("count(*)", "int64"),
        ("1::HUGEINT", "int64"),
        ("[1::HUGEINT]", "list<element: int64>"),
        ("{'a': [sum(1)]}", "struct<a: list<element: int64>>"),
        ("map {'a': 1::UTINYINT}", "map<string, int16>"),
        ("[1, 2]::INT[2]", "list<element: int32>"),
        ("1::USMALLINT", "int32"),
        ("1::UINTEGER", "int64"),
        ("1::UBIGINT", "decimal128(20, 0)"),
        ("1::DECIMAL(38, 0)", "decimal128(38, 0)"),
        ("1.5::FLOAT", "float"),
        ("TIMESTAMPTZ '2024-01-31 12:00:00+01'", "timestamp[us, tz=UTC]"),
        ("TIMESTAMP '2024-01-31 12:00:00'", "timestamp[us]"),
        ("TIMESTAMP_S '2024-01-31 12:00:00'", "timestamp[us]"),
        ("TIMESTAMP_NS '2024-01-31 12:00:00'", "timestamp[us]"),
        ("DATE '2024-01-31'", "date32[day]"),
        ("'a'::ENUM('a', 'b')", "string"),
        ("uuid()", "string"),
        ("'a'::BLOB", "binary"),
        ("NULL::INT", "int32"),
    ],
)
def test_types_are_those_that_spark_has(expression: str, told: str) -> None:
    assert kind(expression) == told


def test_a_sum_over_nothing_is_null() -> None:
    assert query(
        "SELECT sum(id) AS s, count(*) AS n FROM orders WHERE id > 5", {"orders": ORDERS}
    ).to_pylist() == [{"s": None, "n": 0}]


def test_columns_of_one_name_stay_two() -> None:
    answer = query("SELECT 1 AS a, 2 AS a", {})
    assert answer.column_names == ["a", "a"]
    assert [it.to_pylist() for it in answer.columns] == [[1], [2]]


def test_no_rows_have_types_too() -> None:
    answer = query("SELECT id, sum(id) AS s FROM orders WHERE false GROUP BY id", {"orders": ORDERS})
    assert (answer.num_rows, [str(it) for it in answer.schema.types]) == (0, ["int64", "int64"])


# -- as Spark does ----------------------------------------------------------------------------------


def test_nulls_are_least_and_nan_is_greatest() -> None:
    nan = float("nan")
    t = pa.table({"x": [1.0, None, nan, float("inf")]})
    up = query("SELECT x FROM t ORDER BY x", {"t": t}).column("x").to_pylist()
    down = query("SELECT x FROM t ORDER BY x DESC", {"t": t}).column("x").to_pylist()
    assert [str(it) for it in up] == ["None", "1.0", "inf", "nan"]
    assert [str(it) for it in down] == ["nan", "inf", "1.0", "None"]
    assert query("SELECT count(*) AS n FROM t WHERE x > 5", {"t": t}).to_pylist() == [{"n": 2}]


def test_zeros_are_one_value_and_so_are_nans() -> None:
    odd = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0, 0x8000000000000000], np.uint64).view(
        np.float64
    )
    t = pa.table({"x": odd, "l": [[it] for it in odd.tolist()]})
    assert one("SELECT count(*) FROM (SELECT x FROM t GROUP BY x)", t=t) == 2
    assert one("SELECT count(*) FROM (SELECT DISTINCT x FROM t)", t=t) == 2
    assert one("SELECT count(DISTINCT x) FROM t", t=t) == 2
    assert one("SELECT count(*) FROM t a JOIN t b ON a.x = b.x", t=t) == 8


def test_dividing_is_exact_or_an_error() -> None:
    assert one("SELECT 1 / 2") == 0.5
    assert one("SELECT 7 // 2") == 3
    for sql in ("SELECT 1 / 0", "SELECT 1.0::DOUBLE / 0", "SELECT 0.0::DOUBLE / 0", "SELECT 1.5 / 0"):
        with pytest.raises(QueryFailed, match="Division by zero"):
            query(sql, {})


def test_times_are_in_utc() -> None:
    at = dt.datetime(2024, 1, 31, 23, 30, tzinfo=dt.UTC)
    t = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))})
    assert one("SELECT CAST(t.at AS DATE) FROM t", t=t) == dt.date(2024, 1, 31)
    assert one("SELECT date_trunc('hour', t.at) FROM t", t=t) == at.replace(minute=0)
    assert one("SELECT CAST(t.at AS VARCHAR) FROM t", t=t) == "2024-01-31 23:30:00+00"


def test_a_sum_of_doubles_is_the_same_each_time() -> None:
    t = pa.table({"k": np.arange(300_000) % 7, "x": np.random.default_rng(1).random(300_000)})
    answers = {
        str(query("SELECT k, sum(x), avg(x) FROM t GROUP BY k ORDER BY k", {"t": t})) for _ in range(3)
    }
    assert len(answers) == 1


@settings(max_examples=30, deadline=None)
@given(batches())
def test_what_was_put_in_comes_out(batch: pa.RecordBatch) -> None:
    table = pa.Table.from_batches([batch])
    try:
        answer = query("SELECT * FROM t", {"t": table})
    except QueryFailed as error:
        assert "Unsupported" in str(error)  # noqa: PT017 - some types DuckDB does not have
        return
    assert answer.column_names == table.column_names
    for old, new in zip(table.columns, answer.columns, strict=True):
        if not _changes(old.type):
            assert [identity(it, old.type) for it in old.to_pylist()] == [
                identity(it, new.type) for it in new.to_pylist()
            ]


def _changes(kind: pa.DataType) -> bool:
    """Whether DuckDB has another type for it: durations are intervals there, and unsigned numbers grow."""
    inside = [kind.field(i).type for i in range(kind.num_fields)]
    return pa.types.is_duration(kind) or any(_changes(it) for it in inside)


# -- loading ----------------------------------------------------------------------------------------


def test_duckdb_is_loaded_by_the_first_query_only() -> None:
    code = (
        "import sys, penstock.views.adhoc as adhoc; print('duckdb' in sys.modules)\n"
        "adhoc.query('SELECT 1', {}); print('duckdb' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"]
