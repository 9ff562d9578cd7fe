"""`Spine`: the sum of runs, in one range of hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.spine.arrange import arrange
from penstock.spine.extremes import extremes_of
from penstock.spine.layout import END, Int64s, Layout
from penstock.spine.matches import matches_of
from penstock.spine.pieces import pieces_of
from penstock.spine.run import Run
from penstock.spine.runs import Runs
from penstock.spine.slices import Slice
from penstock.spine.sums import sums_of

__all__ = ["Spine"]


class Spine:
    """The sum of runs, in the hashes [begin, end).

    Law: its content is a function from rows to numbers other than 0: a sum of rows' weights, or of keys'
    columns, over all runs. Reading never changes anything; `plus` gives another spine.
    Cost: a look-up takes one search per key and run, and touches the rows that it finds.

    >>> import pyarrow as pa
    >>> layout = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")
    >>> spine = Spine.empty(layout).plus(pa.record_batch({"_hash": [7, 9], "k": ["a", "b"], "n": [1, 2]}))
    >>> spine = spine.plus(pa.record_batch({"_hash": [9], "k": ["b"], "n": [-2]}))
    >>> [batch.to_pylist() for batch in spine.scan()], spine.rows
    ([[{'_hash': 7, 'k': 'a', 'n': 1}]], 3)
    """

    def __init__(self, layout: Layout, runs: Sequence[Run], begin: int = 0, end: int = END) -> None:
        self.layout = layout
        self.begin, self.end = begin, end
        self._runs = tuple(run for run in runs if run.rows)

    @classmethod
    def open(
        cls, layout: Layout, slices: Sequence[Slice], runs: Runs, begin: int = 0, end: int = END
    ) -> Spine:
        """The slices, as far as they lie in the range."""
        cut = [part for it in slices if (part := it.cut(begin, end)) is not None]
        return cls(layout, [Run(runs.open(it.file, layout), it.begin, it.end) for it in cut], begin, end)

    @classmethod
    def empty(cls, layout: Layout) -> Spine:
        """Nothing at all."""
        return cls(layout, ())

    @property
    def rows(self) -> int:
        """Stored rows, an upper bound of distinct ones."""
        return sum(run.rows for run in self._runs)

    def plus(self, batch: pa.RecordBatch) -> Spine:
        """With more rows, kept in memory: ``_hash``, the layout's columns and, for a bag, ``_weight``, in
        any order."""
        run = Run.in_memory(self.layout, arrange(self.layout, batch)).cut(self.begin, self.end)
        return Spine(self.layout, [*self._runs, run], self.begin, self.end)

    def sums(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """The summed columns, row i for row i of ``keys`` (``_hash`` and the key columns); zeros where
        there is none."""
        if self.layout.is_bag:
            raise InvalidArgument(
                "it is a bag", subject="sums", hint="Read the rows of a bag with matches()."
            )
        return sums_of(self.layout, self._runs, keys)

    def matches(
        self, keys: pa.RecordBatch, batch_rows: int = 65536
    ) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """For every stored row whose key is that of row i of ``keys``: i, and the row, in batches of
        bounded size.

        Not added up over runs: a row may come several times, its weights are to be summed. NULL matches NULL.
        """
        return matches_of(self.layout, self._runs, keys, batch_rows)

    def extremes(self, keys: pa.RecordBatch, bounds: pa.Array | None, greatest: bool) -> pa.Array:
        """The least (greatest) live value of the order column, row i for row i of ``keys``; NULL where
        there is none.

        ``bounds[i]``, where not NULL, is a value that nothing alive is less (greater) than: reading starts
        there, and what lies before it is never looked at, so that a dead prefix costs nothing.
        """
        return extremes_of(self.layout, self._runs, keys, bounds, greatest)

    def scan(self, batch_rows: int = 65536) -> Iterator[pa.RecordBatch]:
        """The content, equal rows added up, in hash order, in the stored form, in batches of bounded size."""
        _check(batch_rows)
        for piece in pieces_of(self.layout, self._runs):
            for start in range(0, piece.num_rows, batch_rows):
                yield piece.slice(start, batch_rows)


def _check(batch_rows: int) -> None:
    if batch_rows < 1:
        raise InvalidArgument(
            f"batches of {batch_rows} rows are none", subject="batch_rows", hint="Give 1 or more."
        )
