"""What a step costs: one shard's tick of each operator over a large state, beside bare NumPy.

The peer is what no engine can do without: sorting the tick's hashes, finding its keys in one sorted array of
all hashes, gathering the old numbers, adding, and laying old and new side by side. It checks no key and keeps
nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.harness import Measured, measure, report
from penstock.changes import Op
from penstock.changes.hashing import unsigned, xxhash64
from penstock.operators import Operator, operator_of
from penstock.plan import Aggregate, Call, Distinct, Function, Join, Keyed, On, Scan
from penstock.spine import END, Runs, ShardState, Slice, edited
from penstock.store import LocalStore

ROWS = 10_000_000
LOAD = 1_000_000
TICKS = (1_000_000, 1_000)
TABLE = Scan("main", "t")
COLUMNS = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.float64())])

Inputs = Mapping[str, Sequence[pa.RecordBatch]]


class State:
    """The state of one operator in one shard, on disk, as ticks have left it."""

    def __init__(self, operator: Operator, folder: Path) -> None:
        self.operator = operator
        self._store = LocalStore(folder, fsync=False)
        self._runs = Runs(self._store)
        self._slices: dict[str, tuple[Slice, ...]] = dict.fromkeys(operator.layouts, ())
        self._ticks = 0

    def step(self, inputs: Inputs, operator: Operator | None = None) -> tuple[int, ShardState]:
        """Run a step, and leave the state as it was: rows out."""
        state = ShardState(
            self._store,
            self._runs,
            self.operator.layouts,
            self._slices,
            0,
            END,
            f"{self._ticks}/",
            not self._ticks,
        )
        rows = sum(batch.num_rows for batch in (operator or self.operator).step(inputs, state))
        return rows, state

    def tick(self, inputs: Inputs) -> None:
        """Run a step, and keep what it adds."""
        _, state = self.step(inputs)
        for name, edit in state.finish().items():
            self._slices[name] = edited(self._slices[name], [edit])
        self._ticks += 1


def rows_of(
    k: np.ndarray, x: np.ndarray, weights: np.ndarray | int, *, y: np.ndarray | None = None
) -> pa.RecordBatch:
    """Changes of the table, hashed by k."""
    by = np.full(len(k), weights) if isinstance(weights, int) else weights
    keys = pa.array(k)
    return pa.record_batch(
        {"k": keys, "x": x, "y": x / 8 if y is None else y, "_hash": xxhash64([keys]), "_weight": by}
    )


def loading(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All keys, in any order, with a number each that can be told from the key."""
    keys = np.random.default_rng(1).permutation(rows)
    for start in range(0, rows, LOAD):
        some = keys[start : start + LOAD]
        yield some, value_of(some)


def value_of(keys: np.ndarray) -> np.ndarray:
    return keys * 7 % 1_000_003


