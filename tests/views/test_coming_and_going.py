"""Views and tables that come and go between ticks: each is right from its first tick on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.errors import NotFound, NotReady, Unsupported
from penstock.store import LocalStore
from penstock.store.faulty import Fault, FaultyStore
from penstock.views import CatalogStore
from tests.views.test_bad_input import bag

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COUNT = "SELECT COUNT(*) AS n FROM orders"
SUMS = "SELECT customer, SUM(n) AS total FROM orders GROUP BY customer"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[ps.Database]:
    with ps.connect(tmp_path / "db", spark=spark) as db:
        db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, n INT)")
        yield db


def insert(db: ps.Database, *ids: int) -> None:
    db.table("orders").upsert([{"id": it, "customer": "abc"[it % 3], "n": it} for it in ids])


def create(db: ps.Database, **views: str) -> None:
    for name, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def check(db: ps.Database, **views: str) -> None:
    """Each view is its query's answer, and the sum of its changes."""
    db.refresh()
    for name, sql in views.items():
        content = db.query(f"SELECT * FROM {name}").rows()
        assert bag(content) == bag(db.query(sql)), name
        told: dict[str, int] = {}
        for changes in db.view(name).changes():
            for row, weight in zip(changes.data.to_pylist(), changes.weights.tolist(), strict=True):
                told[repr(row)] = told.get(repr(row), 0) + weight
        assert {row: n for row, n in told.items() if n} == {repr(row): 1 for row in content}, name


def test_a_view_over_nothing_shares_its_state_with_one_that_comes_later(db: ps.Database) -> None:
    """The one row of a global aggregate is told to both, though nothing was ever in the table."""
    create(db, one=COUNT)
    check(db, one=COUNT)
    create(db, other=COUNT, renamed="SELECT COUNT(*) AS number FROM orders")
    check(db, one=COUNT, other=COUNT)
    insert(db, 1, 2)
    check(db, one=COUNT, other=COUNT, renamed="SELECT COUNT(*) AS number FROM orders")


def test_a_view_that_comes_later_finds_all_that_there_was(db: ps.Database) -> None:
    create(db, sums=SUMS)
    insert(db, *range(9))
    check(db, sums=SUMS)
    insert(db, 3, 4)
    create(db, count=COUNT, largest="SELECT MAX(total) AS n FROM sums")
    check(db, sums=SUMS, count=COUNT, largest="SELECT MAX(total) AS n FROM sums")
    db.table("orders").delete([{"id": 8}])
    check(db, sums=SUMS, count=COUNT, largest="SELECT MAX(total) AS n FROM sums")


def test_a_view_that_is_made_anew_is_another_one(db: ps.Database) -> None:
    create(db, it=COUNT)
    insert(db, 1, 2, 3)
    check(db, it=COUNT)
    db.sql("DROP MATERIALIZED VIEW it")
    with pytest.raises(NotFound):
        db.view("it")
    create(db, it=SUMS)
    with pytest.raises(NotReady, match="it"):
        db.view("it").snapshot()
    check(db, it=SUMS)
    insert(db, 4)
    check(db, it=SUMS)
    assert {it.collection.schema.names[0] for it in db.log("views/main").read()} == {"customer"}


def test_when_all_views_were_dropped_the_next_one_begins_anew(db: ps.Database) -> None:
    create(db, sums=SUMS)
    insert(db, 1, 2, 3)
    check(db, sums=SUMS)
    db.sql("DROP MATERIALIZED VIEW sums")
    insert(db, 4, 5)
    db.refresh()
    insert(db, 6)
    create(db, sums=SUMS, count=COUNT)
    check(db, sums=SUMS, count=COUNT)


def test_a_table_that_is_made_anew_has_other_views(db: ps.Database) -> None:
    create(db, count=COUNT)
    insert(db, 1, 2)
    check(db, count=COUNT)
    with pytest.raises(Unsupported, match="count"):
        db.sql("DROP TABLE orders")
    db.sql("DROP MATERIALIZED VIEW count; DROP TABLE orders")
    db.sql("CREATE TABLE orders (customer STRING, n INT)")
    create(db, count=COUNT, sums=SUMS)
    check(db, count=COUNT, sums=SUMS)
    db.table("orders").insert([{"customer": "z", "n": 7}] * 2)
    check(db, count=COUNT, sums=SUMS)


def test_pipelines_follow_one_another(db: ps.Database) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW sums WITH (pipeline = 'early') AS {SUMS}")
    large = "SELECT COUNT(*) AS n FROM sums WHERE total > 3"
    db.sql(f"CREATE MATERIALIZED VIEW large WITH (pipeline = 'late') AS {large}")
    for ids in ([1, 2, 3], [4, 5], [1]):
        insert(db, *ids)
        check(db, sums=SUMS, large=large)
    db.table("orders").delete([{"id": 5}])
    check(db, sums=SUMS, large=large)


def test_what_a_view_reads_is_not_dropped_while_the_view_is_created(
    db: ps.Database, tmp_path: Path, spark: SparkSession
) -> None:
    """Whoever comes second looks again, and finds that the first one was there."""
    store = LocalStore(tmp_path / "db")
    with ps.connect(tmp_path / "db", spark=spark) as other:

        def drop() -> None:
            other.sql("DROP TABLE orders")

        slow = FaultyStore(store, [Fault(1, "delay", "before", "create", "catalog/", wait=drop)])
        db._workspace.catalog = CatalogStore(slow)
        with pytest.raises(NotFound, match="orders"):
            create(db, count=COUNT)
    assert db.views() == []
    assert db.refresh() == []


def test_a_database_that_is_removed_and_made_anew_in_one_process_has_nothing_of_the_old(
    tmp_path: Path, spark: SparkSession
) -> None:
    words = "SELECT upper(customer) AS customer, COUNT(*) AS n FROM orders GROUP BY upper(customer)"
    for round_ in range(3):
        with ps.connect(tmp_path / "db", spark=spark) as db:
            db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, n INT)")
            create(db, words=words, sums=SUMS)
            insert(db, *range(round_, 5 * round_ + 3))
            check(db, words=words, sums=SUMS)
        shutil.rmtree(tmp_path / "db")
