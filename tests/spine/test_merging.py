"""What merging keeps true over many ticks: few runs, little garbage, little work, and bounded files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes.hashing import xxhash64
from penstock.errors import InvalidArgument
from penstock.spine import END, Edit, Layout, Runs, ShardState, Slice, Spine, edited, shard_range
from penstock.spine.policy import Policy
from penstock.store import MemoryStore

SUMS = Layout(pa.schema([("k", pa.int64()), ("n", pa.int64())]), ("k",), "sums")
BAG = Layout(pa.schema([("v", pa.int64())]), (), "bag", "v")
ROWS = Layout(pa.schema([("v", pa.string())]), (), "bag")
HOT = 42


def sums(keys: np.ndarray, amounts: np.ndarray) -> pa.RecordBatch:
    k = pa.array(keys)
    return pa.record_batch({"_hash": xxhash64([k]), "k": k, "n": amounts})


def values(numbers: np.ndarray, weights: np.ndarray, layout: Layout = BAG) -> pa.RecordBatch:
    v = pa.array(numbers).cast(layout.schema.field("v").type)
    return pa.record_batch({"_hash": np.full(len(v), HOT), "v": v, "_weight": weights})


@dataclass
class Ticks:
    """One spine, tick after tick, and what was written for it."""

    layout: Layout
    policy: Policy
    store: MemoryStore = field(default_factory=MemoryStore)
    slices: tuple[Slice, ...] = ()
    count: int = 0
    rows_added: int = 0
    rows_written: int = 0

    def __post_init__(self) -> None:
        self.runs = Runs(self.store)

    def tick(self, batch: pa.RecordBatch, shards: int = 1, only: int | None = None) -> list[Edit]:
        edits = []
        hashes = batch.column("_hash").to_numpy().view(np.uint64)
        for shard in range(shards) if only is None else (only,):
            begin, end = shard_range(shard, shards)
            inside = (hashes >= np.uint64(begin)) & (hashes <= np.uint64(end - 1))
            state = ShardState(
                self.store,
                self.runs,
                {"s": self.layout},
                {"s": self.slices},
                begin,
                end,
                f"{self.count}/{shard}/",
                self.count == 0,
                policy=self.policy,
            )
            state.add("s", batch.filter(pa.array(inside)))
            self.rows_added += int(inside.sum())
            for edit in state.finish().values():
                assert all(begin <= it.begin and it.end <= end for it in (*edit.added, *edit.dropped))
                edits.append(edit)
                self.rows_written += sum({it.file: it.rows for it in edit.added}.values())
        self.slices = edited(self.slices, edits)
        self.count += 1
        return edits

    @property
    def spine(self) -> Spine:
        return Spine.open(self.layout, self.slices, self.runs)

    @property
    def files(self) -> dict[str, int]:
        return {it.file: it.rows for it in self.slices}

    def depth(self) -> int:
        """The most slices over any hash."""
        edges = sorted({it.begin for it in self.slices})
        return max((sum(it.begin <= at < it.end for it in self.slices) for at in edges), default=0)

    def content(self) -> list[dict[str, object]]:
        return [row for batch in self.spine.scan() for row in batch.to_pylist()]


@pytest.mark.parametrize("most_rows", [64, 1000, 1 << 22])
def test_updates_of_a_table_keep_runs_files_garbage_and_work_few(most_rows: int) -> None:
    rng = np.random.default_rng(5)
    ticks = Ticks(SUMS, Policy(most_rows=most_rows))
    keys = 4000
    expected = np.zeros(keys, np.int64)
    ticks.tick(sums(np.arange(keys), np.ones(keys, np.int64)), 4)
    expected += 1
    widest = 0
    for at in range(250):
        some = rng.integers(0, keys, rng.integers(1, 60))
        amounts = rng.integers(-3, 4, len(some))
        np.add.at(expected, some, amounts)
        shards = int(rng.choice([1, 1, 1, 2, 8]))
        ticks.tick(sums(some, amounts), shards)
        widest = max(widest, ticks.depth())
        assert max(ticks.files.values()) <= most_rows
        if at % 25 == 0:
            check(ticks, expected)
            live = int((expected != 0).sum())
            assert sum(ticks.files.values()) <= 3 * live
    check(ticks, expected)
    assert widest <= 2 + math.log(2 * keys, 3.5)
    assert ticks.rows_written <= 10 * math.log2(keys) * ticks.rows_added
    assert len(ticks.files) <= 3 * keys / min(most_rows, keys) + 4 * math.log2(keys)


def check(ticks: Ticks, expected: np.ndarray) -> None:
    whole = pa.Table.from_batches(ticks.spine.scan(), ticks.layout.stored)
    found = np.zeros_like(expected)
    found[whole.column("k").to_numpy()] = whole.column("n").to_numpy()
    assert len(whole) == (expected != 0).sum()
    assert (found == expected).all()


def test_a_small_tick_rewrites_little_and_a_large_spine_stays_where_it_is() -> None:
    ticks = Ticks(SUMS, Policy())
    ticks.tick(sums(np.arange(100_000), np.ones(100_000, np.int64)))
    (base,) = ticks.files
    written = []
    for at in range(100):
        (edit,) = ticks.tick(sums(np.arange(at, at + 10), np.ones(10, np.int64)))
        written.append(sum(it.rows for it in edit.added))
    assert base in ticks.files
    assert max(written) <= 1000
    assert sum(written) <= 100 * 10 * 12


def test_what_was_all_deleted_leaves_no_file() -> None:
    ticks = Ticks(SUMS, Policy(most_rows=100))
    keys = np.arange(1000)
    ticks.tick(sums(keys, np.ones(1000, np.int64)))
    for part in np.array_split(np.random.default_rng(1).permutation(keys), 7):
        ticks.tick(sums(part, np.full(len(part), -1)), 2)
    assert ticks.content() == []
    for _ in range(40):  # what is due is made a bounded piece at a time, by ticks that add something
        ticks.tick(sums(np.array([1001]), np.array([1])))
        ticks.tick(sums(np.array([1001]), np.array([-1])))
    assert sum(ticks.files.values()) <= 6


def test_rows_that_cancel_within_a_tick_are_never_written() -> None:
    ticks = Ticks(SUMS, Policy())
    assert ticks.tick(sums(np.array([1, 1, 2, 2]), np.array([5, -5, 7, -7]))) == []
    assert not list(ticks.store.list())


def test_work_of_a_step_is_bounded_by_what_it_adds() -> None:
    policy = Policy(most_rows=50, work=3)
    ticks = Ticks(SUMS, policy)
    rng = np.random.default_rng(2)
    for _ in range(120):
        some = rng.integers(0, 3000, rng.integers(1, 100))
        for edit in ticks.tick(sums(some, np.ones(len(some), np.int64))):
            written = sum({it.file: it.rows for it in edit.added}.values())
            assert written <= 2 * policy.most_rows + policy.work * len(some) + len(some)


def test_a_file_of_which_most_shards_are_gone_is_rewritten_by_the_others() -> None:
    ticks = Ticks(SUMS, Policy(most_rows=1 << 20))
    ticks.tick(sums(np.arange(8000), np.ones(8000, np.int64)))
    (base,) = ticks.files
    hashes = xxhash64([pa.array(np.arange(8000))]).view(np.uint64)
    for shard in (0, 1, 2):
        begin, end = shard_range(shard, 4)
        mine = np.flatnonzero((hashes >= np.uint64(begin)) & (hashes < np.uint64(end)))
        for _ in range(2):
            ticks.tick(sums(mine, np.ones(len(mine), np.int64)), 4, only=shard)
    assert base in ticks.files
    ticks.tick(sums(np.array([5]), np.array([1])), 1)
    assert base not in ticks.files
    assert sum(ticks.files.values()) <= 1.5 * 8000


@pytest.mark.parametrize("layout", [BAG, ROWS], ids=["ordered", "unordered"])
def test_one_key_with_many_rows_is_kept_in_bounded_files(layout: Layout) -> None:
    policy = Policy(most_rows=2000)
    ticks = Ticks(layout, policy)
    rng = np.random.default_rng(7)
    live: dict[int, int] = {}
    for _ in range(25):
        numbers = rng.integers(0, 20_000, 600)
        gone = rng.permutation(np.array(sorted(live), np.int64))[: 200 if live else 0]
        weights = np.concatenate(
            [np.ones(600, np.int64), -np.array([live[it] for it in gone.tolist()], np.int64)]
        )
        both = np.concatenate([numbers, gone])
        for number, weight in zip(both.tolist(), weights.tolist(), strict=True):
            live[number] = live.get(number, 0) + weight
        live = {number: weight for number, weight in live.items() if weight}
        ticks.tick(values(both, weights, layout), shards=int(rng.choice([1, 2, 4])))
        assert max(ticks.files.values()) <= policy.most_rows
        if layout is BAG:
            one = pa.record_batch({"_hash": [HOT]})
            least, most = (
                ticks.spine.extremes(one, None, greatest).to_pylist() for greatest in (False, True)
            )
            assert (least, most) == ([min(live)], [max(live)])
    content = ticks.content()
    assert {int(str(row["v"])): row["_weight"] for row in content} == live
    assert len(content) == len(live)
    assert sum(ticks.files.values()) <= 3 * len(live)
    assert ticks.rows_written <= 12 * math.log2(len(live)) * ticks.rows_added
    if layout is BAG:
        numbers = [row["v"] for row in content]
        assert numbers == sorted(numbers)  # type: ignore[type-var]


def test_slices_of_a_merge_make_up_its_range() -> None:
    ticks = Ticks(SUMS, Policy(most_rows=100))
    ticks.tick(sums(np.arange(1000), np.ones(1000, np.int64)))
    assert len(ticks.slices) == 10
    edges = [(it.begin, it.end) for it in ticks.slices]
    assert edges[0][0] == 0
    assert edges[-1][1] == END
    assert all(one[1] == other[0] for one, other in pairwise(edges))
    assert {it.rows for it in ticks.slices} == {100}


@pytest.mark.parametrize(
    "options", [{"most_rows": 0}, {"most_bytes": 0}, {"share": 0.0}, {"work": -1}, {"garbage": -0.1}]
)
def test_a_policy_that_could_not_work_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="need a row"):
        Policy(**options)
