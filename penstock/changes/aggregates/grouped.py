"""Aggregates over many groups at once: what all of them share, and the counts.

Law: every state is an element of a commutative group. `update` with weight −w undoes `update` with weight
w, and `merge` is addition; so any history that leaves the same rows, in any order and any split, gives the
same result as computing it anew from those rows.
State: columns of int64 that add up, one row per group (for the least and greatest: a bag of values).
Cost: O(rows) per `update`, O(groups) per `finalize`; no Python object per row or group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.aggregates.batch import Batch, check_values
from penstock.changes.aggregates.limbs import Commit, Int64s, Limbs, widest_totals
from penstock.errors import InvalidArgument, SchemaMismatch, Unsupported

__all__ = [
    "GroupedAggregate",
    "GroupedCount",
    "GroupedCountColumn",
    "int64_batch",
    "int64_column",
    "prepare_count",
    "refuse_sparse",
    "renumbered",
    "state_column",
]

_NO_SPARSE = pa.schema([("group", pa.int64()), ("limb", pa.int64()), ("amount", pa.int64())])


class GroupedAggregate(ABC):
    """One aggregate per group, for groups numbered 0, 1, 2, …

    An error leaves everything as it was. NULL values are ignored, except by `GroupedCount`.
    """

    __slots__ = ("kind",)
    name: ClassVar[str]

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        """The type of the values."""

    @property
    def subject(self) -> str:
        """What this is in SQL's words, for messages."""
        return f"{self.name}({self.kind})"

    @property
    @abstractmethod
    def result_type(self) -> pa.DataType:
        """The type of what `finalize` gives."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """How many groups there are: the highest number seen plus one."""

    def update(
        self,
        group_ids: npt.NDArray[np.int64],
        values: pa.Array | None,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Row r adds ``weights[r]`` copies of ``values[r]``, or one, to group ``group_ids[r]``."""
        batch = Batch.of(group_ids, weights, self.subject)
        self._prepare(batch, check_values(values, self.kind, len(batch), self.subject))()

    def merge(self, other: Self) -> None:
        """Add the state of another aggregate whose groups are numbered alike."""
        if type(other) is not type(self) or other.kind != self.kind:
            theirs = other.subject if isinstance(other, GroupedAggregate) else type(other).__name__
            raise SchemaMismatch(
                f"the other state is {theirs}",
                subject=self.subject,
                hint="Merge only states of the same aggregate over the same type.",
            )
        self._prepare_merge(other)()

    @abstractmethod
    def grow(self, groups: int) -> None:
        """Have at least that many groups, also such as no row has named yet."""

    @abstractmethod
    def finalize(self) -> pa.Array:
        """One result per group. Changes nothing: more rows may follow."""

    @abstractmethod
    def reset(self) -> None:
        """Back to no groups."""

    @abstractmethod
    def state_columns(self) -> pa.RecordBatch:
        """The state as a batch; row g is group g, all columns are int64 and linear.

        Linear: the columns of two states, added up row by row, are a state of all their rows. All digits of
        a number carry its sign, so the state of rows taken away is the negative of the state of those rows.
        Columns that were added up elsewhere need not be 0 where the number is: digits may cancel out across
        limbs. Whether a group is empty is for its count to say.
        """

    def sparse_state(self) -> pa.RecordBatch:
        """What does not fit into columns: rows (group, limb, amount), whose amounts add up.

        Only sums of doubles have any, for values of rare size; a state is both, columns and this.
        """
        return pa.RecordBatch.from_pylist([], schema=_NO_SPARSE)

    @classmethod
    def from_state(
        cls,
        kind: pa.DataType,
        columns: pa.RecordBatch,
        *,
        sparse: pa.RecordBatch | None = None,
        group_ids: npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """The aggregate whose state that is, be it from `state_columns` or added up elsewhere, say by Spark.

        With ``group_ids``, the state's group g becomes group ``group_ids[g]``; where several become one,
        they are added up. (Group g of a state is its row g, or for the least and greatest what its column
        says.)
        """
        state = cls(kind)
        state._load(columns, sparse, group_ids)
        return state

    @abstractmethod
    def _prepare(self, batch: Batch, values: pa.Array) -> Commit: ...

    @abstractmethod
    def _prepare_merge(self, other: Self) -> Commit: ...

    @abstractmethod
    def _load(
        self,
        columns: pa.RecordBatch,
        sparse: pa.RecordBatch | None,
        group_ids: npt.NDArray[np.int64] | None,
    ) -> None: ...


class GroupedCount(GroupedAggregate):
    """COUNT(*) per group: Σ weight. Also negative, when more was taken away than was there.

    A count must stay in int64 at every moment: the update that would take it beyond is refused.

    >>> import numpy as np
    >>> count = GroupedCount()
    >>> count.update(np.array([0, 1, 1]))
    >>> count.update(np.array([1]), weights=np.array([-1]))
    >>> count.finalize().to_pylist()
    [1, 1]
    """

    __slots__ = ("_count",)
    name = "COUNT"

    def __init__(self, kind: pa.DataType | None = None) -> None:
        super().__init__(pa.null() if kind is None else kind)
        self._count = Limbs(1)

    @property
    def subject(self) -> str:
        return "COUNT(*)"

    @property
    def result_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def groups(self) -> int:
        return self._count.count

    def update(
        self,
        group_ids: npt.NDArray[np.int64],
        values: pa.Array | None = None,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Count rows, whatever their values."""
        batch = Batch.of(group_ids, weights, self.subject)
        if values is not None:
            check_values(values, None, len(batch), self.subject)
        self._prepare(batch, values)()

    def grow(self, groups: int) -> None:
        self._count.grow(groups)

    def finalize(self) -> pa.Array:
        return pa.array(self._count.columns[0].copy())

    def reset(self) -> None:
        self._count.clear()

    def state_columns(self) -> pa.RecordBatch:
        return int64_batch({"count": self._count.columns[0].copy()})

    def _prepare(self, batch: Batch, values: pa.Array) -> Commit:
        return prepare_count(self._count, batch, batch.groups)

    def _prepare_merge(self, other: Self) -> Commit:
        theirs = other._count
        return self._count.prepare(theirs.count, None, list(theirs.columns), theirs.bounds)

    def _load(
        self,
        columns: pa.RecordBatch,
        sparse: pa.RecordBatch | None,
        group_ids: npt.NDArray[np.int64] | None,
    ) -> None:
        refuse_sparse(sparse, self.subject)
        counts = int64_column(columns, "count", self.subject)
        batch = Batch.of(renumbered(np.arange(len(counts)), group_ids, self.subject), None, self.subject)
        self._count.prepare(batch.groups, batch.ids, [counts], widest_totals([counts]))()


class GroupedCountColumn(GroupedCount):
    """COUNT(column) per group: Σ weight of the rows whose value is not NULL.

    >>> import numpy as np
    >>> count = GroupedCountColumn(pa.string())
    >>> count.update(np.array([0, 0, 1]), pa.array(["a", None, None]))
    >>> count.finalize().to_pylist()
    [1, 0]
    """

    __slots__ = ()

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)

    @property
    def subject(self) -> str:
        return f"COUNT({self.kind})"

    def update(
        self,
        group_ids: npt.NDArray[np.int64],
        values: pa.Array | None = None,
        weights: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Count the rows whose value is not NULL."""
        GroupedAggregate.update(self, group_ids, values, weights)

    def _prepare(self, batch: Batch, values: pa.Array) -> Commit:
        return prepare_count(self._count, batch.counted(values), batch.groups)


def prepare_count(count: Limbs, batch: Batch, groups: int) -> Commit:
    """The change that adds a batch's weights to counts."""
    return count.prepare(groups, batch.ids, [batch.count_part], [batch.mass])


def int64_batch(columns: Mapping[str, Int64s]) -> pa.RecordBatch:
    """Columns without NULLs, as Arrow."""
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns])
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], schema=schema)


