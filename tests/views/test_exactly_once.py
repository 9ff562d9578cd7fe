"""No change is lost and none told twice: the driver's store dies, tasks are hurt, two drivers go at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.errors import Fenced
from penstock.store import LocalStore
from penstock.store.faulty import Died, Fault, every_fault
from penstock.views import pipeline
from penstock.views.driver import Driver
from penstock.views.tick_log import TickLog
from tests.views.hurt import DriverStore, Trap
from tests.views.hurt_tasks import scripted
from tests.views.script import Script, check_run, contents_by_frontier, leftovers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
FOLDER = "pipelines/main"


def take_over(folder: Path) -> None:
    """As the next driver does, before it looks what there is to do."""
    store = LocalStore(folder, fsync=False)
    Driver(store, FOLDER, TickLog(store, FOLDER, "the views", dict)).own()


# -- the driver's store ---------------------------------------------------------------------------------


SUMS = {"sums": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer"}
LARGE = {"large": "SELECT upper(customer) AS customer, total * 2 AS doubled FROM sums WHERE n > 1"}


@pytest.mark.parametrize(
    ("views", "folding"),
    [(SUMS, False), (SUMS | LARGE, False), (SUMS | LARGE, True)],
    ids=["without Spark", "with Spark", "folding"],
)
def test_a_driver_may_die_at_any_operation_on_its_store(
    views: dict[str, str],
    folding: bool,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes over, computes and commits a tick, and removes what was merged away."""
    script, begun = Script(6, views, {}), tmp_path / "begun"
    with ps.connect(begun, spark=spark) as db:
        script.go_on(db, 5)
    take_over(begun)
    if folding:
        monkeypatch.setattr(pipeline, "_FOLD_ROWS", 1)

    def run(folder: Path, *faults: Fault) -> DriverStore:
        shutil.copytree(begun, folder)
        store = DriverStore(LocalStore(folder, fsync=False), faults)
        with ps.connect(folder, state=store, spark=spark) as db:
            script.go_on(db)
        return store

    calm = run(tmp_path / "calm")
    with ps.connect(tmp_path / "calm") as db:
        expected = contents_by_frontier(db)
        check_run(db, script, expected)
    deaths = every_fault(calm.operations, "die")
    if folding:  # up to there it is as without
        first = next(it.number for it in calm.operations if "fold-" in it.name)
        deaths = [it for it in deaths if it.at >= first]
    assert len(deaths) >= (8 if folding else 25)
    for fault in deaths:
        folder = tmp_path / f"{fault.at}{fault.when}"  # tasks keep open what they have read
        with suppress(Died):
            run(folder, fault)
        with ps.connect(folder, spark=spark) as db:
            script.go_on(db)
            check_run(db, script, expected)
        take_over(folder)
        assert leftovers(LocalStore(folder, fsync=False)) == set(), fault


