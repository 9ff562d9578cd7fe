"""Rows by place, each with the number of its copies: what a content is made of.

Law: a place is given once and stays, until `Rows.compacted` gives all rows new ones. Nothing is changed:
every step is a new `Rows` that shares what it can with the one before, which its readers may go on reading.
State: chunks of rows, and of counts; small neighbours are joined, each row O(log n) times.
Cost: appending is O(rows appended); changing counts copies the counts of the chunks touched, a byte or eight
per row; a table takes anew only the chunks whose counts changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import InvalidArgument

__all__ = ["Counts", "Int64s", "Rows"]

Int64s: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 128 << 20
_MOST_ROWS = 2**31 - 1


class _Chunk:
    """Rows from one place on, and their counts."""

    __slots__ = ("_live", "counts", "rows", "start")

    def __init__(self, start: int, rows: pa.RecordBatch, counts: Counts) -> None:
        self.start = start
        self.rows = rows
        self.counts = counts
        self._live: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def live(self) -> pa.RecordBatch:
        """The rows, each as often as its count says."""
        if self._live is None:
            counts = self.counts
            if (counts == 1).all():
                self._live = self.rows
            else:
                self._live = self.rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
        return self._live

    def with_counts(self, at: Int64s, counts: Counts) -> _Chunk:
        changed = self.counts.copy()
        changed[at] = counts
        return _Chunk(self.start, self.rows, changed)

    def joined(self, other: _Chunk) -> _Chunk:
        rows = pa.concat_batches([self.rows, other.rows])
        return _Chunk(self.start, rows, np.concatenate([self.counts, other.counts]))


class Rows:
    """Chunks in the order of their places."""

    __slots__ = ("_chunks", "_count_type", "_starts", "_table", "copies", "live", "schema")

    def __init__(
        self, schema: pa.Schema, count_type: type[np.signedinteger[Any]], chunks: Sequence[_Chunk] = ()
    ) -> None:
        self.schema = schema
        self._count_type = count_type
        self._chunks = tuple(chunks)
        self._starts = np.array([it.start for it in self._chunks], np.int64)
        self._table: pa.Table | None = None
        self.live = 0
        self.copies = 0

    @property
    def end(self) -> int:
        """The next place: how many rows there are, those with no copy left included."""
        return self._chunks[-1].start + len(self._chunks[-1]) if self._chunks else 0

    def _next(self, chunks: Sequence[_Chunk], live: int, copies: int) -> Rows:
        made = Rows(self.schema, self._count_type, chunks)
        made.live, made.copies = live, copies
        return made

    def appended(self, rows: pa.RecordBatch, counts: Counts) -> Rows:
        """With these rows at the end; none of their counts is 0."""
        counts = counts.astype(self._count_type, copy=False)
        chunks = list(self._chunks)
        for at in range(0, len(counts), _CHUNK_ROWS):
            part = _Chunk(self.end + at, rows.slice(at, _CHUNK_ROWS), counts[at : at + _CHUNK_ROWS])
            while chunks and _together(chunks[-1], part):
                part = chunks.pop().joined(part)
            chunks.append(part)
        return self._next(chunks, self.live + len(counts), self.copies + _exact_sum(counts))

    def with_counts(self, places: Int64s, counts: Counts) -> Rows:
        """With these counts at these places, which are different ones."""
        if not len(places):
            return self
        order = np.argsort(places)
        places, counts = places[order], counts[order]
        chunks = list(self._chunks)
        live, copies = self.live, self.copies
        for i, found in self._by_chunk(places):
            chunk, at, new = chunks[i], places[found] - chunks[i].start, counts[found]
            old = chunk.counts[at]
            live += int(np.count_nonzero(new)) - int(np.count_nonzero(old))
            copies += _exact_sum(new) - _exact_sum(old)
            chunks[i] = chunk.with_counts(at, new)
        return self._next(chunks, live, copies)

    @property
    def is_sparse(self) -> bool:
        """Whether so many rows have no copy left that the others should be moved together."""
        return self.end - self.live > max(self.live, _CHUNK_ROWS)

    def compacted(self) -> tuple[Rows, Int64s]:
        """Only the rows that are there, and for each old place the new one, −1 where it is gone."""
        counts = self.all_counts()
        kept = counts != 0
        moved = np.where(kept, np.cumsum(kept) - 1, -1)
        made = Rows(self.schema, self._count_type)
        for chunk in self._chunks:
            there = chunk.counts != 0
            if there.any():
                made = made.appended(chunk.rows.filter(pa.array(there)), chunk.counts[there])
        return made, moved

    def all_counts(self) -> Counts:
        """The count at every place."""
        return np.concatenate([np.empty(0, self._count_type), *(it.counts for it in self._chunks)])

    def counts_at(self, places: Int64s) -> Counts:
        """The counts at these places, in any order."""
        if len(places) * 16 > self.end:
            return self.all_counts()[places]
        order = np.argsort(places)
        ordered = places[order]
        found = np.empty(len(places), self._count_type)
        for i, some in self._by_chunk(ordered):
            found[order[some]] = self._chunks[i].counts[ordered[some] - self._chunks[i].start]
        return found

    def columns_at(self, places: Int64s, names: Sequence[str]) -> list[pa.Array]:
        """Columns of the rows at these places, which are in order."""
        wanted = self.schema.empty_table().select(list(names)).schema
        parts = [pa.RecordBatch.from_arrays([pa.nulls(0, it.type) for it in wanted], schema=wanted)]
        for i, some in self._by_chunk(places):
            chunk = self._chunks[i]
            parts.append(chunk.rows.select(list(names)).take(pa.array(places[some] - chunk.start)))
        columns: list[pa.Array] = pa.concat_batches(parts).columns
        return columns

    def batches_from(self, place: int) -> Iterator[tuple[int, pa.RecordBatch, Counts]]:
        """The rows from a place on, with the place each batch begins at."""
        for chunk in self._chunks:
            skip = max(place - chunk.start, 0)
            if skip < len(chunk):
                yield chunk.start + skip, chunk.rows.slice(skip), chunk.counts[skip:]

    def table(self) -> pa.Table:
        """The rows that are there, each as often as its count says. Made once."""
        if self._table is None:
            if self.copies > _MOST_ROWS:
                raise InvalidArgument(
                    f"there are {self.copies} rows",
                    subject="content",
                    hint="So many are no table: look for a weight that is far too great.",
                )
            self._table = pa.Table.from_batches([it.live for it in self._chunks], self.schema)
        return self._table

    def _by_chunk(self, ordered: Int64s) -> Iterator[tuple[int, slice]]:
        """For places in order: each chunk that holds some, and which."""
        which = np.searchsorted(self._starts, ordered, side="right") - 1
        edges = np.flatnonzero(np.diff(which, prepend=-1, append=len(self._chunks)))
        for begin, stop in pairwise(edges.tolist()):
            yield int(which[begin]), slice(begin, stop)


def _together(left: _Chunk, right: _Chunk) -> bool:
    """Whether two neighbours are to be one chunk: the left one is not much greater, and both are small."""
    return (
        len(left) <= 2 * len(right)
        and len(left) + len(right) <= _CHUNK_ROWS
        and left.rows.nbytes + right.rows.nbytes <= _CHUNK_BYTES
    )


def _exact_sum(counts: Counts) -> int:
    if counts.dtype.itemsize < 8:
        return int(counts.sum(dtype=np.int64))
    wide = counts.astype(np.int64)
    return int((wide >> 32).sum()) * 2**32 + int((wide & 0xFFFFFFFF).sum())
