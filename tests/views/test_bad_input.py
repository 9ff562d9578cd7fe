"""What is wrong is told with its name, nothing of it happens, and the database goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.errors import (
    BadSql,
    EngineFailed,
    InvalidArgument,
    KeyConflict,
    NotFound,
    PenstockError,
    QueryFailed,
    SchemaMismatch,
    Unsupported,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(8, 2), text STRING);
CREATE TABLE tags (customer STRING, n INT);
"""
SUMS = "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer"
ROWS = [{"id": i, "customer": "abc"[i % 3], "amount": f"{i}.50", "text": f"{i}"} for i in range(1, 10)]


def begin(db: ps.Database) -> None:
    """A view that is right."""
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
    db.table("orders").insert(ROWS)
    db.table("tags").insert([{"customer": "a", "n": 1}, {"customer": "b", "n": 1}])
    db.refresh()


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[ps.Database]:
    with ps.connect(tmp_path / "db", spark=spark) as db:
        begin(db)
        yield db


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[ps.Database]:
    """One for all tests that leave it as it was; in the end it is right."""
    with ps.connect(tmp_path_factory.mktemp("same"), spark=spark) as db:
        begin(db)
        yield db
        db.table("orders").delete([{"id": 1}])
        check_right(db)


def bag(rows: Any) -> list[str]:
    return sorted(repr(sorted(row.items(), key=str)) for row in rows)


def check_right(db: ps.Database) -> None:
    """The view is what its query says, of all that is in the table now."""
    db.refresh()
    assert bag(db.query("SELECT * FROM sums")) == bag(db.query(SUMS))
    told: dict[str, int] = {}
    for changes in db.view("sums").changes():
        for row, weight in zip(changes.data.to_pylist(), changes.weights.tolist(), strict=True):
            told[repr(row)] = told.get(repr(row), 0) + weight
    now = {repr(row): 1 for row in db.view("sums").snapshot().to_pylist()}
    assert {row: weight for row, weight in told.items() if weight} == now


def untouched(db: ps.Database, act: Callable[[], object]) -> None:
    """What is done leaves tables, catalog and views as they were."""

    def state() -> object:
        newest = db._workspace.pipeline("main").log.newest()
        assert newest is not None
        version = db._workspace.catalog.read().version
        return version, db.log("main").current_lsn, newest.tick, bag(db.query("SELECT * FROM sums"))

    before = state()
    act()
    assert state() == before


# -- queries ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "kind", "told"),
    [
        ("SELECT * FROM nowhere", NotFound, "nowhere"),
        ("SELECT nothing FROM orders", PenstockError, "nothing"),
        ("SELECT o.nothing FROM orders o", PenstockError, "nothing"),
        ("SELECT orders.id FROM orders o", PenstockError, "orders"),
        ("SELECT id FROM orders JOIN tags USING (id)", PenstockError, "id"),
        (
            "SELECT customer FROM orders JOIN tags ON orders.customer = tags.customer",
            PenstockError,
            "customer",
        ),
        ("SELECT array(1) + 1 AS x FROM orders", SchemaMismatch, r"array\(1\) \+ 1"),
        ("SELECT id FROM orders WHERE upper(text)", PenstockError, "upper"),
        ("SELECT no_such_function(id) AS x FROM orders", PenstockError, "no_such_function"),
        ("SELECT upper(id, id) AS x FROM orders", PenstockError, "upper"),
        ("SELECT id FROM orders UNION ALL SELECT customer, n FROM tags", PenstockError, "column"),
        ("SELECT id, rand() AS r FROM orders", Unsupported, "rand"),
        ("SELECT id FROM orders WHERE rand() < 0.5", Unsupported, "rand"),
        ("SELECT uuid() AS u, COUNT(*) AS n FROM orders GROUP BY uuid()", Unsupported, "uuid"),
        ("SELECT id, current_timestamp() AS t FROM orders", Unsupported, "current_timestamp"),
        ("SELECT customer, id FROM orders GROUP BY customer", PenstockError, "id"),
        ("SELECT id FROM orders WHERE SUM(amount) > 1", PenstockError, "(?i)sum"),
        ("SELECT id AS a, text AS a FROM orders", PenstockError, "a"),
        ("SELECT id AS _weight FROM orders", PenstockError, "_weight"),
        ("SELECT FROM orders", PenstockError, None),
        ("SELECT id FROM orders WHERE", BadSql, None),
        ("SELECT * FROM itself", PenstockError, "itself"),
    ],
)
def test_a_query_that_cannot_be_kept_right_creates_nothing(
    same: ps.Database, sql: str, kind: type[PenstockError], told: str | None
) -> None:
    def create() -> None:
        with pytest.raises(kind, match=told):
            same.sql(f"CREATE MATERIALIZED VIEW itself AS {sql}")

    untouched(same, create)


