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
from penstock.changes.changelog_form import from_changelog, integers, not_arrow, one_batch, to_changelog
from penstock.changes.names import WEIGHT, check_user_schema
from penstock.changes.pickable import pickable_rows
from penstock.changes.shown import shown_row
from penstock.changes.weights import as_weights, negated, sum_by_group, times, total
from penstock.errors import InvalidArgument, SchemaMismatch, Unsupported

__all__ = ["ZSet"]

Int64s = npt.NDArray[np.int64]


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

    def __init__(self, rows: pa.RecordBatch, weights: npt.ArrayLike) -> None:
        """Take rows and their weights as they are; `from_arrow` also takes tables and checks names.

        Columns that Arrow cannot pick rows from (views, runs) become ordinary ones: see
        `penstock.changes.pickable`.
        """
        if not isinstance(rows, pa.RecordBatch):
            raise not_arrow(rows)
        array = as_weights(weights, "ZSet")
        if array.shape != (rows.num_rows,):
            raise InvalidArgument(
                f"there are {rows.num_rows} rows and weights of shape {array.shape}",
                subject="ZSet",
                hint="Give exactly one weight per row.",
            )
        self._set(pickable_rows(rows), array, consolidated=False)

    @classmethod
    def _of(cls, rows: pa.RecordBatch, weights: Int64s, *, consolidated: bool = False) -> ZSet:
        """As the constructor, for what is known to be right."""
        z = cls.__new__(cls)
        z._set(rows, weights, consolidated)
        return z

    def _set(self, rows: pa.RecordBatch, weights: Int64s, consolidated: bool) -> None:
        if weights.flags.writeable:
            weights = weights.view()
            weights.flags.writeable = False
        self._rows = rows
        self._weights = weights
        self._consolidated = consolidated

    @classmethod
    def empty(cls, schema: pa.Schema) -> ZSet:
        """The zero of the group: no rows."""
        batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return cls._of(pickable_rows(batch), np.empty(0, np.int64), consolidated=True)

    @classmethod
    def from_arrow(cls, data: pa.RecordBatch | pa.Table, weights: npt.ArrayLike | int | None = None) -> ZSet:
        """Rows from Arrow. Weights: given, or the ``_weight`` column, or 1 each.

        >>> ZSet.from_arrow(pa.table({"x": [7, 8], "_weight": [2, -1]}))
        ZSet(2 rows: +2 (x=7), −1 (x=8))
        """
        batch = one_batch(data)
        if WEIGHT in batch.schema.names:
            column = integers(batch, WEIGHT)
            batch = batch.drop_columns([WEIGHT])
            weights = column if weights is None else weights
        check_user_schema(batch.schema, "ZSet")
        if weights is None:
            weights = 1
        if np.ndim(weights) == 0:
            weights = np.full(batch.num_rows, as_weights(weights, "ZSet"), np.int64)
        return cls(batch, weights)

    @classmethod
    def from_changelog(cls, data: pa.RecordBatch | pa.Table) -> ZSet:
        """Rows from changelog form: with ``_op`` or ``_weight`` or both, which must not contradict.

        A weight counts copies; without ``_weight`` each row counts as its operation says. Whatever else
        Penstock's own columns tell (LSN, time) plays no part.

        >>> ZSet.from_changelog(pa.table({"x": [7, 8], "_op": [2, 3], "_lsn": [5, 6]}))
        ZSet(2 rows: +1 (x=7), −1 (x=8))
        """
        return cls(*from_changelog(data))

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        schema: pa.Schema,
        weights: npt.ArrayLike | int | None = None,
    ) -> ZSet:
        """Rows from dictionaries: for people and tests, not for the hot path."""
        try:
            batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaMismatch(
                f"a value does not fit its column: {error}",
                subject="ZSet.from_rows",
                hint="Give values of the schema's types, None for NULL.",
            ) from error
        return cls.from_arrow(batch, weights)

    @classmethod
    def concat(cls, parts: Sequence[ZSet]) -> ZSet:
        """The sum of one or more Z-sets, not consolidated."""
        if not parts:
            raise InvalidArgument(
                "there is nothing to add up", subject="ZSet.concat", hint="Use ZSet.empty(schema) for a zero."
            )
        for part in parts[1:]:
            _rows.check_same_schema(parts[0].schema, part.schema, "ZSet")
        schema = _common(parts)
        some = [part for part in parts if len(part)] or [parts[0]]
        batches = [_with_schema(part._rows, schema) for part in some]
        if len(some) == 1:
            return cls._of(batches[0], some[0]._weights, consolidated=some[0]._consolidated)
        try:
            batch = pa.concat_batches(batches)
        except pa.ArrowException as error:
            raise Unsupported(
                f"the rows do not fit into one batch: {error}",
                subject="ZSet",
                hint="Cast columns with dictionaries to their values' type, and those with very long texts "
                "to large_string.",
            ) from error
        return cls._of(batch, np.concatenate([part._weights for part in some]))

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
        """The columns of the rows, without weights."""
        return self._rows.schema

    @property
    def total_weight(self) -> int:
        """The sum of all weights, exact whatever its size."""
        return total(self._weights)

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

    def to_changelog(self) -> pa.RecordBatch:
        """The rows in changelog form: ``_op`` is +I where copies are added, -D where they are taken away.

        ``_weight`` says how many; rows of weight 0 are left out. `from_changelog` gives the Z-set back.

        >>> ZSet.from_arrow(pa.table({"x": [7, 8]}), [1, -2]).to_changelog().to_pylist()
        [{'x': 7, '_op': 0, '_weight': 1}, {'x': 8, '_op': 3, '_weight': -2}]
        """
        z = self._where(self._weights != 0)
        return to_changelog(z._rows, z._weights)

    def to_dict(self) -> dict[tuple[Any, ...], int]:
        """Consolidated content as ``{row: weight}``: for people and tests. Rows must be hashable."""
        z = self.consolidate()
        columns = [column.to_pylist() for column in z._rows.columns]
        return dict(zip(zip(*columns, strict=True), z._weights.tolist(), strict=True))

    def __neg__(self) -> ZSet:
        return ZSet._of(self._rows, negated(self._weights), consolidated=self._consolidated)

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
        by = as_weights(factor, "ZSet")
        if by.ndim and by.shape != self._weights.shape:
            raise InvalidArgument(
                f"there are {len(self)} rows and factors of shape {by.shape}",
                subject="ZSet",
                hint="Multiply by one number, or by exactly one per row.",
            )
        return ZSet._of(self._rows, times(self._weights, by))

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
        weights = sum_by_group(self._weights, grouping.ids, grouping.count)
        alive = weights != 0
        if grouping.count == len(self) and alive.all():
            batch = self._rows
        else:
            batch = self._rows.take(pa.array(grouping.first[alive]))
            weights = weights[alive]
        columns = [_rows.canonical(column) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema) if columns else batch
        return ZSet._of(batch, weights, consolidated=True)

    def split(self) -> tuple[ZSet, ZSet]:
        """What is added and what is taken away: ``plus + minus == z``, rows of weight 0 left out."""
        return self._where(self._weights > 0), self._where(self._weights < 0)

    def filter(self, mask: npt.ArrayLike | pa.Array) -> ZSet:
        """The rows where the mask is true; NULL is not true."""
        if isinstance(mask, pa.Array | pa.ChunkedArray):
            if not pa.types.is_boolean(mask.type):
                raise _not_truth(mask.type)
            return self._where(mask.fill_null(False).to_numpy(zero_copy_only=False))
        array = np.asarray(mask)
        if array.dtype != np.bool_ and array.size:
            raise _not_truth(array.dtype)
        return self._where(array.astype(np.bool_))

    def project(self, columns: Sequence[str]) -> ZSet:
        """Only these columns, in this order. Linear: weights stay, equal rows are not yet summed."""
        if isinstance(columns, str) or len(set(columns)) < len(columns):
            raise InvalidArgument(
                f"{columns!r} does not name columns, each once",
                subject="ZSet",
                hint='Give a list such as ["id", "total"].',
            )
        missing = [name for name in columns if name not in self.schema.names]
        if missing:
            raise InvalidArgument(
                f"there is no column {missing[0]!r}",
                subject="ZSet",
                hint=f"The columns are {', '.join(self.schema.names)}.",
            )
        return ZSet._of(self._rows.select(list(columns)), self._weights)

    def _where(self, mask: npt.NDArray[np.bool_]) -> ZSet:
        if mask.shape != self._weights.shape:
            raise InvalidArgument(
                f"there are {len(self)} rows and a mask of shape {mask.shape}",
                subject="ZSet",
                hint="Give exactly one truth value per row.",
            )
        if mask.all():
            return self
        # Of a batch without columns, filtering would keep the number of rows.
        few = self._rows.num_columns
        kept = self._rows.filter(pa.array(mask)) if few else self._rows.slice(0, np.count_nonzero(mask))
        return ZSet._of(kept, self._weights[mask], consolidated=self._consolidated)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same multiset, whatever their order and however far consolidated."""
        if not isinstance(other, ZSet):
            return NotImplemented
        if self.schema.names != other.schema.names or self.schema.types != other.schema.types:
            return False
        mine, theirs = self.consolidate(), other.consolidate()
        if len(mine) != len(theirs):
            return False
        # Not by subtracting: −2⁶³ is a weight like any other, and has no opposite.
        grouping = _rows.group(ZSet.concat([mine, theirs])._rows.columns, 2 * len(mine))
        partner = grouping.ids[len(mine) :]
        if grouping.count > len(mine):
            return False
        return bool((mine._weights[partner] == theirs._weights).all())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [
            f"{'+' if weight >= 0 else '−'}{abs(weight)} {shown_row(self._rows, row)}"
            for row, weight in enumerate(self._weights[:5].tolist())
        ]
        more = [f"… {len(self) - 5} more"] if len(self) > 5 else []
        noun = "row" if len(self) == 1 else "rows"
        return f"ZSet({len(self)} {noun}{': ' if parts else ''}{', '.join(parts + more)})"


def _common(parts: Sequence[ZSet]) -> pa.Schema:
    """The first one's schema; a column that is nullable in any part is nullable in the sum."""
    schema = parts[0].schema
    if all(part.schema is schema or part.schema == schema for part in parts):
        return schema
    fields = [
        field.with_nullable(any(part.schema.field(i).nullable for part in parts))
        for i, field in enumerate(schema)
    ]
    return pa.schema(fields, schema.metadata)


def _with_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not rows.num_columns:
        return rows.replace_schema_metadata(schema.metadata)
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)


def _not_truth(kind: object) -> InvalidArgument:
    return InvalidArgument(
        f"a mask of {kind} does not hold truth values",
        subject="ZSet.filter",
        hint="Compare first, as in pc.greater(column, 0).",
    )
