"""Messages that are random, cut, flipped or rewritten give events or our own errors, and nothing else."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changes.debezium import RowEvents, Source, decode, encode
from penstock.changes.op import Op
from penstock.errors import PenstockError
from tests.changes.debezium_fixtures import fixture
from tests.changes.debezium_golden_mysql import SCHEMA as MYSQL
from tests.changes.debezium_golden_postgres import SCHEMAS as POSTGRES

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 7, 2**31, 2**53 + 1, 2**63, 2**64, 10**30, 1.5, -0.0, 1e300),
    *(
        "",
        "x",
        "AJY=",
        "AP8",
        "NaN",
        "2024-01-02T03:04:05Z",
        "+999999-01-01T00:00:00Z",
        "P1Y2M",
        "-P",
        "24:00",
    ),
    *("1e99999", "-", "__debezium_unavailable_value", "\0", [], [None], [1, "a"], [[]], {}),
    *({"scale": 1, "value": "AJY="}, {"scale": 10**9, "value": "AA=="}, {"a": {"b": []}}),
    *("c", "u", "d", "r", "t", "m", "BEGIN", "bytes", "struct", "array", "map", "int32"),
    *("io.debezium.time.Date", "org.apache.kafka.connect.data.Decimal"),
]
NAMES = ["op", "before", "after", "x", "id", "name", "payload", "schema", "ts_ms", "status", "ddl"]
WORDS = [
    *(b"null", b"-1", b"1e999", b'"', b"\\u", b"[", b"}", b"\xff", b"\0", b"18446744073709551616", b"true"),
    *(b":", b"\\ud800"),
]
OPTIONS: list[dict[str, Any]] = [
    *({}, {"schema": POSTGRES}, {"schema": MYSQL}, {"schema": POSTGRES, "on_new_column": "add"}),
    *({"schema": MYSQL, "on_new_column": "ignore"}, {"decimals": "string"}, {"replica_identity": "full"}),
    {"schema": POSTGRES, "decimals": "double"},
]


def own() -> list[Any]:
    """Messages of ours, with every kind of value and with their schema."""
    batch = pa.record_batch(
        {
            "id": [1, 1],
            "d": pa.array([1, None], pa.int64()).cast(pa.decimal128(19, 0)),
            "t": pa.array([0, 1], pa.timestamp("us", "UTC")),
            "l": pa.array([[{"a": b"\0"}], None]),
            "m": pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())),
            "_op": pa.array([Op.UPDATE_BEFORE, Op.UPDATE_AFTER], pa.int8()),
        }
    )
    source = Source("s", "d", "t", version="1")
    return [json.loads(encode(batch, source, schema=schema).values[0].as_py()) for schema in (True, False)]


def places(document: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [here, *(place for name, part in inside for place in places(part, (*here, name)))]


def put(document: Any, place: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """The document with one part changed; what it shares with the old one stays untouched."""
    if not place:
        return change(document)
    copy = document.copy()
    copy[place[0]] = put(copy[place[0]], place[1:], change)
    return copy


def rewritten(document: Any, chance: random.Random) -> Any:
    """JSON that is still JSON: a value replaced, a member taken out, or one added."""
    place = chance.choice(places(document))

    def without(parent: Any) -> Any:
        copy = parent.copy()
        del copy[place[-1]]
        return copy

    def with_more(part: Any) -> Any:
        if isinstance(part, dict):
            return {**part, chance.choice(NAMES): chance.choice(VALUES)}
        return [*part, chance.choice(VALUES)] if isinstance(part, list) else [part]

    match chance.choice("rrrda"):
        case "d" if place:
            return put(document, place[:-1], without)
        case "a":
            return put(document, place, with_more)
        case _:
            return put(document, place, lambda _: chance.choice(VALUES))


def damaged(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.choice(WORDS)
            case 3:
                data[at : at + chance.randrange(6)] = chance.choice(WORDS)
    return bytes(data)


def one_message(documents: list[Any], chance: random.Random) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(40))
    document = chance.choice(documents)
    if chance.random() < 0.35:
        return damaged(json.dumps(document, separators=(",", ":")).encode(), chance)
    for _ in range(chance.choice([1, 1, 2, 3])):
        document = rewritten(document, chance)
    return json.dumps(document, separators=chance.choice([(",", ":"), (", ", ": ")])).encode()


def test_thirty_thousand_random_and_mutated_messages_give_events_or_only_our_errors() -> None:
    chance = random.Random(20_260_104)
    lines = fixture("postgres") + fixture("mysql")
    documents = [line.value for line in lines if line.value is not None] + own()
    keys = [line.key for line in lines]
    outcomes: Counter[str] = Counter()
    for _ in range(30_000):
        message = one_message(documents, chance)
        key = chance.choice(keys)
        raw_key = json.dumps(rewritten(key, chance) if chance.random() < 0.3 else key).encode()
        try:
            decoded = decode([message, None], keys=[raw_key, None], **chance.choice(OPTIONS))
            for _, part in decoded.in_order():
                if isinstance(part, RowEvents):
                    part.before.validate(full=True)
                    part.after.validate(full=True)
                    part.where(part.known & np.array([True])).changes().validate(full=True)
        except PenstockError as error:
            outcomes["error"] += bool(error.hint and str(error))
            continue
        outcomes["events"] += 1
    assert min(outcomes["error"], outcomes["events"]) > 3_000
