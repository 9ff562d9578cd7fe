"""Which rows of a batch have a key that is meant: one value, a prefix, or any. Whole columns at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.rows import same_rows
from penstock.errors import InvalidArgument
from penstock.log.meta import Collection

__all__ = ["KeyMatch"]

Bools = npt.NDArray[np.bool_]


class KeyMatch:
    """Rows whose key equals a value, as rows are compared everywhere; or begins with a prefix; or all rows.

    >>> users = Collection(1, "users", pa.schema([("name", pa.string())]), ("name",))
    >>> names = pa.record_batch({"name": ["ada", "bob", None, "adam"]})
    >>> KeyMatch(users, None, "ada").rows(names).tolist()
    [True, False, False, True]
    """

    def __init__(self, collection: Collection, key: Any, prefix: str | None) -> None:
        subject = f"collection {collection.name!r}"
        if not collection.key:
            raise InvalidArgument("it has no key", subject=subject, hint="Read its changes with `tail`.")
        if key is not None and prefix is not None:
            raise InvalidArgument(
                f"both the key {key!r} and the prefix {prefix!r} are asked for",
                subject=subject,
                hint="Give one of them.",
            )
        self.columns = collection.key
        self._prefix = prefix
        self._values: list[pa.Array] | None = None
        fields = [collection.schema.field(name) for name in collection.key]
        if prefix is not None:
            _check_prefix(prefix, fields, subject)
        if key is not None:
            self._values = _values(key, fields, subject)

    def rows(self, data: pa.RecordBatch) -> Bools:
        """Whether each row's key is meant."""
        columns = [data.column(name) for name in self.columns]
        if self._prefix is not None:
            found: Bools = pc.fill_null(pc.starts_with(columns[0], self._prefix), False).to_numpy(
                zero_copy_only=False
            )
            return found
        if self._values is None:
            return np.ones(data.num_rows, np.bool_)
        first = pa.array(np.zeros(data.num_rows, np.int64))
        return same_rows(columns, [value.take(first) for value in self._values], data.num_rows)

    def keys(self, data: pa.RecordBatch) -> list[Any]:
        """The key of each row: a value, or a tuple where several columns are the key."""
        columns = [data.column(name).to_pylist() for name in self.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _check_prefix(prefix: str, fields: list[pa.Field], subject: str) -> None:
    texts = len(fields) == 1 and (
        pa.types.is_string(fields[0].type) or pa.types.is_large_string(fields[0].type)
    )
    if not texts or not isinstance(prefix, str):
        spelled = ", ".join(f"{field.name} {field.type}" for field in fields)
        raise InvalidArgument(
            f"the prefix {prefix!r} does not go with the key ({spelled})",
            subject=subject,
            hint="A prefix is text, for a key of one string column; else give a key.",
        )


def _values(key: Any, fields: list[pa.Field], subject: str) -> list[pa.Array]:
    """The key as one array of one row for each column."""
    parts = (key,) if len(fields) == 1 else key
    if not isinstance(parts, tuple) or len(parts) != len(fields):
        raise InvalidArgument(
            f"the key {key!r} is not a tuple of {len(fields)} values",
            subject=subject,
            hint=f"Give ({', '.join(field.name for field in fields)}).",
        )
    try:
        return [pa.array([part], field.type) for part, field in zip(parts, fields, strict=True)]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"the key {key!r} cannot be one of this collection ({error})",
            subject=subject,
            hint=f"Give ({', '.join(f'{field.name} {field.type}' for field in fields)}).",
        ) from error
