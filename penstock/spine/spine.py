"""`Spine`: the sum of runs, in one range of hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.changes.rows import canonical
from penstock.errors import InvalidArgument, SchemaMismatch
from penstock.spine.arrange import arrange, arrange_pieces
from penstock.spine.consolidate import same_as
from penstock.spine.layout import END, HASH, WEIGHT, Int64s, Layout, UInt64s, int64s
from penstock.spine.run import Run
from penstock.spine.runs import Runs
from penstock.spine.slices import Slice

__all__ = ["Spine"]


class Spine:
    """The sum of runs, in the range of hashes [begin, end). A value: `plus` gives another one."""

    def __init__(self, layout: Layout, runs: Sequence[Run], begin: int = 0, end: int = END) -> None:
        self.layout = layout
        self.begin, self.end = begin, end
        self._runs = tuple(run for run in runs if run.rows)

    @classmethod
    def open(
        cls, layout: Layout, slices: Sequence[Slice], runs: Runs, begin: int = 0, end: int = END
    ) -> Spine:
        cut = [part for it in slices if (part := it.cut(begin, end)) is not None]
        return cls(layout, [runs.open(it.file, layout).cut(it.begin, it.end) for it in cut], begin, end)

    @classmethod
    def empty(cls, layout: Layout) -> Spine:
        return cls(layout, ())

    @property
    def rows(self) -> int:
        """Stored rows, an upper bound of distinct ones."""
        return sum(run.rows for run in self._runs)

    def plus(self, batch: pa.RecordBatch) -> Spine:
        """With more rows, kept in memory."""
        return Spine(self.layout, [*self._runs, Run(arrange(self.layout, batch))], self.begin, self.end)

    def sums(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """The summed columns of each key; zeros where there is none."""
        needles = _Needles(self.layout, keys)
        totals = {name: np.zeros(keys.num_rows, np.int64) for name in self.layout.summed}
        for run in self._runs:
            for which, rows in needles.pairs(run, 1 << 20):
                for name, values in zip(totals, run.take(list(totals), rows), strict=True):
                    np.add.at(totals[name], which, values.to_numpy())
        return pa.record_batch(totals)

    def matches(
        self, keys: pa.RecordBatch, batch_rows: int = 65536
    ) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """For every stored row whose key is that of row i of ``keys``: i, and the row."""
        needles = _Needles(self.layout, keys)
        for run in self._runs:
            for which, rows in needles.pairs(run, batch_rows):
                columns = run.take(self.layout.stored.names, rows)
                yield which, pa.RecordBatch.from_arrays(columns, schema=self.layout.stored)

    def extremes(self, keys: pa.RecordBatch, bounds: pa.Array | None, greatest: bool) -> pa.Array:
        """The least (greatest) live value of the order column for each key, NULL where there is none."""
        order = self.layout.order
        if order is None:
            raise InvalidArgument("the bag has no order", subject="extremes", hint="Give its layout one.")
        kind = self.layout.schema.field(order).type
        values: list[pa.Array] = [pa.array([], kind)]
        which, weights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for some, batch in self.matches(keys):
            which.append(some)
            values.append(batch.column(order))
            weights.append(batch.column(WEIGHT).to_numpy())
        table = pa.table(
            {
                "_hash": np.concatenate(which),
                "key": np.concatenate(which),
                "value": pa.concat_arrays(values),
                WEIGHT: np.concatenate(weights),
            }
        ).combine_chunks()
        bag = Layout(pa.schema([("key", pa.int64()), ("value", kind)]), ("key",), "bag", "value")
        stored = (
            arrange(bag, table.to_batches()[0] if len(table) else bag.stored.empty_table().to_batches()[0])
            if len(table)
            else None
        )
        out = np.full(keys.num_rows, -1, np.int64)
        if stored is None:
            return pa.nulls(keys.num_rows, kind)
        alive = np.flatnonzero(stored.column(WEIGHT).to_numpy() > 0)
        found = stored.column("key").to_numpy()[alive]
        if greatest:
            out[found] = alive
        else:
            out[found[::-1]] = alive[::-1]
        return stored.column("value").take(pa.array(out, mask=out < 0))

    def scan(self, batch_rows: int = 65536) -> Iterator[pa.RecordBatch]:
        """The consolidated content, in hash order."""
        if not self._runs:
            return
        whole = arrange_pieces(self.layout, [run.slice(run.first, run.last) for run in self._runs])
        for start in range(0, whole.num_rows, batch_rows):
            yield whole.slice(start, batch_rows)


class _Needles:
    def __init__(self, layout: Layout, keys: pa.RecordBatch) -> None:
        for name in (HASH, *layout.key):
            if (
                keys.schema.get_field_index(name) < 0
                or keys.column(name).type != layout.stored.field(name).type
            ):
                raise SchemaMismatch(
                    f"there is no one column {name} {layout.stored.field(name).type}",
                    subject="keys",
                    hint="Give _hash and the key columns of the layout.",
                )
        self._names = layout.key
        hashes = unsigned(int64s(keys.column(HASH), HASH))
        self._order = np.argsort(hashes, kind="stable")
        self._hashes: UInt64s = hashes[self._order]
        self._columns = [canonical(keys.column(name)) for name in layout.key]

    def pairs(self, run: Run, most: int) -> Iterator[tuple[Int64s, Int64s]]:
        """(needle, row) where the keys are equal, so many at a time at most."""
        starts, stops = run.find(self._hashes)
        counts = stops - starts
        ends = np.cumsum(counts)
        for begin in range(0, int(ends[-1]) if len(ends) else 0, most):
            place = np.arange(begin, min(begin + most, int(ends[-1])))
            needle = np.searchsorted(ends, place, side="right")
            rows = place - (ends - counts)[needle] + starts[needle]
            which = self._order[needle]
            same = same_as(self._columns, which, run.take(self._names, rows), np.arange(len(rows)))
            if same.any():
                yield which[same], rows[same]
