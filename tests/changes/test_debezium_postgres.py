"""Every message that Debezium 3.6.3 sent for PostgreSQL 15 is decoded right, value by value."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.changes.debezium import Decoded, Kind, decode
from tests.changes.debezium_fixtures import as_wire, fixture, said, unwrapped, wrapped
from tests.changes.debezium_golden_postgres import EXPECTED, SCHEMAS

LINES = fixture("postgres")
PLAIN_KEYS = [as_wire(unwrapped(line.key)) for line in LINES]
ENVELOPE = next(
    line.value["schema"] for line in LINES if line.topic == "app.inv.customers" and line.run == "schemas-on"
)
"""The schema of a change of customers, as the connector itself wrote it."""


def _envelope(row: Any) -> Any:
    """The schema of changes of another table, whose rows are the struct ``row``."""
    before, after, *rest = ENVELOPE["fields"]
    images = [{**image, "fields": row["fields"]} for image in (before, after)]
    return {**ENVELOPE, "fields": [*images, *rest]}


OTHERS = {
    "app.inv.customers": ENVELOPE,
    "app.inv.full_id": _envelope(
        {
            "fields": [
                {"type": "int32", "optional": False, "field": "id"},
                {"type": "string", "optional": True, "field": "v"},
            ]
        }
    ),
    "app.inv.nopk": _envelope(
        {
            "fields": [
                {"type": "int32", "optional": True, "field": "a"},
                {"type": "string", "optional": True, "field": "b"},
            ]
        }
    ),
    "app.message": {
        "type": "struct",
        "fields": [],
        "optional": False,
        "name": "io.debezium.connector.postgresql.MessageValue",
    },
    "app.transaction": LINES[52].value["schema"],
}


FORMS = ["as sent", "plain", "wrapped", "spaced"]


@cache
def decoded_from(form: str) -> Decoded:
    """All messages, decoded from one of their forms."""
    if form == "as sent":  # most without a schema, which is then given; the last ones with their own
        return decode([as_wire(line.value) for line in LINES], SCHEMAS, [as_wire(line.key) for line in LINES])
    if form == "plain":
        return decode([as_wire(unwrapped(line.value)) for line in LINES], SCHEMAS, PLAIN_KEYS)
    whole = [wrapped(unwrapped(line.value), OTHERS[line.topic]) for line in LINES]
    return decode([as_wire(message, spaced=form == "spaced") for message in whole], keys=PLAIN_KEYS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", range(len(LINES)))
def test_a_line_says_what_the_database_did(line: int, form: str) -> None:
    # As text, because NaN equals nothing and True equals 1.
    assert repr(said(decoded_from(form))[line]) == repr(EXPECTED[line])


@pytest.mark.parametrize("form", FORMS)
def test_every_line_is_told_once_and_in_its_place(form: str) -> None:
    decoded = decoded_from(form)
    assert len(decoded) == len(LINES) == len(EXPECTED) == len(said(decoded)) == 58
    assert [Kind(kind).name for kind in decoded.kinds.tolist()] == [event["kind"] for event in EXPECTED]
    parts = [part.index for part in (*decoded.rows, *decoded.tombstones)]
    notices = (decoded.truncates, decoded.logical, decoded.transactions)
    parts += [batch.column("index").to_numpy() for batch in notices]
    assert np.sort(np.concatenate(parts)).tolist() == list(range(58))


@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_the_columns_have_the_tables_types_however_they_are_told(form: str) -> None:
    found = {part.collection.id: part.schema for part in decoded_from(form).rows}
    assert found == SCHEMAS


def test_each_table_tells_where_it_is() -> None:
    assert [part.collection for part in decoded_from("plain").rows] == [
        ("postgresql", "app", "postgres", "inv", "customers"),
        ("postgresql", "app", "postgres", "inv", "full_id"),
        ("postgresql", "app", "postgres", "inv", "nopk"),
    ]


def test_updates_of_a_table_without_full_identity_are_kept_as_before_unknown() -> None:
    customers, full_id, nopk = decoded_from("plain").rows
    assert customers.index[customers.before_unknown].tolist() == [7, 34, 40, 43, 54]
    assert not full_id.before_unknown.any()
    assert not nopk.before_unknown.any()


def test_only_what_is_wholly_told_is_known() -> None:
    customers, full_id, nopk = decoded_from("plain").rows
    assert customers.index[customers.known].tolist() == [0, 1, 4, 12, 32, 33, 37, 53]
    assert full_id.known.all()
    assert nopk.known.all()


def test_tables_with_full_identity_come_out_as_changes() -> None:
    _, full_id, nopk = decoded_from("plain").rows
    changes = full_id.changes()
    assert changes.schema.names == ["id", "v", "_op", "_weight", "_lsn", "_ts"]
    assert changes.drop_columns(["_ts"]).to_pylist() == [
        {"id": 1, "v": "a", "_op": 0, "_weight": 1, "_lsn": 60956136},
        {"id": 1, "v": "a", "_op": 1, "_weight": -1, "_lsn": 60957000},
        {"id": 1, "v": "b", "_op": 2, "_weight": 1, "_lsn": 60957000},
        {"id": 1, "v": "b", "_op": 3, "_weight": -1, "_lsn": 60957136},
    ]
    moments = changes.column("_ts").cast(pa.int64()).to_pylist()
    assert moments == [1795037988412717, 1795037989706195, 1795037989706195, 1795037989706464]
    assert nopk.changes().select(["a", "b", "_op"]).to_pylist() == [
        {"a": 1, "b": "x", "_op": 0},
        {"a": 1, "b": "x", "_op": 1},
        {"a": 1, "b": "y", "_op": 2},
        {"a": 1, "b": "y", "_op": 3},
    ]


def test_without_any_schema_the_values_are_what_json_shows() -> None:
    plain = decode([as_wire(unwrapped(line.value)) for line in LINES], keys=PLAIN_KEYS)
    customers = plain.rows[0]
    assert customers.after.slice(0, 1).to_pylist() == [
        {
            "id": 1,
            "name": "snap 1",
            "email": "s@x",
            "balance": "AJY=",
            "created": "2024-01-02T03:04:05.678901Z",
            "ts": 1704164645678901,
            "d": 19724,
            "active": True,
            "meta": '{"a": [1]}',
            "tags": ["x", "y"],
            "u": "11111111-2222-3333-4444-555555555555",
            "bin": "AP8=",
            "f": 1.25,
            "extra": None,
        }
    ]
    assert [str(kind) for kind in customers.schema.types] == [
        *("int64", "string", "string", "string", "string", "int64", "int64", "bool", "string"),
        *("list<item: string>", "string", "string", "double", "int64"),
    ]
    assert customers.unavailable["meta"].nonzero()[0].tolist() == [12]
    assert customers.index[12] == 43
