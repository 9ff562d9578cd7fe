"""Running one operator by hand: rows as people write them, one shard, tick after tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changes import xxhash64
from penstock.changes.names import WEIGHT
from penstock.operators import Operator
from penstock.spine import HASH, ShardState
from tests.operators.local import Hashing
from tests.operators.model import Content, plain

__all__ = ["Stepper", "content", "one_for_all"]


def one_for_all(columns: Sequence[pa.Array], rows: int) -> np.ndarray:
    """The worst of hashes."""
    return np.full(rows, -1)


class Stepper:
    """One operator and its state."""

    def __init__(self, operator: Operator, hashing: Hashing = xxhash64) -> None:
        self.operator = operator
        self.state = ShardState.in_memory(operator.layouts)
        self._hashing = hashing
        self._ticks = 0

    def tick(self, **rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The changes that rows of each input make; a row without ``_weight`` is there once."""
        return [row for batch in self.batches(**rows) for row in batch.to_pylist()]

    def batches(self, **rows: Sequence[Mapping[str, Any]]) -> list[pa.RecordBatch]:
        """As `tick`, as the batches that the step yields."""
        said = list(
            self.operator.step({name: [self.batch(name, some)] for name, some in rows.items()}, self.state)
        )
        self._ticks += 1
        self.state = self.state.after(self.state.finish(), f"{self._ticks}/")
        return said

    def batch(self, name: str, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Rows as an input."""
        schema = self.operator.inputs[name]
        told = pa.RecordBatch.from_pylist([{WEIGHT: 1, HASH: 0, **row} for row in rows], schema=schema)
        key = self.operator.keys[name]
        hashes = self._hashing([told[it] for it in key], len(told)) if key else np.full(len(told), 42)
        return told.set_column(schema.get_field_index(HASH), schema.field(HASH), pa.array(hashes, pa.int64()))

    def kept(self, spine: str) -> list[dict[str, Any]]:
        """What a spine holds, without hashes."""
        rows = [row for batch in self.state.spine(spine).scan() for row in batch.to_pylist()]
        return [{name: value for name, value in row.items() if name != HASH} for row in rows]


def content(said: Sequence[Mapping[str, Any]]) -> Content:
    """What changes add up to."""
    total: Content = Content()
    for row in said:
        *values, weight = row.values()
        total[tuple(map(plain, values))] += weight
    return Content({row: weight for row, weight in total.items() if weight})