def updates(rng: np.random.Generator, rows: int, keys: int) -> pa.RecordBatch:
    """Half of the rows take an old row back, half put a new one in its place."""
    some = rng.choice(keys, rows // 2, replace=False)
    old = value_of(some)
    weights = np.repeat([-1, 1], len(some))
    return rows_of(np.concatenate([some, some]), np.concatenate([old, old + 1]), weights)


def limit(hashes: np.ndarray, columns: Sequence[np.ndarray]) -> Callable[[pa.RecordBatch], list[np.ndarray]]:
    """Sums by key, as NumPy alone does them."""

    def run(tick: pa.RecordBatch) -> list[np.ndarray]:
        wanted = unsigned(tick["_hash"].to_numpy())
        order = np.argsort(wanted)
        wanted = wanted[order]
        starts = np.flatnonzero(np.concatenate([[True], wanted[1:] != wanted[:-1]]))
        weights, x = tick["_weight"].to_numpy()[order], tick["x"].to_numpy()[order]
        more = [np.add.reduceat(weights, starts), np.add.reduceat(weights * x, starts)]
        at = np.minimum(np.searchsorted(hashes, wanted[starts]), len(hashes) - 1)
        old = [column[at] for column in columns]
        new = [a + b for a, b in zip(old, more, strict=True)]
        changed = (old[0] != new[0]) | (old[1] != new[1])
        keys = tick["k"].to_numpy()[order][starts][changed]
        return [
            np.concatenate([keys, keys]),
            *(np.concatenate([a[changed], b[changed]]) for a, b in zip(old, new, strict=True)),
        ]

    return run


def calls(*several: tuple[str, Function, str | None]) -> tuple[Call, ...]:
    return tuple(Call(name, function, column) for name, function, column in several)


COUNT_AND_SUM = calls(("n", Function.COUNT, None), ("total", Function.SUM, "x"))


def told(
    name: str, state: State, ticks: Sequence[Inputs], note: str = "", operator: Operator | None = None
) -> Measured:
    """One step, over other rows each time."""
    turn = cycle(ticks)
    rows = sum(batch.num_rows for batches in ticks[0].values() for batch in batches)
    nbytes = sum(batch.nbytes for batches in ticks[0].values() for batch in batches)
    return measure(name, lambda: state.step(next(turn), operator), rows=rows, nbytes=nbytes, note=note)


def aggregates(folder: Path) -> Iterator[Measured]:
    rng = np.random.default_rng(2)
    node = Aggregate(TABLE, ("k",), COUNT_AND_SUM)
    state = State(operator_of(node, [COLUMNS]), folder)
    for k, x in loading(ROWS):
        state.tick({"changes": [rows_of(k, x, 1)]})
    keys = np.arange(ROWS)
    hashes = unsigned(xxhash64([pa.array(keys)]))
    order = np.argsort(hashes)
    bare = limit(hashes[order], [np.ones(ROWS, np.int64), value_of(keys)[order]])
    partial = operator_of(node, [COLUMNS], partial=True)
    for rows in TICKS:
        ticks = [updates(rng, rows, ROWS) for _ in range(4)]
        turn = cycle(ticks)
        peer = measure(
            "(NumPy: sort, search, gather, add)",
            lambda t=turn: bare(next(t)),
            rows=rows,
            nbytes=40 * rows,
            note="the peer",
        )  # type: ignore[misc]
        for name, inputs, operator in (
            ("row by row", [{"changes": [it]} for it in ticks], None),
            ("added up before", [{"partials": [added_up(it)]} for it in ticks], partial),
        ):
            ours = told(f"COUNT(*), SUM(bigint) by key, {name}", state, inputs, f"{ROWS:,} groups", operator)
            yield beside(ours, peer, rows)
        yield peer


def added_up(changes: pa.RecordBatch) -> pa.RecordBatch:
    """What Spark would make of them: one row per group."""
    x, weights = changes["x"].to_numpy(), changes["_weight"].to_numpy()
    table = pa.table({
        "k": changes["k"], "_hash": changes["_hash"], "_rows": weights, "_count0": weights,
        "_sum0_limb0": weights * (x & 0xFFFFFFFF), "_sum0_limb1": weights * (x >> 32),
    })  # fmt: skip
    sums = ["_rows", "_count0", "_sum0_limb0", "_sum0_limb1"]
    grouped = table.group_by(["k", "_hash"], use_threads=False).aggregate([(name, "sum") for name in sums])
    return grouped.rename_columns(["k", "_hash", *sums]).combine_chunks().to_batches()[0]


def beside(ours: Measured, peer: Measured, rows: int) -> Measured:
    """A row, per row of the tick's changes, with what it is to its peer."""
    ns = ours.ns * ours.rows / rows
    return Measured(
        ours.name, rows, ns, ours.target, ours.copies, f"{ns / peer.ns:.1f}× bare NumPy; {ours.note}"
    )


def keyed(folder: Path) -> Iterator[Measured]:
    rng = np.random.default_rng(3)
    state = State(operator_of(Keyed(TABLE, ("k",)), [COLUMNS]), folder)

    def events(k: np.ndarray, x: np.ndarray) -> pa.RecordBatch:
        rows = rows_of(k, x, 1).drop_columns(["_weight"])
        ops = pa.array(np.full(len(k), Op.UPDATE_AFTER, np.int8))
        return rows.append_column("_op", ops).append_column("_lsn", pa.array(np.arange(len(k))))

    for k, x in loading(ROWS):
        state.tick({"events": [events(k, x)]})
    for rows in TICKS:
        ticks = []
        for _ in range(4):
            some = rng.choice(ROWS, rows, replace=False)
            ticks.append({"events": [events(some, value_of(some) + 1)]})
        yield told("Keyed, updates", state, ticks, f"{ROWS:,} keys")


def distinct(folder: Path) -> Iterator[Measured]:
    rng = np.random.default_rng(4)
    columns = pa.schema([("k", pa.int64())])
    state = State(operator_of(Distinct(TABLE), [columns]), folder)
    for k, _ in loading(ROWS):
        state.tick({"changes": [rows_of(k, k, 1)]})
    for rows in TICKS:
        ticks = [
            {"changes": [rows_of(rng.integers(0, 2 * ROWS, rows), np.zeros(rows, np.int64), 1)]}
            for _ in range(4)
        ]
        yield told("Distinct", state, ticks, f"{ROWS:,} rows, half of the changes new")


def joined(folder: Path) -> Iterator[Measured]:
    rng = np.random.default_rng(5)
    people, orders = ROWS // 10, ROWS
    left, right = (
        pa.schema([("k", pa.int64()), ("x", pa.int64())]),
        pa.schema([("who", pa.int64()), ("z", pa.int64())]),
    )
    node = Join(TABLE, Scan("main", "u"), (On("k", "who"),))
    state = State(operator_of(node, [left, right]), folder)

    def side(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.rename_columns(["who", "z", *rows.schema.names[2:]])

    for k, x in loading(people):
        state.tick({"left": [rows_of(k, x, 1)]})
    for k, x in loading(orders):
        state.tick({"right": [side(rows_of(k % people, x, 1))]})
    for rows in TICKS:
        ticks = [
            {"right": [side(rows_of(rng.integers(0, people, rows), np.arange(rows), 1))]} for _ in range(4)
        ]
        note = f"{orders:,} orders of {people:,} people"
        yield told("Join, the side of the orders changes", state, ticks, note)
    ticks = [
        {"left": [rows_of(some := rng.choice(people, 1_000, replace=False), value_of(some), -1)]}
        for _ in range(4)
    ]
    yield told("Join, the side of the people changes", state, ticks, f"{note}: 10 pairs per change")


def bags(folder: Path) -> Iterator[Measured]:
    rng = np.random.default_rng(6)
    many = {
        "SUM(bigint), over all rows": calls(("s", Function.SUM, "x")),
        "SUM(double), over all rows": calls(("s", Function.SUM, "y")),
        "MIN, over all rows": calls(("m", Function.MIN, "x")),
        "MAX, over all rows": calls(("m", Function.MAX, "x")),
        "COUNT(DISTINCT), over all rows": calls(("c", Function.COUNT_DISTINCT, "x")),
    }
    first: Measured | None = None
    for number, (name, some) in enumerate(many.items()):
        state = State(operator_of(Aggregate(TABLE, (), some), [COLUMNS]), folder / str(number))
        for k, _ in loading(ROWS):
            state.tick({"changes": [of_one_group(k, 1)]})
        for step in range(3):  # the extremes go, tick by tick
            gone = np.arange(step * 500, (step + 1) * 500)
            state.tick({"changes": [of_one_group(np.concatenate([gone, ROWS - 1 - gone]), -1)]})
        gone = np.arange(1_500, 2_000)
        ticks = [{"changes": [of_one_group(np.concatenate([gone, ROWS - 1 - gone]), -1)]}]
        it = told(name, state, ticks, f"{ROWS:,} rows; the extremes of both ends are deleted")
        first = it if first is None else first
        yield Measured(
            it.name, it.rows, it.ns, it.target, it.copies, f"{it.ns / first.ns:.1f}× SUM(bigint); {it.note}"
        )
    node = Aggregate(TABLE, ("k",), calls(("m", Function.MIN, "x"), ("c", Function.COUNT_DISTINCT, "x")))
    state = State(operator_of(node, [COLUMNS]), folder / "by key")
    groups = ROWS // 10
    for k, x in loading(ROWS):
        state.tick({"changes": [rows_of(k % groups, x, 1)]})
    for rows in TICKS:
        ticks = []
        for _ in range(4):
            old = rng.choice(ROWS, rows // 2, replace=False)
            both = np.concatenate([old % groups, old % groups])
            x = np.concatenate([value_of(old), value_of(old) + 1])
            ticks.append({"changes": [rows_of(both, x, np.repeat([-1, 1], len(old)))]})
        yield told("MIN and COUNT(DISTINCT) by key", state, ticks, f"{groups:,} groups of 10")


def of_one_group(values: np.ndarray, weight: int) -> pa.RecordBatch:
    return pa.record_batch({
        "k": values, "x": values, "y": values / 8,
        "_hash": np.full(len(values), 42), "_weight": np.full(len(values), weight),
    })  # fmt: skip


def main() -> None:
    results: list[Measured] = []
    for part in (aggregates, keyed, distinct, joined, bags):
        with tempfile.TemporaryDirectory() as folder:
            results += part(Path(folder))
    report(
        "operators",
        results,
        ["One shard, one process. A step reads its state and makes rows; writing the run is the spine's."],
    )
