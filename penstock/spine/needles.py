"""`Needles`: keys in the order in which runs are searched for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.changes.rows import same_rows
from penstock.errors import SchemaMismatch
from penstock.spine.arrange import sorting
from penstock.spine.layout import HASH, Int64s, Layout, int64s
from penstock.spine.run import Run

__all__ = ["Needles"]


class Needles:
    """Keys sorted by hash. *Needle* i is key ``order[i]`` of those that were given.

    A hash tells where a key can be; the real columns tell whether it is. So a collision costs time, never
    an answer.
    """

    def __init__(self, layout: Layout, keys: pa.RecordBatch) -> None:
        columns = [self._column(layout, keys, name) for name in (HASH, *layout.key)]
        hashes = unsigned(int64s(columns[0], HASH))
        order = sorting(hashes)
        self._names = layout.key
        if order is None:
            self.order: Int64s = np.arange(len(hashes))
            self.hashes, self._keys = hashes, columns[1:]
        else:
            self.order = order
            taken = pa.array(order)
            self.hashes, self._keys = hashes[order], [column.take(taken) for column in columns[1:]]

        self._unique = not bool((self.hashes[1:] == self.hashes[:-1]).any())

    def __len__(self) -> int:
        return len(self.hashes)

    def find(self, run: Run) -> tuple[Int64s, Int64s, Int64s]:
        """Which needles have their hash in the run; of each of these its first row, and the row after its
        last."""
        return run.find(self.hashes, unique=self._unique)

    def same(self, needles: Int64s, run: Run, rows: Int64s) -> np.ndarray:
        """Pair by pair, whether the row has the needle's key."""
        taken = pa.array(needles)
        return same_rows([it.take(taken) for it in self._keys], run.take(self._names, rows), len(rows))

    def pairs(self, run: Run, most: int) -> Iterator[tuple[Int64s, Int64s]]:
        """(needle, row) wherever the keys are equal, so many at a time at most."""
        found, starts, stops = self.find(run)
        counts = stops - starts
        total = int(counts.sum())
        if total == len(found) <= most:
            pieces = iter([(found, starts)] if total else ())
        else:
            pieces = _spread(found, starts, counts, total, most)
        for needles, rows in pieces:
            same = self.same(needles, run, rows)
            if same.all():
                yield needles, rows
            elif same.any():
                yield needles[same], rows[same]

    @staticmethod
    def _column(layout: Layout, keys: pa.RecordBatch, name: str) -> pa.Array:
        kind = layout.stored.field(name).type
        at = keys.schema.get_all_field_indices(name)
        if len(at) != 1 or keys.schema.field(at[0]).type != kind:
            raise SchemaMismatch(
                f"there is no one column {name} {kind} among ({', '.join(keys.schema.names)})",
                subject="keys to look up",
                hint="Give _hash and the key columns as the layout has them.",
            )
        return keys.column(at[0])


def _spread(
    found: Int64s, starts: Int64s, counts: Int64s, total: int, most: int
) -> Iterator[tuple[Int64s, Int64s]]:
    """All rows of each needle, a bounded number at a time however many one of them has."""
    ends = np.cumsum(counts)
    shift = starts - (ends - counts)
    for begin in range(0, total, most):
        place = np.arange(begin, min(begin + most, total))
        at = np.searchsorted(ends, place, side="right")
        yield found[at], place + shift[at]
