"""`Values`: the values of one argument that a tick adds and takes away, by group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spine.layout import Int64s

__all__ = ["VALUE", "Values"]

VALUE = "_value"


@dataclass(frozen=True, slots=True)
class Values:
    """Weighted values, none of them NULL. Not consolidated.

    >>> values = Values.of(np.array([0, 0, 1]), pa.array(["a", None, "b"]), np.array([1, 1, -1]))
    >>> values.ids.tolist(), values.array.to_pylist(), values.weights.tolist()
    ([0, 1], ['a', 'b'], [1, -1])
    """

    ids: Int64s
    array: pa.Array
    weights: Int64s

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, ids: Int64s, array: pa.Array, weights: Int64s) -> Values:
        """Those that are not NULL."""
        if not array.null_count:
            return cls(ids, array, weights)
        there = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
        return cls(ids[there], array.take(pa.array(there)), weights[there])

    @classmethod
    def together(cls, parts: Iterable[Values]) -> Values:
        """All of them."""
        some = list(parts)
        if len(some) == 1:
            return some[0]
        return cls(
            np.concatenate([it.ids for it in some]),
            pa.concat_arrays([it.array for it in some]),
            np.concatenate([it.weights for it in some]),
        )
