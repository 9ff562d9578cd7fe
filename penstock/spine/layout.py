"""`Layout`: what the rows of a spine look like, and what adding them up means."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.changes.rows import check_same_schema
from penstock.errors import InvalidArgument, MalformedMessage, SchemaMismatch, Unsupported
from penstock.spine.order import has_order

__all__ = ["END", "HASH", "WEIGHT", "Bools", "Int64s", "Layout", "UInt64s", "int64s"]

UInt64s: TypeAlias = npt.NDArray[np.uint64]
Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

HASH = "_hash"
END = 2**64
"""The end of the range of hashes, exclusive."""

_ENCODED = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_union,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_string_view,
    pa.types.is_binary_view,
)
_HASH_FIELD = pa.field(HASH, pa.int64(), nullable=False)
_WEIGHT_FIELD = pa.field(WEIGHT, pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a spine, its key, and which of two groups its content is an element of.

    * ``sums``: one row per key; every other column is int64 and is added up. A row of zeros is no row.
    * ``bag``: rows with a weight, which is added up over equal rows. A row of weight 0 is no row. With
      ``order``, rows of equal hash are sorted by that column (Spark's order), which is never NULL.

    ``schema`` has all columns but ``_hash`` and ``_weight``. Without a key all rows have one hash.

    >>> layout = Layout(pa.schema([("customer", pa.string()), ("n", pa.int64())]), ("customer",), "sums")
    >>> layout.stored.names, layout.summed
    (['_hash', 'customer', 'n'], ('n',))
    """

    schema: pa.Schema
    key: tuple[str, ...]
    kind: Literal["bag", "sums"]
    order: str | None = None
    stored: pa.Schema = field(init=False, repr=False, compare=False)
    """The columns of a run file: ``_hash``, those of ``schema``, and of a bag ``_weight``."""

    def __post_init__(self) -> None:
        names = self.schema.names
        if self.kind not in ("bag", "sums"):
            raise _refused(f"there is no kind {self.kind!r}", "A layout is a 'bag' or 'sums'.")
        for name in names:
            if name in (HASH, WEIGHT) or names.count(name) > 1:
                raise _refused(f"the column {name!r} is reserved or there twice", "Name it anew.")
        for column in self.schema:
            _check_plain(column.name, column.type)
        wanted = (*self.key, *(() if self.order is None else (self.order,)))
        for name in wanted:
            if name not in names:
                raise _refused(f"there is no column {name!r}", f"The columns are {', '.join(names)}.")
        if self.kind == "sums":
            self._check_sums()
        elif self.order is not None and not has_order(self.schema.field(self.order).type):
            raise Unsupported(
                f"values of {self.schema.field(self.order).type} cannot be put in order here",
                subject="Layout",
                hint="Order by a number, a boolean, a string, a binary, a date or a time.",
            )
        more = [_WEIGHT_FIELD] if self.kind == "bag" else []
        object.__setattr__(self, "stored", pa.schema([_HASH_FIELD, *self.schema, *more]))

    def _check_sums(self) -> None:
        if self.order is not None:
            raise _refused("sums have no order", "Only a bag is sorted by one of its columns.")
        for name in self.summed:
            if self.schema.field(name).type != pa.int64():
                raise _refused(f"the column {name!r} is no int64", "Add up columns of BIGINT only.")
        if not self.summed:
            raise _refused("there is no column to add up", "Keep a count beside the key.")

    @property
    def is_bag(self) -> bool:
        return self.kind == "bag"

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns that are added up: of a bag its weight, of sums all that are not key."""
        if self.kind == "bag":
            return (WEIGHT,)
        return tuple(name for name in self.schema.names if name not in self.key)

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns by which two rows are one row."""
        return tuple(self.schema.names) if self.kind == "bag" else self.key

    def check_stored(self, batch: pa.RecordBatch, subject: str) -> None:
        """Refuse a batch whose columns are not the stored ones."""
        check_same_schema(self.stored, batch.schema, subject)

    def to_json(self) -> dict[str, Any]:
        """As a manifest keeps it. ``columns`` is for people."""
        return {
            "schema": base64.b64encode(self.schema.serialize()).decode(),
            "columns": [f"{column.name} {column.type}" for column in self.schema],
            "key": list(self.key),
            "kind": self.kind,
            "order": self.order,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Layout:
        """What `to_json` gave."""
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["schema"], validate=True)))
            return cls(schema, tuple(told["key"]), told["kind"], told["order"])
        except (KeyError, TypeError, binascii.Error, pa.ArrowException, OSError) as error:
            raise MalformedMessage(
                f"this is no layout: {error!r}", subject="Layout", hint="Give what Layout.to_json() gave."
            ) from error


def int64s(column: pa.Array, name: str) -> Int64s:
    """The numbers of a column that has no NULL, without a copy."""
    if column.type != pa.int64():
        raise SchemaMismatch(
            f"the column {name!r} is {column.type}", subject="spine", hint="It must be a BIGINT (int64)."
        )
    if column.null_count:
        raise InvalidArgument(
            f"{column.null_count} values of the column {name!r} are NULL",
            subject="spine",
            hint="Give every row a hash and a weight, and sums without NULL.",
        )
    values: Int64s = column.to_numpy()
    return values


def _check_plain(name: str, kind: pa.DataType) -> None:
    """Refuse what a run file cannot hold as it is, or whose rows cannot be compared."""
    t = pa.types
    if any(is_such(kind) for is_such in _ENCODED):
        raise Unsupported(
            f"the column {name!r} holds {kind}",
            subject="Layout",
            hint="Decode or cast it: a run holds plain columns, and lists, structs and maps of them.",
        )
    if t.is_nested(kind):
        for i in range(kind.num_fields):
            _check_plain(name, kind.field(i).type)


def _refused(what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(what, subject="Layout", hint=hint)
