"""What the state of an operator costs: look-ups, merges and ticks of `penstock.spine`, beside bare NumPy.

The peer of a look-up is what it cannot do without: one binary search per key in one sorted array of all
rows, and a gather per column. It checks no key and no checksum, adds nothing up, and has all rows in one
piece.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Measured, best, measure, report
from penstock.changes.hashing import unsigned, xxhash64
from penstock.spine import END, Layout, Runs, ShardState, Slice, Spine, arrange, edited, write_run
from penstock.store import LocalStore

ROWS = 10_000_000
OLDER = (1_000_000, 200_000, 20_000, 2_000)
"""Rows of the runs that lie over the largest: as many updates as merging leaves."""

SUMS = Layout(pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.int64())]), ("k",), "sums")
BAG = Layout(pa.schema([("k", pa.int64()), ("v", pa.float64())]), ("k",), "bag", "v")
ONE = Layout(pa.schema([("v", pa.int64())]), (), "bag", "v")


def sums(keys: np.ndarray) -> pa.RecordBatch:
    k = pa.array(keys)
    ones = np.ones(len(k), np.int64)
    return pa.record_batch({"_hash": xxhash64([k]), "k": k, "n": ones, "s": keys})


def bag(keys: np.ndarray, values: np.ndarray, weight: int) -> pa.RecordBatch:
    k = pa.array(keys)
    weights = np.full(len(k), weight)
    return pa.record_batch({"_hash": xxhash64([k]), "k": k, "v": values, "_weight": weights})


def one(values: np.ndarray, weight: int) -> pa.RecordBatch:
    weights = np.full(len(values), weight)
    return pa.record_batch({"_hash": np.full(len(values), 42), "v": values, "_weight": weights})


def some_keys(rng: np.random.Generator, count: int, among: int) -> list[pa.RecordBatch]:
    """Other keys each time, as ticks have them."""
    drawn = (
        rng.choice(among, count, replace=False) if count * 4 < among else np.arange(count) for _ in range(8)
    )
    return [sums(keys).select(["_hash", "k"]) for keys in drawn]


class Folder:
    """Run files in a folder, written by nobody's policy."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self.store = LocalStore(path, fsync=fsync)
        self.runs = Runs(self.store)
        self._files = 0

    def write(self, layout: Layout, rows: pa.RecordBatch) -> Slice:
        self._files += 1
        return write_run(self.store, f"runs/{self._files}", layout, arrange(layout, rows))

    def spine(self, layout: Layout, batches: list[pa.RecordBatch]) -> Spine:
        return Spine.open(layout, [self.write(layout, rows) for rows in batches], self.runs)


def beside(ours: Measured, peer: Measured) -> Iterator[Measured]:
    """A row, with what it is to its peer; then the peer."""
    note = f"{ours.ns / peer.ns:.1f}× bare NumPy" + (f"; {ours.note}" if ours.note else "")
    yield Measured(ours.name, ours.rows, ours.ns, ours.target, ours.copies, note)
    yield peer


def raw(hashes: np.ndarray, columns: list[np.ndarray]) -> Callable[[pa.RecordBatch], list[np.ndarray]]:
    """Keys → their columns, in one sorted array, with sorted needles."""

    def look(keys: pa.RecordBatch) -> list[np.ndarray]:
        wanted = unsigned(keys.column(0).to_numpy())
        at = np.searchsorted(hashes, wanted[np.argsort(wanted)])
        at = np.minimum(at, len(hashes) - 1)
        return [column[at] for column in columns]

    return look


