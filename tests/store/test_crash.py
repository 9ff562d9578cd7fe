"""A folder store after its writers were killed at every moment, and while processes race."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_processes.py")


def run(mode: str, folder: Path, how: str) -> int:
    """The number that the program prints; its own assertions are what is tested."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), mode, str(folder), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("how", ["links", "no-links"])
def test_a_writer_killed_at_any_operation_leaves_whole_blobs_and_all_it_told(
    how: str, quick_folder: Path
) -> None:
    assert run("at_each_operation", quick_folder, how) > 40


@pytest.mark.parametrize("how", ["links", "no-links"])
def test_a_writer_killed_at_any_system_call_leaves_whole_blobs_and_all_it_told(
    how: str, quick_folder: Path
) -> None:
    assert run("at_each_system_call", quick_folder, how) > 100


def test_a_writer_killed_at_any_time_leaves_whole_blobs_and_all_it_told(tmp_path: Path) -> None:
    assert run("at_any_time", tmp_path, "links") == 20


@pytest.mark.parametrize("how", ["links", "no-links"])
def test_of_many_processes_one_makes_each_blob(how: str, quick_folder: Path) -> None:
    assert run("race", quick_folder, how) == 40
