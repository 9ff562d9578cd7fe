"""A full disk leaves the log readable, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.log.options import Fsync

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_log_on_a_full_disk_is_read_and_goes_on_once_there_is_room(fsync: Fsync, tmp_path: Path) -> None:
    """On a real file system of 400 KiB, where this user may mount one; see `tests.log.full_disk`.

    Where it is not allowed, `test_crash_at_each_operation` still has the store say that it is full.
    """
    mount_and_run = (
        'mount -t tmpfs -o size=400k none "$1" 2>&1 || exit 77; exec "$2" -m tests.log.full_disk "$1" "$3"'
    )
    shell = ["sh", "-c", mount_and_run, "sh", str(tmp_path), sys.executable, fsync]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *shell],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system")
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout
