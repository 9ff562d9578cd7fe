"""What each message of the MySQL fixture means, written down from the raw lines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["EXPECTED", "SCHEMA"]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("n", pa.string()),
        ("a", pa.decimal128(8, 2)),
        ("dt", pa.timestamp("us")),
        ("ts", pa.timestamp("us", "UTC")),
        ("d", pa.date32()),
        ("j", pa.string()),
        ("e", pa.string()),
        ("b", pa.bool_()),
        ("u", pa.int64()),
    ]
)
"""Of the table inv.t. It says BIGINT UNSIGNED of u, and 2⁶⁴ − 1 arrived as −1: so the connector writes it."""


def item(identity: int, n: str) -> dict[str, Any]:
    return dict.fromkeys(SCHEMA.names) | {"id": identity, "n": n}


def row(
    op: str, key: int, before: Any, after: Any, ts: int, gtid: int | None, pos: int, processed: int
) -> dict[str, Any]:
    """A row's event; ``gtid`` is the transaction's number at its server, None in the snapshot."""
    return {
        "kind": "ROW",
        "collection": "inv.t",
        "op": op,
        "key": {"id": key},
        "before": before,
        "after": after,
        "key_only": False,
        "unavailable": [],
        **at("last" if gtid is None else "false", ts, gtid, pos, processed),
    }


def at(snapshot: str, ts: int, gtid: int | None, pos: int, processed: int) -> dict[str, Any]:
    transaction = {} if gtid is None else {"gtid": f"4732422d-e39a-11f1-91d5-02fc00000001:{gtid}"}
    place = {"file": "mbin.000003", "pos": pos, "row": 0, "processed": processed}
    return {"snapshot": snapshot, "ts": ts, **transaction, **place}


def tombstone(key: int) -> dict[str, Any]:
    return {"kind": "TOMBSTONE", "key": {"id": key}}


def ddl(db: str, text: str, ts: int, processed: int, *changes: dict[str, Any]) -> dict[str, Any]:
    """DDL of the snapshot, which tells how each table was made."""
    return {
        "kind": "SCHEMA_CHANGE",
        "db": db,
        "ddl": text,
        "changes": list(changes),
        **at("true", ts, None, 1306, processed),
    }


def dropped(db: str, table: str) -> dict[str, Any]:
    return {"type": "DROP", "id": f'"{db}"."{table}"', "table": None}


def made(how: str, db: str, table: str, *columns: dict[str, Any]) -> dict[str, Any]:
    told = {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": ["id"], "columns": list(columns)}
    return {"type": how, "id": f'"{db}"."{table}"', "table": {**told, "comment": None}}


def column(position: int, name: str, jdbc: int, kind: str, **told: Any) -> dict[str, Any]:
    """A column's description; only the key may not be NULL."""
    return {
        "name": name,
        "jdbcType": jdbc,
        "nativeType": None,
        "typeName": kind,
        "typeExpression": kind,
        "charsetName": told.get("charset"),
        "length": told.get("length"),
        "scale": told.get("scale"),
        "position": position,
        "optional": name != "id",
        "autoIncremented": False,
        "generated": False,
        "comment": None,
        "defaultValueExpression": told.get("default"),
        "enumValues": told.get("values"),
    }


UTF8 = "utf8mb4"
OF_T = [
    column(1, "id", 4, "INT"),
    column(2, "n", 12, "VARCHAR", charset=UTF8, length=20),
    column(3, "a", 3, "DECIMAL", length=8, scale=2),
    column(4, "dt", 93, "DATETIME", length=6),
    column(5, "ts", 2014, "TIMESTAMP", length=6),
    column(6, "d", 91, "DATE"),
    column(7, "j", 1111, "JSON"),
    column(8, "e", 1, "ENUM", charset=UTF8, length=1, values=["'x'", "'y'"]),
    column(9, "b", 5, "TINYINT", length=1),
    column(10, "u", -5, "BIGINT UNSIGNED"),
]
TAIL = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
BIG = (
    "CREATE TABLE `big` (\n  `id` int NOT NULL,\n  `n` varchar(40) DEFAULT NULL,\n"
    "  `a` decimal(10,2) DEFAULT NULL,\n  `ts` timestamp NULL DEFAULT CURRENT_TIMESTAMP,\n"
    f"  PRIMARY KEY (`id`)\n) {TAIL}"
)
D_T = (
    "CREATE TABLE `t` (\n  `id` int unsigned NOT NULL,\n  `n` varchar(20) DEFAULT NULL,\n"
    "  `a` decimal(8,2) DEFAULT NULL,\n  `j` json DEFAULT NULL,\n  `e` enum('x','y') DEFAULT NULL,\n"
    f"  PRIMARY KEY (`id`)\n) {TAIL}"
)
INV_T = (
    "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `n` varchar(20) DEFAULT NULL,\n"
    "  `a` decimal(8,2) DEFAULT NULL,\n  `dt` datetime(6) DEFAULT NULL,\n"
    "  `ts` timestamp(6) NULL DEFAULT NULL,\n  `d` date DEFAULT NULL,\n  `j` json DEFAULT NULL,\n"
    "  `e` enum('x','y') DEFAULT NULL,\n  `b` tinyint(1) DEFAULT NULL,\n"
    f"  `u` bigint unsigned DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) {TAIL}"
)
CREATED = "CREATE DATABASE `{}` CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"

