"""`ChangeRecord`: one entry of a logical write-ahead log, as JSON; and which columns a change touches.

A record, one JSON object on the wire::

    {"term": 3, "lsn": 7, "timestamp": 1234, "operation": "update", "collection": "users",
     "rid": 42, "kind": "row", "entity_bytes_hex": "010203", "metadata": {"role": "admin"}}

``operation`` is the one field without which nothing can be done. Every other one has a default that
stands in when it is missing *or of another JSON type*, because the systems that write these records
read them so; see `ChangeRecord.decode` for the list.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from penstock.changes.rows import same_rows
from penstock.errors import InvalidArgument, MalformedMessage

__all__ = [
    "ABSENT",
    "DEFAULT_TERM",
    "ChangeOperation",
    "ChangeRecord",
    "changed_columns",
    "changed_columns_many",
    "public_kind",
]

DEFAULT_TERM = 1
_MOST = 2**64 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 128  # orjson reads 1024 levels and writes 254: what is read must be writable again


class _Absent(Enum):
    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent.ABSENT
"""The metadata of a record that has none. ``None`` is another thing: an explicit JSON null."""


class ChangeOperation(StrEnum):
    """What a record does to its collection."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    REFRESH = "refresh"
    """The whole content is replaced at once: nobody sees a state between the old and the new."""


_OPERATIONS = {operation.value: operation for operation in ChangeOperation}
_KINDS = {
    "table": "row",
    "entity": "row",
    "row": "row",
    "graph_node": "node",
    "node": "node",
    "graph_edge": "edge",
    "edge": "edge",
}


