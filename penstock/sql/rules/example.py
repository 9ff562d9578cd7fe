"""Two small tables that the rules' doctests speak of."""

from __future__ import annotations

import pyarrow as pa

from penstock.plan import Keyed, Node, Scan, Select
from penstock.plan import show as shown
from penstock.sql.facts import Facts

__all__ = ["CUSTOMERS", "FACTS", "ORDERS", "show"]

ORDERS = Keyed(Scan("main", "orders"), ("id",))
CUSTOMERS = Keyed(Scan("main", "customers"), ("name",))


def _types(node: Select, below: pa.Schema) -> pa.Schema:
    """An engine that knows CASTs to BIGINT, and that every two types have BIGINT in common."""
    made = [below.field(it.sql).type if it.sql in below.names else pa.int64() for it in node.columns]
    return pa.schema([pa.field(it.name, kind) for it, kind in zip(node.columns, made, strict=True)])


FACTS = Facts(
    {
        ORDERS: pa.schema(
            [("id", pa.int64()), ("customer", pa.string()), ("amount", pa.int64()), ("rank", pa.int32())]
        ),
        CUSTOMERS: pa.schema([("name", pa.string()), ("city", pa.string()), ("since", pa.int64())]),
    },
    _types,
)


def show(node: Node) -> None:
    """Prints the plan, with the tables as leaves."""
    for text in shown(node).splitlines():
        if not text.strip().startswith("Keyed"):
            print(text[2:].replace("Scan main.", "") if "Scan main." in text else text)
