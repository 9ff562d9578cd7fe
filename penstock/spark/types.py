"""Spark's types and Arrow's, both ways, and what Spark makes of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import PenstockError, SchemaMismatch, Unsupported
from penstock.plan import Select
from penstock.plan.show import line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "TypesBySpark",
    "arrow_schema",
    "empty_frame",
    "in_zone",
    "quoted",
    "selected",
    "spark_schema",
    "sql_error",
    "sql_type",
    "time_zone_of",
    "without_promises",
]

UTC = "UTC"


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns as Spark has them."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema)
    except PySparkException as error:
        raise Unsupported(
            f"Spark has no such columns ({_first_line(error)})",
            subject="schema",
            hint="Cast the column to a type that Spark SQL has.",
        ) from error


def arrow_schema(schema: StructType, zone: str = UTC) -> pa.Schema:
    """The columns as Arrow has them; TIMESTAMPs in the given zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone=zone)


def in_zone(schema: pa.Schema, zone: str) -> pa.Schema:
    """The schema with its UTC timestamps told in another zone, as a session of that zone expects them."""
    return schema if zone == UTC else arrow_schema(spark_schema(schema), zone)


def sql_type(kind: pa.DataType) -> str:
    """The type's name in Spark SQL, which reads back as the same type.

    >>> sql_type(pa.struct([("a b", pa.int64()), ("c", pa.list_(pa.decimal128(9, 2)))]))
    'STRUCT<`a b`: BIGINT, `c`: ARRAY<DECIMAL(9,2)>>'
    """
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{quoted(it.name)}: {sql_type(it.type)}' for it in kind)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    return spark_schema(pa.schema([("it", kind)]))[0].dataType.simpleString().upper()


def time_zone_of(spark: SparkSession) -> str:
    """The zone in which this session tells a TIMESTAMP to Python."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None, "Spark has a default for it"
    return zone


def empty_frame(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """No rows of these columns."""
    return spark.createDataFrame([], spark_schema(schema))


def selected(frame: DataFrame, node: Select, *more: str) -> DataFrame:
    """What the node makes of the frame, with columns ``more`` carried along."""
    kept = frame if node.where is None else frame.where(node.where)
    made = [f"({it.sql}) AS {quoted(it.name)}" for it in node.columns]
    return kept.selectExpr(*made, *more)


def quoted(name: str) -> str:
    """A name that stays a name, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


class TypesBySpark:
    """Tells what columns a `Select` makes, by having Spark analyse it over no rows. No job runs."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, node: Select, below: pa.Schema) -> pa.Schema:
        from pyspark.errors import PySparkException

        try:
            made = selected(empty_frame(self._spark, below), node).schema
        except PySparkException as error:
            raise sql_error(error, line(node)) from error
        return without_promises(arrow_schema(made))


def without_promises(schema: pa.Schema) -> pa.Schema:
    """The same columns, each and every part of which may be NULL.

    Spark promises of some expressions that they are never NULL, and gives two types for what is one to SQL.
    """
    return pa.schema([pa.field(it.name, _nullable(it.type)) for it in schema])


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        key = pa.field("key", _nullable(kind.key_type), nullable=False)
        return pa.map_(key, pa.field("value", _nullable(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(it.name, _nullable(it.type)) for it in kind])
    return kind


def sql_error(error: Exception, subject: str) -> PenstockError:
    """What Spark refused, in our words and its own first line."""
    return SchemaMismatch(
        f"Spark refuses it: {_first_line(error)}",
        subject=subject,
        hint="Check the names and types of the columns in this expression.",
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
