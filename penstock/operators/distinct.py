"""`Distinct`: each row once that is there at all.

Law: content = the rows whose weights add up to more than 0, once each. So a row goes out as +1 when its sum
comes above 0, as −1 when it comes back, and not at all between.
State: ``counts``, the sum of weights by row.
Cost: one look-up per row that the tick changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.operators.batches import changes, columns, gathered, numbers, taken
from penstock.operators.operator import changes_of, columns_of, with_weight
from penstock.plan import Distinct
from penstock.spine import HASH, Layout, ShardState, arrange
from penstock.spine.layout import Int64s

__all__ = ["COUNT", "DistinctOperator", "crossings"]

COUNT = "_count"


def crossings(old: Int64s, more: Int64s) -> Int64s:
    """What adding to sums of weights does to the sets of rows that are there: +1, −1 or 0 each.

    >>> crossings(np.array([0, 1, 2, -1]), np.array([2, -1, -1, 1])).tolist()
    [1, -1, 0, 0]
    """
    return (old + more > 0).astype(np.int64) - (old > 0)


class DistinctOperator:
    """The step of `Distinct`.

    >>> from penstock.changes import xxhash64
    >>> from penstock.plan import Scan
    >>> distinct = DistinctOperator(Distinct(Scan("main", "cities")), [pa.schema([("city", pa.string())])])
    >>> cities = pa.record_batch({"city": ["Turin", "Graz", "Turin"], "_weight": [1, -1, 1]})
    >>> cities = cities.append_column("_hash", pa.array(xxhash64([cities["city"]])))
    >>> state = ShardState.in_memory(distinct.layouts)
    >>> [batch.to_pylist() for batch in distinct.step({"changes": [cities]}, state)]
    [[{'city': 'Turin', '_weight': 1}]]
    """

    def __init__(self, node: Distinct, below: Sequence[pa.Schema]) -> None:
        rows = columns_of(node, below)
        self.node = node
        self.inputs: Mapping[str, pa.Schema] = {"changes": changes_of(rows)}
        self.keys: Mapping[str, tuple[str, ...]] = {"changes": tuple(rows.names)}
        counts = Layout(
            pa.schema([*rows, pa.field(COUNT, pa.int64(), nullable=False)]), tuple(rows.names), "sums"
        )
        self.layouts: Mapping[str, Layout] = {"counts": counts}
        self.output = with_weight(rows)
        self._names = rows.names

    def step(
        self, inputs: Mapping[str, Iterable[pa.RecordBatch]], state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """The changes of one tick and shard → the rows that came or went."""
        came = gathered(self.inputs["changes"], inputs.get("changes", ()), "Distinct")
        renamed = [COUNT if name == WEIGHT else name for name in came.schema.names]
        rows = arrange(self.layouts["counts"], came.rename_columns(renamed))
        if not rows.num_rows:
            return
        old = numbers(state.spine("counts").sums(rows.select([HASH, *self._names])), COUNT)
        state.add("counts", rows)
        weights = crossings(old, numbers(rows, COUNT))
        crossed = np.flatnonzero(weights)
        yield from changes(self.output, taken(columns(rows, self._names), crossed), weights[crossed])
