"""What a real Debezium 3.6.3 sent, and what `decode` says of it, message by message, as plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.changes.debezium import Decoded, Kind, RowEvents

__all__ = ["Line", "as_wire", "fixture", "said", "unwrapped", "wrapped"]

FOLDER = Path(__file__).parent.parent / "fixtures" / "debezium"


class Line(NamedTuple):
    """One message of a fixture, parsed. ``run`` says how the connector was configured, where it matters."""

    run: str
    topic: str
    key: Any
    value: Any


def fixture(database: str) -> list[Line]:
    """The messages from ``postgres`` or ``mysql``, in order."""
    text = (FOLDER / f"debezium-3.6.3-{database}.jsonl").read_text()
    parsed = [json.loads(line) for line in text.splitlines()]
    return [Line(it.get("run", ""), it["topic"], it["key"], it["value"]) for it in parsed]


def as_wire(document: Any, *, spaced: bool = False) -> bytes | None:
    """A message as Kafka carries it: compact, as JsonConverter writes it, or with spaces after its signs."""
    if document is None:
        return None
    return json.dumps(document, separators=None if spaced else (",", ":")).encode()


def wrapped(document: Any, schema: Any) -> Any:
    """A message with its schema; a missing message has none."""
    return None if document is None else {"schema": schema, "payload": document}


def unwrapped(document: Any) -> Any:
    """A message without its schema."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document


def said(decoded: Decoded) -> list[dict[str, Any]]:
    """What each message said, in order; what was not told is left out.

    Moments and timestamps are microseconds since 1970, because Python's own end with the year 9999.
    """
    found: list[dict[str, Any]] = []
    for kind, part in decoded.in_order():
        if isinstance(part, RowEvents):
            found += _rows(part)
        elif kind == Kind.TOMBSTONE:
            keys = [None] * len(part) if part.key is None else _plain(part.key)
            found += [{"kind": "TOMBSTONE", "key": key} for key in keys]
        else:
            found += [
                {"kind": kind.name, **_without_nulls(row)} for row in _plain(part.drop_columns(["index"]))
            ]
    return found


def _rows(events: RowEvents) -> list[dict[str, Any]]:
    count = len(events)
    before, after, position = _plain(events.before), _plain(events.after), _plain(events.position)
    keys = [None] * count if events.key is None else _plain(events.key)
    ops = events.op.to_pylist()
    return [
        {
            "kind": "ROW",
            "collection": events.collection.id,
            "op": ops[at],
            "key": keys[at],
            "before": before[at] if events.has_before[at] else None,
            "after": after[at] if events.has_after[at] else None,
            "key_only": bool(events.key_only[at]),
            "unavailable": [name for name, mask in events.unavailable.items() if mask[at]],
            **_without_nulls(position[at]),
        }
        for at in range(count)
    ]


def _plain(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in batch.columns
    ]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
