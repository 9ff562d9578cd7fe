"""orders ⋈ lineitem of TPC-H, aggregated: a view beside recomputing it with Spark, as more changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from bench.harness import Compared
from penstock.log import LogOptions

__all__ = ["tpch"]

QUERY = """
SELECT o_custkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS n
FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_custkey
"""
SHARES = ((0.0001, None), (0.001, 10.0), (0.01, 4.0), (0.1, None), (0.5, None))
_CACHE = Path(__file__).parent.parent / ".cache" / "tpch"


def tpch(spark: Any, scale: float) -> Iterator[Compared]:
    """Speed-up over recomputing, for each share of the lines that changes."""
    data = generated(scale)
    orders = pq.read_table(data / "orders.parquet", columns=["o_orderkey", "o_custkey"])
    lines = pq.read_table(
        data / "lineitem.parquet", columns=["l_orderkey", "l_linenumber", "l_extendedprice", "l_discount"]
    )
    lines = lines.set_column(1, "l_linenumber", lines.column("l_linenumber").cast(pa.int32()))
    with tempfile.TemporaryDirectory() as folder:
        db = ps.connect(f"{folder}/db", spark=spark, log_options=LogOptions(fsync="interval"))
        db.sql(
            f"""
            CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT);
            CREATE TABLE lineitem (l_orderkey BIGINT, l_linenumber INT, l_extendedprice DECIMAL(15, 2),
              l_discount DECIMAL(15, 2), PRIMARY KEY (l_orderkey, l_linenumber));
            CREATE MATERIALIZED VIEW revenue AS {QUERY}
            """
        )
        for name, rows in (("orders", orders), ("lineitem", lines)):
            for start in range(0, rows.num_rows, 500_000):
                db.table(name).insert(rows.slice(start, 500_000))
        db.refresh()
        draw = np.random.default_rng(1)
        for share, target in SHARES:
            some = draw.choice(lines.num_rows, max(int(lines.num_rows * share), 1), replace=False)
            changed = lines.take(pa.array(np.sort(some)))
            price = np.char.mod("%.2f", draw.integers(90_000, 10_000_000, changed.num_rows) / 100)
            changed = changed.set_column(2, "l_extendedprice", pa.array(price).cast(pa.decimal128(15, 2)))
            db.table("lineitem").upsert(changed)
            start = time.perf_counter()
            db.refresh()
            ours = time.perf_counter() - start
            recomputed = recompute(spark, db, Path(folder) / "batch")
            told = f"c. orders ⋈ lineitem, {share:.2%} of the lines changed"
            yield Compared(
                told, f"{ours:.2f} s", f"Spark recomputes: {recomputed:.2f} s", recomputed / ours, target
            )
        db.close()


def recompute(spark: Any, db: ps.Database, folder: Path) -> float:
    """Spark's own time for the query over the same content, from Parquet to Parquet: the better of two."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("orders", "lineitem"):
        pq.write_table(db.table(name).rows().arrow(), folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    took = []
    for number in range(2):
        start = time.perf_counter()
        spark.sql(QUERY).write.parquet(str(folder / f"answer{number}"))
        took.append(time.perf_counter() - start)
    return min(took)


def generated(scale: float) -> Path:
    """TPC-H's tables as tpchgen makes them, kept under .cache/."""
    place = _CACHE / f"{scale:g}"
    if not (place / "lineitem.parquet").exists():
        venv = _CACHE / "venv"
        if not venv.exists():
            subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
            subprocess.run([str(venv / "bin" / "pip"), "install", "-q", "tpchgen-cli"], check=True)
        place.mkdir(parents=True, exist_ok=True)
        command = [str(venv / "bin" / "tpchgen-cli"), "-s", f"{scale:g}", "--format", "parquet"]
        subprocess.run([*command, "--tables", "orders,lineitem", "--output-dir", str(place)], check=True)
    return place
