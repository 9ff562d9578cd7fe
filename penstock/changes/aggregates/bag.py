"""`Bag`: the weighted values of every group, for aggregates that must remember them.

Law: a map (group, value) → weight; bags add up pair by pair, and a pair of weight 0 is gone.
State: runs of distinct pairs. A batch is consolidated on its own and becomes a run; whenever a run is no
longer less than half of the one before it, the two are merged. So sizes fall geometrically, there are O(log
n) runs, and a pair is consolidated O(log n) times in all: what an update costs does not depend on what is
already there.
Cost: about 100 ns per row and consolidation (one hash of group and value); reading everything is O(pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.changes import rows
from penstock.changes.aggregates.batch import Batch
from penstock.changes.aggregates.limbs import Commit, Int64s, Limbs, widest_totals

__all__ = ["Bag", "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """Distinct (group, value) pairs with their weights."""

    ids: Int64s
    values: pa.Array
    weights: Int64s

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, mask: Int64s) -> Run:
        """Some of the pairs, by number."""
        return Run(self.ids[mask], self.values.take(pa.array(mask)), self.weights[mask])


class Bag:
    """Weighted values by group.

    >>> import numpy as np
    >>> bag = Bag(pa.string())
    >>> bag.prepare(Batch.of(np.array([0, 0, 1]), np.array([1, 1, -1]), "bag"), pa.array(["a", "a", "b"]))()
    >>> run = bag.settled()
    >>> run.ids.tolist(), run.values.to_pylist(), run.weights.tolist()
    ([0, 1], ['a', 'b'], [2, -1])
    """

    __slots__ = ("_kind", "_mass", "_runs")

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._runs: list[Run] = []
        self._mass = 0

    def prepare(self, batch: Batch, values: pa.Array) -> Commit:
        """The change that adds rows without NULLs. Errors come now, not when it is done."""
        weights = np.ones(len(batch), np.int64) if batch.weights is None else batch.weights
        return self._prepare([_consolidated(batch.ids, values, weights)], batch.mass)

    def prepare_merge(self, other: Bag) -> Commit:
        return self._prepare(other._runs, other._mass)

    def settled(self) -> Run:
        """Everything, as one run."""
        if len(self._runs) != 1:
            self._runs = [_merged(self._runs, self._kind)]
        return self._runs[0]

    def clear(self) -> None:
        self._runs = []
        self._mass = 0

    def _prepare(self, more: Sequence[Run], mass: int) -> Commit:
        runs = list(self._runs)
        for run in more:
            runs.append(run)
            while len(runs) > 1 and 2 * len(runs[-1]) > len(runs[-2]):
                last = runs.pop()
                runs[-1] = _merged([runs[-1], last], self._kind)
        mass += self._mass
        if mass >= 1 << 63:
            # Some weight might leave int64: look at once, so that the change that does it is the one refused.
            runs = [_merged(runs, self._kind)]
            mass = sum(abs(weight) for weight in runs[0].weights.tolist())
        return partial(self._replace, runs, mass)

    def _replace(self, runs: list[Run], mass: int) -> None:
        self._runs, self._mass = runs, mass


def _merged(runs: Sequence[Run], kind: pa.DataType) -> Run:
    none = np.empty(0, np.int64)
    return _consolidated(
        np.concatenate([none, *(run.ids for run in runs)]),
        pa.concat_arrays([pa.array([], kind), *(run.values for run in runs)]),
        np.concatenate([none, *(run.weights for run in runs)]),
    )


def _consolidated(ids: Int64s, values: pa.Array, weights: Int64s) -> Run:
    grouping = rows.group([pa.array(ids), values], len(ids))
    sums = Limbs(1)  # checks that no weight wraps
    sums.prepare(grouping.count, grouping.ids, [weights], widest_totals([weights]))()
    total = sums.columns[0]
    alive = np.flatnonzero(total)
    first = grouping.first[alive]
    return Run(ids[first], rows.canonical(values.take(pa.array(first))), total[alive])
