"""What `penstock.log` costs: beside the bare disk, beside memory, beside Redis Streams and SQLite.

Where two sides are compared they run in turns, on the same events, and each side's best run counts;
of latencies and of what waits for the disk the median does.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import log_large
from bench.harness import Compared, compare, turns
from bench.log_events import BATCH, KEY, as_json, as_tuples, batches, orders
from bench.log_peers import Missing, RedisStream, SQLiteTable, redis_stream, sqlite_table
from bench.log_wake import wake_ups
from penstock.log import Log, LogOptions
from penstock.store import LocalStore
from penstock.store.appending import LocalAppender

_INTERVAL = LogOptions(fsync="interval")
_ALWAYS = LogOptions(fsync="always")

Peer = RedisStream | SQLiteTable


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def bests(runs: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """For each run, in turns, the shortest that it told: that was disturbed least."""
    return [min(told) for told in turns(runs, rounds)]


def made(folder: Path, schema: pa.Schema, options: LogOptions = _INTERVAL) -> Log:
    """A new log with one collection, in place of one that was there."""
    gc.collect()  # the last log's memory
    shutil.rmtree(folder, ignore_errors=True)
    log = Log.create(folder, options)
    log.add_collection("orders", schema, KEY)
    return log


# -- appending ------------------------------------------------------------------------------------------


def appends(folder: Path) -> Iterator[Compared]:
    """Batches, against writing the bytes of the same frames to a file that is synced as often."""
    some = batches(orders(300 * BATCH))
    with made(folder / "sample", some[0].schema) as log:
        log.append("orders", some[0])
        (sample,) = log.frames(0, BATCH)
        frame_bytes = sample.frame.frame_bytes
    pieces = [os.urandom(frame_bytes) for _ in some]
    pause = _INTERVAL.interval.total_seconds()

    def ours(times: int, synced: bool) -> float:
        with made(folder / "log", some[0].schema) as log:
            for batch in some:  # after that the ring is full, and its memory goes round
                log.append("orders", batch)
            log.sync()
            start = time.perf_counter()
            for _ in range(times):
                for batch in some:
                    log.append("orders", batch)
            if synced:
                log.sync()
            return time.perf_counter() - start

    def plain(times: int, synced: bool) -> float:
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
            for _ in range(times):
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

    for times, synced, until in (
        (1, False, "until the last returns"),
        (8, True, "through four segments, until all is on disk"),
    ):
        took, bare = bests([partial(ours, times, synced), partial(plain, times, synced)], rounds=15)
        count = times * len(some)
        yield Compared(
            f"append {BATCH:,} rows of 100 B, {until}",
            f"{took / count * 1e6:.1f} µs",
            f"os.write, same bytes and syncs: {bare / count * 1e6:.1f} µs",
            bare / took,
            0.5,
            note=f"{count:,} batches, {count * frame_bytes / took / 1e9:.2f} GB/s",
        )


class SlowDisk(LocalStore):
    """A folder on a disk that takes some milliseconds for each sync, as one without a safe cache does."""

    SECONDS = 0.005

    def appender(self, name: str) -> LocalAppender:
        return _SlowAppender(self.path / name)


class _SlowAppender(LocalAppender):
    def sync(self) -> None:
        super().sync()
        time.sleep(SlowDisk.SECONDS)


def group_commit(folder: Path) -> Iterator[Compared]:
    """One event per append, each on disk before its append returns."""
    threads = 8
    event = batches(orders(1), 1)[0]

    def seconds_per_event(log: Log, count: int, each: int) -> float:
        def write() -> None:
            for _ in range(each):
                log.append("orders", event)

        writers = [threading.Thread(target=write) for _ in range(count)]

        def all_of_them() -> None:
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()

        return timed(all_of_them) / (count * each)

    for name, store, each in (
        ("this disk", LocalStore(folder / "log"), 100),
        (f"a disk whose syncs take {SlowDisk.SECONDS * 1e3:g} ms more", SlowDisk(folder / "slow"), 20),
    ):
        with Log.create(store, _ALWAYS) as log:
            log.add_collection("orders", event.schema, KEY)
            runs = [partial(seconds_per_event, log, count, each) for count in (1, threads)]
            one, many = map(median, turns(runs, rounds=15))
        yield Compared(
            f"append one event, synced, {threads} threads, {name}",
            f"{1 / many:,.0f}/s",
            f"one thread: {1 / one:,.0f}/s",
            one / many,
            8,
            note=f"{threads} threads that wait for their own syncs have {threads} × at most, "
            "where nothing but the sync took time",
        )


# -- reading --------------------------------------------------------------------------------------------


def reads(folder: Path) -> Iterator[Compared]:
    """Mapped segments, each column of each batch summed, against NumPy's copy of the same bytes."""
    rng = np.random.default_rng(3)
    nbytes = 384_000_000
    source = rng.random(nbytes // 8)
    target = np.empty_like(source)

    def copied() -> float:
        return timed(lambda: np.copyto(target, source))

    def summed(log: Log) -> float:
        def read() -> None:
            for changes in log.read("numbers"):
                for column in changes.data.columns:
                    pc.sum(column)

        return timed(read)

    def first(path: Path) -> float:
        with Log.open(path, "read") as log:
            return summed(log)

    copied()
    for rows, bound in ((250_000, 0.5), (10_000, None)):
        path = folder / f"log-{rows}"
        numbers = pa.record_batch({f"n{i}": rng.random(rows) for i in range(12)})
        with Log.create(path, _INTERVAL) as log:
            log.add_collection("numbers", numbers.schema)
            for _ in range(nbytes // numbers.nbytes):
                log.append("numbers", numbers)
        with Log.open(path, "read") as again:
            summed(again)
            copy, anew, repeated = bests([copied, partial(first, path), partial(summed, again)], rounds=9)
        for name, took in (("read again", repeated), ("read first, checksums verified", anew)):
            yield Compared(
                f"{name}, and sum, {rows:,} rows of 96 B at a time",
                f"{nbytes / took / 1e9:.1f} GB/s",
                f"np.copyto: {nbytes / copy / 1e9:.1f} GB/s",
                copy / took,
                bound,
                note=f"{nbytes / 1e6:,.0f} MB mapped"
                if bound
                else "the twelve sums of each batch weigh more",
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

    remarks.append("Peers: each side has the events in its client's own form (Arrow, JSON bytes, tuples).")
    with ExitStack() as stack:
        found: list[tuple[str, Peer, Any]] = []
        try:
            stream = stack.enter_context(redis_stream(folder))
            found.append(("Redis Streams", stream, [as_json(batch) for batch in some]))
        except Missing as missing:
            remarks.append(f"Redis Streams NOT MEASURED: {missing}")
        table = stack.enter_context(sqlite_table(folder))
        found.append(("SQLite", table, [as_tuples(batch) for batch in some]))
        for name, peer, events in found:
            remarks.append(peer.about)

            def their_write(peer: Peer = peer, events: Any = events) -> float:
                peer.clear()
                return timed(lambda: peer.write(events))

            def their_read(peer: Peer = peer) -> float:
                def all_of_them() -> None:
                    assert peer.read() == rows

                return timed(all_of_them)

            for what, ours, theirs in (("write", written, their_write), ("read", read, their_read)):
                mine, other = bests([ours, theirs], rounds=5)
                yield Compared(
                    f"{what} {rows:,} events, against {name}",
                    f"{rows / mine / 1e6:.2f} M/s",
                    f"{rows / other / 1e6:.3f} M/s",
                    other / mine,
                    5,
                    note=f"{BATCH:,} at a time",
                )


# -- length ---------------------------------------------------------------------------------------------


def large(folder: Path) -> Iterator[Compared]:
    """A log of 100 million events: opened, and read through by processes of their own."""
    batch = 100_000
    yield from log_large.measure(folder, batch, log_large.build(folder, 100_000_000, batch))


def main() -> None:
    results: list[Compared] = []
    remarks = [f"Load when this began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."]
    parts: tuple[Callable[[Path], Iterator[Compared]], ...] = (
        appends,
        group_commit,
        reads,
        polls,
        wake_ups,
        lambda folder: peers(folder, remarks),
        large,
    )
    Path(".cache").mkdir(exist_ok=True)
    for part in parts:
        with tempfile.TemporaryDirectory(dir=".cache", prefix="bench-") as folder:
            results += part(Path(folder).absolute())
    missed = [it for it in results if it.verdict == "MISSED"]
    told = [f"{len(missed)} of {sum(it.target is not None for it in results)} targets missed."]
    told += [f"  missed: {it.name}: {it.value:.3g} {it.unit}, target {it.target:g}" for it in missed]
    compare("log", results, told + remarks)
