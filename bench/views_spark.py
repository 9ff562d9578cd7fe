"""The peer: Spark's own streaming aggregation, in update mode, its state in RocksDB.

It is given changes as rows with weights, so that deletes count; it tells new results and takes none back.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Streaming"]


class Streaming:
    """One query over files that come; each is a micro-batch."""

    def __init__(self, spark: Any, folder: str) -> None:
        self._spark = spark
        self._files = Path(folder) / "stream"
        self._files.mkdir()
        self._count = 0
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        out = str(Path(folder) / "out")
        rows = (
            spark.readStream.schema("k BIGINT, v BIGINT, _weight BIGINT")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._files))
        )
        sums = (
            rows.selectExpr("k", "v * _weight AS vw", "_weight AS w")
            .groupBy("k")
            .agg({"vw": "sum", "w": "sum"})
        )

        def write(batch: Any, number: int) -> None:
            batch.write.mode("overwrite").parquet(f"{out}/{number}")

        self._query = (
            sums.writeStream.outputMode("update")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .foreachBatch(write)
            .start()
        )

    def give(self, rows: pa.Table) -> None:
        """The next file; it appears at once."""
        self._count += 1
        waiting = self._files.parent / "waiting.parquet"
        pq.write_table(rows, waiting)
        waiting.rename(self._files / f"{self._count:06d}.parquet")

    def follow(self) -> float:
        """Wait until all files are accounted for; the seconds that the last micro-batches took."""
        while True:
            self._query.processAllAvailable()
            done = [it for it in self._query.recentProgress if it["numInputRows"]]
            if done:
                return float(done[-1]["durationMs"]["triggerExecution"]) / 1000
            time.sleep(0.01)

    def stop(self) -> None:
        self._query.stop()
