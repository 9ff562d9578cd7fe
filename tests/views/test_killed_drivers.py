"""Drivers killed by SIGKILL at moments that nobody chose: views and changes are as if none had been."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps
from penstock.store import LocalStore
from tests.views.killed_drivers import DEEDS
from tests.views.script import Script, check_run, contents_by_frontier, leftovers

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]
KILLS = 60


def test_no_change_is_lost_or_told_twice_whenever_drivers_are_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.views.killed_drivers", str(tmp_path), str(KILLS), "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-8000:]
    killed, with_java = map(int, done.stdout.split())
    assert killed >= KILLS
    assert with_java >= 4
    script = Script(DEEDS)
    with ps.connect(tmp_path / "calm") as db:
        expected = contents_by_frontier(db)
        check_run(db, script, expected)
    runs = sorted(it for it in tmp_path.iterdir() if it.name.startswith("killed"))
    assert runs
    for folder in runs:
        with ps.connect(folder) as db:
            check_run(db, script, expected)
        assert leftovers(LocalStore(folder, fsync=False)) == set()
