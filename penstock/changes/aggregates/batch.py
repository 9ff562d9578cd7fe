"""One batch of weighted values for many groups, checked once at the door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.aggregates.limbs import Bools, Int64s
from penstock.changes.pickable import decoded
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["Batch", "check_values"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Which group each row belongs to, and how often it counts.

    ``weights`` is None when every row counts once. ``mass`` is at least Σ |weight|: it bounds what the
    batch can do to any accumulator. ``groups`` is the highest group number plus one.
    """

    ids: Int64s
    weights: Int64s | None
    mass: int
    groups: int

    @classmethod
    def of(cls, group_ids: npt.NDArray[Any], weights: npt.NDArray[Any] | None, subject: str) -> Batch:
        """Check numbers and lengths. Two passes over the ids and weights, none of them a copy."""
        ids = _int64(group_ids, "group ids", subject)
        # Read as unsigned, a negative number is above every other: one pass finds both ends.
        highest = int(ids.view(np.uint64).max()) if len(ids) else -1
        if highest >= 1 << 63:
            raise InvalidArgument(
                f"the group id {int(ids.min())} is negative",
                subject=subject,
                hint="Number the groups 0, 1, 2, … without gaps.",
            )
        if weights is None:
            return cls(ids, None, len(ids), highest + 1)
        by = _int64(weights, "weights", subject)
        if len(by) != len(ids):
            raise InvalidArgument(
                f"there are {len(ids)} group ids and {len(by)} weights",
                subject=subject,
                hint="Give exactly one weight per row.",
            )
        return cls(ids, by, _mass(by), highest + 1)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def count_part(self) -> Int64s | int:
        """What the rows add to a count: their weights."""
        return 1 if self.weights is None else self.weights

    def where(self, mask: Bools | Int64s) -> Batch:
        """Some of the rows. Mass and groups stay what they were: they are bounds."""
        by = None if self.weights is None else self.weights[mask]
        return Batch(self.ids[mask], by, self.mass, self.groups)

    def valid(self, values: pa.Array) -> tuple[Batch, pa.Array]:
        """The rows whose value is not NULL, and their values."""
        if values.null_count == 0:
            return self, values
        return self.counted(values), values.drop_null()

    def counted(self, values: pa.Array) -> Batch:
        """The rows whose value is not NULL."""
        plain = decoded(values)  # a dictionary and a run may have NULLs inside that are not counted
        if plain.null_count == 0:
            return self
        return self.where(pc.is_valid(plain).to_numpy(zero_copy_only=False))


def check_values(values: pa.Array | None, kind: pa.DataType | None, rows: int, subject: str) -> pa.Array:
    """Refuse values of another type or number than expected; without a kind, any type will do."""
    if not isinstance(values, pa.Array):
        raise InvalidArgument(
            f"the values are {type(values).__name__}, not a pyarrow Array",
            subject=subject,
            hint="Give a pyarrow Array; for a ChunkedArray, use its combine_chunks().",
        )
    if kind is not None and values.type != kind:
        raise SchemaMismatch(
            f"the values are {values.type}, the aggregate is over {kind}",
            subject=subject,
            hint=f"Cast the values to {kind}.",
        )
    if len(values) != rows:
        raise InvalidArgument(
            f"there are {rows} group ids and {len(values)} values",
            subject=subject,
            hint="Give exactly one value per row.",
        )
    return values


def _int64(numbers: npt.NDArray[Any], what: str, subject: str) -> Int64s:
    array = np.asarray(numbers)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidArgument(
            f"the {what} are an array of {array.dtype} with {array.ndim} dimensions",
            subject=subject,
            hint="Give a one-dimensional NumPy array of int64.",
        )
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise InvalidArgument(
            f"the {what} go up to {int(array.max())}, which int64 cannot hold",
            subject=subject,
            hint="Give a one-dimensional NumPy array of int64.",
        )
    return array.astype(np.int64, copy=False)


def _mass(weights: Int64s) -> int:
    if not len(weights):
        return 0
    widest = max(int(weights.max()), -int(weights.min()))
    if widest <= 1 or widest * len(weights) >= 1 << 63:
        return widest * len(weights)
    return int(np.abs(weights).sum())