def looked_up(folder: Folder) -> Iterator[Measured]:
    rng = np.random.default_rng(1)
    base = sums(rng.permutation(ROWS))
    spine = folder.spine(SUMS, [base, *(sums(rng.integers(0, ROWS, rows)) for rows in OLDER)])
    order = np.argsort(unsigned(base.column(0).to_numpy()))
    hashes = unsigned(base.column(0).to_numpy())[order]
    look = raw(hashes, [base.column(name).to_numpy()[order] for name in ("k", "n", "s")])
    runs = f"{1 + len(OLDER)} runs, {spine.rows:,} rows"
    for count, target in ((1, None), (1_000, 3_000.0), (100_000, None), (1_000_000, 500.0)):
        keys = some_keys(rng, count, ROWS)
        nbytes = 32 * count
        if count == 1_000:
            fresh = iter(lambda: Runs(folder.store), None)
            slices = [Slice(name.name, 1, 1) for name in folder.store.list("runs/")]
            look_first = partial(first_look, keys[0], slices, fresh)
            first = best(look_first, 0.3)
            yield Measured(
                "sums, first look of a process", count, first / count * 1e9, None, 0.0, "opened and checked"
            )
        turn, peers = cycle(keys), cycle(keys)
        ours = measure(
            f"sums of {count:,} key{'' if count == 1 else 's'}",
            lambda t=turn: spine.sums(next(t)),
            rows=count,
            nbytes=nbytes,
            target=target,
        )
        peer = measure(
            "(searchsorted, 3 gathers)",
            lambda t=peers: look(next(t)),
            rows=count,
            nbytes=nbytes,
            note="the peer",
        )
        yield from beside(Measured(*told(ours), runs), peer)


def first_look(keys: pa.RecordBatch, slices: list[Slice], fresh: Iterator[Runs]) -> None:
    Spine.open(SUMS, slices, next(fresh)).sums(keys)


def told(it: Measured) -> tuple[Any, ...]:
    return it.name, it.rows, it.ns, it.target, it.copies


