"""Look-up of sums: for each key, its columns added up over all runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import ArithmeticOverflow
from penstock.spine.layout import Int64s, Layout
from penstock.spine.needles import Needles
from penstock.spine.run import Run

__all__ = ["sums_of"]

_MAX = 2**63 - 1


def sums_of(layout: Layout, runs: Sequence[Run], keys: pa.RecordBatch) -> pa.RecordBatch:
    """Row i for row i of ``keys``; zeros where there is none.

    Cost: for each run one search per key, and one gather per column of the keys that are found.
    """
    needles = Needles(layout, keys)
    totals = [_Total(len(needles)) for _ in layout.summed]
    for run in runs:
        for which, rows in needles.pairs(run, 1 << 62):
            for total, column in zip(totals, run.take(layout.summed, rows), strict=True):
                total.add(which, column.to_numpy())
    columns = []
    for total in totals:
        values = np.empty(len(needles), np.int64)
        values[needles.order] = total.values()
        columns.append(pa.array(values))
    return pa.RecordBatch.from_arrays(columns, names=list(layout.summed))


class _Total:
    """Sums that know whether they left the range of 64 bits on their way and did not come back."""

    def __init__(self, length: int) -> None:
        self._sums = np.zeros(length, np.int64)
        self._wraps: Int64s | None = None
        self._bound = 0

    def add(self, which: Int64s, values: Int64s) -> None:
        """Add to some of them, each once."""
        self._bound += max(int(values.max()), -int(values.min())) if len(values) else 0
        before = self._sums[which]
        with np.errstate(over="ignore"):
            after = before + values
        if self._bound > _MAX:
            if self._wraps is None:
                self._wraps = np.zeros(len(self._sums), np.int64)
            wrapped = ((before ^ after) & (values ^ after)) < 0
            self._wraps[which[wrapped]] += np.where(values[wrapped] < 0, -1, 1)
        self._sums[which] = after

    def values(self) -> Int64s:
        if self._wraps is not None and self._wraps.any():
            raise ArithmeticOverflow(
                "a sum over the runs leaves the range of 64 bits",
                subject="sums",
                hint="Accumulators are made not to: look for a change that is applied over and over.",
            )
        return self._sums
