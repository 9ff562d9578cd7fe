"""`Guard`: trust in the bytes of a mapped file, block by block, when they are first touched."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.spine.layout import Int64s
from penstock.spine.run_format import BLOCK, damaged

__all__ = ["Guard"]


class Guard:
    """Law: bytes that were touched are the bytes that were written, or `DamagedBytes` tells which are not.

    A block is read once per process, by the first that touches it; what comes back to it pays a look at a
    bitmap. Threads may check a block twice, never not at all.
    """

    def __init__(self, name: str, data: pa.Buffer, checks: np.ndarray) -> None:
        self._name = name
        self._data = data
        self._checks = checks
        self._trusted = np.zeros(len(checks), np.bool_)
        self.whole = False
        """Whether every block is trusted, so that nobody needs to ask."""

    def touch(self, start: int, stop: int) -> None:
        """Trust the bytes [start, stop)."""
        if not self.whole and start < stop:
            first, last = start // BLOCK, (stop - 1) // BLOCK
            unsure = np.flatnonzero(~self._trusted[first : last + 1])
            if len(unsure):
                self._check(unsure + first)

    def touch_each(self, starts: Int64s, stops: Int64s) -> None:
        """Trust the bytes of many ranges, none of which is empty."""
        if self.whole or not len(starts):
            return
        firsts, lasts = starts // BLOCK, (stops - 1) // BLOCK
        widest = int((lasts - firsts).max())
        unsure = [firsts[~self._trusted[firsts]]]
        for more in range(1, widest + 1):
            inner = np.minimum(firsts + more, lasts)
            unsure.append(inner[~self._trusted[inner]])
        wanted = np.concatenate(unsure)
        if len(wanted):
            self._check(np.unique(wanted))

    def _check(self, blocks: Int64s) -> None:
        size = self._data.size
        for block in blocks.tolist():
            at = block * BLOCK
            if google_crc32c.value(self._data.slice(at, min(BLOCK, size - at))) != self._checks[block]:
                raise damaged(self._name, at, f"a block of {BLOCK} bytes does not match its checksum")
            self._trusted[block] = True
        self.whole = bool(self._trusted.all())
