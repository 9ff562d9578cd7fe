"""Look-up of rows: for each key, every stored row that has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.spine.layout import Int64s, Layout
from penstock.spine.needles import Needles
from penstock.spine.run import Run

__all__ = ["matches_of"]

_Match = tuple[Int64s, pa.RecordBatch]


def matches_of(
    layout: Layout, runs: Sequence[Run], keys: pa.RecordBatch, batch_rows: int
) -> Iterator[_Match]:
    """(row of ``keys``, stored row), of one run after the other, at most ``batch_rows`` at a time.

    Cost: for each run one search per key and one gather per column; what several runs have little of comes
    together in one batch.
    """
    if batch_rows < 1:
        raise InvalidArgument(
            f"batches of {batch_rows} rows are none", subject="matches", hint="Give 1 or more."
        )
    needles = Needles(layout, keys)
    return _matches(layout, runs, needles, batch_rows)


def _matches(layout: Layout, runs: Sequence[Run], needles: Needles, batch_rows: int) -> Iterator[_Match]:
    held: list[_Match] = []
    count = 0
    for run in runs:
        for which, rows in needles.pairs(run, batch_rows):
            if held and count + len(rows) > batch_rows:
                yield _together(held)
                held, count = [], 0
            columns = run.take(layout.stored.names, rows)
            held.append((needles.order[which], pa.RecordBatch.from_arrays(columns, schema=layout.stored)))
            count += len(rows)
    if held:
        yield _together(held)


def _together(held: Sequence[_Match]) -> _Match:
    if len(held) == 1:
        return held[0]
    return np.concatenate([which for which, _ in held]), pa.concat_batches([rows for _, rows in held])
