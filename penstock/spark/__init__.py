"""Everything that imports pyspark: the session, a tick as a job, and the types on both sides.

`Executor` runs a `Job`: expressions and partial sums as Spark's own code, state in Python, shard by shard.
What the job did stands in the `Registration`s that its steps leave; the driver of a pipeline makes a manifest
of them.
"""

from penstock.spark.executor import Executor, Job, Upkeep, ViewChanges
from penstock.spark.registration import Registration
from penstock.spark.session import SETTINGS, session
from penstock.spark.sources import Piece, Pieces, Rows, Source
from penstock.spark.step import Place, runs_of
from penstock.spark.types import TypesBySpark, sql_type

__all__ = [
    "SETTINGS",
    "Executor",
    "Job",
    "Piece",
    "Pieces",
    "Place",
    "Registration",
    "Rows",
    "Source",
    "TypesBySpark",
    "Upkeep",
    "ViewChanges",
    "runs_of",
    "session",
    "sql_type",
]
