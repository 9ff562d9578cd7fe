"""A shop whose views follow its tables, on Spark: the second half of `make demo`."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from decimal import Decimal

from rich.console import Console
from rich.table import Table

import penstock as ps
from penstock.changes import ZSet
from penstock.spark import session

OUT = Console()
CITIES = ("Ulm", "Bern", "Oslo", "Turin")
VIEWS = {
    "revenue": "SELECT customer, SUM(amount) AS total, COUNT(*) AS orders FROM orders GROUP BY customer",
    "cities": (
        "SELECT c.city, SUM(o.amount) AS total, COUNT(DISTINCT o.customer) AS buyers "
        "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city"
    ),
    "best": "SELECT customer, total FROM revenue WHERE total > 1400",
}
TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, city STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(10, 2));
"""


def main() -> int:
    draw = random.Random(7)
    OUT.print("\n[bold]Now on Spark.[/] Starting it takes a few seconds …")
    spark = session("local[2]")
    with tempfile.TemporaryDirectory() as folder, ps.connect(folder, spark=spark) as db:
        db.sql(TABLES)
        for name, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            OUT.print(f"  [cyan]{name}[/] = {sql}")
        db.table("customers").insert([{"id": it, "city": draw.choice(CITIES)} for it in range(1, 41)])
        db.table("orders").insert([order(draw, it) for it in range(1, 1001)])
        db.refresh()
        OUT.print(
            "\n[bold]Orders come, are corrected and cancelled; a customer moves.[/] Each line is a tick."
        )
        told = Table("tick", "rows in", *VIEWS, "seconds", title_justify="left")
        until = 1000
        for _ in range(8):
            until = activity(db, draw, until)
            for tick in db.refresh():
                events = [str(tick.events[name]) for name in VIEWS]
                told.add_row(str(tick.tick), str(tick.rows), *events, f"{tick.seconds:.2f}")
        OUT.print(told)
        OUT.print("\n[bold]cities[/], read without Spark:")
        OUT.print(db.query("SELECT * FROM cities ORDER BY city"))
        OUT.print("\n[bold]Is it right?[/] Spark recomputes every view over all rows:")
        right = {name: same(db, spark, name) for name in VIEWS}
        return 0 if all(right.values()) else 1


def order(draw: random.Random, number: int) -> dict[str, object]:
    return {"id": number, "customer": draw.randint(1, 40), "amount": Decimal(draw.randint(100, 9999)) / 100}


def activity(db: ps.Database, draw: random.Random, until: int) -> int:
    """What happens in a moment: all of it is one transaction."""
    with db.transaction():
        orders = db.table("orders")
        orders.insert([order(draw, until + it) for it in range(1, 21)])
        orders.upsert([order(draw, it) for it in draw.sample(range(1, until), 10)])
        orders.delete([{"id": it} for it in draw.sample(range(1, until), 5)])
        db.table("customers").upsert({"id": draw.randint(1, 40), "city": draw.choice(CITIES)})
    return until + 20


def same(db: ps.Database, spark: object, name: str) -> bool:
    """Whether a view is what Spark's batch answer over the tables is."""
    start = time.perf_counter()
    for table in ("customers", "orders"):
        spark.createDataFrame(db.table(table).rows().arrow()).createOrReplaceTempView(table)  # type: ignore[attr-defined]
    content = db.view(name).snapshot()
    expected = spark.sql(VIEWS[name]).toArrow().cast(content.schema)  # type: ignore[attr-defined]
    right = ZSet.from_arrow(content) == ZSet.from_arrow(expected)
    spark.sql(VIEWS[name]).createOrReplaceTempView(name)  # type: ignore[attr-defined]  # views read views
    verdict = "[green]equal[/]" if right else "[red]NOT EQUAL[/]"
    OUT.print(
        f"  {name}: {content.num_rows} rows, {verdict} ({time.perf_counter() - start:.2f} s to recompute)"
    )
    return right


if __name__ == "__main__":
    sys.exit(main())