# -- tasks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["expressions", "stores"])
def test_tasks_may_be_killed_or_fail_anywhere(mode: str, tmp_path: Path) -> None:
    """In the middle of an expression, and before and after each operation of a step on its store."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.views.hurt_tasks", str(tmp_path), mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-8000:]
    assert int(done.stdout) >= {"expressions": 8, "stores": 20}[mode]
    script = scripted(mode)
    with ps.connect(tmp_path / "calm") as db:
        expected = contents_by_frontier(db)
        check_run(db, script, expected)
    with ps.connect(tmp_path / "hurt" / "db") as db:
        check_run(db, script, expected)
    assert leftovers(LocalStore(tmp_path / "hurt" / "db", fsync=False)) == set()


# -- two drivers ------------------------------------------------------------------------------------------


@contextmanager
def both(folder: Path, spark: SparkSession) -> Iterator[tuple[ps.Database, ps.Database]]:
    with ps.connect(folder, spark=spark) as one, ps.connect(folder, spark=spark) as other:
        yield one, other


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Script, dict[int, object]]:
    """A script, and what an undisturbed run of it leaves."""
    script = Script(12)
    with ps.connect(tmp_path_factory.mktemp("whole") / "db", spark=spark) as db:
        script.go_on(db)
        return script, dict(contents_by_frontier(db))


def check(folder: Path, script: Script, expected: dict[int, object]) -> None:
    with ps.connect(folder) as db:
        check_run(db, script, expected)  # type: ignore[arg-type]
    take_over(folder)
    assert leftovers(LocalStore(folder, fsync=False)) == set()


def test_the_second_driver_takes_over_and_the_first_is_told(
    tmp_path: Path, spark: SparkSession, whole: tuple[Script, dict[int, object]]
) -> None:
    script, expected = whole
    with both(tmp_path / "db", spark) as (one, other):
        script.go_on(one, 7)  # beyond the middle: all views are there
        owner = one
        for number in range(7, len(script.deeds)):
            script.perform(one, number)
            owner = other if owner is one else one
            if number > 7:  # it has owned the views before, and does not know that it does not any more
                with pytest.raises(Fenced, match="another driver"):
                    owner.refresh()
            assert len(owner.refresh()) == 1
    check(tmp_path / "db", script, expected)


def test_drivers_that_take_turns_at_any_time_lose_nothing(
    tmp_path: Path, spark: SparkSession, whole: tuple[Script, dict[int, object]]
) -> None:
    script, expected = whole
    fenced = [0, 0]
    over = threading.Event()

    def drive(which: int, db: ps.Database) -> None:
        while not over.is_set():
            with suppress(Fenced):
                db.refresh()
                continue
            fenced[which] += 1

    with both(tmp_path / "db", spark) as (one, other):
        script.go_on(one, 6)
        drivers = [threading.Thread(target=drive, args=it) for it in enumerate((one, other))]
        for it in drivers:
            it.start()
        for number in range(6, len(script.deeds)):
            script.perform(one, number)
            end = script.ends[number + 1]
            wait_for(lambda end=end: frontier(one) >= end)  # type: ignore[misc]
        over.set()
        for it in drivers:
            it.join()
    assert sum(fenced) > 0
    check(tmp_path / "db", script, expected)


def frontier(db: ps.Database) -> int:
    newest = db._workspace.pipeline("main").log.newest()
    return 0 if newest is None else newest.frontier.get("main", 0)


def wait_for(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.02)


def test_a_driver_that_is_overtaken_in_the_middle_of_a_tick_leaves_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Its task hangs; another driver does the tick meanwhile, and sweeps; then the task goes on."""
    hold, held, go = Trap(tmp_path / "hold"), tmp_path / "held", tmp_path / "go"

    def hang(amount: object) -> object:
        with suppress(FileNotFoundError):
            hold.path.unlink()
            held.touch()
            wait_for(go.exists)
        return amount

    spark.udf.register("hang", hang, "decimal(12, 2)")
    views = {
        "sums": "SELECT customer, SUM(hang(amount)) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
        "words": "SELECT upper(tag) AS tag FROM tags",
    }
    script = Script(8, views, {})
    with ps.connect(tmp_path / "calm", spark=spark) as db:
        script.go_on(db)
        expected = dict(contents_by_frontier(db))
    folder = tmp_path / "db"
    with both(folder, spark) as (one, other):
        script.go_on(one, 4)
        script.perform(one, 4)
        hold.path.touch()
        errors: list[BaseException] = []

        def refresh() -> None:
            try:
                one.refresh()
            except BaseException as error:
                errors.append(error)

        slow = threading.Thread(target=refresh)
        slow.start()
        wait_for(held.exists)
        assert len(other.refresh()) == 1
        script.perform(one, 5)
        assert len(other.refresh()) == 1
        go.touch()
        slow.join()
        assert [type(it) for it in errors] == [Fenced]
        script.go_on(one)
    check(folder, script, expected)
