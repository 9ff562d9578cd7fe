"""Every statement is read into what it says, and every mistake is told with its place."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadSql, NotFound, PenstockError, ReservedName, Unsupported
from penstock.sql import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    ExplainIncremental,
    Insert,
    Query,
    Show,
    Update,
    parse,
)
from penstock.sql.statements.column_types import spark_type


def only(sql: str) -> object:
    (statement,) = parse(sql)
    return statement


def test_a_table_has_columns_a_key_and_options() -> None:
    sql = (
        "create table if not exists Orders (Id bigint primary key, note string) with (log = 'shop', keep = 7)"
    )
    assert only(sql) == CreateTable(
        "Orders",
        pa.schema([pa.field("Id", pa.int64(), nullable=False), pa.field("note", pa.string())]),
        ("Id",),
        {"log": "shop", "keep": 7},
        if_not_exists=True,
    )


def test_a_key_may_have_several_columns_and_names_them_without_case() -> None:
    for key in ("PRIMARY KEY (B, `a`)", "CONSTRAINT mine PRIMARY KEY (b, A)"):
        made = only(f"CREATE TABLE t (a INT, b INT NOT NULL, c INT NULL, {key})")
        assert isinstance(made, CreateTable)
        assert made.key == ("b", "a")
        assert [it.nullable for it in made.schema] == [False, False, True]


def test_without_a_key_it_is_a_multiset() -> None:
    assert only("CREATE TABLE t (a INT COMMENT 'a note')") == CreateTable("t", pa.schema([("a", pa.int32())]))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("BIGINT", pa.int64()),
        ("long", pa.int64()),
        ("INT", pa.int32()),
        ("Integer", pa.int32()),
        ("SMALLINT", pa.int16()),
        ("TINYINT", pa.int8()),
        ("STRING", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("CHAR(3)", pa.string()),
        ("BOOLEAN", pa.bool_()),
        ("DOUBLE", pa.float64()),
        ("FLOAT", pa.float32()),
        ("REAL", pa.float32()),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("DECIMAL(5)", pa.decimal128(5, 0)),
        ("NUMERIC(12, 2)", pa.decimal128(12, 2)),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_LTZ", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("BINARY", pa.binary()),
        ("ARRAY<INT>", pa.list_(pa.field("element", pa.int32()))),
        (
            "MAP<STRING, ARRAY<DOUBLE>>",
            pa.map_(
                pa.field("key", pa.string(), nullable=False),
                pa.field("value", pa.list_(pa.field("element", pa.float64()))),
            ),
        ),
        (
            "STRUCT<a: INT NOT NULL, `b c` STRUCT<d: DATE>>",
            pa.struct(
                [
                    pa.field("a", pa.int32(), nullable=False),
                    pa.field("b c", pa.struct([pa.field("d", pa.date32())])),
                ]
            ),
        ),
        ("STRUCT<>", pa.struct([])),
    ],
)
def test_every_type_of_sparks_has_one_of_arrows(sql: str, kind: pa.DataType) -> None:
    made = only(f"CREATE TABLE t (a {sql}, b INT)")
    assert isinstance(made, CreateTable)
    assert made.schema.field("a").type == kind
    again = only(f"CREATE TABLE t (a {spark_type(kind)})")
    assert isinstance(again, CreateTable)
    assert without_promises(again.schema.field("a").type) == without_promises(kind)


def without_promises(kind: pa.DataType) -> str:
    return str(kind).replace(" not null", "")


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (pa.large_string(), "STRING"),
        (pa.large_binary(), "BINARY"),
        (pa.timestamp("us", tz="Europe/Berlin"), "TIMESTAMP"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.null(), "VOID"),
    ],
)
def test_arrows_other_types_have_one_of_sparks(kind: pa.DataType, sql: str) -> None:
    assert spark_type(kind) == sql


def test_a_type_that_spark_has_not_is_refused() -> None:
    with pytest.raises(Unsupported, match="time64"):
        spark_type(pa.time64("us"))


def test_a_view_has_a_query_and_options() -> None:
    sql = """CREATE MATERIALIZED VIEW IF NOT EXISTS totals (who, total)
    WITH (incremental = 'strict', a.b = true)
    AS SELECT customer, -- each
         sum(amount) FROM orders GROUP BY customer"""
    assert only(sql) == CreateView(
        "totals",
        "SELECT customer, -- each\n         sum(amount) FROM orders GROUP BY customer",
        ("who", "total"),
        {"incremental": "strict", "a.b": True},
        if_not_exists=True,
    )
    assert only("CREATE MATERIALIZED VIEW v AS WITH a AS (SELECT 1) (SELECT * FROM a)") == CreateView(
        "v", "WITH a AS (SELECT 1) (SELECT * FROM a)"
    )


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("DROP TABLE t", Drop("table", "t")),
        ("DROP TABLE IF EXISTS `a b`", Drop("table", "a b", if_exists=True)),
        ("DROP MATERIALIZED VIEW v", Drop("view", "v")),
        ("drop view if exists v", Drop("view", "v", if_exists=True)),
        ("INSERT INTO t VALUES (1, 'a;b'), (2, NULL)", Insert("t", "VALUES (1, 'a;b'), (2, NULL)")),
        ("INSERT INTO TABLE t (b, `a`) SELECT x, y FROM u", Insert("t", "SELECT x, y FROM u", ("b", "a"))),
        ("insert into t (select a from u)", Insert("t", "(select a from u)")),
        (
            "INSERT INTO t WITH a AS (SELECT 1) SELECT 2",
            Insert("t", "WITH a AS (SELECT 1) SELECT 2"),
        ),
        ("UPDATE t SET a = 1", Update("t", (("a", "1"),))),
        (
            "UPDATE t SET a = concat(b, ',') , `b c`=CASE WHEN x THEN 1 END WHERE a IN (1) AND c = 'WHERE'",
            Update(
                "t",
                (("a", "concat(b, ',')"), ("b c", "CASE WHEN x THEN 1 END")),
                "a IN (1) AND c = 'WHERE'",
            ),
        ),
        ("DELETE FROM t", Delete("t")),
        ("DELETE FROM t WHERE a /* one */ > 1", Delete("t", "a > 1")),
        ("SHOW TABLES", Show("tables")),
        ("SHOW TABLES LIKE 'a*'", Show("tables", like="a*")),
        ("SHOW VIEWS 'a*|b'", Show("views", like="a*|b")),
        ("SHOW MATERIALIZED VIEWS", Show("views")),
        ("SHOW PIPELINES", Show("pipelines")),
        ("SHOW COLUMNS IN t", Show("columns", "t")),
        ("show columns from t", Show("columns", "t")),
        ("DESCRIBE t", Describe("t")),
        ("DESC TABLE EXTENDED t", Describe("t", extended=True)),
        ("EXPLAIN INCREMENTAL v", ExplainIncremental(name="v")),
        ("EXPLAIN INCREMENTAL VIEW v", ExplainIncremental(name="v")),
        ("EXPLAIN INCREMENTAL SELECT 1 FROM t", ExplainIncremental(query="SELECT 1 FROM t")),
        ("SELECT 1", Query("SELECT 1")),
        (
            "(SELECT 1) UNION ALL SELECT 2 LIMIT 3",
            Query("(SELECT 1) UNION ALL SELECT 2 LIMIT 3"),
        ),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Query("WITH a AS (SELECT 1) SELECT * FROM a")),
        ("VALUES (1), (2)", Query("VALUES (1), (2)")),
        ("SELECT ? FROM t WHERE a = ?", Query("SELECT ? FROM t WHERE a = ?")),
    ],
)
def test_a_statement_is_read_into_what_it_says(sql: str, statement: object) -> None:
    assert only(sql) == statement
    assert only(f"\n -- first\n{sql} ;; ") == statement


def test_several_statements_are_parted_by_semicolons() -> None:
    found = parse("INSERT INTO t VALUES (';'); -- no; end\nDELETE FROM t; /* ; */ SELECT ';' AS `;`;")
    assert found == [Insert("t", "VALUES (';')"), Delete("t"), Query("SELECT ';' AS `;`")]


@pytest.mark.parametrize(
    ("sql", "error", "line", "column", "told"),
    [
        ("", BadSql, 1, 1, "no statement"),
        (" -- nothing", BadSql, 1, 1, "no statement"),
        ("CREAT TABLE t (a INT)", BadSql, 1, 1, "begins with 'CREAT'"),
        ("`SELECT` 1", BadSql, 1, 1, "begins with 'SELECT'"),
        ("SHOW TABLES;\n  GRANT all", BadSql, 2, 3, "begins with 'GRANT'"),
        ("CREATE TABLE t (a INT", BadSql, 1, 22, r"\) is expected here, not the end"),
        ("CREATE TABLE t (a INT,)", BadSql, 1, 23, "the name of a column is expected here, not '\\)'"),
        ("CREATE TABLE t", BadSql, 1, 15, r"\( is expected"),
        ("CREATE TABLE t (a NUMBER)", BadSql, 1, 19, "'NUMBER'"),
        ("CREATE TABLE t (a DECIMAL(39, 2))", BadSql, 1, 19, r"DECIMAL\(39, 2\)"),
        ("CREATE TABLE t (a DECIMAL(3, 4))", BadSql, 1, 19, r"DECIMAL\(3, 4\)"),
        ("CREATE TABLE t (a DECIMAL(x))", BadSql, 1, 27, "whole number"),
        ("CREATE TABLE t (a ARRAY<INT)", BadSql, 1, 28, "> is expected"),
        ("CREATE TABLE t (a INT, A STRING)", BadSql, 1, 24, "two columns"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", BadSql, 1, 54, "more than once"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a))", BadSql, 1, 24, "twice"),
        ("CREATE TABLE t (a INT) WITH (x = 1, X = 2)", BadSql, 1, 37, "twice"),
        ("CREATE TABLE t (a INT) WITH (x = ()", BadSql, 1, 34, "the value of an option"),
        ("CREATE TABLE t (a INT) nonsense", BadSql, 1, 24, "should end before 'nonsense'"),
        ("CREATE TABLE s.t (a INT)", BadSql, 1, 15, "no databases"),
        ("CREATE MATERIALIZED VIEW v SELECT 1", BadSql, 1, 28, "AS is expected"),
        ("CREATE MATERIALIZED VIEW v AS", BadSql, 1, 30, "nothing here"),
        ("CREATE MATERIALIZED VIEW v AS SELECT a FROM", BadSql, 1, 40, "missing"),
        ("CREATE MATERIALIZED VIEW v AS DELETE FROM t", BadSql, 1, 31, "a query is missing"),
        ("CREATE FUNCTION f", BadSql, 1, 8, "TABLE or MATERIALIZED VIEW"),
        ("DROP FUNCTION f", BadSql, 1, 6, "VIEW is expected"),
        ("INSERT INTO t (a, A) VALUES (1, 2)", BadSql, 1, 15, "twice"),
        ("INSERT INTO t VALUES (1", BadSql, 1, 23, "expecting"),
        ("INSERT t VALUES (1)", BadSql, 1, 8, "INTO is expected"),
        ("UPDATE t SET a = 1, A = 2", BadSql, 1, 21, "set twice"),
        ("UPDATE t SET a =", BadSql, 1, 17, "an expression is missing"),
        ("UPDATE t SET a = WHERE b", BadSql, 1, 18, "an expression is missing"),
        ("UPDATE t WHERE b", BadSql, 1, 10, "SET is expected"),
        ("DELETE FROM t WHERE", BadSql, 1, 20, "an expression is missing"),
        ("DELETE FROM t WHERE a = = 1", BadSql, 1, None, "line 1"),
        ("SELECT\n  a,\n  b FROM t WHERE (c = 1", BadSql, 3, None, "expecting \\)"),
        ("SELECT 'abc", BadSql, 1, None, "not closed"),
        ("SHOW FUNCTIONS", BadSql, 1, 6, "cannot be shown"),
        ("EXPLAIN INCREMENTAL", BadSql, 1, 20, "the name of the view"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    sql: str, error: type[BadSql], line: int | None, column: int | None, told: str
) -> None:
    with pytest.raises(error, match=told) as caught:
        parse(sql)
    found = caught.value
    assert line is None or found.line == line, found
    assert column is None or found.column == column, found
    assert f"line {found.line}, column {found.column}" in str(found)
    assert found.hint


@pytest.mark.parametrize(
    ("sql", "error", "told"),
    [
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", Unsupported, "DROP it first"),
        ("CREATE VIEW v AS SELECT 1", Unsupported, "MATERIALIZED"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", Unsupported, "MATERIALIZED"),
        ("CREATE TABLE t AS SELECT 1", Unsupported, "INSERT INTO"),
        ("INSERT OVERWRITE t VALUES (1)", Unsupported, "DELETE FROM"),
        ("EXPLAIN SELECT 1", Unsupported, "EXPLAIN INCREMENTAL"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", NotFound, "'b'"),
        ("CREATE TABLE t (_lsn INT)", ReservedName, "_lsn"),
    ],
)
def test_what_is_not_done_says_what_is(sql: str, error: type[PenstockError], told: str) -> None:
    with pytest.raises(error, match=told):
        parse(sql)
