"""Every message that Debezium 3.6.3 sent for MySQL 8 is decoded right, value by value."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from penstock.changes.debezium import Decoded, Kind, decode
from penstock.errors import MalformedMessage
from tests.changes.debezium_fixtures import as_wire, fixture, said, wrapped
from tests.changes.debezium_golden_mysql import EXPECTED, SCHEMA

LINES = fixture("mysql")
FORMS = ["plain", "wrapped", "spaced"]


def _optional(name: str, kind: str, semantic: str | None = None, **more: Any) -> dict[str, Any]:
    named = {} if semantic is None else {"name": semantic, "version": 1}
    return {"type": kind, "optional": True, **named, **more, "field": name}


ROW = [
    {"type": "int32", "optional": False, "field": "id"},
    _optional("n", "string"),
    _optional(
        "a",
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        parameters={"scale": "2", "connect.decimal.precision": "8"},
    ),
    _optional("dt", "int64", "io.debezium.time.MicroTimestamp"),
    _optional("ts", "string", "io.debezium.time.ZonedTimestamp"),
    _optional("d", "int32", "io.debezium.time.Date"),
    _optional("j", "string", "io.debezium.data.Json"),
    _optional("e", "string", "io.debezium.data.Enum", parameters={"allowed": "x,y"}),
    _optional("b", "int16"),
    _optional("u", "int64"),
]
"""The connector's own types of the table's columns, by its documentation: the fixture has no schemas."""

ENVELOPE = {
    "type": "struct",
    "fields": [
        {"type": "struct", "fields": ROW, "optional": True, "field": side} for side in ("before", "after")
    ],
    "optional": False,
    "name": "my.inv.t.Envelope",
    "version": 2,
}


@cache
def decoded_from(form: str) -> Decoded:
    """All messages, decoded from one of their forms."""
    keys = [as_wire(line.key) for line in LINES]
    if form == "plain":
        return decode([as_wire(line.value) for line in LINES], {"inv.t": SCHEMA}, keys)
    whole = [wrapped(line.value, ENVELOPE) for line in LINES]
    # Of what the wire says, TINYINT(1) is wanted as a truth value: so the schema is given here too.
    return decode([as_wire(message, spaced=form == "spaced") for message in whole], SCHEMA, keys)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", range(len(LINES)))
def test_a_line_says_what_the_database_did(line: int, form: str) -> None:
    # As text, because True equals 1; the parts of a message stand in the order of its columns.
    assert repr(said(decoded_from(form))[line]) == repr(EXPECTED[line])


@pytest.mark.parametrize("form", FORMS)
def test_every_line_is_told_once_and_in_its_place(form: str) -> None:
    decoded = decoded_from(form)
    assert len(decoded) == len(LINES) == len(EXPECTED) == len(said(decoded)) == 23
    assert [Kind(kind).name for kind in decoded.kinds.tolist()] == [event["kind"] for event in EXPECTED]


def test_binary_logs_tell_whole_rows_so_all_is_known() -> None:
    (events,) = decoded_from("plain").rows
    assert events.known.all()
    changes = events.changes().select(["id", "n", "_op", "_weight"]).to_pylist()
    assert [tuple(change.values()) for change in changes] == [
        (1, "snap", 0, 1),
        (2, "i", 0, 1),
        (2, "i", 1, -1),
        (2, "u", 2, 1),
        (2, "u", 3, -1),
        (3, "u", 0, 1),
        (3, "u", 3, -1),
    ]


def test_the_wire_alone_tells_a_truth_value_as_a_small_integer() -> None:
    (events,) = decode([as_wire(wrapped(LINES[13].value, ENVELOPE))]).rows
    assert events.schema.field("b").type == pa.int16()
    assert events.after.column("b").to_pylist() == [1]


def test_an_unsigned_integer_that_arrived_negative_is_refused_and_the_way_out_is_told() -> None:
    unsigned = SCHEMA.set(9, pa.field("u", pa.uint64()))
    with pytest.raises(MalformedMessage) as error:
        decode([as_wire(line.value) for line in LINES], unsigned)
    assert error.value.subject == "message 13"
    assert "after.u" in error.value.what
    assert "-1" in error.value.what
