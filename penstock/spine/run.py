"""`Run`: rows of the stored form, sorted by hash, in memory or in a mapped file.

Why a look-up is fast: one row in 512 has its hash among the *fences*, which fit in the processor's cache.
So a hash costs one search there and nine steps within 4 KiB; of the rows themselves only those are touched
that are found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.spine.guard import Guard
from penstock.spine.layout import END, Int64s, Layout, UInt64s
from penstock.spine.places import Column, place_of
from penstock.spine.run_format import FENCE

__all__ = ["Run", "RunData"]

_DENSE = 64  # rows per needle, below which one search over all rows costs less than steps between fences
_STEPS = tuple(1 << bit for bit in reversed(range(FENCE.bit_length() - 1)))
_ONE = np.uint64(1)


class RunData:
    """The rows of a whole run. What is read of them is trusted first, where there is a guard."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        *,
        fences: UInt64s | None = None,
        guard: Guard | None = None,
        base: int = 0,
        nbytes: int = 0,
        group: str = "",
    ) -> None:
        self.batch = batch
        self.rows: int = batch.num_rows
        # Arrow would look at the offsets of lists to tell, and nobody has checked those yet.
        self.bytes: int = batch.nbytes if guard is None else nbytes
        self.hashes = unsigned(batch.column(0).to_numpy())
        self.fences = self.hashes[::FENCE].copy() if fences is None else fences
        self.group = group
        """What runs that one merge wrote side by side have in common."""
        self._guard = guard
        self._base = base
        self._hashes_at = batch.column(0).buffers()[1].address - base
        self._places: dict[int, Column] = {}

    def trust(self, column: int, start: int, stop: int) -> None:
        """Trust rows [start, stop) of a column."""
        if self._guard is not None and not self._guard.whole:
            self._place(column).touch(self._guard, start, stop)

    def trust_rows(self, column: int, rows: Int64s) -> None:
        """Trust some rows of a column."""
        if self._guard is not None and not self._guard.whole:
            self._place(column).touch_rows(self._guard, rows)

    def trust_hashes(self, starts: Int64s, stops: Int64s) -> None:
        """Trust the hashes of many ranges of rows, none of them long."""
        if self._guard is not None and not self._guard.whole:
            starts = np.minimum(starts, self.rows - 1)
            stops = np.minimum(np.maximum(stops, starts + 1), self.rows)
            self._guard.touch_each(self._hashes_at + starts * 8, self._hashes_at + stops * 8)

    def _place(self, column: int) -> Column:
        place = self._places.get(column)
        if place is None:
            place = self._places[column] = place_of(self.batch.column(column), self._base)
        return place


