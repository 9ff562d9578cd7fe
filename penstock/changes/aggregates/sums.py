"""Sums and averages over many groups at once, exact for every type.

Result types are Spark's. SUM: int64 for integers, decimal(min(38, p + 10), s) for decimal(p, s), double for
floats. AVG: double for integers and floats, decimal(min(38, p + 4), min(38, s + 4)) for decimal(p, s).

Integers and decimals (`fixed`): what does not fit the result type is an `ArithmeticOverflow` when finalised,
and only then. AVG of decimals is the exact quotient, rounded once, half up; the sum under it has no limit.
Doubles (`exact`): SUM is the double nearest to the exact sum. AVG of doubles and of integers is that nearest
double divided by the count.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.aggregates.batch import Batch
from penstock.changes.aggregates.exact import MINUS_INF, NAN, PLUS_INF, DoubleSums
from penstock.changes.aggregates.fixed import FixedSums
from penstock.changes.aggregates.grouped import (
    GroupedAggregate,
    int64_batch,
    int64_column,
    prepare_count,
    refuse_sparse,
    renumbered,
)
from penstock.changes.aggregates.limbs import Commit, Int64s, Limbs, widest_totals
from penstock.errors import InvalidArgument, Unsupported

__all__ = ["GroupedAvg", "GroupedSum"]


class _Summing(GroupedAggregate):
    """A count of the values that are not NULL, and their sum."""

    __slots__ = ("_count", "_sums")

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._count = Limbs(1)
        self._sums: FixedSums | DoubleSums
        if FixedSums.takes(kind):
            self._sums = FixedSums(kind)
        elif DoubleSums.takes(kind):
            self._sums = DoubleSums()
        else:
            raise Unsupported(
                f"{kind} cannot be added up",
                subject=self.subject,
                hint="Cast the column to BIGINT, DECIMAL or DOUBLE.",
            )

    @property
    def groups(self) -> int:
        return self._count.count

    def grow(self, groups: int) -> None:
        self._count.grow(groups)
        self._sums.grow(groups)

    def reset(self) -> None:
        self._count.clear()
        self._sums.clear()

    def state_columns(self) -> pa.RecordBatch:
        return int64_batch({"count": self._count.columns[0].copy(), **self._sums.columns()})

    def sparse_state(self) -> pa.RecordBatch:
        if isinstance(self._sums, FixedSums):
            return super().sparse_state()
        entries = self._sums.sparse()
        return int64_batch({"group": entries.groups, "limb": entries.limbs, "amount": entries.amounts})

    def _prepare(self, batch: Batch, values: pa.Array) -> Commit:
        some, valid = batch.valid(values)
        return _both(prepare_count(self._count, some, batch.groups), self._sums.prepare(some, valid))

    def _prepare_merge(self, other: Self) -> Commit:
        theirs = other._count
        count = self._count.prepare(theirs.count, None, list(theirs.columns), theirs.bounds)
        return _both(count, self._sums.prepare_merge(other._sums))  # type: ignore[arg-type]  # same kind

    def _load(
        self,
        columns: pa.RecordBatch,
        sparse: pa.RecordBatch | None,
        group_ids: npt.NDArray[np.int64] | None,
    ) -> None:
        counts = int64_column(columns, "count", self.subject)
        limbs = {name: int64_column(columns, name, self.subject) for name in self._sums.column_names}
        batch = Batch.of(renumbered(np.arange(len(counts)), group_ids, self.subject), None, self.subject)
        self._count.prepare(batch.groups, batch.ids, [counts], widest_totals([counts]))()
        self._sums.prepare_columns(batch.groups, batch.ids, limbs)()
        if isinstance(self._sums, DoubleSums):
            if sparse is not None:
                self._sums.add_sparse(*_entries(sparse, batch, self.subject))
        else:
            refuse_sparse(sparse, self.subject)


class GroupedSum(_Summing):
    """SUM per group. NULL for a group whose state is zero: no rows, or as many taken away as added.

    >>> import numpy as np
    >>> total = GroupedSum(pa.float64())
    >>> total.update(np.array([0, 0, 1]), pa.array([1e100, 3.14, 2.5]))
    >>> total.update(np.array([0]), pa.array([1e100]), np.array([-1]))
    >>> total.finalize().to_pylist()
    [3.14, 2.5]
    """

    __slots__ = ()
    name = "SUM"

    @property
    def result_type(self) -> pa.DataType:
        return self._sums.sum_type

    def finalize(self) -> pa.Array:
        return self._sums.sum(self._count.columns[0])


class GroupedAvg(_Summing):
    """AVG per group. NULL for a group without rows. Its state is that of `GroupedSum`.

    >>> import numpy as np
    >>> from decimal import Decimal
    >>> average = GroupedAvg(pa.decimal128(4, 2))
    >>> values = [Decimal("0.01"), Decimal("0.02"), Decimal("0.02")]
    >>> average.update(np.array([0, 0, 0]), pa.array(values, average.kind))
    >>> average.finalize().to_pylist()
    [Decimal('0.016667')]
    """

    __slots__ = ()
    name = "AVG"

    @property
    def result_type(self) -> pa.DataType:
        return self._sums.average_type

    def finalize(self) -> pa.Array:
        return self._sums.average(self._count.columns[0])


def _entries(sparse: pa.RecordBatch, batch: Batch, subject: str) -> tuple[Int64s, Int64s, Int64s]:
    """Side-store entries with their groups' new numbers."""
    rows, limbs, amounts = (int64_column(sparse, name, subject) for name in ("group", "limb", "amount"))
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(batch)):
        raise InvalidArgument(
            f"an entry is for row {int(rows.max())}, and the state has {len(batch)} rows",
            subject=subject,
            hint="Give the columns and the sparse entries of one and the same state.",
        )
    if len(limbs) and not (limbs.min() >= 0 and limbs.max() < MINUS_INF + 4):
        raise InvalidArgument(
            f"the entries are for limbs {int(limbs.min())} to {int(limbs.max())}",
            subject=subject,
            hint=f"Numbers have limbs 0 to 67; NaN, +Inf, -Inf begin at {NAN}, {PLUS_INF}, {MINUS_INF}.",
        )
    return batch.ids[rows], limbs, amounts


def _both(first: Commit, second: Commit) -> Commit:
    def commit() -> None:
        first()
        second()

    return commit
