"""A byte that changed on disk is told with its file by whoever reads it; nothing is built on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.errors import DamagedBytes, PenstockError
from penstock.views import Manifest
from tests.views.test_bad_input import ROWS, SUMS, TABLES, check_right

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def flipped(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[min(int(len(data) * at), len(data) - 1)] ^= 0x10
    path.write_bytes(data)


def newest(folder: Path) -> Manifest:
    path = max((folder / "pipelines/main/manifest").iterdir())
    return Manifest.decode(path.read_bytes(), path.name)


def begun(folder: Path, spark: SparkSession) -> None:
    with ps.connect(folder, spark=spark) as db:
        db.sql(TABLES)
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {SUMS}")
        db.sql(
            "CREATE MATERIALIZED VIEW shout AS SELECT upper(customer) AS customer, total + n AS x FROM sums"
        )
        db.table("orders").insert(ROWS)
        db.refresh()


@pytest.mark.parametrize("at", [0.02, 0.5, 0.999])
def test_a_damaged_run_stops_the_views_until_it_is_restored(
    at: float, tmp_path: Path, spark: SparkSession
) -> None:
    """Each in a folder of its own, as processes keep open what they have checked."""
    begun(tmp_path / "whole", spark)
    runs = [
        it.file
        for state in newest(tmp_path / "whole").states.values()
        for its in state.values()
        for it in its
    ]
    assert len(runs) >= 2
    for number, name in enumerate(sorted(runs)):
        folder = shutil.copytree(tmp_path / "whole", tmp_path / f"{number}")
        whole = (folder / name).read_bytes()
        flipped(folder / name, at)
        with ps.connect(folder, spark=spark) as db:
            db.table("orders").upsert([{**row, "amount": "1.00"} for row in ROWS])
            tick = newest(folder).frontier
            with pytest.raises(DamagedBytes) as caught:
                db.refresh()
            assert caught.value.subject == name
            assert newest(folder).frontier == tick
            assert len(db.query("SELECT * FROM sums")) == 3  # what was committed can be read
        (folder / name).write_bytes(whole)
        restored = folder.rename(tmp_path / f"restored{number}")
        with ps.connect(restored, spark=spark) as db:
            check_right(db)


def test_a_damaged_manifest_is_named_and_nothing_is_built_on_it(tmp_path: Path, spark: SparkSession) -> None:
    begun(tmp_path / "db", spark)
    path = max((tmp_path / "db/pipelines/main/manifest").iterdir())
    whole = path.read_bytes()
    flipped(path, 0.6)
    for act in (
        lambda db: db.refresh(),
        lambda db: db.query("SELECT * FROM sums"),
        lambda db: db.view("sums").snapshot(),
        lambda db: db.status(),
        lambda db: list(db.view("sums").changes()),
    ):
        with ps.connect(tmp_path / "db", spark=spark) as db:
            with pytest.raises(DamagedBytes, match=path.name):
                act(db)
            assert len(db.query("SELECT * FROM orders")) == len(ROWS)  # tables are not concerned
            db.table("orders").upsert(ROWS[:1])
    assert max(path.parent.iterdir()) == path
    path.write_bytes(whole)
    with ps.connect(tmp_path / "db", spark=spark) as db:
        check_right(db)


@pytest.mark.parametrize("at", [0.0, 0.5, 0.99])
def test_a_damaged_file_of_changes_is_named_by_whoever_reads_it(
    at: float, tmp_path: Path, spark: SparkSession
) -> None:
    folder = tmp_path / "db"
    begun(folder, spark)
    (file,) = newest(folder).views["sums"].files
    whole = (folder / file.name).read_bytes()
    flipped(folder / file.name, at)
    with ps.connect(folder, spark=spark) as db:
        for act in (
            lambda: db.query("SELECT * FROM sums"),
            lambda: db.view("sums").snapshot(),
            lambda: [it.data for it in db.view("sums").changes()],
            lambda: [it.data for it in db.log("views/main").read()],
        ):
            with pytest.raises(DamagedBytes) as caught:
                act()
            assert caught.value.subject == file.name
        assert len(db.query("SELECT * FROM shout")) == 3  # others are not concerned
        db.table("orders").upsert([{**ROWS[0], "amount": "1.00"}])
        db.refresh()
        (folder / file.name).write_bytes(whole)
        check_right(db)


def test_a_damaged_catalog_is_named(tmp_path: Path, spark: SparkSession) -> None:
    begun(tmp_path / "db", spark)
    path = max((tmp_path / "db/catalog").iterdir())
    whole = path.read_bytes()
    flipped(path, 0.5)
    with ps.connect(tmp_path / "db", spark=spark) as db, pytest.raises(DamagedBytes, match=path.name):
        db.query("SELECT * FROM orders")
    with ps.connect(tmp_path / "db", spark=spark) as db, pytest.raises(DamagedBytes, match=path.name):
        db.sql("CREATE TABLE more (id INT)")
    path.write_bytes(whole)
    with ps.connect(tmp_path / "db", spark=spark) as db:
        check_right(db)


def test_a_log_that_is_damaged_is_named_by_the_refresh(tmp_path: Path, spark: SparkSession) -> None:
    begun(tmp_path / "db", spark)
    with ps.connect(tmp_path / "db", spark=spark) as db:
        db.table("orders").upsert([{**ROWS[0], "amount": "1.00"}])
    path = max((tmp_path / "db/logs/main/segments").iterdir())
    whole = path.read_bytes()
    flipped(path, 0.9)
    with ps.connect(tmp_path / "db", spark=spark) as db:
        tick = newest(tmp_path / "db").frontier
        with pytest.raises(PenstockError, match=path.name):
            db.refresh()
        assert newest(tmp_path / "db").frontier == tick
    path.write_bytes(whole)
    with ps.connect(tmp_path / "db", spark=spark) as db:
        check_right(db)
