"""One Spark session for all tests of a process."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from penstock.spark import session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return session("local[2]", {"spark.sql.shuffle.partitions": "2"})
