"""A log of 100 million events (``python -m bench.log_large``): how long opening takes, what reading holds.

Both are done by processes of their own, whose memory is nothing but theirs; before each opening the files are
put out of the page cache, where the system lets them be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Compared, compare
from penstock.log import Log, LogOptions

__all__ = ["build", "main"]

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
OPTIONS = LogOptions(fsync="never")
LOOK = 1 << 20  # events between two looks at the memory


def build(folder: Path, events: int, at_once: int) -> int:
    """A log of one bigint column, appended in batches; its bytes."""
    with Log.create(folder, OPTIONS) as log:
        log.add_collection("numbers", SCHEMA)
        for first in range(0, events, at_once):
            batch = pa.record_batch([pa.array(np.arange(first, first + at_once))], schema=SCHEMA)
            log.append("numbers", batch)
        return log.stats().bytes


def forget(folder: Path) -> None:
    """Put the files out of the page cache: what is on the disk need not be there."""
    os.sync()
    for path in (it for it in folder.rglob("*") if it.is_file()):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def memory() -> dict[str, int]:
    """This process's own memory, and the pages of files that are mapped into it, in bytes."""
    told = dict(it.split(":", 1) for it in Path("/proc/self/status").read_text().splitlines())
    return {name: int(told[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile")}


def probe(folder: Path, mode: str) -> dict[str, Any]:
    """Open and read it through. Runs in a process of its own."""
    before = memory()
    start = time.perf_counter()
    log = Log.open(folder, mode, OPTIONS)  # type: ignore[arg-type]
    opened = time.perf_counter() - start
    open_anon = memory()["RssAnon"] - before["RssAnon"]
    most = {"RssAnon": 0, "RssFile": 0}
    total = events = 0
    look = LOOK
    start = time.perf_counter()
    for changes in log.read("numbers"):
        total += int(changes.data.column(0).to_numpy().sum())
        events += len(changes)
        if events >= look:
            look = events + LOOK
            most = {name: max(most[name], value - before[name]) for name, value in memory().items()}
    took = time.perf_counter() - start
    start = time.perf_counter()
    (last,) = log.poll(events - 1)
    (middle,) = log.poll(events // 2, 1)
    polled = time.perf_counter() - start
    assert last.last_lsn == events == log.current_lsn
    assert middle.data.column(0).to_pylist() == [events // 2]
    assert total == events * (events - 1) // 2
    log.close()
    return {
        "opened": opened,
        "open_anon": open_anon,
        "took": took,
        "polled": polled,
        "events": events,
        **most,
    }


def measure(folder: Path, at_once: int, size: int) -> list[Compared]:
    results = []
    for mode in ("read", "write"):
        forget(folder)
        command = [sys.executable, "-m", "bench.log_large", "--probe", mode, "--folder", str(folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told = json.loads(done.stdout)
        what = f"{told['events'] / 1e6:,.0f} M events in batches of {at_once:,}, {mode}"
        own = told["RssAnon"] / (1 << 20)
        mapped = told["RssFile"] / (1 << 20)
        rate = told["events"] / told["took"] / 1e6
        results += [
            Compared(
                f"open {what}",
                f"{told['opened'] * 1e3:,.0f} ms",
                "1 s",
                told["opened"],
                1.0,
                "s",
                at_most=True,
                note=f"{size / 1e6:,.0f} MB; cold page cache",
            ),
            Compared(
                f"read {what}",
                f"{own:,.0f} MB",
                "the log",
                (told["RssAnon"] + told["RssFile"]) / size,
                0.25,
                at_most=True,
                note=f"most memory of its own; {mapped:,.0f} MB of files mapped; {rate:,.0f} M events/s; "
                f"last and middle event in {told['polled'] * 1e3:,.1f} ms",
            ),
        ]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.log_large", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--probe", choices=("read", "write"), help="used by the bench itself")
    parser.add_argument("--folder", type=Path, help="used by the bench itself")
    chosen = parser.parse_args()
    if chosen.probe:
        print(json.dumps(probe(chosen.folder, chosen.probe)))
        return
    results = []
    for at_once in (100_000, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            size = build(Path(folder), chosen.events, at_once)
            results += measure(Path(folder), at_once, size)
    compare("log_large", results, [])


if __name__ == "__main__":
    main()
