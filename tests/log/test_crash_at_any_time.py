"""A log whose writers are killed at moments that nobody chose: what was acknowledged is there, and whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 70  # while they write, and that three times


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_writer_killed_at_any_moment_loses_nothing_acknowledged_and_leaves_nothing_half(
    fsync: str, tmp_path: Path
) -> None:
    """A killed process takes no page from the operating system's cache, so this holds without any fsync."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.log.killed_logs", str(tmp_path), fsync, str(KILLS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= KILLS
