"""Rows that a spine holds, as pieces that tasks read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.spark import runs_of
from penstock.spine import Layout, Slice, Spine, shard_range
from penstock.store import Store

__all__ = ["SpineRows"]


@dataclass(frozen=True)
class SpineRows:
    """The rows of a keyed table in one range of hashes, each with its weight."""

    store: Store
    schema: pa.Schema
    key: tuple[str, ...]
    slices: tuple[Slice, ...]
    part: int
    parts: int

    def __call__(self) -> Iterator[pa.RecordBatch]:
        begin, end = shard_range(self.part, self.parts)
        layout = Layout(self.schema, self.key, "bag")
        for batch in Spine.open(layout, self.slices, runs_of(self.store), begin, end).scan():
            yield batch.select([*self.schema.names, WEIGHT])
