"""Debezium's change format: batches of changes to its JSON messages, and back.

`encode` writes a batch of changes, `decode` reads messages into Arrow, `Envelope` is one message for people.
"""

from penstock.changes.debezium.decode import decode
from penstock.changes.debezium.encode import Encoded, encode
from penstock.changes.debezium.envelope import Envelope
from penstock.changes.debezium.events import Decoded, Part, RowEvents, Tombstones
from penstock.changes.debezium.messages import Kind
from penstock.changes.debezium.positions import Collection
from penstock.changes.debezium.source import Source
from penstock.changes.debezium.times import INFINITY, MINUS_INFINITY

__all__ = [
    "INFINITY",
    "MINUS_INFINITY",
    "Collection",
    "Decoded",
    "Encoded",
    "Envelope",
    "Kind",
    "Part",
    "RowEvents",
    "Source",
    "Tombstones",
    "decode",
    "encode",
]
