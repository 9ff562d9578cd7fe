"""The least and the greatest value per group, kept right under retraction.

Law: MIN of a group is its least value of weight > 0. Values of weight ≤ 0 are remembered (another partition
may hold the insert that outweighs them) but are no result.
State: every (group, value) pair with its weight; nothing smaller can answer after its least value is taken
away.
Cost: an update pays for its own rows, about 100 ns each, times a logarithm as they are merged with older
ones. Retracting an extreme costs no more than any other row; it is `finalize` that looks at every pair
again, O(pairs), and for strings, binaries and decimals of more than 18 digits it sorts or passes over them
twice. An operator that must not do that for every tick keeps a few extreme values beside, and comes here
when those are used up.

Order is Spark's: NaN is the greatest double and equals itself, −0.0 equals 0.0 (and is given back as 0.0),
strings and binaries compare byte by byte, false < true.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes import rows
from penstock.changes.aggregates.bag import Bag
from penstock.changes.aggregates.batch import Batch
from penstock.changes.aggregates.grouped import (
    GroupedAggregate,
    int64_column,
    refuse_sparse,
    renumbered,
    state_column,
)
from penstock.changes.aggregates.limbs import Commit, Int64s
from penstock.errors import Unsupported

__all__ = ["GroupedMax", "GroupedMin"]

_SIGN = -(1 << 63)
_GREATEST = (1 << 63) - 1


class _Extreme(GroupedAggregate):
    __slots__ = ("_bag", "_groups")
    _flip: ClassVar[int]

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        if not _has_order(kind):
            raise Unsupported(
                f"values of {kind} cannot be put in order here",
                subject=self.subject,
                hint="Cast the column to a number, a string, a binary, a date or a time.",
            )
        self._bag = Bag(kind)
        self._groups = 0

    @property
    def result_type(self) -> pa.DataType:
        return self.kind

    @property
    def groups(self) -> int:
        return self._groups

    def grow(self, groups: int) -> None:
        self._groups = max(self._groups, groups)

    def reset(self) -> None:
        self._bag.clear()
        self._groups = 0

    def finalize(self) -> pa.Array:
        run = self._bag.settled()
        alive = run if (run.weights > 0).all() else run.where(np.flatnonzero(run.weights > 0))
        left = np.arange(len(alive))  # the pairs that may still be their group's extreme
        for word in _order(alive.values):
            ids, keys = alive.ids[left], word[left] ^ self._flip
            least = np.full(self._groups, _GREATEST)
            np.minimum.at(least, ids, keys)
            left = left[keys == least[ids]]
        chosen = np.full(self._groups, -1)
        chosen[alive.ids[left]] = left
        return alive.values.take(pa.array(chosen, mask=chosen < 0))

    def state_columns(self) -> pa.RecordBatch:
        """The state as a batch (group, value, weight): one row per pair, linear in the weight.

        Batches of two states, put one after the other, are a state of all their rows.
        """
        run = self._bag.settled()
        schema = pa.schema(
            [
                pa.field("group", pa.int64(), nullable=False),
                pa.field("value", self.kind, nullable=False),
                pa.field("weight", pa.int64(), nullable=False),
            ]
        )
        return pa.RecordBatch.from_arrays(
            [pa.array(run.ids), run.values, pa.array(run.weights)], schema=schema
        )

    def _prepare(self, batch: Batch, values: pa.Array) -> Commit:
        return self._and_grow(self._bag.prepare(*batch.valid(values)), batch.groups)

    def _prepare_merge(self, other: Self) -> Commit:
        return self._and_grow(self._bag.prepare_merge(other._bag), other.groups)

    def _and_grow(self, change: Commit, groups: int) -> Commit:
        def commit() -> None:
            change()
            self.grow(groups)

        return commit

    def _load(
        self,
        columns: pa.RecordBatch,
        sparse: pa.RecordBatch | None,
        group_ids: npt.NDArray[np.int64] | None,
    ) -> None:
        refuse_sparse(sparse, self.subject)
        ids, weights = (int64_column(columns, name, self.subject) for name in ("group", "weight"))
        values = state_column(columns, "value", self.subject)
        self.update(renumbered(ids, group_ids, self.subject), values, weights)


class GroupedMin(_Extreme):
    """MIN per group; NULL for a group without values.

    >>> least = GroupedMin(pa.int64())
    >>> least.update(np.array([0, 0, 1]), pa.array([3, 5, None]))
    >>> least.update(np.array([0]), pa.array([3]), np.array([-1]))
    >>> least.finalize().to_pylist()
    [5, None]
    """

    __slots__ = ()
    name = "MIN"
    _flip = 0


class GroupedMax(_Extreme):
    """MAX per group; NULL for a group without values.

    >>> greatest = GroupedMax(pa.float64())
    >>> greatest.update(np.array([0, 0, 1]), pa.array([float("nan"), 1.0, -0.0]))
    >>> greatest.finalize().to_pylist()
    [nan, 0.0]
    """

    __slots__ = ()
    name = "MAX"
    _flip = -1  # ~key turns the order round


def _has_order(kind: pa.DataType) -> bool:
    is_a = pa.types
    return bool(
        is_a.is_integer(kind)
        or is_a.is_floating(kind)
        or is_a.is_decimal128(kind)
        or is_a.is_boolean(kind)
        or (is_a.is_temporal(kind) and not is_a.is_interval(kind))
        or _is_bytes(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    is_a = pa.types
    return bool(
        is_a.is_string(kind)
        or is_a.is_large_string(kind)
        or is_a.is_binary(kind)
        or is_a.is_large_binary(kind)
        or is_a.is_fixed_size_binary(kind)
    )


def _order(values: pa.Array) -> list[Int64s]:
    """Integers that are in the order of the values: one per value, or two, the weightier first."""
    kind = values.type
    if _is_bytes(kind):
        rank = np.empty(len(values), np.int64)
        rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values))
        return [rank]
    if pa.types.is_floating(kind):
        # Read as integers, doubles of one sign are in order already; the negative ones run backwards.
        bits = rows.canonical(values).to_numpy().astype(np.float64).view(np.int64)
        return [bits ^ ((bits >> 63) & _GREATEST)]
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(values.buffers()[1] or b"", np.int64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))]
        low, high = words[::2], words[1::2]
        return [low] if kind.precision <= 18 else [high, low ^ _SIGN]
    if pa.types.is_boolean(kind):
        return [values.cast(pa.int8()).to_numpy().astype(np.int64)]
    width = pa.int64() if kind.bit_width == 64 else pa.int32() if kind.bit_width == 32 else None
    numbers = values if width is None or pa.types.is_integer(kind) else values.view(width)
    array = numbers.to_numpy()
    return [array.view(np.int64) ^ _SIGN if array.dtype == np.uint64 else array.astype(np.int64)]
