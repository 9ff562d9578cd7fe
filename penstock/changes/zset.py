"""`ZSet`: a bag of changes, and its algebra.

Law: a Z-set maps rows to integer weights. Z-sets form a commutative group under ``+``, and negation,
projection, filtering and multiplication are linear in it; so a view can be kept right by adding up
changes in any order and any grouping.
State: one record batch of rows and one array of weights; nothing is copied until it must be.
Cost: everything is O(rows) and vectorised; only `consolidate` and ``==`` hash rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes import rows as _rows
from penstock.changes.names import WEIGHT, check_user_schema
from penstock.errors import ArithmeticOverflow, InvalidArgument

__all__ = ["ZSet"]

Int64s = npt.NDArray[np.int64]
_MAX = 2**63 - 1


class ZSet:
    """Rows with integer weights: +n adds n copies of a row, −n takes n away.

    >>> import pyarrow as pa
    >>> old = ZSet.from_arrow(pa.record_batch({"id": [1], "total": [10.0]}))
    >>> new = ZSet.from_arrow(pa.record_batch({"id": [1], "total": [12.5]}))
    >>> new - old                                   # an update is −old +new
    ZSet(2 rows: +1 (id=1, total=12.5), −1 (id=1, total=10.0))
    >>> (new - old) + old == new
    True
    """

    __slots__ = ("_consolidated", "_rows", "_weights")

    def __init__(self, rows: pa.RecordBatch, weights: npt.ArrayLike, *, _consolidated: bool = False) -> None:
        """Take rows and their weights as they are; `from_arrow` also takes tables and checks names."""
        array = np.asarray(weights)
        if array.dtype != np.int64:
            array = _as_int64(array)
        if array.shape != (rows.num_rows,) and rows.num_columns:
            raise InvalidArgument(
                f"there are {rows.num_rows} rows and weights of shape {array.shape}",
                subject="ZSet",
                hint="Give exactly one weight per row.",
            )
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        self._rows = rows
        self._weights: Int64s = array
        self._consolidated = _consolidated

    # -- building ---------------------------------------------------------------------------------

    @classmethod
    def empty(cls, schema: pa.Schema) -> ZSet:
        """The zero of the group: no rows."""
        batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return cls(batch, np.empty(0, np.int64), _consolidated=True)

    @classmethod
    def from_arrow(cls, data: pa.RecordBatch | pa.Table, weights: npt.ArrayLike | int | None = None) -> ZSet:
        """Rows from Arrow. Weights: given, or the ``_weight`` column, or 1 each.

        >>> ZSet.from_arrow(pa.table({"x": [7, 8], "_weight": [2, -1]}))
        ZSet(2 rows: +2 (x=7), −1 (x=8))
        """
        batch = _one_batch(data)
        if WEIGHT in batch.schema.names:
            column = batch.column(WEIGHT)
            batch = batch.drop_columns([WEIGHT])
            if weights is None:
                if column.null_count:
                    raise InvalidArgument(
                        f"{column.null_count} values of the column {WEIGHT!r} are NULL",
                        subject="ZSet",
                        hint="Give every row a weight.",
                    )
                weights = column.to_numpy(zero_copy_only=False)
        check_user_schema(batch.schema, "ZSet")
        if weights is None:
            weights = 1
        array = np.asarray(weights)
        if array.ndim == 0:
            array = np.full(batch.num_rows, _as_int64(array), np.int64)
        return cls(batch, array)

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        schema: pa.Schema,
        weights: npt.ArrayLike | int | None = None,
    ) -> ZSet:
        """Rows from dictionaries: for people and tests, not for the hot path."""
        return cls.from_arrow(pa.RecordBatch.from_pylist(list(rows), schema=schema), weights)

    @classmethod
    def concat(cls, parts: Sequence[ZSet]) -> ZSet:
        """The sum of one or more Z-sets, not consolidated."""
        if not parts:
            raise InvalidArgument(
                "there is nothing to add up", subject="ZSet.concat", hint="Use ZSet.empty(schema) for a zero."
            )
        schema = parts[0].schema
        for part in parts[1:]:
            _rows.check_same_schema(schema, part.schema, "ZSet")
        some = [part for part in parts if len(part)]
        if len(some) <= 1:
            return some[0] if some else parts[0]
        batch = pa.concat_batches(
            [part._rows.cast(schema) if part.schema != schema else part._rows for part in some]
        )
        return cls(batch, np.concatenate([part._weights for part in some]))

    # -- reading ----------------------------------------------------------------------------------

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows, without weights."""
        return self._rows

    @property
    def weights(self) -> Int64s:
        """The weights, read-only, one per row."""
        return self._weights

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def total_weight(self) -> int:
        """The sum of all weights, exact whatever its size."""
        return _exact_sum(self._weights)

    @property
    def is_consolidated(self) -> bool:
        """Whether this is known to hold each row once, canonical, with a weight other than 0."""
        return self._consolidated

    def __len__(self) -> int:
        return len(self._weights)

    def __bool__(self) -> bool:
        raise InvalidArgument(
            "the truth of a Z-set is ambiguous: rows may cancel out",
            subject="ZSet",
            hint="Use len(z) for its rows, or z.is_zero() for its content.",
        )

    def is_zero(self) -> bool:
        """Whether everything cancels out."""
        return len(self.consolidate()) == 0

    def to_arrow(self, weight: str = WEIGHT) -> pa.RecordBatch:
        """The rows with their weights as one more column."""
        return self._rows.append_column(pa.field(weight, pa.int64(), nullable=False), pa.array(self._weights))

    def to_dict(self) -> dict[tuple[Any, ...], int]:
        """Consolidated content as ``{row: weight}``: for people and tests. Rows must be hashable."""
        z = self.consolidate()
        columns = [column.to_pylist() for column in z._rows.columns]
        return dict(zip(zip(*columns, strict=True), z._weights.tolist(), strict=True))

    # -- algebra ----------------------------------------------------------------------------------

    def __neg__(self) -> ZSet:
        if len(self) and self._weights.min() == -_MAX - 1:
            raise _overflow("negated")
        return ZSet(self._rows, -self._weights, _consolidated=self._consolidated)

    def __add__(self, other: ZSet) -> ZSet:
        """The sum. The result is not consolidated: additions are often many, consolidation is once."""
        if not isinstance(other, ZSet):
            return NotImplemented
        _rows.check_same_schema(self.schema, other.schema, "ZSet")
        return ZSet.concat([self, other])

    def __sub__(self, other: ZSet) -> ZSet:
        if not isinstance(other, ZSet):
            return NotImplemented
        return self + -other

    @overload
    def __mul__(self, factor: int) -> ZSet: ...
    @overload
    def __mul__(self, factor: npt.NDArray[np.integer[Any]]) -> ZSet: ...
    def __mul__(self, factor: int | npt.NDArray[np.integer[Any]]) -> ZSet:
        """Weights times a number, or times one number per row (as a join multiplies them)."""
        if not isinstance(factor, int | np.integer | np.ndarray) or isinstance(factor, bool):
            return NotImplemented
        by = _as_int64(np.asarray(factor))
        if by.ndim and by.shape != self._weights.shape:
            raise InvalidArgument(
                f"there are {len(self)} rows and factors of shape {by.shape}",
                subject="ZSet",
                hint="Multiply by one number, or by exactly one per row.",
            )
        if len(self) and _widest(self._weights) * _widest(by) > _MAX:
            exact = self._weights.astype(object) * by.astype(object)
            if max(exact.max(), -1 - exact.min()) > _MAX:
                raise _overflow("multiplied")
        return ZSet(self._rows, self._weights * by)

    __rmul__ = __mul__

    def consolidate(self) -> ZSet:
        """Sum the weights of equal rows, drop zeros, and put rows into canonical form.

        Law: ``z.consolidate() == z``, and doing it twice changes nothing. Rows keep the order of
        their first appearance. Equal means what Spark's GROUP BY means; see `penstock.changes.rows`.

        >>> z = ZSet.from_arrow(pa.table({"x": [1.0, float("nan"), 1.0], "_weight": [1, 1, -1]}))
        >>> z.consolidate()
        ZSet(1 row: +1 (x=nan))
        """
        if self._consolidated:
            return self
        grouping = _rows.group(self._rows.columns, len(self))
        weights = _sum_by_group(self._weights, grouping)
        alive = weights != 0
        if grouping.count == len(self) and alive.all():
            batch = self._rows
        else:
            batch = self._rows.take(pa.array(grouping.first[alive]))
            weights = weights[alive]
        columns = [_rows.canonical(column) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema) if columns else batch
        return ZSet(batch, weights, _consolidated=True)

    def split(self) -> tuple[ZSet, ZSet]:
        """What is added and what is taken away: ``plus + minus == z``, rows of weight 0 left out."""
        return self._where(self._weights > 0), self._where(self._weights < 0)

    def filter(self, mask: npt.ArrayLike | pa.Array) -> ZSet:
        """The rows where the mask is true; NULL is not true."""
        if isinstance(mask, pa.Array | pa.ChunkedArray):
            mask = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return self._where(np.asarray(mask, np.bool_))

    def project(self, columns: Sequence[str]) -> ZSet:
        """Only these columns, in this order. Linear: weights stay, equal rows are not yet summed."""
        missing = [name for name in columns if name not in self.schema.names]
        if missing:
            raise InvalidArgument(
                f"there is no column {missing[0]!r}",
                subject="ZSet",
                hint=f"The columns are {', '.join(self.schema.names)}.",
            )
        return ZSet(self._rows.select(list(columns)), self._weights)

    def _where(self, mask: npt.NDArray[np.bool_]) -> ZSet:
        if mask.shape != self._weights.shape:
            raise InvalidArgument(
                f"there are {len(self)} rows and a mask of shape {mask.shape}",
                subject="ZSet",
                hint="Give exactly one truth value per row.",
            )
        if mask.all():
            return self
        kept = self._rows.filter(pa.array(mask)) if self._rows.num_columns else self._rows
        return ZSet(kept, self._weights[mask], _consolidated=self._consolidated)

    # -- comparing and showing --------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Whether both are the same multiset, whatever their order and however far consolidated."""
        if not isinstance(other, ZSet):
            return NotImplemented
        if self.schema.names != other.schema.names or self.schema.types != other.schema.types:
            return False
        return (self - other).is_zero()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = self._rows.slice(0, 5).to_pylist() if self._rows.num_columns else [{}] * min(5, len(self))
        parts = [
            f"{'+' if weight >= 0 else '−'}{abs(weight)} ({', '.join(f'{k}={v!r}' for k, v in row.items())})"
            for weight, row in zip(self._weights.tolist(), shown, strict=False)
        ]
        more = [f"… {len(self) - 5} more"] if len(self) > 5 else []
        noun = "row" if len(self) == 1 else "rows"
        return f"ZSet({len(self)} {noun}{': ' if parts else ''}{', '.join(parts + more)})"