def state_column(batch: pa.RecordBatch, name: str, subject: str) -> pa.Array:
    """A column of a state, which has to be there."""
    if batch.schema.get_field_index(name) < 0:
        raise SchemaMismatch(
            f"the state has no column {name!r}, it has ({', '.join(batch.schema.names)})",
            subject=subject,
            hint="Give the columns that state_columns() of this aggregate and type gives.",
        )
    return batch.column(name)


def int64_column(batch: pa.RecordBatch, name: str, subject: str) -> Int64s:
    """A linear column of a state, checked."""
    column = state_column(batch, name, subject)
    if column.type != pa.int64() or column.null_count:
        nulls = f" with {column.null_count} NULLs" if column.null_count else ""
        raise SchemaMismatch(
            f"the state's column {name!r} is {column.type}{nulls}",
            subject=subject,
            hint="State columns are int64 without NULLs.",
        )
    numbers: npt.NDArray[Any] = column.to_numpy()
    return numbers


def renumbered(
    groups: Int64s, group_ids: npt.NDArray[np.int64] | None, subject: str
) -> npt.NDArray[np.int64]:
    """Groups of a state by their new numbers."""
    if group_ids is None:
        return groups
    if len(groups) and int(groups.max()) >= len(group_ids):
        raise InvalidArgument(
            f"the state has a group {int(groups.max())}, and there are {len(group_ids)} group ids",
            subject=subject,
            hint="Give one group id for each group of the state.",
        )
    numbers: npt.NDArray[np.int64] = np.asarray(group_ids)[groups]
    return numbers


def refuse_sparse(sparse: pa.RecordBatch | None, subject: str) -> None:
    """Refuse side-store entries for an aggregate that has no side store."""
    if sparse is not None and sparse.num_rows:
        raise Unsupported(
            f"there are {sparse.num_rows} sparse entries, and only sums of doubles have any",
            subject=subject,
            hint="Give them to the aggregate whose sparse_state() they are.",
        )
