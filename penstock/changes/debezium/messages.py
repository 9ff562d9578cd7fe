"""Raw messages to JSON payloads, and what kind of message each is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from penstock.changes.debezium.misfit import shown
from penstock.changes.debezium.schema import parse_schema
from penstock.changes.debezium.types import ConnectType
from penstock.errors import InvalidArgument, MalformedMessage

__all__ = ["Kind", "Raw", "kind_of", "listed", "payload"]

Raw = bytes | str | None
Payload = Any


class Kind(IntEnum):
    """What a message is. The integers stay as they are."""

    ROW = 0
    TOMBSTONE = 1
    TRUNCATE = 2
    LOGICAL = 3
    TRANSACTION = 4
    SCHEMA_CHANGE = 5
    HEARTBEAT = 6


_BY_OP = {"c": Kind.ROW, "u": Kind.ROW, "d": Kind.ROW, "r": Kind.ROW, "t": Kind.TRUNCATE, "m": Kind.LOGICAL}
_HEARTBEAT = frozenset(["ts_ms", "ts_us", "ts_ns"])
_ENVELOPE_HINT = (
    "Send whole Debezium envelopes: without ExtractNewRecordState or another transform that takes them apart."
)


def listed(messages: Iterable[Raw] | pa.Array | pa.ChunkedArray, what: str) -> list[bytes | None]:
    """Messages as bytes; None stays None."""
    if isinstance(messages, pa.Array | pa.ChunkedArray):
        try:
            raw: list[bytes | None] = messages.cast(pa.large_binary()).to_pylist()
        except pa.ArrowException:
            raise InvalidArgument(
                f"{what} is an array of {messages.type}",
                subject="decode",
                hint="Give an array of strings or bytes.",
            ) from None
        return raw
    return [_bytes(message, index, what) for index, message in enumerate(messages)]


def _bytes(message: object, index: int, what: str) -> bytes | None:
    if message is None or isinstance(message, bytes):
        return message
    if isinstance(message, bytearray | memoryview):
        return bytes(message)
    if isinstance(message, str):
        try:
            return message.encode()
        except UnicodeEncodeError:
            raise _not_json(index, what, "it has a half of a surrogate pair") from None
    raise InvalidArgument(
        f"{what}[{index}] is a {type(message).__name__}",
        subject="decode",
        hint="Give messages as bytes or str, and None for a message without a value.",
    )


_PAYLOAD = b'"payload":'


def payload(raw: bytes | None, index: int, what: str = "value") -> tuple[Payload, ConnectType | None]:
    """The JSON document of a message, out of its wrapper, and the schema that the wrapper told.

    A wrapper is often ten times as long as what it wraps, and the same each time: it is parsed once per
    distinct text. That is sound because a JSON document is read from left to right: messages that begin with
    the same bytes up to the value of ``payload`` have the same schema.
    """
    if raw is None:
        return None, None
    if raw.startswith(b'{"schema":') and raw.endswith(b"}"):
        at = raw.find(_PAYLOAD) + len(_PAYLOAD)
        if at >= len(_PAYLOAD):
            try:
                return orjson.loads(raw[at:-1]), _wrapper(raw[:at])
            except ValueError:
                pass  # not of that form after all: the whole document tells what it is
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _not_json(index, what, str(error)) from None
    if not _is_wrapper(document):
        return document, None
    if document["schema"] is None:
        return document["payload"], None
    return document["payload"], parse_schema(document["schema"], f"message {index}", f"{what}.schema")


@lru_cache(maxsize=256)
def _wrapper(beginning: bytes) -> ConnectType | None:
    """The schema in a message's beginning, which ends where the payload's value begins; else ValueError."""
    document = orjson.loads(beginning + b"null}")
    if not _is_wrapper(document):
        raise ValueError("not a wrapper")
    return None if document["schema"] is None else parse_schema(document["schema"], "schema")


def _is_wrapper(document: object) -> bool:
    if (
        type(document) is not dict
        or len(document) != 2
        or "schema" not in document
        or "payload" not in document
    ):
        return False
    schema = document["schema"]
    return schema is None or (type(schema) is dict and "type" in schema)


def _not_json(index: int, what: str, why: str) -> MalformedMessage:
    return MalformedMessage(
        f"the {what} is not JSON: {why}",
        subject=f"message {index}",
        hint="Use Kafka's JsonConverter on the connector (Avro and Protobuf are not read here).",
    )


def kind_of(document: Payload, index: int) -> Kind:
    """What a message says, by the members that only its kind has."""
    if document is None:
        return Kind.TOMBSTONE
    if type(document) is not dict:
        raise MalformedMessage(
            f"the value is {shown(document)}, not an object", subject=f"message {index}", hint=_ENVELOPE_HINT
        )
    op = document.get("op")
    if op is not None:
        kind = _BY_OP.get(op) if type(op) is str else None
        if kind is None:
            raise MalformedMessage(
                f"op is {shown(op)}, and the operations are c, u, d, r, t and m",
                subject=f"message {index}",
                hint=_ENVELOPE_HINT,
            )
        return kind
    if "status" in document:
        return Kind.TRANSACTION
    if "ddl" in document:
        return Kind.SCHEMA_CHANGE
    if "ts_ms" in document and document.keys() <= _HEARTBEAT:
        return Kind.HEARTBEAT
    raise MalformedMessage(
        f"it has no op and is no transaction, schema change or heartbeat either: {shown(document)}",
        subject=f"message {index}",
        hint=_ENVELOPE_HINT,
    )
