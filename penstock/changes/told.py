"""`Told`: results by position, many added and few asked for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Told"]

Int64s = npt.NDArray[np.int64]


class Told:
    """Results by position, in chunks whose lengths at least double from the newest to the oldest.

    So there are few of them, appending copies each result O(log n) times, and reading some results
    never touches the others. (Arrow's own take on a chunked array copies all of it first.)
    """

    _MOST_BYTES = 2**30  # a merged chunk's: 32-bit offsets end at 2 GiB

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self.length = 0

    def append(self, results: pa.Array) -> Int64s:
        """Add the results and give their positions."""
        positions = np.arange(self.length, self.length + len(results))
        if len(results):
            self._put(results)
        return positions

    def take(self, positions: Int64s) -> pa.Array:
        """The results at the positions, in their order."""
        chunks = self._chunks
        if len(chunks) <= 1:
            return chunks[0].take(pa.array(positions)) if chunks else pa.nulls(0)
        ends = np.cumsum([len(chunk) for chunk in chunks])
        where = np.searchsorted(ends, positions, side="right")
        members = [np.flatnonzero(where == number) for number in range(len(chunks))]
        parts = [
            chunk.take(pa.array(positions[rows] - (end - len(chunk))))
            for chunk, rows, end in zip(chunks, members, ends, strict=True)
        ]
        index = np.empty(len(positions), np.int64)
        index[np.concatenate(members)] = np.arange(len(positions))
        return pa.concat_arrays(parts).take(pa.array(index))

    def cast(self, kind: pa.DataType) -> None:
        """Make NULLs of no type NULLs of this type."""
        self._chunks = [pa.nulls(len(chunk), kind) for chunk in self._chunks]

    def keep(self, positions: Int64s) -> None:
        """Keep only these results, whose positions are ascending; they are numbered from 0 anew."""
        chunks, self._chunks, self.length = self._chunks, [], 0
        start = 0
        for chunk in chunks:
            low, high = np.searchsorted(positions, (start, start + len(chunk)))
            if low < high:
                self._put(chunk.take(pa.array(positions[low:high] - start)))
            start += len(chunk)

    def _put(self, results: pa.Array) -> None:
        self.length += len(results)
        while self._chunks and len(self._chunks[-1]) < 2 * len(results):
            if self._chunks[-1].nbytes + results.nbytes > self._MOST_BYTES:
                break
            results = pa.concat_arrays([self._chunks.pop(), results])
        self._chunks.append(results)
