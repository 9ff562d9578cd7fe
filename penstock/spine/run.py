"""`Run`: rows of the stored form, sorted by hash, of which a part [first, last) counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.spine.layout import END, Int64s, UInt64s

__all__ = ["Run"]


class Run:
    """A sorted run, in memory or mapped. Row numbers are those of the whole file."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.first, self.last = 0, batch.num_rows
        self._hashes = unsigned(batch.column(0).to_numpy())

    @property
    def rows(self) -> int:
        return self.last - self.first

    def cut(self, begin: int, end: int) -> Run:
        """The part whose hashes are in [begin, end)."""
        it = Run(self._batch)
        edges = [edge for edge in (begin, end) if edge < END]
        found = [*self.find(np.array(edges, np.uint64))[0].tolist(), *([self.last] * (2 - len(edges)))]
        it.first, it.last = found
        return it

    def find(self, hashes: UInt64s) -> tuple[Int64s, Int64s]:
        """For each of the sorted hashes its first row, and the row after its last."""
        there = self._hashes[self.first : self.last]
        return (
            np.searchsorted(there, hashes, side="left") + self.first,
            np.searchsorted(there, hashes, side="right") + self.first,
        )

    def take(self, names: Sequence[str], rows: Int64s) -> list[pa.Array]:
        taken = pa.array(rows)
        return [self._batch.column(name).take(taken) for name in names]

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        return self._batch.slice(start, stop - start)

    def hashes(self, start: int, stop: int) -> UInt64s:
        return self._hashes[start:stop]
