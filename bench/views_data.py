"""Facts that change: keys with values, and deltas of inserts, updates and deletes as rows with weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

__all__ = ["Facts"]

_PART = 1_000_000


class Facts:
    """One row for each of so many keys, and what is done to them."""

    def __init__(self, keys: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._values = self._random.integers(0, 1000, 2 * keys).astype(np.int64)
        self._live = np.arange(keys)
        self._next = keys

    @property
    def live(self) -> int:
        return len(self._live)

    def load(self) -> Iterator[pa.Table]:
        """Every row, in parts."""
        for start in range(0, len(self._live), _PART):
            keys = self._live[start : start + _PART]
            yield _rows(keys, self._values[keys], np.ones(len(keys), np.int64))

    def delta(self, changes: int) -> pa.Table:
        """So many changes: nine tenths updates (two each), the rest deletes and inserts."""
        touched = changes // 2
        some = self._random.choice(len(self._live), touched, replace=False)
        updated, gone = some[: touched * 9 // 10], some[touched * 9 // 10 :]
        keys = self._live[updated]
        old = self._values[keys].copy()
        new = old + 1 + self._random.integers(0, 9, len(keys))
        self._values[keys] = new
        dead = self._live[gone]
        born = np.arange(self._next, self._next + len(dead)) % len(self._values)
        self._next += len(dead)
        self._live[gone] = born
        pairs = np.repeat(keys, 2), np.stack([old, new], 1).ravel(), np.tile([-1, 1], len(keys))
        parts = [
            pairs,
            (dead, self._values[dead], np.full(len(dead), -1)),
            (born, self._values[born], np.ones(len(born), np.int64)),
        ]
        return _rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def summary(self) -> dict[str, int]:
        """What the view's sums add up to."""
        return {"k": self.live, "total": int(self._values[self._live].sum()), "n": self.live}


def _rows(keys: np.ndarray, values: np.ndarray, weights: np.ndarray) -> pa.Table:
    return pa.table({"k": keys, "v": values, "_weight": weights})
