"""`Join`: pairs of rows that agree.

Law: bilinear, so Δ(A⋈B) = ΔA⋈(B + ΔB) + A⋈ΔB; the weight of a pair is the product of its rows' weights.
State: ``left`` and ``right``, the rows of each side by join key. A row that can meet nobody, because it has
NULL where the join is not null-safe, is not kept.
Cost: one look-up per key that changed and one row out per pair. However hot a key is, its pairs are made and
handed on in batches of a bounded size. What cancels out within a tick is not multiplied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.operators.batches import BATCH_ROWS, changes, columns, gathered, numbers, products, taken
from penstock.operators.groups import grouped
from penstock.operators.matching import Side, sides
from penstock.operators.net import netted
from penstock.operators.operator import changes_of, columns_of, with_weight
from penstock.plan import Join
from penstock.spine import HASH, Layout, ShardState, Spine
from penstock.spine.layout import Int64s

__all__ = ["JoinOperator"]


class JoinOperator:
    """The step of `Join`.

    >>> from penstock.changes import xxhash64
    >>> from penstock.plan import On, Scan
    >>> orders, people = pa.schema([("who", pa.string())]), pa.schema([("name", pa.string())])
    >>> node = Join(Scan("main", "orders"), Scan("main", "people"), (On("who", "name"),))
    >>> join = JoinOperator(node, [orders, people])
    >>> def side(name, who, weights):
    ...     rows = pa.record_batch({name: who, "_weight": weights})
    ...     return rows.append_column("_hash", pa.array(xxhash64([rows[name]])))
    >>> state = ShardState.in_memory(join.layouts)
    >>> tick = {"left": [side("who", ["ada", "bob", None], [2, 1, 1])], "right": [side("name", ["ada"], [1])]}
    >>> [batch.to_pylist() for batch in join.step(tick, state)]
    [[{'who': 'ada', 'name': 'ada', '_weight': 2}]]
    """

    def __init__(self, node: Join, below: Sequence[pa.Schema]) -> None:
        self.node = node
        self.output = with_weight(columns_of(node, below))
        self._sides = dict(zip(("left", "right"), sides(node, *below), strict=True))
        self.inputs: Mapping[str, pa.Schema] = {it: changes_of(side.rows) for it, side in self._sides.items()}
        self.keys: Mapping[str, tuple[str, ...]] = {it: side.key for it, side in self._sides.items()}
        self.layouts: Mapping[str, Layout] = {
            it: Layout(side.rows, side.key, "bag") for it, side in self._sides.items()
        }

    def step(
        self, inputs: Mapping[str, Iterable[pa.RecordBatch]], state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """The changes of one tick and shard, of both sides → the pairs that came or went."""
        left, right = (
            _Changed(self._sides[it], self._that_can_match(it, inputs.get(it, ())))
            for it in ("left", "right")
        )
        for it, side in (("left", left), ("right", right)):
            if side.batch.num_rows:
                state.add(it, side.batch)
        if left.batch.num_rows:
            spine = state.spine("right")
            if right.batch.num_rows:
                spine = spine.plus(right.batch)
            for mine, theirs in left.pairs(spine, self._sides["right"]):
                yield from self._joined(mine, theirs)
        if right.batch.num_rows:
            for mine, theirs in right.pairs(state.spine("left"), self._sides["left"]):
                yield from self._joined(theirs, mine)

    def _that_can_match(self, name: str, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """The rows of one side that may find a partner, canonical, without what cancels out."""
        rows = gathered(self.inputs[name], batches, f"Join, {name}")
        can = self._sides[name].can_match(rows)
        if can is not None:
            rows = rows.filter(can)
        return netted(rows, self._sides[name].rows.names)

    def _joined(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        weights = products(numbers(left, WEIGHT), numbers(right, WEIGHT), "Join")
        rows = [
            *columns(left, self._sides["left"].rows.names),
            *columns(right, self._sides["right"].rows.names),
        ]
        yield from changes(self.output, rows, weights)


class _Changed:
    """What a tick changed on one side, and which of it has the same key."""

    def __init__(self, side: Side, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._side = side
        groups = grouped(numbers(batch, HASH), columns(batch, side.key))
        self._first = groups.first
        self._members = np.argsort(groups.ids, kind="stable")
        self._sizes = np.bincount(groups.ids, minlength=groups.count)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def pairs(self, spine: Spine, other: Side) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Each row here with each row of the other side that has its key: two batches, row by row."""
        probe = self.batch.take(pa.array(self._first)).select([HASH, *self._side.key])
        for at, rows in spine.matches(probe.rename_columns([HASH, *other.key]), BATCH_ROWS):
            sizes = self._sizes[at]
            ends = np.cumsum(sizes)
            total = int(ends[-1]) if len(ends) else 0
            for begin in range(0, total, BATCH_ROWS):
                pair = np.arange(begin, min(begin + BATCH_ROWS, total))
                theirs = np.searchsorted(ends, pair, side="right")
                nth = pair - (ends - sizes)[theirs]
                mine = self._members[self._starts[at[theirs]] + nth]
                yield _rows(self.batch, mine), _rows(rows, theirs)


def _rows(batch: pa.RecordBatch, rows: Int64s) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(taken(batch.columns, rows), schema=batch.schema)
