from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.changes.names import META_FIELDS, check_user_schema, is_reserved, user_columns
from penstock.changes.op import EventType, Op
from penstock.errors import InvalidArgument, ReservedName


def test_inserts_and_new_sides_add_deletes_and_old_sides_take_away() -> None:
    assert {op: op.weight for op in Op} == {
        Op.INSERT: 1,
        Op.UPDATE_BEFORE: -1,
        Op.UPDATE_AFTER: 1,
        Op.DELETE: -1,
    }
    assert [op for op in Op if op.is_insert] == [Op.INSERT, Op.UPDATE_AFTER]


def test_short_names_are_flinks_and_read_back() -> None:
    assert [op.short for op in Op] == ["+I", "-U", "+U", "-D"]
    assert [Op.from_short(op.short) for op in Op] == list(Op)
    assert Op.from_short("−D") is Op.DELETE
    with pytest.raises(InvalidArgument, match=r"'D'.*\+I"):
        Op.from_short("D")


def test_stored_numbers_never_change() -> None:
    assert [int(op) for op in (Op.INSERT, Op.UPDATE_BEFORE, Op.UPDATE_AFTER, Op.DELETE)] == [0, 1, 2, 3]
    assert [(kind.name, int(kind)) for kind in EventType] == [
        ("INSERT", 0),
        ("DELETE", 1),
        ("UPDATE", 2),
        ("WATERMARK", 3),
        ("SNAPSHOT", 4),
    ]


def test_event_types_weigh_what_stays() -> None:
    assert {kind: kind.weight for kind in EventType} == {
        EventType.INSERT: 1,
        EventType.DELETE: -1,
        EventType.UPDATE: 1,
        EventType.WATERMARK: 0,
        EventType.SNAPSHOT: 1,
    }


def test_only_a_watermark_has_no_data() -> None:
    assert [kind for kind in EventType if not kind.has_data] == [EventType.WATERMARK]


def test_both_sides_of_an_update_are_an_update() -> None:
    assert [EventType.from_op(op) for op in Op] == [
        EventType.INSERT,
        EventType.UPDATE,
        EventType.UPDATE,
        EventType.DELETE,
    ]


def test_names_beginning_with_one_underscore_are_penstocks() -> None:
    assert all(is_reserved(field.name) for field in META_FIELDS)
    assert user_columns(["a", "_op", "__b", "c_"]) == ["a", "__b", "c_"]


def test_a_reserved_or_repeated_column_is_refused_by_name() -> None:
    with pytest.raises(ReservedName, match=r"'_op'.*'op'"):
        check_user_schema(pa.schema([("_op", pa.int8())]), "table orders")
    with pytest.raises(InvalidArgument, match="'a' is there more than once"):
        check_user_schema(pa.schema([("a", pa.int8()), ("a", pa.int8())]), "table orders")
