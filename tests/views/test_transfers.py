"""Money that moves is never seen to be more or less, at no tick, wherever transactions are cut."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.views import Ticked

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ACCOUNTS, EACH = 8, Decimal("100.00")


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 1000])
def test_the_total_balance_is_constant_at_every_tick(tmp_path: Path, spark: SparkSession, rows: int) -> None:
    draw = random.Random(rows)
    with ps.connect(tmp_path, spark=spark) as db:
        db.sql(
            """
            CREATE TABLE accounts (id INT PRIMARY KEY, balance DECIMAL(12, 2));
            CREATE TABLE moves (id BIGINT PRIMARY KEY, source INT, target INT, amount DECIMAL(12, 2));
            CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS total, count(*) AS n FROM accounts;
            CREATE MATERIALIZED VIEW credits AS
              SELECT target AS id, sum(amount) AS got FROM moves GROUP BY target;
            CREATE MATERIALIZED VIEW debits AS
              SELECT source AS id, sum(amount) AS gave FROM moves GROUP BY source;
            CREATE MATERIALIZED VIEW net AS
              SELECT sum(c.got - d.gave) AS net, count(*) AS n FROM credits c JOIN debits d ON c.id = d.id;
            CREATE MATERIALIZED VIEW drift AS
              SELECT a.id, a.balance - c.got + d.gave AS began FROM accounts a
              JOIN credits c ON a.id = c.id JOIN debits d ON a.id = d.id;
            """
        )
        balances = dict.fromkeys(range(ACCOUNTS), EACH)
        with db.transaction():
            db.table("accounts").insert([{"id": it, "balance": EACH} for it in range(ACCOUNTS)])
            db.table("moves").insert(  # every account gives and gets once, so that every one is in the join
                [
                    {"id": it, "source": it, "target": (it + 1) % ACCOUNTS, "amount": "1.00"}
                    for it in range(ACCOUNTS)
                ]
            )
        _transfers(db, draw, balances, 15)
        ticks: list[Ticked] = []

        def check(ticked: Ticked) -> None:
            ticks.append(ticked)
            (total,) = db.query("SELECT * FROM total").rows()
            assert total == {"total": ACCOUNTS * EACH, "n": ACCOUNTS}
            (net,) = db.query("SELECT * FROM net").rows()
            assert net == {"net": Decimal(0), "n": ACCOUNTS}
            began = {row["began"] for row in db.query("SELECT began FROM drift").rows()}
            assert began == {EACH}

        db.refresh(max_rows_per_tick=rows, progress=check)
        assert len(ticks) == 1 if rows == 1000 else len(ticks) > 3
        found = {row["id"]: row["balance"] for row in db.query("SELECT * FROM accounts").rows()}
        assert found == balances


def _transfers(db: ps.Database, draw: random.Random, balances: dict[int, Decimal], count: int) -> None:
    """Each transfer is a transaction of three rows, some of several transfers."""
    accounts, moves = db.table("accounts"), db.table("moves")
    number = 1000
    for _ in range(count):
        with db.transaction():
            for _ in range(draw.choice([1, 1, 2, 3])):
                source, target = draw.sample(range(ACCOUNTS), 2)
                amount = Decimal(draw.randint(1, 999)) / 100
                balances[source] -= amount
                balances[target] += amount
                number += 1
                accounts.upsert([{"id": it, "balance": balances[it]} for it in (source, target)])
                moves.insert({"id": number, "source": source, "target": target, "amount": amount})
