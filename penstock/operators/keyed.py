"""`Keyed`: events by key made into −old +new.

Law: content = for each key the row that was written last, if it was not deleted since. Last is who has the
highest LSN, and within one LSN who comes later. A row that is written again as it was is no change, and
neither is the deletion of a key that is not there; so an event that comes twice does no harm.
State: ``rows``, a bag of these rows by key.
Cost: one look-up per key that was written; what goes out and into the state is what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.names import LSN, OP, WEIGHT
from penstock.changes.op import Op
from penstock.changes.rows import canonical, same_rows
from penstock.operators.batches import changes, columns, gathered, numbers, taken
from penstock.operators.current import current
from penstock.operators.groups import grouped
from penstock.operators.operator import columns_of, events_of, with_weight
from penstock.plan import Keyed
from penstock.spine import HASH, Layout, ShardState
from penstock.spine.layout import Bools, Int64s

__all__ = ["KeyedOperator"]


class KeyedOperator:
    """The step of `Keyed`. UPDATE_BEFORE only tells what was there, and is not asked.

    >>> from penstock.changes import xxhash64
    >>> from penstock.plan import Scan
    >>> of_ada = pa.schema([("id", pa.int64()), ("name", pa.string())])
    >>> keyed = KeyedOperator(Keyed(Scan("main", "people"), ("id",)), [of_ada])
    >>> events = pa.record_batch(
    ...     {
    ...         "id": [1, 2, 1, 2],
    ...         "name": ["Ada", "Bob", "Ada L.", None],
    ...         "_op": pa.array([Op.INSERT, Op.INSERT, Op.UPDATE_AFTER, Op.DELETE], pa.int8()),
    ...         "_lsn": [1, 2, 3, 4],
    ...     }
    ... )
    >>> events = events.append_column("_hash", pa.array(xxhash64([events["id"]])))
    >>> state = ShardState.in_memory(keyed.layouts)
    >>> [batch.to_pylist() for batch in keyed.step({"events": [events]}, state)]
    [[{'id': 1, 'name': 'Ada L.', '_weight': 1}]]
    """

    def __init__(self, node: Keyed, below: Sequence[pa.Schema]) -> None:
        rows = columns_of(node, below)
        self.node = node
        self.inputs: Mapping[str, pa.Schema] = {"events": events_of(rows)}
        self.keys: Mapping[str, tuple[str, ...]] = {"events": node.key}
        self.layouts: Mapping[str, Layout] = {"rows": Layout(rows, node.key, "bag")}
        self.output = with_weight(rows)
        self._names = rows.names

    def step(
        self, inputs: Mapping[str, Iterable[pa.RecordBatch]], state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """The events of one tick and shard → what they changed."""
        events = gathered(self.inputs["events"], inputs.get("events", ()), "Keyed")
        last, gone = self._last_of_each_key(events)
        new = pa.RecordBatch.from_arrays(
            [canonical(it) for it in taken(columns(events, [HASH, *self._names]), last)],
            schema=pa.schema([events.schema.field(it) for it in (HASH, *self._names)]),
        )
        found, rows = current(state.spine("rows"), new.select([HASH, *self.node.key]))
        there = found >= 0
        both = np.flatnonzero(there & ~gone)
        same = same_rows(
            taken(columns(rows, self._names), found[both]), taken(columns(new, self._names), both), len(both)
        )
        changed = np.ones(len(last), np.bool_)
        changed[both[same]] = False
        # What was there is taken back, if there was anything; what is not deleted is there now.
        yield from self._say(rows, found[there & changed], -1, state)
        yield from self._say(new, np.flatnonzero(~gone & changed), 1, state)

    def _last_of_each_key(self, events: pa.RecordBatch) -> tuple[Int64s, Bools]:
        """The row of the event that counts for each key, and whether it is a deletion."""
        ops, lsns = events.column(OP).to_numpy(), numbers(events, LSN)
        rows: Int64s | None = None
        if (ops == Op.UPDATE_BEFORE).any():
            rows = np.flatnonzero(ops != Op.UPDATE_BEFORE)
            lsns = lsns[rows]
        if not (lsns[1:] >= lsns[:-1]).all():
            by_lsn = np.argsort(lsns, kind="stable")
            rows = by_lsn if rows is None else rows[by_lsn]
        keys = columns(events, self.node.key)
        hashes = numbers(events, HASH)
        if rows is not None:
            keys, hashes = taken(keys, rows), hashes[rows]
        last = grouped(hashes, keys).last()
        if rows is not None:
            last = rows[last]
        return last, ops[last] == Op.DELETE

    def _say(
        self, rows: pa.RecordBatch, which: Int64s, weight: int, state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """Some rows as changes, to those who read them and to the state."""
        some = taken(columns(rows, [HASH, *self._names]), which)
        weights = np.full(len(which), weight)
        kept = pa.RecordBatch.from_arrays([*some, pa.array(weights)], names=[HASH, *self._names, WEIGHT])
        state.add("rows", kept)
        yield from changes(self.output, some[1:], weights)