@pytest.mark.parametrize(
    ("sql", "kind", "told"),
    [
        ("CREATE TABLE orders (id INT)", PenstockError, "orders"),
        ("CREATE TABLE sums (id INT)", PenstockError, "sums"),
        ("CREATE TABLE t (id INT, ID INT)", PenstockError, "(?i)id"),
        ("CREATE TABLE t (_op INT)", PenstockError, "_op"),
        ("CREATE TABLE t (id NOTHING)", PenstockError, "NOTHING"),
        ("CREATE TABLE t (id INT PRIMARY KEY, PRIMARY KEY (id))", PenstockError, None),
        ("DROP TABLE orders", Unsupported, "sums"),
        ("DROP TABLE sums", PenstockError, "sums"),
        ("DROP MATERIALIZED VIEW orders", PenstockError, "orders"),
        ("INSERT INTO nowhere VALUES (1)", NotFound, "nowhere"),
        ("INSERT INTO sums VALUES ('a', 1, 1)", Unsupported, "sums"),
        ("INSERT INTO orders (id, nothing) VALUES (1, 2)", SchemaMismatch, "nothing"),
        ("INSERT INTO orders VALUES (1, 2)", SchemaMismatch, "orders"),
        ("INSERT INTO orders (customer) VALUES ('a')", PenstockError, "id"),
        ("INSERT INTO orders (id, amount) VALUES (50, 'many')", PenstockError, "amount"),
        ("UPDATE orders SET nothing = 1", SchemaMismatch, "nothing"),
        ("UPDATE orders SET amount = 'many'", PenstockError, "many"),
        ("UPDATE orders SET id = NULL WHERE id = 1", PenstockError, "id"),
        ("DELETE FROM orders WHERE nothing = 1", PenstockError, "nothing"),
        ("SELECT nothing FROM orders", PenstockError, "nothing"),
    ],
)
def test_a_statement_that_is_wrong_does_nothing(
    same: ps.Database, sql: str, kind: type[PenstockError], told: str | None
) -> None:
    def run() -> None:
        with pytest.raises(kind, match=told):
            same.sql(sql)

    untouched(same, run)


# -- rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "rows", "kind", "told"),
    [
        ("insert", [{"id": None, "customer": "a"}], PenstockError, "row 0.*'id'"),
        ("upsert", [{"id": 1}, {"customer": "a"}], PenstockError, "row 1.*'id'"),
        ("insert", [{"id": 50, "customer": "a", "colour": "red"}], SchemaMismatch, "colour"),
        ("insert", pa.table({"id": [50], "amount": ["many"]}), SchemaMismatch, "amount"),
        ("insert", pa.table({"number": [50]}), PenstockError, "number|id"),
        ("insert", [{"id": 2**63}], PenstockError, "id"),
        ("insert", [{"id": 50, "amount": "1234567.00"}], PenstockError, "amount"),
        ("insert", [{"id": 50, "amount": "1.005"}], PenstockError, "amount"),
        ("insert", [{"id": 50}, {"id": 51}, {"id": 50}], KeyConflict, "rows 0 and 2"),
        ("insert", [{"id": 50}, (51,)], PenstockError, None),
        ("insert", "id", PenstockError, None),
        ("delete", [{"customer": "a"}], PenstockError, "id"),
        ("append_changes", pa.table({"id": [50], "_op": pa.array([9], pa.int8())}), PenstockError, "_op|9"),
        ("append_changes", pa.table({"id": [50], "_weight": ["one"]}), PenstockError, "_weight"),
    ],
)
def test_rows_that_do_not_fit_are_refused_whole(
    same: ps.Database, verb: str, rows: Any, kind: type[PenstockError], told: str | None
) -> None:
    def write() -> None:
        with pytest.raises(kind, match=told):
            getattr(same.table("orders"), verb)(rows)

    untouched(same, write)


def test_of_a_transaction_that_fails_nothing_is_there(same: ps.Database) -> None:
    def write() -> None:
        with same.transaction():
            same.table("orders").insert([{"id": 60, "customer": "z"}])
            same.table("tags").insert([{"customer": "z", "n": "many"}])

    def fail() -> None:
        with pytest.raises(SchemaMismatch):
            write()

    untouched(same, fail)


# -- values that an expression does not take --------------------------------------------------------------

POISON = {
    "1 / 0": (
        "SELECT customer, 100 / n AS share FROM tags",
        "tags",
        {"customer": "p", "n": 0},
        "DIVIDE_BY_ZERO",
    ),
    "CAST": (
        "SELECT id, CAST(text AS INT) AS number FROM orders",
        "orders",
        {"id": 70, "customer": "p", "text": "garbage"},
        "garbage",
    ),
    "after an aggregate": (
        "SELECT customer, 1 / (SUM(n) - 5) AS share FROM tags GROUP BY customer",
        "tags",
        {"customer": "p", "n": 5},
        "DIVIDE_BY_ZERO",
    ),
    "in a condition": (
        "SELECT id FROM orders WHERE CAST(text AS INT) > 3",
        "orders",
        {"id": 70, "customer": "p", "text": "garbage"},
        "garbage",
    ),
    "too large": (
        "SELECT id, CAST(amount * 9999999999 AS INT) AS number FROM orders WHERE id >= 70",
        "orders",
        {"id": 70, "customer": "p", "amount": "9.00"},
        "OVERFLOW",
    ),
}


