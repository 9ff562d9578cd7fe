"""What `penstock.log` costs: beside the bare disk, beside memory, beside Redis Streams and SQLite."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.harness import Compared, compare, turns
from bench.log_events import BATCH, KEY, as_json, as_tuples, batches, orders
from bench.log_peers import Missing, redis_stream, sqlite_table
from bench.log_wake import wake_ups
from penstock.log import Log, LogOptions

_INTERVAL = LogOptions(fsync="interval")
_ALWAYS = LogOptions(fsync="always")


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def made(folder: Path, schema: pa.Schema, options: LogOptions = _INTERVAL) -> Log:
    """A new log with one collection, in place of one that was there."""
    shutil.rmtree(folder, ignore_errors=True)
    log = Log.create(folder, options)
    log.add_collection("orders", schema, KEY)
    return log


# -- appending ------------------------------------------------------------------------------------------


def appends(folder: Path) -> Iterator[Compared]:
    """Batches, against writing the bytes of the same frames to a file that is synced as often."""
    some = batches(orders(200 * BATCH))
    count = 10
    with made(folder / "sample", some[0].schema) as log:
        log.append("orders", some[0])
        (frame,) = log.frames(0, BATCH)
        frame_bytes = frame.frame.frame_bytes
    pieces = [os.urandom(frame_bytes) for _ in some]
    pause = _INTERVAL.interval.total_seconds()

    def ours(synced: bool) -> float:
        with made(folder / "log", some[0].schema) as log:
            start = time.perf_counter()
            for _ in range(count):
                for batch in some:
                    log.append("orders", batch)
            if synced:
                log.sync()
            return time.perf_counter() - start

    def plain(synced: bool) -> float:
        path = folder / "plain"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        stopped = threading.Event()

        def sync() -> None:
            while not stopped.wait(pause):
                os.fdatasync(descriptor)

        syncing = threading.Thread(target=sync)
        syncing.start()
        try:
            start = time.perf_counter()
            for _ in range(count):
                for piece in pieces:
                    os.write(descriptor, piece)
            if synced:
                os.fdatasync(descriptor)
            return time.perf_counter() - start
        finally:
            stopped.set()
            syncing.join()
            os.fdatasync(descriptor)
            os.close(descriptor)
            path.unlink()

    total = count * len(some)
    for synced, until in ((False, "until the last returns"), (True, "until all is on disk")):
        log, bare = map(median, turns([partial(ours, synced), partial(plain, synced)], rounds=9))
        yield Compared(
            f"append {BATCH:,} rows of 100 B, {until}",
            f"{log / total * 1e6:.1f} µs",
            f"os.write, same bytes and syncs: {bare / total * 1e6:.1f} µs",
            bare / log,
            0.5,
            note=f"{total:,} batches, {total * frame_bytes / log / 1e9:.2f} GB/s",
        )


def group_commit(folder: Path) -> Iterator[Compared]:
    """One event per append, each on disk before its append returns."""
    event = batches(orders(1), 1)[0]
    each, threads = 100, 8
    with made(folder / "log", event.schema, _ALWAYS) as log:

        def write() -> None:
            for _ in range(each):
                log.append("orders", event)

        def run(count: int) -> float:
            """Appends per second."""
            writers = [threading.Thread(target=write) for _ in range(count)]

            def all_of_them() -> None:
                for writer in writers:
                    writer.start()
                for writer in writers:
                    writer.join()

            return count * each / timed(all_of_them)

        descriptor = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def bare() -> float:
            """Seconds for a bare write of the frame of one event and its sync."""

            def sync() -> None:
                for _ in range(each):
                    os.write(descriptor, b"\0" * 576)
                    os.fdatasync(descriptor)

            return timed(sync) / each

        one, many, sync = map(median, turns([partial(run, 1), partial(run, threads), bare], rounds=15))
        os.close(descriptor)
    yield Compared(
        f"append one event, synced, {threads} threads",
        f"{many:,.0f}/s",
        f"one thread: {one:,.0f}/s",
        many / one,
        8,
        note=f"os.write and fdatasync take {sync * 1e6:,.0f} µs of one thread's {1e6 / one:,.0f} µs",
    )


# -- reading --------------------------------------------------------------------------------------------


def reads(folder: Path) -> Iterator[Compared]:
    """Mapped segments, each column of each batch summed, against NumPy's copy of the same bytes."""
    rng = np.random.default_rng(3)
    rows, frames = 20_000, 200
    numbers = pa.record_batch({f"n{i}": rng.random(rows) for i in range(12)})
    nbytes = numbers.nbytes * frames
    with Log.create(folder / "log", _INTERVAL) as log:
        log.add_collection("numbers", numbers.schema)
        for _ in range(frames):
            log.append("numbers", numbers)
    source = rng.random(nbytes // 8)
    target = np.empty_like(source)

    def copied() -> float:
        return timed(lambda: np.copyto(target, source))

    def summed(log: Log) -> float:
        def read() -> None:
            for changes in log.read("numbers"):
                for column in changes.data.columns:
                    column.to_numpy().sum()

        return timed(read)

    def first() -> float:
        with Log.open(folder / "log", "read") as log:
            return summed(log)

    copied()
    with Log.open(folder / "log", "read") as again:
        summed(again)
        copy, anew, repeated = map(min, turns([copied, first, partial(summed, again)], rounds=9))
    for name, took in (("read again", repeated), ("read first, checksums verified", anew)):
        yield Compared(
            f"{name}, and sum",
            f"{nbytes / took / 1e9:.1f} GB/s",
            f"np.copyto: {nbytes / copy / 1e9:.1f} GB/s",
            copy / took,
            0.5,
            note=f"{nbytes / 1e6:,.0f} MB mapped, {rows:,} rows of 96 B a batch",
        )


def polls(folder: Path) -> Iterator[Compared]:
    """A poll after each append, of just what was appended: the columns and operations in hand."""
    for rows in (BATCH, 10 * BATCH):
        some = batches(orders(20 * rows), rows)
        took: list[float] = []
        with made(folder / f"log-{rows}", some[0].schema) as log:
            for batch in some * 20:
                since = log.append("orders", batch).first - 1
                start = time.perf_counter()
                for changes in log.poll(since, rows):
                    assert changes.data.num_rows == len(changes.ops) == rows
                took.append(time.perf_counter() - start)
        yield Compared(
            f"poll near the head, {rows:,} rows at a time",
            f"{median(took) * 1e6:.1f} µs a poll",
            "10 M rows a second",
            rows / median(took) / 1e6,
            10,
            "M rows/s",
        )


# -- peers ----------------------------------------------------------------------------------------------


def peers(folder: Path, remarks: list[str]) -> Iterator[Compared]:
    """The same events into and out of Redis Streams and SQLite, each in the form that its client takes."""
    data = orders(100 * BATCH)
    some = batches(data)
    rows = data.num_rows

    def written() -> float:
        with made(folder / "log", data.schema) as log:

            def append() -> None:
                for batch in some:
                    log.append("orders", batch)

            return timed(append)

    def read() -> float:
        with Log.open(folder / "log", "read") as log:

            def poll() -> None:
                cursor = 0
                while cursor < rows:
                    polled = log.poll(cursor, BATCH)
                    for changes in polled:
                        assert changes.data.num_rows == len(changes.ops)
                    cursor = polled.cursor

            return timed(poll)

    with ExitStack() as stack:
        found = []
        try:
            stream = stack.enter_context(redis_stream(folder))
            found.append(("Redis Streams", stream, [as_json(batch) for batch in some]))
        except Missing as missing:
            remarks.append(f"Redis Streams NOT MEASURED: {missing}")
        table = stack.enter_context(sqlite_table(folder))
        found.append(("SQLite", table, [as_tuples(batch) for batch in some]))
        for name, peer, events in found:
            remarks.append(peer.about)

            def their_write(peer=peer, events=events) -> float:
                peer.clear()
                return timed(lambda: peer.write(events))

            def their_read(peer=peer) -> float:
                def all_of_them() -> None:
                    assert peer.read() == rows

                return timed(all_of_them)

            for what, ours, theirs in (("write", written, their_write), ("read", read, their_read)):
                mine, other = map(median, turns([ours, theirs], rounds=5))
                yield Compared(
                    f"{what} {rows:,} events, against {name}",
                    f"{rows / mine / 1e6:.2f} M/s",
                    f"{rows / other / 1e6:.3f} M/s",
                    other / mine,
                    5,
                    note=f"{BATCH:,} at a time",
                )


def main() -> None:
    results: list[Compared] = []
    remarks: list[str] = []
    parts: tuple[Callable[[Path], Iterator[Compared]], ...] = (
        appends,
        group_commit,
        reads,
        polls,
        wake_ups,
        lambda folder: peers(folder, remarks),
    )
    Path(".cache").mkdir(exist_ok=True)
    for part in parts:
        with tempfile.TemporaryDirectory(dir=".cache", prefix="bench-") as folder:
            results += part(Path(folder).absolute())
    missed = [it for it in results if it.verdict == "MISSED"]
    told = [f"{len(missed)} of {sum(it.target is not None for it in results)} targets missed."]
    told += [f"  missed: {it.name}: {it.value:.3g} {it.unit}, target {it.target:g}" for it in missed]
    compare("log", results, told + remarks)