def matched(folder: Folder) -> Iterator[Measured]:
    rng = np.random.default_rng(2)
    groups = ROWS // 10
    keys, values = rng.integers(0, groups, ROWS), rng.random(ROWS)
    base = bag(keys, values, 1)
    gone, new = slice(0, ROWS // 10), ROWS // 100
    spine = folder.spine(
        BAG, [base, bag(keys[gone], values[gone], -1), bag(rng.integers(0, groups, new), rng.random(new), 1)]
    )
    order = np.argsort(unsigned(base.column(0).to_numpy()))
    hashes = unsigned(base.column(0).to_numpy())[order]
    columns = [base.column(name).to_numpy()[order] for name in ("_hash", "k", "v", "_weight")]

    def look(some: pa.RecordBatch) -> list[np.ndarray]:
        wanted = unsigned(some.column(0).to_numpy())
        wanted = wanted[np.argsort(wanted)]
        starts = np.searchsorted(hashes, wanted)
        counts = np.searchsorted(hashes, wanted, side="right") - starts
        ends = np.cumsum(counts)
        rows = np.arange(int(ends[-1])) + np.repeat(starts - (ends - counts), counts)
        return [column[rows] for column in columns]

    runs = f"3 runs, {spine.rows:,} rows, 10 of each key"
    for count, target in ((1_000, 5_000.0), (100_000, None)):
        some = some_keys(rng, count, groups)
        turn, peers, ends = cycle(some), cycle(some), cycle(some)
        nbytes = 32 * 12 * count
        peer = measure(
            "(2 searchsorted, 4 gathers)",
            lambda t=peers: look(next(t)),
            rows=count,
            nbytes=nbytes,
            note="the peer",
        )
        ours = measure(
            f"matches of {count:,} keys",
            lambda t=turn: [rows.num_rows for _, rows in spine.matches(next(t))],
            rows=count,
            nbytes=nbytes,
        )
        yield from beside(Measured(*told(ours), runs), peer)
        yield measure(
            f"least value of {count:,} keys",
            lambda t=ends: spine.extremes(next(t), None, False),
            rows=count,
            nbytes=nbytes,
            target=target,
            note=runs,
        )


def one_bag(folder: Folder) -> Iterator[Measured]:
    rng = np.random.default_rng(3)
    dead = ROWS // 10
    spine = folder.spine(
        ONE,
        [
            one(rng.permutation(ROWS), 1),
            one(np.arange(dead), -1),
            one(np.arange(dead, dead + 1000), -1),
            one(np.arange(dead // 2, dead // 2 + 1000) * 7 + dead, 1),
        ],
    )
    key = pa.record_batch({"_hash": [42]})
    bound = pa.array([dead])
    assert spine.extremes(key, bound, False).to_pylist() == [dead + 1000]
    note = f"one key, {spine.rows:,} values, {dead:,} of them dead"
    yield measure(
        "least value from a bound",
        lambda: spine.extremes(key, bound, False),
        rows=1,
        nbytes=8,
        target=2e6,
        note=f"{note}; 1,000 died since",
    )
    yield measure(
        "greatest value", lambda: spine.extremes(key, None, True), rows=1, nbytes=8, target=2e6, note=note
    )
    yield measure(
        "least value without a bound",
        lambda: spine.extremes(key, None, False),
        rows=dead,
        nbytes=16 * dead,
        note="reads all that is dead",
    )


def merges(folder: Folder) -> Iterator[Measured]:
    rng = np.random.default_rng(4)
    rows = 4_000_000
    base, more = sums(np.arange(rows)), sums(rng.integers(0, rows * 5 // 4, rows // 4))
    total = len(base) + len(more)
    spine = folder.spine(SUMS, [base, more])
    columns = [
        np.concatenate([a.to_numpy(), b.to_numpy()]) for a, b in zip(base.columns, more.columns, strict=True)
    ]

    def sort_and_add() -> list[np.ndarray]:
        order = np.argsort(unsigned(columns[0]), kind="stable")
        hashes = columns[0][order]
        starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        gathered = [column[order] for column in columns]
        return [hashes[starts], gathered[1][starts], *(np.add.reduceat(it, starts) for it in gathered[2:])]

    peer = measure(
        "(argsort, 4 gathers, reduceat)", sort_and_add, rows=total, nbytes=32 * total, note="the peer"
    )
    yield from beside(
        measure(
            "merge, read and added up",
            lambda: sum(piece.num_rows for piece in spine.scan()),
            rows=total,
            nbytes=32 * total,
            target=150,
            note="two runs of 4 : 1",
        ),
        peer,
    )
    yield measure(
        "arrange a million rows",
        lambda: arrange(SUMS, more),
        rows=len(more),
        nbytes=32 * len(more),
        target=300,
        note="hashes given",
    )
    stored = arrange(SUMS, base)
    numbers = iter(range(1 << 30))
    yield measure(
        "write a run",
        lambda: write_run(folder.store, f"written/{next(numbers)}", SUMS, stored),
        rows=rows,
        nbytes=32 * rows,
        note="128 MB, with checksums, not synced",
    )


def ticks(path: Path) -> Iterator[Measured]:
    """Whole steps, synced to disk: what was added is written, and what is due is merged."""
    rng = np.random.default_rng(5)
    for rows, count in ((1_000, 200), (1_000_000, 8)):
        folder = Folder(path / str(rows), fsync=True)
        slices: tuple[Slice, ...] = (folder.write(SUMS, sums(np.arange(ROWS))),)
        written = 0

        def tick(batch: pa.RecordBatch, at: int, folder: Folder = folder) -> None:
            nonlocal slices, written
            state = ShardState(
                folder.store, folder.runs, {"s": SUMS}, {"s": slices}, 0, END, f"t/{at}/", False
            )
            state.add("s", batch)
            edits = state.finish()
            slices = edited(slices, edits.values())
            written += sum({it.file: it.rows for edit in edits.values() for it in edit.added}.values())

        batches = [sums(rng.integers(0, ROWS, rows)) for _ in range(count)]
        seconds = 0.0
        for at, batch in enumerate(batches):
            seconds += timed(lambda batch=batch, at=at: tick(batch, at))
        note = f"mean of {count} ticks over {ROWS:,} rows; {written / rows / count:.1f} rows written for each"
        yield Measured(
            f"tick of {rows:,} rows, to disk",
            rows,
            seconds / count / rows * 1e9,
            None,
            0.0,
            f"{note}; {len(slices)} slices",
        )


def timed(run: Callable[[], None]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def main() -> None:
    results: list[Measured] = []
    for part in (looked_up, matched, one_bag, merges):
        with tempfile.TemporaryDirectory() as path:
            results += part(Folder(Path(path), fsync=False))
    with tempfile.TemporaryDirectory() as path:
        results += ticks(Path(path))
    missed = [it for it in results if it.verdict == "MISSED"]
    remarks = [f"{len(missed)} of {sum(it.target is not None for it in results)} targets missed."]
    remarks += [f"  missed: {it.name} ({it.note}): {it.ns:.1f} ns, target {it.target:g}" for it in missed]
    remarks.append("ns/row: per key in look-ups, per row read in merges, per row added in ticks.")
    report("spine", results, remarks)
