"""Reading runs together, in hash order, a bounded piece at a time, equal rows added up.

Law: what comes out, laid end to end, is the consolidated sum of the runs, in the stored form.
State: one piece of each run. A piece ends where a hash ends, so equal rows never come apart. Where one hash
has more rows than a piece, it is cut by the value of the order column; where there is none, or one value
has more, by a hash of the whole row: then it costs a byte of memory per row.
Cost: each row is read once, sorted within its piece, and gathered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.hashing import can_hash, unsigned, xxhash64
from penstock.spine.arrange import arrange_pieces
from penstock.spine.layout import END, Layout
from penstock.spine.order import before
from penstock.spine.run import Run

__all__ = ["pieces_of"]

_ROWS = 1 << 17
_BYTES = 32 << 20
_LEAST = 1 << 10
_MOST_PARTS = 255


def pieces_of(layout: Layout, runs: Sequence[Run], rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """The consolidated content of the runs. Pieces are made of about ``rows`` rows; none is empty."""
    runs = [run for run in runs if run.rows]
    if not runs:
        return
    if rows is None:
        widest = max(run.row_bytes for run in runs)
        rows = max(min(_ROWS, _BYTES // widest), _LEAST)
    for spans, is_one_hash in _by_hash(runs, rows):
        if not is_one_hash or sum(it.rows for it in spans) <= 2 * rows:
            pieces = iter([_read(spans)])
        elif layout.order is not None:
            pieces = _by_value(layout, spans, rows)
        else:
            pieces = _by_row(layout, spans, rows)
        for some in pieces:
            piece = arrange_pieces(layout, some)
            if piece.num_rows:
                yield piece


@dataclass(slots=True)
class _Span:
    """Rows [start, stop) of a run."""

    run: Run
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


def _read(spans: Sequence[_Span]) -> list[pa.RecordBatch]:
    return [it.run.slice(it.start, it.stop) for it in spans if it.rows]


def _by_hash(runs: Sequence[Run], rows: int) -> Iterator[tuple[list[_Span], bool]]:
    """Cut where a hash ends, and say where a piece is of one hash: others have about ``rows`` rows at
    most."""
    left = [_Span(run, run.first, run.last) for run in runs]
    while left:
        total = sum(it.rows for it in left)
        if total <= rows:
            yield left, False
            return
        edge = min(_ahead(it, it.rows * rows // total) for it in left)
        least = min(it.run.hash_at(it.start) for it in left)
        edge = max(edge, least + 1)
        yield _cut(left, [it.run.row_of(edge) for it in left]), edge == least + 1
        left = [it for it in left if it.rows]


def _ahead(span: _Span, share: int) -> int:
    """The hash that lies so many rows ahead. Each run's share leads to about the same one; what is added to
    it keeps a small run, whose rows lie unevenly, from making every piece smaller."""
    row = span.start + share + 2 * math.isqrt(share) + 4
    return span.run.hash_at(row) if row < span.stop else END


def _cut(spans: list[_Span], ends: Sequence[int]) -> list[_Span]:
    """Take what lies before the ends off the spans."""
    taken = []
    for it, end in zip(spans, ends, strict=True):
        end = min(max(end, it.start), it.stop)
        if end > it.start:
            taken.append(_Span(it.run, it.start, end))
            it.start = end
    return taken


def _by_value(layout: Layout, spans: list[_Span], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Cut one hash, whose rows are in the order of a column, where a value ends."""
    assert layout.order is not None
    name = layout.order

    def value(it: _Span, row: int) -> pa.Array:
        return it.run.column(name, row, row + 1)

    left = [_Span(it.run, it.start, it.stop) for it in spans]
    while left:
        total = sum(it.rows for it in left)
        if total <= rows:
            yield _read(left)
            return
        ahead = [value(it, it.start + min(it.rows * rows // total, it.rows - 1)) for it in left]
        edge, least = _least(ahead), _least([value(it, it.start) for it in left])
        if before(least, edge)[0]:
            ends = [_first(it, name, edge, or_equal=True) for it in left]
            yield _read(_cut(left, ends))
        else:  # a value that fills a piece: all of it
            ends = [_first(it, name, least, or_equal=False) for it in left]
            taken = _cut(left, ends)
            if sum(it.rows for it in taken) <= 2 * rows:
                yield _read(taken)
            else:
                yield from _by_row(layout, taken, rows)
        left = [it for it in left if it.rows]


def _least(values: Sequence[pa.Array]) -> pa.Array:
    least = values[0]
    for value in values[1:]:
        if before(value, least)[0]:
            least = value
    return least


def _first(span: _Span, name: str, edge: pa.Array, *, or_equal: bool) -> int:
    """The first row of the span whose value is more than the edge, or equal to it; its end where none is."""
    start, stop = span.start, span.stop
    while start < stop:
        middle = (start + stop) // 2
        value = span.run.column(name, middle, middle + 1)
        if not before(value, edge)[0] if or_equal else before(edge, value)[0]:
            stop = middle
        else:
            start = middle + 1
    return start


def _by_row(layout: Layout, spans: Sequence[_Span], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Cut by a hash of the whole row, in several passes over the rows."""
    total = sum(it.rows for it in spans)
    parts = min(-(-total // rows), _MOST_PARTS)
    part_of = [_parts(layout, it, parts, rows) for it in spans]
    for part in range(parts):
        some = []
        for it, numbers in zip(spans, part_of, strict=True):
            chosen = np.flatnonzero(numbers == part) + it.start
            if len(chosen):
                columns = it.run.take(layout.stored.names, chosen)
                some.append(pa.RecordBatch.from_arrays(columns, schema=layout.stored))
        if some:
            yield some


def _parts(layout: Layout, span: _Span, parts: int, rows: int) -> np.ndarray:
    names = [name for name in layout.compared if can_hash(layout.schema.field(name).type)]
    found = np.zeros(span.rows, np.uint8)
    for start in range(span.start, span.stop, rows):
        stop = min(start + rows, span.stop)
        hashes = unsigned(xxhash64([span.run.column(name, start, stop) for name in names], stop - start))
        # The low bits, for all rows may owe their being here to the high ones.
        found[start - span.start : stop - span.start] = hashes % np.uint64(parts)
    return found
