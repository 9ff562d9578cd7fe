"""Merging: runs → files that hold their sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.spine.layout import Layout
from penstock.spine.pieces import pieces_of
from penstock.spine.policy import Policy
from penstock.spine.run import Run
from penstock.spine.slices import Slice
from penstock.spine.write import write_run
from penstock.store.interface import Store

__all__ = ["merged"]

_LARGE = 1 << 20  # rows of a file, beside which any piece is small
_PIECES = 8  # of a smaller file at least


def merged(
    store: Store,
    names: Iterator[str],
    layout: Layout,
    runs: Sequence[Run],
    begin: int,
    end: int,
    policy: Policy,
) -> list[Slice]:
    """Files that hold the sum of the runs, which all lie in [begin, end); no file where nothing is left.

    The slices lie side by side and make up the whole range. Holds one file's rows in memory, and a piece.
    """
    total = sum(run.rows for run in runs)
    if not total:
        return []
    nbytes = sum(run.rows * run.row_bytes for run in runs)
    files = max(-(-total // policy.most_rows), nbytes // policy.most_bytes, 1)
    most = min(-(-total // files), policy.most_rows)
    if len(runs) == 1 and total <= most:
        pieces = iter([runs[0].slice(runs[0].first, runs[0].last)])
    else:
        small = policy.most_rows < _LARGE
        pieces = pieces_of(layout, runs, max(policy.most_rows // _PIECES, 1) if small else None)
    made: list[tuple[Slice, int, int]] = []
    for some in _filled(pieces, most):
        group = made[0][0].file if made else ""
        least = int(unsigned(some[0].column(0).to_numpy())[0])
        greatest = int(unsigned(some[-1].column(0).to_numpy())[-1])
        made.append((write_run(store, next(names), layout, some, group=group), least, greatest))
    slices = []
    for at, (it, least, greatest) in enumerate(made):
        first = begin if at == 0 else least
        last = end if at == len(made) - 1 else max(made[at + 1][1], greatest + 1)
        slices.append(replace(it, begin=first, end=last))
    return slices


def _filled(pieces: Iterator[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Pieces for one file after the other."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for piece in pieces:
        start = 0
        while start < piece.num_rows:
            part = piece.slice(start, most - rows)
            held.append(part)
            start += part.num_rows
            rows += part.num_rows
            if rows == most:
                yield held
                held, rows = [], 0
    if held:
        yield held