def public_kind(entity_kind: str) -> str:
    """What the outside calls this kind of entity.

    >>> [public_kind(kind) for kind in ("table", "graph_edge", "kv", "geo_vector", "refresh")]
    ['row', 'edge', 'kv', 'vector', 'item']
    """
    if entity_kind in _KINDS:
        return _KINDS[entity_kind]
    return next((kind for kind in ("kv", "document", "vector") if kind in entity_kind), "item")


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One change of one entity, or the refresh of a whole collection.

    >>> record = ChangeRecord.for_refresh(11, 99, "totals", [b"\\x10", b""]).with_term(4)
    >>> record.encode()[-54:]
    b'"rid":0,"kind":"item","refresh_records_hex":["10",""]}'
    >>> ChangeRecord.decode(record.encode()).refresh_records
    (b'\\x10', b'')
    """

    lsn: int
    timestamp: int
    """When it happened, in milliseconds since 1970."""
    operation: ChangeOperation
    collection: str
    entity_id: int = 0
    entity_kind: str = "entity"
    entity_bytes: bytes | None = None
    """The entity as it is stored; deletes and refreshes have none."""
    metadata: Any = ABSENT
    """Any JSON value; `ABSENT` and None (an explicit null) are kept apart."""
    refresh_records: tuple[bytes, ...] | None = None
    """Of a refresh, the new content, in order; an empty entry is an entry."""
    term: int = DEFAULT_TERM

    def __post_init__(self) -> None:
        for name in ("lsn", "timestamp", "entity_id", "term"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
                raise _unfit(f"{name} is {value!r}", "Give an integer from 0 to 2**64 - 1.")
        if not isinstance(self.operation, ChangeOperation):
            raise _unfit(f"the operation is {self.operation!r}", "Give a member of ChangeOperation.")
        for name in ("collection", "entity_kind"):
            if not _is_text(getattr(self, name)):
                raise _unfit(f"{name} is {getattr(self, name)!r}", "Give Unicode text.")
        if not isinstance(self.entity_bytes, bytes | None):
            raise _unfit(f"entity_bytes is {self.entity_bytes!r}", "Give bytes, or None.")
        for record in self.refresh_records or ():
            if not isinstance(record, bytes):
                raise _unfit(f"a refresh record is {record!r}", "Give bytes; an empty entry is b''.")
        if self.metadata is not ABSENT:
            _check_json(self.metadata)

    @classmethod
    def for_entity(
        cls,
        lsn: int,
        timestamp: int,
        operation: ChangeOperation,
        collection: str,
        *,
        entity_id: int,
        entity_kind: str,
        entity_bytes: bytes,
        metadata: Any = ABSENT,
    ) -> ChangeRecord:
        """The record of an entity's change; only an insert and an update carry its bytes."""
        carried = entity_bytes if operation in (ChangeOperation.INSERT, ChangeOperation.UPDATE) else None
        return cls(lsn, timestamp, operation, collection, entity_id, entity_kind, carried, metadata)

    @classmethod
    def for_refresh(cls, lsn: int, timestamp: int, collection: str, records: Iterable[bytes]) -> ChangeRecord:
        """The record that replaces a collection's whole content by ``records``."""
        return cls(
            lsn,
            timestamp,
            ChangeOperation.REFRESH,
            collection,
            entity_kind="refresh",
            refresh_records=tuple(records),
        )

    def with_term(self, term: int) -> ChangeRecord:
        """The same record, written under another term."""
        return replace(self, term=term)

    @property
    def rid(self) -> int:
        """The entity's number, by its public name."""
        return self.entity_id

    @property
    def kind(self) -> str:
        """The entity's kind, by its public name."""
        return public_kind(self.entity_kind)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object. The kind goes out by its public name."""
        value: dict[str, Any] = {
            "term": self.term,
            "lsn": self.lsn,
            "timestamp": self.timestamp,
            "operation": self.operation.value,
            "collection": self.collection,
            "rid": self.entity_id,
            "kind": self.kind,
        }
        if self.entity_bytes is not None:
            value["entity_bytes_hex"] = self.entity_bytes.hex()
        if self.metadata is not ABSENT:
            value["metadata"] = self.metadata
        if self.refresh_records is not None:
            value["refresh_records_hex"] = [record.hex() for record in self.refresh_records]
        return value

    def encode(self) -> bytes:
        """The record as JSON bytes. Integers are written as integers, whatever their size."""
        value = self.to_json()
        try:
            return orjson.dumps(value)
        except TypeError:
            # An integer of more than 64 bits in the metadata: the standard library writes those too.
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> ChangeRecord:
        """The record in these JSON bytes.

        * ``operation`` missing, not text, or not one of the four: an error.
        * ``term``: else 1. ``lsn``, ``timestamp``: else 0. ``collection``: else "".
        * ``rid``; ``entity_id`` when there is no ``rid``: else 0. ``kind``; ``entity_kind`` when there is
          no ``kind``: else "entity".
        * ``entity_bytes_hex``: hex digits, else an error; not text, or missing: no bytes.
        * ``refresh_records_hex``: missing or null: none; not an array of hex texts: an error.
        * ``metadata``: as it is; missing is `ABSENT`.

        "Else" is also for a value of another JSON type, and for a number that is not a whole one from 0
        to 2**64 - 1. A whole number is taken also where it is written as a double (``7.0``).

        >>> ChangeRecord.decode(b'{"operation": "delete", "lsn": 9, "entity_id": 5, "kind": "row"}').rid
        5
        """
        value = _parse(data)
        operation = value.get("operation")
        if not isinstance(operation, str) or operation not in _OPERATIONS:
            raise _malformed(
                "there is no operation" if operation is None else f"the operation is {operation!r}"
            )
        entity_hex = value.get("entity_bytes_hex")
        kind = value["kind"] if "kind" in value else value.get("entity_kind")
        collection = value.get("collection")
        metadata = value.get("metadata", ABSENT)
        try:
            if metadata is not ABSENT and _check_json(metadata):
                metadata = _parse_exactly(data)["metadata"]
            return cls(
                term=_whole(value.get("term"), DEFAULT_TERM),
                lsn=_whole(value.get("lsn"), 0),
                timestamp=_whole(value.get("timestamp"), 0),
                operation=_OPERATIONS[operation],
                collection=collection if isinstance(collection, str) else "",
                entity_id=_whole(value["rid"] if "rid" in value else value.get("entity_id"), 0),
                entity_kind=kind if isinstance(kind, str) else "entity",
                entity_bytes=_bytes(entity_hex, "entity_bytes_hex") if isinstance(entity_hex, str) else None,
                metadata=metadata,
                refresh_records=_refresh_records(value.get("refresh_records_hex")),
            )
        except InvalidArgument as error:
            raise _malformed(error.what) from error


def changed_columns(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[str] | None:
    """The columns that an update touched: changed, removed, then added ones; None when that is unknown.

    >>> changed_columns({"id": 1, "age": 41, "fax": "-"}, {"id": 1, "age": 42, "mail": "@"})
    ['age', 'fax', 'mail']
    >>> changed_columns(None, {"id": 1}) is None
    True
    """
    if before is None or after is None:
        return None
    touched = [name for name in before if name not in after or not _same(before[name], after[name])]
    return touched + [name for name in after if name not in before]


def changed_columns_many(
    before: pa.RecordBatch, after: pa.RecordBatch, known: npt.ArrayLike | None = None
) -> pa.ListArray:
    """`changed_columns` of many updates at once: row i of ``before`` became row i of ``after``.

    A column of only one side is touched in every row, and so is one whose type is another. Rows where
    ``known`` is false have NULL: of them one side is missing. O(rows × columns), without a Python row.

    >>> before, after = pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [1, 3]})
    >>> changed_columns_many(before, after).to_pylist()
    [[], ['id']]
    """
    rows = before.num_rows
    names = before.schema.names + [name for name in after.schema.names if name not in before.schema.names]
    for batch in (before, after):
        if batch.num_rows != rows or len(set(batch.schema.names)) < batch.num_columns:
            raise InvalidArgument(
                f"there are {rows} rows of ({', '.join(before.schema.names)}) before "
                f"and {after.num_rows} of ({', '.join(after.schema.names)}) after",
                subject="changed_columns_many",
                hint="Pair the rows one to one, and give each column a name of its own.",
            )
    touched = np.ones((rows, len(names)), np.bool_)
    for i, name in enumerate(names):
        if name in before.schema.names and name in after.schema.names:
            old, new = _decoded(before.column(name)), _decoded(after.column(name))
            if old.type == new.type:
                touched[:, i] = ~same_rows([old], [new], rows)
    unknown = np.zeros(rows, np.bool_) if known is None else ~np.asarray(known, np.bool_)
    if unknown.shape != (rows,):
        raise InvalidArgument(
            f"known has the shape {unknown.shape}", subject="changed_columns_many", hint="Give one per row."
        )
    touched[unknown] = False
    ends = np.cumsum(touched.sum(axis=1), dtype=np.int32)
    columns = pa.array(np.nonzero(touched)[1])
    return pa.ListArray.from_arrays(
        pa.array(np.concatenate([np.zeros(1, np.int32), ends])),
        pa.array(names, pa.string()).take(columns),
        mask=pa.array(unknown),
    )


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _same(left: Any, right: Any) -> bool:
    """As rows compare: one NaN, and a truth value is not a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _parse(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _malformed(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _malformed("it is not a JSON object")
    return value


def _parse_exactly(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """As `_parse`, which has accepted the data; but integers beyond 64 bits stay integers."""
    try:
        value: dict[str, Any] = json.loads(bytes(data))
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error
    return value


def _whole(value: Any, default: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    return value if good else default


def _bytes(text: str, field: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as error:
        raise _malformed(f"{field} is not hex digits: {error}") from error


def _refresh_records(value: Any) -> tuple[bytes, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _malformed("refresh_records_hex is not an array")
    if not all(isinstance(entry, str) for entry in value):
        raise _malformed("an entry of refresh_records_hex is not text")
    return tuple(_bytes(entry, "refresh_records_hex") for entry in value)


def _check_json(value: Any, depth: int = 0) -> bool:
    """Refuse what JSON cannot hold; whether there is a number that may have been a longer integer."""
    if depth > _DEEPEST:
        raise _unfit(f"the metadata is nested more than {_DEEPEST} deep", "Flatten it.")
    if isinstance(value, dict):
        if not all(map(_is_text, value)):
            raise _unfit("a name in the metadata is not Unicode text", "Give text as names.")
        value = list(value.values())
    if isinstance(value, list):
        return max((_check_json(item, depth + 1) for item in value), default=False)  # looks at all of them
    if isinstance(value, float) and math.isfinite(value):
        return abs(value) >= 2.0**63
    if value is None or isinstance(value, bool | int) or _is_text(value):
        return False
    raise _unfit(
        f"the metadata holds {value!r}", "Use what JSON has: null, truth values, numbers, text, lists, dicts."
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or not _SURROGATE.search(value))


def _unfit(what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(what, subject="ChangeRecord", hint=hint)


def _malformed(what: str) -> MalformedMessage:
    return MalformedMessage(what, subject="ChangeRecord", hint="Look at what wrote the record.")
