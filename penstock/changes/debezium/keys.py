"""Message keys as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.changes.debezium.cells import cells
from penstock.changes.debezium.images import Column
from penstock.changes.debezium.infer import infer
from penstock.changes.debezium.misfit import Misfit, of_field, shown
from penstock.changes.debezium.types import ConnectType, arrow_type, connect_type

__all__ = ["check_key", "read_keys"]


def check_key(key: object) -> None:
    """A key is an object of columns, or there is none."""
    if key is not None and type(key) is not dict:
        hint = "Use the JSON converter for keys as for values, or leave keys= out."
        raise Misfit(0, f"{shown(key)} is not an object of key columns", hint, ".key")


def read_keys(
    keys: Sequence[dict[str, Any] | None], told: Mapping[str, ConnectType], columns: Mapping[str, Column]
) -> pa.RecordBatch | None:
    """One row per key, NULL where there is none; None when no message has a key.

    A column's type is the one it has in the rows; else the one that ``told``, the keys' own schema, says;
    else what JSON shows.
    """
    names = list(dict.fromkeys(chain.from_iterable(key for key in keys if key is not None)))
    if not names:
        return None
    fields, arrays = [], []
    for name in names:
        with of_field("key"), of_field(name):
            values = [None if key is None else key.get(name) for key in keys]
            column = columns.get(name)
            kind = told.get(name) or (None if column is None else column.kind)
            if column is not None:
                target = column.field.type
            else:
                target = infer(values) if kind is None else arrow_type(kind)
            arrays.append(cells(values, kind or connect_type(target), target))
            fields.append(pa.field(name, target))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