def _one_batch(data: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    if isinstance(data, pa.RecordBatch):
        return data
    if isinstance(data, pa.Table):
        columns = [column.combine_chunks() for column in data.columns]
        flat = [
            (column.chunk(0) if column.num_chunks else pa.array([], column.type))
            if isinstance(column, pa.ChunkedArray)
            else column
            for column in columns
        ]
        return pa.RecordBatch.from_arrays(flat, schema=data.schema)
    raise InvalidArgument(
        f"{type(data).__name__} is not Arrow data",
        subject="ZSet",
        hint="Give a pyarrow RecordBatch or Table.",
    )


def _as_int64(values: npt.NDArray[Any]) -> Int64s:
    if values.size == 0:
        return values.astype(np.int64)
    if values.dtype.kind not in "iu" or (values.dtype == np.uint64 and values.max() > _MAX):
        raise InvalidArgument(
            f"weights of type {values.dtype} are not 64-bit integers",
            subject="ZSet",
            hint="Weights count copies: give integers.",
        )
    return values.astype(np.int64)


def _widest(values: Int64s) -> int:
    """The greatest absolute value, as a Python integer (|−2⁶³| has no int64)."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _exact_sum(values: Int64s) -> int:
    return int((values >> 32).sum()) * 2**32 + int((values & 0xFFFFFFFF).sum())


def _sum_by_group(weights: Int64s, grouping: _rows.Grouping) -> Int64s:
    if grouping.count == len(weights):
        return weights
    sums = np.zeros(grouping.count, np.int64)
    np.add.at(sums, grouping.ids, weights)
    if _widest(weights) * len(weights) > _MAX:
        # int64 may have wrapped: add the upper halves apart and see whether both tell the same.
        upper = np.zeros(grouping.count, np.int64)
        lower = np.zeros(grouping.count, np.int64)
        np.add.at(upper, grouping.ids, weights >> 32)
        np.add.at(lower, grouping.ids, weights & 0xFFFFFFFF)
        if ((upper + (lower >> 32)) != (sums >> 32)).any():
            raise _overflow("summed")
    return sums


def _overflow(how: str) -> ArithmeticOverflow:
    return ArithmeticOverflow(
        f"a weight leaves the range of 64 bits when {how}",
        subject="ZSet",
        hint="No real bag holds so many copies of one row: look for a change that is applied over and over.",
    )