class Run:
    """The rows of a run whose hashes are in [begin, end): rows [first, last) of the whole. Immutable.

    Row numbers are those of the whole run.
    """

    __slots__ = ("begin", "data", "end", "first", "last")

    def __init__(self, data: RunData, begin: int = 0, end: int = END) -> None:
        self.data = data
        self.begin, self.end = begin, end
        self.first = self._edge(begin)
        self.last = self._edge(end)

    @classmethod
    def in_memory(cls, layout: Layout, batch: pa.RecordBatch) -> Run:
        """Of rows in the stored form."""
        layout.check_stored(batch, "run in memory")
        return cls(RunData(batch))

    @property
    def rows(self) -> int:
        return self.last - self.first

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes, on average."""
        return self.data.bytes // max(self.data.rows, 1) + 1

    def cut(self, begin: int, end: int) -> Run:
        """The part whose hashes are in [begin, end)."""
        begin, end = max(begin, self.begin), min(end, self.end)
        return self if (begin, end) == (self.begin, self.end) else Run(self.data, begin, max(begin, end))

    def find(self, hashes: UInt64s, *, unique: bool = False) -> tuple[Int64s, Int64s, Int64s]:
        """Which of the sorted hashes are here; of each of these its first row, and the row after its last.

        ``unique`` says that no hash is wanted twice: then rows are searched for among the hashes where these
        are more.
        """
        least, most = self._within(hashes)
        wanted = hashes[least:most]
        if not len(wanted) or not self.rows:
            none = np.empty(0, np.int64)
            return none, none, none
        if unique and self.rows < len(wanted):
            which, starts, stops = self._find_rows(wanted)
        else:
            which, starts, stops = self._find_hashes(wanted)
        return which + least, starts, stops

    def _find_hashes(self, wanted: UInt64s) -> tuple[Int64s, Int64s, Int64s]:
        there = self.data.hashes
        rows = self._lower(wanted)
        inside = np.minimum(rows, self.last - 1)
        which = np.flatnonzero((there[inside] == wanted) & (rows < self.last))
        starts = rows[which]
        stops = starts + 1
        found = wanted[which]
        after = np.minimum(stops, self.last - 1)
        self.data.trust_hashes(after, after + 1)
        shared = np.flatnonzero((there[after] == found) & (stops < self.last))
        if len(shared):
            some = found[shared]
            ends = np.full(len(some), self.last)
            below = some != np.uint64(END - 1)
            ends[below] = self._lower(some[below] + _ONE)
            stops[shared] = ends
        return which, starts, stops

    def _find_rows(self, wanted: UInt64s) -> tuple[Int64s, Int64s, Int64s]:
        self.data.trust(0, self.first, self.last)
        there = self.data.hashes[self.first : self.last]
        places = np.searchsorted(wanted, there)
        rows = np.flatnonzero(wanted[np.minimum(places, len(wanted) - 1)] == there)
        places = places[rows]
        starts = np.flatnonzero(np.concatenate([places[:1] >= 0, places[1:] != places[:-1]]))
        stops = np.append(starts[1:], len(rows)) if len(rows) else starts
        which = places[starts]
        return which, rows[starts] + self.first, rows[stops - 1] + self.first + 1

    def take(self, names: Sequence[str], rows: Int64s) -> list[pa.Array]:
        """Columns of these rows."""
        taken = pa.array(rows)
        columns = []
        for name in names:
            at = self.data.batch.schema.get_field_index(name)
            self.data.trust_rows(at, rows)
            columns.append(self.data.batch.column(at).take(taken))
        return columns

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """Rows [start, stop), without a copy."""
        for at in range(self.data.batch.num_columns):
            self.data.trust(at, start, stop)
        return self.data.batch.slice(start, stop - start)

    def column(self, name: str, start: int, stop: int) -> pa.Array:
        """Rows [start, stop) of a column, without a copy."""
        at = self.data.batch.schema.get_field_index(name)
        self.data.trust(at, start, stop)
        return self.data.batch.column(at).slice(start, stop - start)

    def hash_at(self, row: int) -> int:
        self.data.trust(0, row, row + 1)
        return int(self.data.hashes[row])

    def row_of(self, edge: int) -> int:
        """The first row whose hash is not less; ``last`` where there is none."""
        return min(max(self._edge(edge), self.first), self.last)

    def _within(self, hashes: UInt64s) -> tuple[int, int]:
        """Which of the sorted hashes can be here at all."""
        least = 0 if self.begin == 0 else int(np.searchsorted(hashes, np.uint64(self.begin)))
        most = len(hashes) if self.end == END else int(np.searchsorted(hashes, np.uint64(self.end)))
        return least, most

    def _lower(self, hashes: UInt64s) -> Int64s:
        """For each of the sorted hashes the first row whose hash is not less, as far as it is in here."""
        there = self.data.hashes
        if len(hashes) * _DENSE > self.rows:
            self.data.trust(0, self.first, self.last)
            return np.searchsorted(there[self.first : self.last], hashes) + self.first
        fences = np.searchsorted(self.data.fences, hashes)
        rows = np.maximum((fences - 1) * FENCE + 1, 0)
        self.data.trust_hashes(rows, fences * FENCE + 1)
        top = self.data.rows - 1
        for step in _STEPS:  # of 511 rows between two fences: 256, 128, … are passed over where they are less
            rows += step * (there[np.minimum(rows + (step - 1), top)] < hashes)
        return np.minimum(np.maximum(rows, self.first), self.last)

    def _edge(self, edge: int) -> int:
        """The first row of the whole run whose hash is not less than this."""
        if edge <= 0:
            return 0
        if edge >= END:
            return self.data.rows
        fence = self._fence(edge)
        start, stop = max((fence - 1) * FENCE + 1, 0), min(fence * FENCE, self.data.rows)
        if start >= stop:
            return stop
        self.data.trust(0, start, stop)
        return start + int(np.searchsorted(self.data.hashes[start:stop], np.uint64(edge)))

    def _fence(self, edge: int) -> int:
        """How many fences are less."""
        return (
            len(self.data.fences) if edge >= END else int(np.searchsorted(self.data.fences, np.uint64(edge)))
        )
