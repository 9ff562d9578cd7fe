"""When two Python values are one value for Spark's GROUP BY: the slow, plain statement of it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["identity", "multiset"]


def identity(value: Any, kind: pa.DataType) -> Any:
    """A hashable that is equal for equal values: one NaN, one zero, a map without order."""
    if value is None:
        return None
    if pa.types.is_dictionary(kind):
        return identity(value, kind.value_type)
    if pa.types.is_floating(kind):
        return "NaN" if math.isnan(value) else value + 0.0
    if pa.types.is_struct(kind):
        return tuple(identity(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        entries = [(identity(k, kind.key_type), identity(v, kind.item_type)) for k, v in value]
        return frozenset(Counter(entries).items())
    if hasattr(kind, "value_type"):
        return tuple(identity(item, kind.value_type) for item in value)
    return value


def multiset(rows: pa.RecordBatch, weights: np.ndarray) -> dict[tuple[Any, ...], int]:
    """What a Z-set means: a dictionary from rows to weights other than 0."""
    bag: Counter[tuple[Any, ...]] = Counter()
    columns = [
        [identity(value, field.type) for value in column.to_pylist()]
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    for row, weight in zip(zip(*columns, strict=True), weights.tolist(), strict=True):
        bag[row] += weight
    return {row: weight for row, weight in bag.items() if weight}
