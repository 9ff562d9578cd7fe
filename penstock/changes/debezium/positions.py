"""Where in its source an event stands: `Collection` says in which table, `POSITION` when, in what order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.cells import cells
from penstock.changes.debezium.misfit import Misfit, of_field, shown
from penstock.changes.debezium.scalars import check
from penstock.changes.debezium.types import ConnectType

__all__ = ["MOMENT", "POSITION", "Collection", "collection_of", "moments", "positions"]

Json = dict[str, Any]

MOMENT = pa.timestamp("us", "UTC")
_TEXT, _LONG = ConnectType("string"), ConnectType("int64")
_HINT = "Check what wrote the message; only the sources of PostgreSQL, MySQL and Penstock are read."

POSITION = pa.schema(
    [
        ("snapshot", pa.string()),
        ("ts", MOMENT),
        ("lsn", pa.int64()),
        ("tx_id", pa.int64()),
        ("sequence", pa.string()),
        ("gtid", pa.string()),
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("row", pa.int64()),
        ("transaction", pa.string()),
        ("total_order", pa.int64()),
        ("collection_order", pa.int64()),
        ("processed", MOMENT),
    ]
)
"""``ts`` is the commit's time and ``processed`` the connector's. PostgreSQL tells ``lsn``, ``tx_id`` and
``sequence``; MySQL tells ``gtid``, ``file``, ``pos`` and ``row``; what a source does not tell is NULL."""


class Collection(NamedTuple):
    """The table that an event is about, as its message's ``source`` names it."""

    connector: str | None
    name: str | None
    db: str | None
    schema: str | None
    table: str

    @property
    def id(self) -> str:
        """The name that transaction events count it under: ``schema.table``, or ``db.table`` without schemas.

        >>> Collection("mysql", "my", "inv", None, "t").id
        'inv.t'
        """
        within = self.schema or self.db
        return f"{within}.{self.table}" if within else self.table


def collection_of(payload: Json) -> Collection:
    """What the event is about; checks that there is a source to ask."""
    source = payload.get("source")
    if type(source) is not dict:
        raise Misfit(0, f"{shown(source)} is not an object", _HINT, ".source")
    connector, name, db = source.get("connector"), source.get("name"), source.get("db")
    schema, table = source.get("schema"), source.get("table")
    try:
        return _collection(connector, name, db, schema, table)
    except TypeError:  # something in it cannot be hashed, so it is no text
        return _checked(connector, name, db, schema, table)


def _checked(connector: Any, name: Any, db: Any, schema: Any, table: Any) -> Collection:
    told = Collection(connector, name, db, schema, table)
    for part, value in zip(Collection._fields, told, strict=True):
        if type(value) is not str and (value is not None or part == "table"):
            raise Misfit(0, f"{shown(value)} is not text", _HINT, f".source.{part}")
    return told


_collection = lru_cache(maxsize=1024)(_checked)


def positions(payloads: Sequence[Json]) -> pa.RecordBatch:
    """The positions of events, one row each."""
    sources = [payload.get("source") for payload in payloads]
    columns: dict[str, pa.Array] = {}
    with of_field("source"):
        check(sources, frozenset(map(type, sources)), frozenset([dict]), "an object")
        columns["ts"] = moments(sources)
        for column in ("snapshot", "sequence", "gtid", "file"):
            columns[column] = _texts(sources, column)
        for column, told in (("lsn", "lsn"), ("tx_id", "txId"), ("pos", "pos"), ("row", "row")):
            columns[column] = _longs(sources, told)
    with of_field("transaction"):
        blocks = [payload.get("transaction") for payload in payloads]
        check(blocks, frozenset(map(type, blocks)), frozenset([dict, type(None)]), "an object")
        inside = [block or {} for block in blocks]
        columns["transaction"] = _texts(inside, "id")
        columns["total_order"] = _longs(inside, "total_order")
        columns["collection_order"] = _longs(inside, "data_collection_order")
    columns["processed"] = moments(payloads)
    return pa.RecordBatch.from_arrays([columns[name] for name in POSITION.names], schema=POSITION)


def _longs(documents: Sequence[Any], name: str) -> pa.Array:
    with of_field(name):
        return cells([document.get(name) for document in documents], _LONG, pa.int64())


def _texts(documents: Sequence[Any], name: str) -> pa.Array:
    """Text; truth values and integers, which some versions write in its place, as JSON spells them."""
    values = [document.get(name) for document in documents]
    types = frozenset(map(type, values))
    if bool in types or int in types:
        values = [str(value).lower() if type(value) in (bool, int) else value for value in values]
    with of_field(name):
        return cells(values, _TEXT, pa.string())


def moments(documents: Sequence[Any]) -> pa.Array:
    """The finest time that each document tells, as ``ts_us``, ``ts_ms`` or ``ts_ns``, in microseconds."""
    micros = _longs(documents, "ts_us")
    if micros.null_count:
        millis = _longs(documents, "ts_ms")
        limit = (2**63 - 1) // 1000
        far = pc.fill_null(pc.or_(pc.greater(millis, limit), pc.less(millis, -limit)), False)
        if pc.any(far).as_py():
            at = int(pc.index(far, True).as_py())
            raise Misfit(at, f"{millis[at]} ms is beyond 64 bits of microseconds", _HINT, ".ts_ms")
        micros = pc.coalesce(micros, pc.multiply(millis, 1000))
    if micros.null_count:
        micros = pc.coalesce(micros, pc.divide(_longs(documents, "ts_ns"), 1000))
    return micros.view(MOMENT)
