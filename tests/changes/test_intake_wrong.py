from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.changes.intake import rows_of
from penstock.errors import InvalidArgument, SchemaMismatch

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("customer", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
TABLE = pa.table({name: [] for name in ORDERS.names}, schema=ORDERS)
CUSTOMER = "Did you mean 'customer'? The columns are id, customer, amount, at."


@pytest.mark.parametrize(
    ("data", "what", "hint"),
    [
        ([{"id": 1, "custmer": "a"}], "row 0: there is no column 'custmer'", CUSTOMER),
        ([{"id": 1}, {"ID": 2}], "row 1: there is no column 'ID'", "Did you mean 'id'?"),
        (pa.table({"amnt": [1]}), "there is no column 'amnt'", "Did you mean 'amount'?"),
        ({"id": 1, 5: 2}, "there is no column 5", "The columns are"),
        (pd.DataFrame({("a", "b"): [1]}), "there is no column ('a', 'b')", "The columns are"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "the column 'id' is there more than once", ""),
        ([{"customer": "a"}], "row 0, column 'id' is not given, and the column is NOT NULL", "Give every"),
        ([{"id": 1}, {"id": None}], "row 1, column 'id' is NULL, and the column is NOT NULL", ""),
        ([{"id": 1}, {"customer": "x"}], "row 1, column 'id' is NULL", ""),
        (pa.table({"id": [1, None]}), "row 1, column 'id' is NULL", ""),
        ([(1, "a")], "row 0 has 2 values and not 4", "Give values for id, customer, amount, at"),
        ([(1, "a", 1, None), (1,)], "row 1 has 1 values and not 4", ""),
        ([{"id": 1}, (1, 2, 3, 4)], "row 1 is (1, 2, 3, 4), a tuple, and row 0 is a dict", ""),
        ([1, 2], "row 0 is 1, a int", "Give Arrow"),
        (["ab"], "row 0 is 'ab', a str", ""),
        (None, "None is not rows", "Give Arrow"),
        ("id", "'id' is not rows", ""),
        (5, "5 is not rows", ""),
        (np.zeros((2, 2)), "is not rows", ""),
        ({"id": [1, 2], "customer": ["a"]}, "column 'customer' has 1 values and the column 'id' has 2", ""),
        ([namedtuple("P", ["id", "nope"])(1, 2)], "there is no column 'nope'", ""),
        (object(), "is not rows", ""),
    ],
    ids=lambda it: it[:30] if isinstance(it, str) else type(it).__name__,
)  # fmt: skip
def test_what_is_not_rows_of_the_table_is_refused(data: Any, what: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rows_of(data, ORDERS, subject="table 'orders'")
    assert "table 'orders'" in str(caught.value)
    assert what in str(caught.value)
    assert hint in caught.value.hint


def test_a_stream_that_is_none_is_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return "no capsule"

    with pytest.raises(InvalidArgument, match="Broken cannot be read as Arrow data"):
        rows_of(Broken(), ORDERS)


def test_columns_that_are_asked_for_must_be_there_once() -> None:
    with pytest.raises(SchemaMismatch, match="there is no column 'idd'"):
        rows_of([(1,)], ORDERS, columns=["idd"])
    with pytest.raises(InvalidArgument, match="the column 'id' is named twice"):
        rows_of([(1, 1)], ORDERS, columns=["id", "id"])
    with pytest.raises(SchemaMismatch, match="there are 4 columns and not 1"):
        rows_of(TABLE, ORDERS, columns=["id"])
