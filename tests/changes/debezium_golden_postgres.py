"""What each message of the PostgreSQL fixture means, written down from the raw lines.

Base64 was read by hand (``AJY=`` is 0x0096, 150 hundredths), and so were days, which count from 1970.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["EXPECTED", "SCHEMAS"]

SCHEMAS = {
    "inv.customers": pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            ("name", pa.string()),
            ("email", pa.string()),
            ("balance", pa.decimal128(10, 2)),
            ("created", pa.timestamp("us", "UTC")),
            ("ts", pa.timestamp("us")),
            ("d", pa.date32()),
            ("active", pa.bool_()),
            ("meta", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("u", pa.string()),
            ("bin", pa.binary()),
            ("f", pa.float64()),
            ("extra", pa.int32()),
        ]
    ),
    "inv.full_id": pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.string())]),
    "inv.nopk": pa.schema([("a", pa.int32()), ("b", pa.string())]),
}

INFINITY = 9223372036825200000
"""PostgreSQL's 'infinity', as Debezium counts it."""


def customer(identity: int, **told: Any) -> dict[str, Any]:
    """A row of customers: NULL in every column that is not told."""
    return {"id": identity, **{name: told.get(name) for name in SCHEMAS["inv.customers"].names[1:]}}


def row(
    op: str, collection: str, key: int | None, before: Any, after: Any, where: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """A row's event."""
    return {
        "kind": "ROW",
        "collection": f"inv.{collection}",
        "op": op,
        "key": None if key is None else {"id": key},
        "before": before,
        "after": after,
        "key_only": more.get("key_only", False),
        "unavailable": more.get("unavailable", []),
        **where,
    }


def truncate(table: str, where: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "TRUNCATE", "name": "app", "db": "postgres", "schema": "inv", "table": table, **where}


def snapshot(which: str, processed: int) -> dict[str, Any]:
    """Where a row of the first snapshot stands: all of it at one LSN, in no transaction."""
    place = {"lsn": 60956136, "tx_id": 951, "sequence": '[null,"60956136"]'}
    return {"snapshot": which, "ts": 1795037988412717, **place, "processed": processed}


def live(
    tx_id: int, lsn: int, committed: int | None, ts: int, order: int, processed: int, nth: int | None = None
) -> dict[str, Any]:
    """Where a streamed event stands: ``committed`` is the last LSN of the transaction before."""
    sequence = f'["{committed}","{lsn}"]' if committed is not None else f'[null,"{lsn}"]'
    block = {"transaction": f"{tx_id}:{lsn}", "total_order": order, "collection_order": nth or order}
    told = {"snapshot": "false", "ts": ts, "lsn": lsn, "tx_id": tx_id, "sequence": sequence}
    return {**told, **block, "processed": processed}


def begin(identity: str, ts: int) -> dict[str, Any]:
    return {"kind": "TRANSACTION", "status": "BEGIN", "id": identity, "ts": ts}


def end(identity: str, ts: int, count: int, **collections: int) -> dict[str, Any]:
    each = [{"data_collection": f"inv.{name}", "event_count": events} for name, events in collections.items()]
    told = {"kind": "TRANSACTION", "status": "END", "id": identity, "event_count": count}
    return {**told, "data_collections": each, "ts": ts}


def tombstone(key: int | None) -> dict[str, Any]:
    return {"kind": "TOMBSTONE", "key": None if key is None else {"id": key}}


def snapshot_customer(identity: int, balance: str) -> dict[str, Any]:
    return customer(
        identity,
        name=f"snap {identity}",
        email="s@x",
        balance=Decimal(balance),
        created=1704164645678901,  # 2024-01-02T03:04:05.678901Z
        ts=1704164645678901,
        d=dt.date(2024, 1, 2),
        active=True,
        meta='{"a": [1]}',
        tags=["x", "y"],
        u="11111111-2222-3333-4444-555555555555",
        bin=b"\x00\xff",
        f=1.25,
    )


def changed_customer(identity: int, name: str, balance: str) -> dict[str, Any]:
    return customer(
        identity,
        name=name,
        email="i@x",
        balance=Decimal(balance),
        created=1714972089500000,  # 2024-05-06T05:08:09.500000Z
        ts=INFINITY,
        d=dt.date(1969, 12, 31),
        active=False,
        f=math.nan,
    )


TOASTED = "{" + ", ".join(f'"{n}": "{hashlib.md5(str(n).encode()).hexdigest()}"' for n in range(1, 401)) + "}"
MONITOR = "io.debezium.connector.postgresql.LogicalDecodingMessageMonitor$LogicalDecodingMessageId@5d1e0f69"

EXPECTED: list[dict[str, Any]] = [
    row("r", "customers", 1, None, snapshot_customer(1, "1.50"), snapshot("first", 1795037988628736)),
    row(
        "r",
        "customers",
        2,
        None,
        snapshot_customer(2, "3.00"),
        snapshot("last_in_data_collection", 1795037988631647),
    ),
    row("r", "full_id", 1, None, {"id": 1, "v": "a"}, snapshot("last", 1795037988636978)),
    begin("952:60956176", 1795037989703000),
    row(
        "c",
        "customers",
        10,
        None,
        changed_customer(10, "ins", "-12.34"),
        live(952, 60956176, None, 1795037989703608, 1, 1795037989809154),
    ),
    end("952:60956408", 1795037989703000, 1, customers=1),
    begin("953:60956408", 1795037989705000),
    row(
        "u",
        "customers",
        10,
        None,
        changed_customer(10, "upd", "99.90"),
        live(953, 60956408, 60956408, 1795037989705047, 1, 1795037989816723),
    ),
    end("953:60956592", 1795037989705000, 1, customers=1),
    begin("954:60956592", 1795037989705000),
    row(
        "d",
        "customers",
        10,
        customer(10),
        None,
        live(954, 60956592, 60956592, 1795037989705470, 1, 1795037989818635),
        key_only=True,
    ),
    tombstone(10),
    row(
        "c",
        "customers",
        11,
        None,
        changed_customer(11, "upd", "99.90"),
        live(954, 60956592, 60956592, 1795037989705470, 2, 1795037989819068),
    ),
    end("954:60956880", 1795037989705000, 2, customers=2),
    begin("955:60956880", 1795037989705000),
    row(
        "d",
        "customers",
        11,
        customer(11),
        None,
        live(955, 60956880, 60956880, 1795037989705830, 1, 1795037989819855),
        key_only=True,
    ),
    tombstone(11),
    end("955:60957000", 1795037989705000, 1, customers=1),
    begin("956:60957000", 1795037989706000),
    row(
        "u",
        "full_id",
        1,
        {"id": 1, "v": "a"},
        {"id": 1, "v": "b"},
        live(956, 60957000, 60957000, 1795037989706195, 1, 1795037989826984),
    ),
    end("956:60957136", 1795037989706000, 1, full_id=1),
    begin("957:60957136", 1795037989706000),
    row(
        "d",
        "full_id",
        1,
        {"id": 1, "v": "b"},
        None,
        live(957, 60957136, 60957136, 1795037989706464, 1, 1795037989828925),
    ),
    tombstone(1),
    end("957:60957256", 1795037989706000, 1, full_id=1),
    begin("958:60957256", 1795037989706000),
    row(
        "c",
        "nopk",
        None,
        None,
        {"a": 1, "b": "x"},
        live(958, 60957256, 60957256, 1795037989706906, 1, 1795037989843673),
    ),
    row(
        "u",
        "nopk",
        None,
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        live(958, 60957320, 60957256, 1795037989706906, 2, 1795037989845815),
    ),
    row(
        "d",
        "nopk",
        None,
        {"a": 1, "b": "y"},
        None,
        live(958, 60957408, 60957256, 1795037989706906, 3, 1795037989846784),
    ),
    tombstone(None),
    end("958:60957528", 1795037989706000, 3, nopk=3),
    begin("959:60957528", 1795037989707000),
    row(
        "c",
        "customers",
        20,
        None,
        customer(20, name="t1"),
        live(959, 60957528, 60957528, 1795037989707368, 1, 1795037989848610),
    ),
    row(
        "c",
        "customers",
        21,
        None,
        customer(21, name="t2"),
        live(959, 60957664, 60957528, 1795037989707368, 2, 1795037989852052),
    ),
    row(
        "u",
        "customers",
        20,
        None,
        customer(20, name="t3"),
        live(959, 60957800, 60957528, 1795037989707368, 3, 1795037989853585),
    ),
    end("959:60957936", 1795037989707000, 3, customers=3),
    begin("961:60960672", 1795037989708000),
    row(
        "c",
        "customers",
        30,
        None,
        customer(30, name="aftercol", extra=8),
        live(961, 60960672, 60957936, 1795037989708196, 1, 1795037989883969),
    ),
    end("961:60960872", 1795037989708000, 1, customers=1),
    begin("962:60979360", 1795037989716000),
    row(
        "u",
        "customers",
        30,
        None,
        customer(30, name="aftercol", meta=TOASTED, extra=8),
        live(962, 60979360, 60960872, 1795037989716718, 1, 1795037989887150),
    ),
    end("962:60979520", 1795037989716000, 1, customers=1),
    begin("963:60979576", 1795037989721000),
    row(
        "u",
        "customers",
        30,
        None,
        customer(30, name="toast", extra=8),
        live(963, 60979576, 60979520, 1795037989721235, 1, 1795037989890603),
        unavailable=["meta"],
    ),
    end("963:60979736", 1795037989721000, 1, customers=1),
    begin("964:60990096", 1795037989724000),
    truncate("customers", live(964, 60990096, 60979736, 1795037989724705, 1, 1795037989915389)),
    truncate("full_id", live(964, 60990096, 60979736, 1795037989724705, 2, 1795037989916239, 1)),
    end("964:60990816", 1795037989724000, 2, customers=1, full_id=1),
    begin("965:60990888", 1795037989727000),
    {
        "kind": "LOGICAL",
        "prefix": "outbox",
        "content": b"hello msg",
        **live(965, 60990888, 60990816, 1795037989727019, 1, 1795037989918000),
    },
    {
        **end("965:60990936", 1795037989727000, 1),
        "data_collections": [{"data_collection": MONITOR, "event_count": 1}],
    },
    begin("966:60990936", 1795037998007000),
    row(
        "c",
        "customers",
        40,
        None,
        customer(40, name="withschema", balance=Decimal("1.10"), extra=7),
        live(966, 60990936, 60990936, 1795037998007347, 1, 1795037998241959),
    ),
    row(
        "u",
        "customers",
        40,
        None,
        customer(40, name="z", balance=Decimal("1.10"), extra=7),
        live(966, 60991192, 60990936, 1795037998007347, 2, 1795037998244109),
    ),
    row(
        "d",
        "customers",
        40,
        customer(40, extra=7),
        None,
        live(966, 60991288, 60990936, 1795037998007347, 3, 1795037998245373),
        key_only=True,
    ),
    tombstone(40),
    end("966:60991408", 1795037998007000, 3, customers=3),
]
