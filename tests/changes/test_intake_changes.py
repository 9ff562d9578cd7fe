from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from penstock.changes import Op
from penstock.changes.intake import changes_of
from penstock.errors import InvalidArgument, SchemaMismatch
from tests.log.logs import make_log

USERS = pa.schema([("id", pa.int64()), ("name", pa.string())])
NAMES = {
    Op.INSERT: ["insert", "INSERT", "I", "+I", "i", 0, 0.0, Op.INSERT],
    Op.UPDATE_BEFORE: ["update_before", "-U", "−U", 1],
    Op.UPDATE_AFTER: ["update_after", "update", "U", "+U", 2],
    Op.DELETE: ["delete", "Delete", "D", "-D", "−d", 3],
}


@pytest.mark.parametrize(("op", "name"), [(op, name) for op, names in NAMES.items() for name in names])
def test_an_operation_has_many_names(op: Op, name: Any) -> None:
    assert changes_of([{"id": 1, "_op": name}], USERS).column("_op").to_pylist() == [op]
    column = pa.array([name, name] if isinstance(name, str) else [int(name)] * 2)
    for stored in (
        column,
        column.dictionary_encode(),
        pa.chunked_array([column.slice(1), column.slice(0, 1)]),
    ):
        table = pa.table({"id": [1, 2], "_op": stored})
        assert changes_of(table, USERS).column("_op").to_pylist() == [op, op]


def test_the_columns_are_those_of_a_log(tmp_path: Path) -> None:
    when = dt.datetime(2024, 1, 31, tzinfo=dt.UTC)
    old = {"_op": "-U", "id": 1, "name": "a", "_weight": -2, "_ts": "2024-01-31"}
    new = {"_op": "+U", "id": 1, "name": "b", "_weight": 2, "_ts": when}
    batch = changes_of([old, new], USERS)
    assert batch.schema.names == ["id", "name", "_op", "_weight", "_ts"]
    assert [str(it) for it in batch.schema.types[2:]] == ["int8", "int64", "timestamp[us, tz=UTC]"]
    with make_log(tmp_path / "log") as log:
        log.add_collection("users", USERS)
        assert log.append("users", batch).last == 1
        (changes,) = log.read("users")
        again = changes.rows.drop_columns(["_lsn"])
        assert changes_of(again, USERS).to_pylist() == batch.to_pylist()
        assert again.column("_ts").to_pylist() == [when, when]


def test_without_operations_there_are_only_rows() -> None:
    batch = changes_of([(1, "a"), (2, "b")], USERS)
    assert batch.schema == USERS
    assert changes_of(pd.DataFrame([[1, "a"]]), USERS).schema == USERS
    assert changes_of([], USERS).num_rows == 0
    weights = changes_of({"id": [1, 2], "_weight": [1, -1]}, USERS)
    assert weights.column("_weight").to_pylist() == [1, -1]


def test_one_dictionary_is_one_change() -> None:
    assert changes_of({"_op": "D", "id": 5}, USERS).to_pylist() == [{"id": 5, "name": None, "_op": 3}]


@pytest.mark.parametrize("bad", ["upsert", "", None, 4, -1, True, 1.5, b"I", float("nan"), "x" * 200])
def test_what_is_no_operation_is_refused(bad: Any) -> None:
    with pytest.raises(SchemaMismatch, match=r"table 't': row 1, column '_op': .* is not an operation"):
        changes_of([{"_op": "I", "id": 1}, {"_op": bad, "id": 1}], USERS, subject="table 't'")
    if bad is not True and not isinstance(bad, bytes):
        table = pa.table({"_op": pa.array([0 if isinstance(bad, int | float) else "I", bad])})
        with pytest.raises(SchemaMismatch, match=r"row 1, column '_op'"):
            changes_of(table, USERS)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ([{"_op": "I", "id": 1, "_weight": None}], "column '_weight' is NULL"),
        ([{"_op": "I", "id": 1, "_weight": 1.5}], "column '_weight': 1.5 is not taken as BIGINT"),
        ([{"_op": "I", "id": 1, "_ts": "now"}], "column '_ts': 'now' is not taken as TIMESTAMP"),
        ([{"op": "I", "id": 1}], "there is no column 'op'"),
        (pa.table({"id": [1], "_lsn": [1]}), "the changes have a column '_lsn'"),
        ([{"id": 1, "_lsn": 1}], "there is no column '_lsn'"),
        ([{"id": 1, "_changed": []}], "there is no column '_changed'"),
    ],
)
def test_what_does_not_fit_is_refused(data: Any, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        changes_of(data, USERS)


STRICT = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)]
)


def test_rows_that_go_need_no_more_than_their_key() -> None:
    rows = [{"_op": "D", "id": 1}, {"_op": "-U", "id": 2}, {"_op": "+U", "id": 2, "name": "b"}]
    batch = changes_of(rows, STRICT, key=["id"])
    assert batch.column("name").to_pylist() == [None, None, "b"]
    with pytest.raises(SchemaMismatch, match="row 0, column 'name' is NULL, and the column is NOT NULL"):
        changes_of(rows, STRICT)
    with pytest.raises(SchemaMismatch, match="row 1, column 'name' is NULL"):
        changes_of([*rows[:1], {"_op": "I", "id": 5}, *rows[1:]], STRICT, key=["id"])
    with pytest.raises(SchemaMismatch, match="row 0, column 'name' is not given"):
        changes_of([{"_op": "I", "id": 5}], STRICT, key=["id"])
    with pytest.raises(SchemaMismatch, match="row 0, column 'id' is not given"):
        changes_of([{"_op": "D", "name": "x"}], STRICT, key=["id"])
    assert changes_of([(1, "a")], STRICT, key=["id"]).schema == STRICT