@pytest.mark.parametrize("case", POISON)
def test_a_value_that_an_expression_does_not_take_is_told_with_the_view(db: ps.Database, case: str) -> None:
    sql, table, row, told = POISON[case]
    db.sql(f"CREATE MATERIALIZED VIEW picky AS {sql}")
    db.sql("CREATE MATERIALIZED VIEW calm AS SELECT upper(customer) AS customer FROM orders")
    db.refresh()
    before = bag(db.query("SELECT * FROM picky"))
    db.table("orders").insert([{"id": 80, "customer": "q", "amount": "1.00", "text": "1"}])
    db.table(table).insert([row])

    def refresh() -> None:
        for _ in range(2):  # and again
            with pytest.raises(QueryFailed, match=told) as caught:
                db.refresh()
            assert "'picky'" in caught.value.subject
            assert "sums" not in caught.value.subject

    untouched(db, refresh)
    assert bag(db.query("SELECT * FROM picky")) == before
    db.sql("DROP MATERIALIZED VIEW picky")
    check_right(db)
    assert "Q" in [it["customer"] for it in db.query("SELECT customer FROM calm")]


def test_a_row_that_is_corrected_is_no_trouble_any_more(db: ps.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW picky AS SELECT id, CAST(text AS INT) AS number FROM orders")
    db.refresh()
    db.table("orders").insert([{"id": 70, "customer": "p", "text": "garbage"}])
    with pytest.raises(QueryFailed):
        db.refresh()
    db.table("orders").upsert([{"id": 70, "customer": "p", "text": "7"}])
    check_right(db)
    assert 7 in [it["number"] for it in db.query("SELECT number FROM picky")]


def test_a_view_over_rows_that_it_does_not_take_can_be_created_and_dropped(db: ps.Database) -> None:
    db.table("orders").insert([{"id": 70, "customer": "p", "text": "garbage"}])
    db.sql("CREATE MATERIALIZED VIEW picky AS SELECT id, CAST(text AS INT) AS number FROM orders")
    with pytest.raises(QueryFailed, match="garbage"):
        db.refresh()
    db.sql("DROP MATERIALIZED VIEW picky")
    check_right(db)


def test_a_sum_that_no_type_can_hold_is_told(db: ps.Database) -> None:
    db.sql("CREATE TABLE many (n BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW whole AS SELECT SUM(n) AS n FROM many")
    db.table("many").insert([{"n": 2**63 - 1}])
    db.refresh()
    db.table("many").insert([{"n": 1}])

    def refresh() -> None:
        with pytest.raises(PenstockError, match=r"(?i)overflow|hold"):
            db.refresh()

    untouched(db, refresh)
    db.table("many").insert([{"n": -1}])
    check_right(db)
    assert db.query("SELECT n FROM whole").rows() == [{"n": 2**63 - 1}]


def test_a_function_that_is_gone_stops_its_view_until_it_is_dropped(
    tmp_path: Path, spark: SparkSession
) -> None:
    spark.udf.register("soon_gone", lambda it: it, "string")
    with ps.connect(tmp_path / "db", spark=spark) as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        db.sql("CREATE MATERIALIZED VIEW custom AS SELECT soon_gone(customer) AS it FROM orders")
        db.table("orders").insert(ROWS)
        db.refresh()
    spark.sql("DROP TEMPORARY FUNCTION soon_gone")
    with ps.connect(tmp_path / "db", spark=spark) as db:
        with pytest.raises(PenstockError, match="soon_gone"):
            db.refresh()
        assert len(db.query("SELECT * FROM custom")) == len(ROWS)
        db.sql("DROP MATERIALIZED VIEW custom")
        check_right(db)


def test_a_python_worker_that_dies_is_told_and_the_next_refresh_goes_on(
    db: ps.Database, spark: SparkSession, tmp_path: Path
) -> None:
    alive = tmp_path / "alive"

    def mortal(text: str) -> str:
        if not alive.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return text

    spark.udf.register("mortal", mortal, "string")
    db.sql("CREATE MATERIALIZED VIEW risky AS SELECT id, mortal(text) AS text FROM orders")

    def refresh() -> None:
        with pytest.raises(EngineFailed, match=r"(?i)worker") as caught:
            db.refresh()
        assert "risky" in caught.value.subject

    untouched(db, refresh)
    alive.touch()
    check_right(db)
    assert len(db.query("SELECT * FROM risky")) == len(ROWS)


# -- handing in what makes no sense -----------------------------------------------------------------------


def test_arguments_that_make_no_sense_are_told(db: ps.Database) -> None:
    with pytest.raises(InvalidArgument, match="max_rows"):
        db.refresh(max_rows_per_tick=0)
    with pytest.raises(NotFound, match="nowhere"):
        db.table("nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        db.view("nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        db.log("nowhere")
    with pytest.raises(PenstockError, match=r"tick|LSN|ends"):
        db.view("sums").snapshot(as_of=10**9)
    check_right(db)
