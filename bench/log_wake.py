"""How long it takes from an append's beginning until a waiting reader has the event in hand."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Compared
from penstock.log import Log

__all__ = ["wake_ups"]

_EVENTS = 1_000
_REST = 0.002  # seconds between two appends, so that the reader waits again
_STAMPS = pa.schema([pa.field("appended", pa.int64(), nullable=False)])


def _read(log: Log, took: list[int]) -> None:
    """Wait for one event after the other; how long each took, told by the event itself."""
    cursor = 0
    while len(took) < _EVENTS:
        log.wait(cursor)
        polled = log.poll(cursor)
        now = time.perf_counter_ns()
        for changes in polled:
            took += (now - changes.data.column(0).to_numpy()).tolist()
        cursor = polled.cursor


def _write(log: Log) -> None:
    for _ in range(_EVENTS):
        time.sleep(_REST)
        log.append("stamps", pa.record_batch([[time.perf_counter_ns()]], schema=_STAMPS))


def _read_elsewhere(folder: Path, answers: Connection) -> None:
    """In a process of its own: its clock is this one's, for Linux' monotonic clock is the machine's."""
    with Log.open(folder, "read") as log:
        answers.send("ready")
        took: list[int] = []
        _read(log, took)
        answers.send(took)


def in_process(folder: Path) -> list[int]:
    with Log.create(folder) as log:
        log.add_collection("stamps", _STAMPS)
        took: list[int] = []
        reader = threading.Thread(target=_read, args=(log, took))
        reader.start()
        _write(log)
        reader.join()
        return took


def across_processes(folder: Path) -> list[int]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with Log.create(folder) as log:
        log.add_collection("stamps", _STAMPS)
        reader = context.Process(target=_read_elsewhere, args=(folder, theirs))
        reader.start()
        theirs.close()  # so that a reader that dies ends the waiting for it
        assert ours.recv() == "ready"
        _write(log)
        took: list[int] = ours.recv()
        reader.join()
        return took


def wake_ups(folder: Path) -> Iterator[Compared]:
    for where, run, target in (
        ("in process", in_process, 100),
        ("across processes", across_processes, 5_000),
    ):
        took = np.asarray(run(folder / where.replace(" ", "-"))) / 1_000
        for share, bound in ((50, target), (99, None)):
            yield Compared(
                f"wake-up {where}, p{share}",
                f"{_EVENTS:,} events, {_REST * 1000:g} ms apart",
                "append begins → the event is read",
                float(np.percentile(took, share)),
                bound,
                "µs",
                at_most=True,
            )
