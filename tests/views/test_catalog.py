"""The catalog: versions that one process wins each, whatever names and columns there are."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import AlreadyExists, DamagedBytes, NotFound, Unsupported
from penstock.log.format import crc32c
from penstock.log.meta import Collection
from penstock.store import LocalStore, MemoryStore
from penstock.views.catalog import Catalog, CatalogStore, Table, View
from tests.arrow_strategies import schemas

ROOT = Path(__file__).parents[2]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ONE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])


def table(name: str, schema: pa.Schema = ONE, collection: str | None = None) -> Table:
    columns = pa.schema([it.with_nullable(True) for it in schema])
    return Table(name, "main", schema, Collection.define(collection or "c", columns, tuple(schema.names[:1])))


def view(name: str, schema: pa.Schema = ONE) -> View:
    columns = pa.schema([it.with_nullable(True) for it in schema])
    made = replace(Collection.define("v", columns, ()), name=name)
    return View(name, "main", "SELECT 1", made, {"incremental": "strict"})


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    catalog = Catalog(draw(st.integers(0, 2**40)))
    names = draw(st.lists(TEXT, max_size=4, unique_by=str.casefold))
    for name in names:
        schema = draw(schemas())
        made = table(name, schema) if draw(st.booleans()) else view(name, schema)
        catalog = catalog.including(made)
    return catalog


@given(catalogs())
def test_what_is_encoded_is_decoded(catalog: Catalog) -> None:
    found = Catalog.decode(catalog.encode(), "here")
    assert found == catalog
    assert list(found.views) == list(catalog.views)  # in the order they were created
    for name, it in catalog.tables.items():  # equality of schemas leaves out what may be NULL
        assert found.tables[name].schema.equals(it.schema, check_metadata=True)


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_no_byte_changes_unnoticed(mask: int) -> None:
    data = Catalog().including(table("t")).including(view("v")).encode()
    for i in range(len(data)):
        changed = bytearray(data)
        changed[i] ^= mask
        with pytest.raises(DamagedBytes, match="catalog/1"):
            Catalog.decode(bytes(changed), "catalog/1")


def test_a_newer_format_is_told_from_damage() -> None:
    text = orjson.dumps({"format": 2, "version": 1, "tables": [], "views": []})
    data = b'{"crc32c": "%08x", "catalog": ' % crc32c(text) + text + b"}\n"
    with pytest.raises(Unsupported, match="format 2"):
        Catalog.decode(data, "here")


def test_names_have_no_case_and_are_shown_as_they_were_given() -> None:
    catalog = Catalog().including(table("Orders")).including(view("Straße"))
    assert catalog["ORDERS"].name == "Orders"
    assert catalog.view("STRASSE").name == "Straße"
    with pytest.raises(AlreadyExists):
        catalog.including(view("oRDERS"))
    assert catalog.without("ORDERS").find("orders") is None


def test_what_is_not_there_is_told_with_what_is() -> None:
    catalog = Catalog().including(table("orders")).including(view("sums"))
    with pytest.raises(NotFound, match="orders"):
        catalog.table("order")
    with pytest.raises(Unsupported, match="view"):
        catalog.table("sums")
    with pytest.raises(NotFound, match="sums"):
        catalog.view("orders")


# -- several at once --------------------------------------------------------------------------------


def check_history(store: LocalStore | MemoryStore, expected: set[str]) -> None:
    """Each version has one name more than the one before it."""
    names = [blob.name for blob in store.list("catalog/")]
    assert len(names) == len(expected)
    before: set[str] = set()
    for number, name in enumerate(names, 1):
        version = Catalog.decode(store.get(name), name)
        assert version.version == number
        assert len(version.tables.keys() - before) == 1
        assert before <= version.tables.keys()
        before = set(version.tables)
    assert before == expected


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_of_threads_that_create_one_wins_each_version(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path, fsync=False)
    won: list[str] = []
    lost: list[str] = []

    def create(number: int) -> None:
        mine = CatalogStore(store)
        for i in range(6):
            name = f"t{number}x{i}"
            mine.change(lambda catalog, name=name: catalog.including(table(name)))  # type: ignore[misc]
            assert mine.read().find(name) is not None
        for i in range(4):
            try:
                mine.change(lambda catalog, i=i: catalog.including(table(f"same{i}")))  # type: ignore[misc]
                won.append(f"same{i}")
            except AlreadyExists:
                lost.append(f"same{i}")

    threads = [threading.Thread(target=create, args=[number]) for number in range(5)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert sorted(won) == [f"same{i}" for i in range(4)]
    assert len(lost) == 4 * 4
    check_history(store, {f"t{number}x{i}" for number in range(5) for i in range(6)} | set(won))


PROGRAM = """
import sys
import pyarrow as pa
from penstock.errors import AlreadyExists
from penstock.log.meta import Collection
from penstock.store import LocalStore
from penstock.views.catalog import CatalogStore, Table

