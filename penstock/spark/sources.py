"""Where a tick's changes come from: rows the driver has, or pieces that Spark's tasks read themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from penstock.spark.guarded import Guarded
from penstock.spark.step import Batches, Place, fitted
from penstock.spark.types import in_zone, spark_schema, time_zone_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Piece", "Pieces", "Rows", "Source"]

Piece: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
"""Reads one part of the rows, in whichever process it is called."""


class Source(Protocol):
    """Rows of one schema, and how many there are, at least roughly."""

    @property
    def rows(self) -> int: ...

    @property
    def pieces(self) -> Sequence[Piece]: ...

    def frame(self, spark: SparkSession, schema: pa.Schema, place: Place) -> DataFrame: ...


@dataclass(frozen=True)
class Rows:
    """Rows that the driver holds: the quickest way in for few of them."""

    table: pa.Table

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def pieces(self) -> Sequence[Piece]:
        return (_Held(self.table),)

    def frame(self, spark: SparkSession, schema: pa.Schema, place: Place) -> DataFrame:
        if not self.table.num_rows:  # no type is guessed from no rows
            return spark.createDataFrame([], spark_schema(schema))
        target = in_zone(schema, time_zone_of(spark))
        (batch,) = self.table.combine_chunks().to_batches()
        return spark.createDataFrame(pa.Table.from_batches([fitted(batch, target)]), spark_schema(schema))


@dataclass(frozen=True)
class Pieces:
    """Rows that tasks read from where they lie; each piece is a task."""

    pieces: Sequence[Piece]
    rows: int
    held: object = field(default=None, compare=False)
    """What must live as long as the pieces are read."""

    def frame(self, spark: SparkSession, schema: pa.Schema, place: Place) -> DataFrame:
        target = in_zone(schema, time_zone_of(spark))
        count = max(len(self.pieces), 1)
        numbers = spark.range(0, len(self.pieces), 1, count)
        reader = Guarded(_Reader(tuple(self.pieces), target), place)
        return numbers.mapInArrow(reader, spark_schema(schema))


@dataclass(frozen=True)
class _Held:
    table: pa.Table

    def __call__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.table.to_batches())


@dataclass(frozen=True)
class _Reader:
    pieces: tuple[Piece, ...]
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                for batch in self.pieces[number]():
                    yield fitted(batch, self.schema)