EXPECTED: list[dict[str, Any]] = [
    ddl(
        "",
        "SET character_set_server=utf8mb4, collation_server=utf8mb4_0900_ai_ci",
        1795040713245376,
        1795040713517000,
    ),
    ddl("d", "DROP TABLE IF EXISTS `d`.`big`", 1795040713522112, 1795040713532000, dropped("d", "big")),
    ddl("d", "DROP TABLE IF EXISTS `d`.`t`", 1795040713532921, 1795040713533000, dropped("d", "t")),
    ddl("inv", "DROP TABLE IF EXISTS `inv`.`t`", 1795040713533973, 1795040713534000, dropped("inv", "t")),
    ddl("d", "DROP DATABASE IF EXISTS `d`", 1795040713538018, 1795040713539000),
    ddl("d", CREATED.format("d"), 1795040713539767, 1795040713545000),
    ddl("d", "USE `d`", 1795040713545669, 1795040713546000),
    ddl(
        "d",
        BIG,
        1795040713551514,
        1795040713584000,
        made(
            "CREATE",
            "d",
            "big",
            column(1, "id", 4, "INT"),
            column(2, "n", 12, "VARCHAR", charset=UTF8, length=40),
            column(3, "a", 3, "DECIMAL", length=10, scale=2),
            column(4, "ts", 2014, "TIMESTAMP", default="1970-01-01 00:00:00"),
        ),
    ),
    ddl(
        "d",
        D_T,
        1795040713586524,
        1795040713592000,
        made(
            "CREATE",
            "d",
            "t",
            column(1, "id", 4, "INT UNSIGNED"),
            column(2, "n", 12, "VARCHAR", charset=UTF8, length=20),
            column(3, "a", 3, "DECIMAL", length=8, scale=2),
            column(4, "j", 1111, "JSON"),
            column(5, "e", 1, "ENUM", charset=UTF8, length=1, values=["'x'", "'y'"]),
        ),
    ),
    ddl("inv", "DROP DATABASE IF EXISTS `inv`", 1795040713592357, 1795040713592000),
    ddl("inv", CREATED.format("inv"), 1795040713592776, 1795040713593000),
    ddl("inv", "USE `inv`", 1795040713593213, 1795040713593000),
    ddl("inv", INV_T, 1795040713594585, 1795040713600000, made("CREATE", "inv", "t", *OF_T)),
    row(
        "r",
        1,
        None,
        {
            "id": 1,
            "n": "snap",
            "a": Decimal("1.50"),
            "dt": 1704164645123456,  # 2024-01-02 03:04:05.123456
            "ts": 1704164645123456,
            "d": dt.date(2024, 1, 2),
            "j": '{"a": 1}',
            "e": "y",
            "b": True,
            "u": -1,
        },
        1795040713000000,
        None,
        1306,
        1795040713656759,
    ),
    row("c", 2, None, item(2, "i"), 1795040716818973, 434, 1573, 1795040716831777),
    row("u", 2, item(2, "i"), item(2, "u"), 1795040716819962, 435, 1924, 1795040716834894),
    row("d", 2, item(2, "u"), None, 1795040716821573, 436, 2285, 1795040716838984),
    tombstone(2),
    row("c", 3, None, item(3, "u"), 1795040716821573, 436, 2285, 1795040716839591),
    row("d", 3, item(3, "u"), None, 1795040716822094, 437, 2637, 1795040716843301),
    tombstone(3),
    {
        "kind": "TRUNCATE",
        "name": "my",
        "db": "inv",
        "table": "t",
        **at("false", 1795040716831000, 438, 2789, 1795040716849936),
    },
    {
        "kind": "SCHEMA_CHANGE",
        "db": "inv",
        "ddl": "alter table t add column x int default 5",
        "changes": [made("ALTER", "inv", "t", *OF_T, column(11, "x", 4, "INT", default="5"))],
        **at("false", 1795040716844000, 439, 2960, 1795040716859000),
    },
]