schema = pa.schema([("id", pa.int64())])

def table(name):
    return Table(name, "main", schema, Collection.define("c", schema, ()))

catalog = CatalogStore(LocalStore(sys.argv[1], fsync=False))
print("ready", flush=True)
sys.stdin.readline()
for i in range(20):
    catalog.change(lambda it: it.including(table(f"t{sys.argv[2]}x{i}")))
    try:
        catalog.change(lambda it: it.including(table(f"same{i}")))
        print(f"same{i}")
    except AlreadyExists:
        pass
"""


def test_of_processes_that_create_one_wins_each_version(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for it in started:
        assert it.stdout is not None
        assert it.stdout.readline() == "ready\n"
    won: list[str] = []
    for it in started:
        assert it.stdin is not None
        it.stdin.write("go\n")
        it.stdin.flush()
    for it in started:
        told, _ = it.communicate()
        assert it.returncode == 0
        won += told.split()
    assert sorted(won) == sorted(f"same{i}" for i in range(20))
    own = {f"t{number}x{i}" for number in range(3) for i in range(20)}
    check_history(LocalStore(tmp_path, fsync=False), own | set(won))


def test_a_change_that_changes_nothing_makes_no_version() -> None:
    store = MemoryStore()
    CatalogStore(store).change(lambda catalog: catalog)
    assert not list(store.list("catalog/"))


def test_an_error_in_a_change_makes_no_version() -> None:
    store = MemoryStore()
    catalog = CatalogStore(store)
    catalog.change(lambda it: it.including(table("t")))
    with pytest.raises(AlreadyExists):
        catalog.change(lambda it: it.including(table("T")))
    assert catalog.read().version == 1


# -- dropped, and made anew -------------------------------------------------------------------------


def test_a_table_that_is_dropped_and_made_anew_has_none_of_the_old_rows(tmp_path: Path) -> None:
    for number, (kind, value) in enumerate([("BIGINT", "7"), ("STRING", "'7'"), *[("BIGINT", "7")] * 2]):
        with ps.connect(tmp_path) as db:
            db.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, it {kind})")
            assert len(db.query("SELECT * FROM t")) == 0
            db.sql(f"INSERT INTO t VALUES ({number}, {value})")
        with ps.connect(tmp_path) as db:
            assert [row["id"] for row in db.query("SELECT * FROM t")] == [number]
            db.sql("DROP TABLE t")
            with pytest.raises(NotFound):
                db.query("SELECT * FROM t")
            db.sql("DROP TABLE IF EXISTS t")
            with pytest.raises(NotFound):
                db.sql("DROP TABLE t")


def test_if_not_exists_leaves_what_there_is(tmp_path: Path) -> None:
    with ps.connect(tmp_path) as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("CREATE TABLE IF NOT EXISTS T (other STRING)")
        assert db.query("SELECT * FROM t").rows() == [{"id": 1}]
        with pytest.raises(AlreadyExists):
            db.sql("CREATE TABLE T (other STRING)")


def test_threads_that_create_one_table_leave_one(tmp_path: Path) -> None:
    with ps.connect(tmp_path) as db:
        outcomes: list[bool] = []

        def create() -> None:
            try:
                db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT)")
                outcomes.append(True)
            except AlreadyExists:
                outcomes.append(False)

        threads = [threading.Thread(target=create) for _ in range(6)]
        for it in threads:
            it.start()
        for it in threads:
            it.join()
        assert sorted(outcomes) == [False] * 5 + [True]
        db.sql("INSERT INTO t VALUES (1, 2)")
        assert db.query("SELECT * FROM t").rows() == [{"id": 1, "n": 2}]
