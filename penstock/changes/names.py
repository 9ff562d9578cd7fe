"""The names Penstock keeps for itself in a batch of changes.

A batch of changes is the user's columns followed by these four. Every name that begins with one
underscore is reserved, so that later versions may add a column without breaking anybody's table.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.errors import InvalidArgument, ReservedName

__all__ = ["LSN", "META_FIELDS", "OP", "TS", "WEIGHT", "check_user_schema", "is_reserved", "user_columns"]

OP = "_op"
WEIGHT = "_weight"
LSN = "_lsn"
TS = "_ts"

META_FIELDS: tuple[pa.Field, ...] = (
    pa.field(OP, pa.int8(), nullable=False),
    pa.field(WEIGHT, pa.int64(), nullable=False),
    pa.field(LSN, pa.int64(), nullable=False),
    pa.field(TS, pa.timestamp("us", tz="UTC"), nullable=False),
)


def is_reserved(name: str) -> bool:
    """Whether a column of this name is Penstock's own: it begins with exactly one underscore.

    >>> [is_reserved(name) for name in ("_op", "_anything", "__mine", "op_")]
    [True, True, False, False]
    """
    return name.startswith("_") and not name.startswith("__")


def user_columns(names: Iterable[str]) -> list[str]:
    """The names that are the user's, in their order."""
    return [name for name in names if not is_reserved(name)]


def check_user_schema(schema: pa.Schema, subject: str) -> None:
    """Refuse a schema whose columns cannot be a user's: reserved, or twice the same name."""
    for name in schema.names:
        if is_reserved(name):
            raise ReservedName(
                f"the column {name!r} begins with one underscore, and such names are Penstock's own",
                subject=subject,
                hint=f"Rename it, for instance to {name.lstrip('_') or 'column'!r}.",
            )
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgument(
            f"the column {twice[0]!r} is there more than once",
            subject=subject,
            hint="Give each column a name of its own.",
        )
