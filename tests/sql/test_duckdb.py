"""DuckDB answers a query as Spark does, wherever the two can agree."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.errors import BadSql, NotFound, Unsupported
from penstock.sql import references, to_duckdb, to_duckdb_expression

ROW = pa.table(
    {
        "a": pa.array([7], pa.int32()),
        "n": pa.array([-7], pa.int32()),
        "b": pa.array([2], pa.int64()),
        "d": [2.7],
        "e": [-2.5],
        "m": [Decimal("10.25")],
        "s": ["Hello World"],
        "l": ["a,b,c"],
        "u": ["A_1"],
        "day": [dt.date(2024, 1, 31)],
        "at": pa.array([dt.datetime.fromisoformat("2024-01-31 10:20:30")], pa.timestamp("us")),
        "p": [True],
        "tags": [["x", "y"]],
        "counts": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        "nothing": pa.array([None], pa.int32()),
    }
)

ANSWERS: list[tuple[str, Any]] = [
    ("a DIV b", 3),
    ("n DIV b", -3),
    ("a / b", 3.5),
    ("n % 3", -1),
    ("pmod(n, 3)", 2),
    ("pmod(a + n, b + 1)", 0),
    ("CAST(d AS INT)", 2),
    ("CAST(e AS INT)", -2),
    ("CAST(a / b AS BIGINT)", 3),
    ("CAST(m * 2 AS INT)", 20),
    ("int(d)", 2),
    ("bigint('12')", 12),
    ("sum(CAST(d AS INT) + a)", 9),
    ("CAST('3' AS INT)", 3),
    ("TRY_CAST('x' AS INT)", None),
    ("CAST(p AS INT)", 1),
    ("round(m, 1)", Decimal("10.3")),
    ("greatest(a, nothing, 9)", 9),
    ("substring(s, 1, 4)", "Hell"),
    ("substring(s, 0, 3)", "Hel"),
    ("substr(s, -3, 2)", "rl"),
    ("concat(s, nothing)", None),
    ("concat_ws('-', 'a', nothing, 'b')", "a-b"),
    ("split(l, ',')[1]", "b"),
    ("u LIKE 'A\\_%'", True),
    ("u LIKE '_\\__'", True),
    ("s LIKE 'A\\_%'", False),
    ("u NOT LIKE 'A\\_%'", False),
    ("u LIKE 'A/_%' ESCAPE '/'", True),
    ("s LIKE ANY ('H%', 'x')", True),
    ("s RLIKE 'W'", True),
    ("isnull(nothing)", True),
    ("isnotnull(nothing)", False),
    ("nvl(nothing, 3)", 3),
    ("nvl2(nothing, 1, 2)", 2),
    ("nothing <=> NULL", True),
    ("a <=> nothing", False),
    ("btrim(' x ')", "x"),
    ("format_string('%s-%d', s, a)", "Hello World-7"),
    ("dayofweek(day)", 4),
    ("weekday(day)", 2),
    ("date_add(day, 1)", dt.date(2024, 2, 1)),
    ("date_sub(date_add(day, 1), 2)", dt.date(2024, 1, 30)),
    ("add_months(day, 1)", dt.date(2024, 2, 29)),
    ("trunc(day, 'MM')", dt.date(2024, 1, 1)),
    ("date_trunc('MONTH', at)", dt.datetime.fromisoformat("2024-01-01 00:00:00")),
    ("datediff(day, DATE '2024-01-01')", 30),
    ("months_between(day, DATE '2023-12-31')", 1.0),
    ("at + INTERVAL 1 HOUR", dt.datetime.fromisoformat("2024-01-31 11:20:30")),
    ("timestampdiff(DAY, DATE '2024-01-01', day)", 30),
    ("to_date('03/02/2024', 'dd/MM/yyyy')", dt.date(2024, 2, 3)),
    ("date_format(at, 'yyyy-MM-dd')", "2024-01-31"),
    ("tags[0]", "x"),
    ("element_at(tags, 1)", "x"),
    ("size(tags)", 2),
    ("array_contains(tags, 'y')", True),
    ("counts['k']", 1),
    ("transform(tags, t -> concat(t, '!'))", ["x!", "y!"]),
    ("named_struct('x', a).x", 7),
    ("struct(a, b)", {"a": 7, "b": 2}),
    ("a & 3 | 8", 11),
    ("'it\\'s'", "it's"),
    ('"double"', "double"),
    ("r'\\d'", "\\d"),
    ("1L + 2S + 3Y", 6),
    ("1.5BD", Decimal("1.5")),
    ("X'4142'", b"AB"),
    ("every(p)", True),
    ("any(p)", True),
    ("some(NOT p)", False),
    ("count(a, nothing)", 0),
    ("count(a, b)", 1),
    ("count(DISTINCT a, b)", 1),
    ("count_if(p)", 1),
    ("sum(a)", 7),
    ("sum(DISTINCT a)", 7),
    ("max_by(s, a)", "Hello World"),
    ("collect_list(a)", [7]),
]


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("t", ROW)
    return connection


@pytest.mark.parametrize(("sql", "answer"), ANSWERS, ids=lambda it: str(it)[:40])
def test_an_expression_means_what_it_means_in_spark(
    sql: str, answer: Any, duck: duckdb.DuckDBPyConnection
) -> None:
    query = to_duckdb(f"SELECT {sql} AS x FROM t", {"t": ROW.schema})
    assert duck.execute(query).fetchall() == [(answer,)]
    assert duck.execute(f"SELECT {to_duckdb_expression(sql, ROW.schema)} FROM t").fetchall() == [(answer,)]


def test_sums_and_counts_of_whole_numbers_are_of_sparks_type(duck: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT sum(a) AS s, sum(a + b * 2) AS t, count_if(p) AS c, count(*) AS n, sum(m) AS m FROM t"
    made = duck.sql(to_duckdb(sql, {"t": ROW.schema})).to_arrow_table().schema
    assert made.types[:4] == [pa.int64()] * 4
    assert pa.types.is_decimal(made.field("m").type)


def test_a_cast_that_cannot_be_done_is_an_error_and_not_null(duck: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.ConversionException):
        duck.execute(to_duckdb("SELECT CAST(s AS INT) FROM t"))


def test_a_division_by_zero_is_an_error_and_not_null(duck: duckdb.DuckDBPyConnection) -> None:
    duck.execute("SET ieee_floating_point_ops = false")
    for sql in ("a / (b - 2)", "d / 0", "a DIV 0", "a % 0"):
        with pytest.raises(duckdb.Error, match="by zero"):
            duck.execute(f"SELECT {to_duckdb_expression(sql)} FROM t").fetchall()
    assert duck.execute(f"SELECT {to_duckdb_expression('try_divide(a, 0)')} FROM t").fetchall() == [(None,)]


def test_values_and_parameters_go_through(duck: duckdb.DuckDBPyConnection) -> None:
    assert duck.execute(to_duckdb("VALUES (1, 'a'), (2, NULL)")).fetchall() == [(1, "a"), (2, None)]
    assert duck.execute(to_duckdb("SELECT ? + a FROM t WHERE s = ?"), [1, "Hello World"]).fetchall() == [(8,)]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", set()),
        ("SELECT * FROM Orders o JOIN `two words` ON true", {"Orders", "two words"}),
        (
            "WITH a AS (SELECT * FROM orders), b AS (SELECT * FROM a) SELECT * FROM b, items",
            {"orders", "items"},
        ),
        ("WITH orders AS (SELECT * FROM orders) SELECT * FROM ORDERS", {"orders"}),
        ("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT * FROM t", set()),
        ("SELECT * FROM (WITH x AS (SELECT * FROM a) SELECT * FROM x) y, x", {"a", "x"}),
        (
            "SELECT (SELECT max(a) FROM a) FROM b WHERE i IN (SELECT i FROM c) OR EXISTS (SELECT 1 FROM d)",
            set("abcd"),
        ),
        ("(SELECT * FROM a) UNION ALL (SELECT * FROM b) EXCEPT SELECT * FROM c", set("abc")),
        ("VALUES (1)", set()),
        ("SELECT * FROM range(10)", set()),
    ],
)
def test_the_tables_of_a_query_are_known(sql: str, names: set[str]) -> None:
    assert references(sql) == names


def test_a_database_is_no_part_of_a_name() -> None:
    with pytest.raises(NotFound, match="'shop'"):
        references("SELECT * FROM shop.orders")


def test_what_cannot_be_read_or_written_is_an_error_of_ours() -> None:
    with pytest.raises(BadSql, match="line 1, column 8"):
        to_duckdb("SELECT (")
    with pytest.raises(BadSql, match="nothing here"):
        to_duckdb_expression("")
    deep = "(" * 3000 + "1" + ")" * 3000
    with pytest.raises((BadSql, Unsupported), match="nested"):
        to_duckdb_expression(deep)
