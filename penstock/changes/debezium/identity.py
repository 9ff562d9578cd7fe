"""Which before images hold nothing but the key.

PostgreSQL sends of the old row what the table's REPLICA IDENTITY says: all of it (FULL), or the key
(DEFAULT), or some index's columns (USING INDEX). Debezium fills the other columns in: with NULL, with the
column's default when it has one, and with zero where NULL is not allowed. Nothing in a message says which it
was. So, as long as nobody tells, an image counts as whole only when no column outside the key holds what
filling in can have put there. To be wrong the other way round would take a row out of a table that never was
in it; to be wrong this way costs a look into the keyed table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.changes.debezium.images import Column

__all__ = ["ReplicaIdentity", "key_only"]

Json = dict[str, Any]
Bools = npt.NDArray[np.bool_]
ReplicaIdentity = Literal["unknown", "full", "default"]

_ALWAYS_WHOLE = frozenset(["mysql", "mariadb", "sqlserver", "oracle", "db2", "penstock"])


def key_only(
    befores: Sequence[Json | None],
    ops: Sequence[str],
    keys: Sequence[Any] | None,
    columns: Mapping[str, Column],
    connector: str | None,
    identity: ReplicaIdentity,
) -> Bools:
    """For each event, whether it has a before image that must not be taken for the whole old row.

    One update without any before image shows that the table's identity is not FULL, and settles it for all.
    A table without a key must be FULL, or PostgreSQL refuses to change its rows. Without ``keys`` nobody
    knows which columns the key has, so none is left out.
    """
    present = np.array([before is not None for before in befores], np.bool_)
    if identity == "full" or (identity == "unknown" and connector in _ALWAYS_WHOLE):
        return np.zeros(len(present), np.bool_)
    updates = np.array([op == "u" for op in ops], np.bool_)
    if identity == "default" or (updates & ~present).any():
        return present
    found = np.zeros(len(present), np.bool_)
    for event in np.flatnonzero(present).tolist():
        key = () if keys is None else keys[event]
        if key is not None:
            found[event] = any(
                name not in key and _filled_in(value, columns.get(name))
                for name, value in (befores[event] or {}).items()
            )
    return found


def _filled_in(value: Any, column: Column | None) -> bool:
    """Whether Debezium may have put the value there for want of one."""
    if value is None:
        return True
    if column is None or not column.told:
        return _is_zero(value)
    if column.kind.default is not None and value == column.kind.default:
        return True
    return not column.kind.optional and _is_zero(value)


def _is_zero(value: Any) -> bool:
    if type(value) is dict:
        value = value.get("value", value)  # a number with its scale
    if type(value) is str:
        return value in ("", "AA==") or value.startswith(("1970-01-01", "00:00:00"))
    return not value
