"""Adding up an aggregate's changes in Spark, before they are sent to their shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.operators import InputSql, Operator, partial_sql
from penstock.plan import Aggregate
from penstock.spark.types import quoted
from penstock.spine import HASH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["hash_sql", "partial_frames"]


def hash_sql(key: Sequence[str]) -> str:
    """The hash of a row's key."""
    if not key:
        return f"42L AS {HASH}"
    return f"xxhash64({', '.join(map(quoted, key))}) AS {HASH}"


def partial_frames(
    changes: DataFrame, node: Aggregate, below: pa.Schema, operator: Operator
) -> dict[str, DataFrame]:
    """The inputs of the node's step, by name, made of its changes by Spark's own code."""
    return {it.name: _made(changes, it, operator) for it in partial_sql(node, [below])}


def _made(changes: DataFrame, told: InputSql, operator: Operator) -> DataFrame:
    from pyspark.sql import functions as f

    frame = changes if told.where is None else changes.where(told.where)
    by = [f"{it.sql} AS {quoted(it.name)}" for it in told.by]
    if told.sums:
        groups = [f.expr(it.sql).alias(it.name) for it in told.by]
        frame = frame.groupBy(*groups).agg(*(f.expr(it.sql).alias(it.name) for it in told.sums))
        if told.having is not None:  # it speaks of the first of the sums
            frame = frame.where(f"{quoted(told.sums[0].name)} <> 0")
        by = [quoted(it.name) for it in (*told.by, *told.sums)]
    return frame.selectExpr(*by, hash_sql(operator.keys[told.name]))
