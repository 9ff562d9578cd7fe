"""Five small tables, full of NULLs and repetition, that the tests' queries speak of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

import pyarrow as pa

from penstock.plan import Keyed, Node, Scan
from penstock.sql import Relation, parse
from penstock.sql.statements import CreateTable

CREATE = """
CREATE TABLE orders (
  id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(12, 2), quantity INT, day DATE, at TIMESTAMP_NTZ,
  note STRING, paid BOOLEAN);
CREATE TABLE customers (
  id BIGINT PRIMARY KEY, name STRING, city STRING, credit DOUBLE, vip BOOLEAN, since DATE);
CREATE TABLE items (order_id BIGINT, product STRING, price DECIMAL(8, 2), pieces SMALLINT, rebate DOUBLE);
CREATE TABLE transfers (id BIGINT, source INT, target INT, cents BIGINT, PRIMARY KEY (id));
CREATE TABLE visits (
  id BIGINT PRIMARY KEY, customer INT, tags ARRAY<STRING>, counts MAP<STRING, INT>,
  place STRUCT<city: STRING, zip: INT>);
"""
"""As statements, so that a test through the whole database can make them with `db.sql`."""


@dataclass(frozen=True)
class Table:
    """A table and what is in it."""

    schema: pa.Schema
    key: tuple[str, ...]
    rows: pa.Table


def _times(values: Iterable[Any], count: int) -> list[Any]:
    return list(islice(cycle(list(values)), count))


def _day(number: int | None) -> dt.date | None:
    return None if number is None else dt.date(2024, 1, 1) + dt.timedelta(days=number)


def _cents(number: int | None) -> Decimal | None:
    return None if number is None else Decimal(number).scaleb(-2)


def _columns() -> dict[str, dict[str, list[Any]]]:
    days = [None if it is None else it * 9 for it in (0, 1, None, 4, 40, 41)]
    moments = [dt.datetime.fromisoformat(f"2024-01-01 {hour}:30") for hour in ("00", "09", "17")]
    return {
        "orders": {
            "id": list(range(1, 41)),
            "customer": _times([1, 2, None, 2, 3, 3, 99], 40),
            "amount": _times(map(_cents, [1000, None, 250, -375, 0, 1000, 9999, None, 1, 123456]), 40),
            "quantity": _times([1, 2, None, 3, 0, -1, 7, 7, 2], 40),
            "day": _times(map(_day, days), 40),
            "at": _times([*moments, None], 40),
            "note": _times(["gift", None, "", "Gift", " urgent ", "gift", "a,b"], 40),
            "paid": _times([True, False, None, True, True], 40),
        },
        "customers": {
            "id": list(range(1, 11)),
            "name": ["Ada", "Bob", None, "Cyd", "ada", "Eve", "Bob", None, "Fay", "Gus"],
            "city": ["Ulm", "Bern", "Ulm", None, "Bern", "", "Ulm", None, "Oslo", "Bern"],
            "credit": [0.0, -0.0, 12.5, None, 100.25, 7.75, None, 0.5, -3.25, 12.5],
            "vip": [True, None, False, True, None, False, False, True, None, True],
            "since": _times(map(_day, [0, 9, None, -400, 9]), 10),
        },
        "items": {
            "order_id": _times([1, 1, 2, 3, None, 4, 4, 4, 5, 77, 8, 13], 48),
            "product": _times(["pen", "ink", "pen", None, "pad"], 48),
            "price": _times(map(_cents, [150, 275, 150, None, 99]), 48),
            "pieces": _times([1, 2, 1, 3, None, 0, -2], 48),
            "rebate": _times([0.5, None, 0.25, 0.0, 1.75, None], 48),
        },
        "transfers": {
            "id": list(range(1, 21)),
            "source": _times([1, 2, 3, None, 1], 20),
            "target": _times([2, 3, 1, 4, None, 1], 20),
            "cents": _times([100, 250, None, 75, 100, 3], 20),
        },
        "visits": {
            "id": list(range(1, 13)),
            "customer": _times([1, 2, None, 4], 12),
            "tags": _times([["new", "web"], [], None, ["web", None], ["shop"]], 12),
            "counts": _times([{"a": 1}, {}, None, {"a": 2, "b": None}], 12),
            "place": _times([{"city": "Ulm", "zip": 89073}, None, {"city": None, "zip": 3000}], 12),
        },
    }


def _tables() -> dict[str, Table]:
    columns = _columns()
    found = {}
    for made in parse(CREATE):
        assert isinstance(made, CreateTable)
        mine = columns[made.name]
        values = {
            it.name: [
                list(v.items()) if isinstance(v, dict) and pa.types.is_map(it.type) else v
                for v in mine[it.name]
            ]
            for it in made.schema
        }
        found[made.name] = Table(made.schema, made.key, pa.table(values, schema=made.schema))
    return found


TABLES: Mapping[str, Table] = _tables()


class Tables:
    """A catalog of the tables, and of views of the same pipeline by name."""

    def __init__(self, views: Mapping[str, Relation] | None = None) -> None:
        self._views = dict(views or {})

    def relation(self, name: str) -> Relation | None:
        """By name, without case."""
        if name.lower() in self._views:
            return self._views[name.lower()]
        table = TABLES.get(name.lower())
        if table is None:
            return None
        scan: Node = Scan("main", name.lower())
        return Relation(Keyed(scan, table.key) if table.key else scan, table.schema)

    def names(self) -> Iterable[str]:
        """All of them."""
        return [*TABLES, *self._views]
