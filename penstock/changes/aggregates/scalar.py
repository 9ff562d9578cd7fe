"""Aggregates over one bag of values, one value at a time: for people, tests and small things.

Law: a state is an element of a commutative group: `retract` is the inverse of `accumulate`, `merge` is
addition. So taking away what was never added is fine: the insert may be in another partition's state, and
`merge` brings them together. SUM, AVG, MIN and MAX of nothing are None; None values are ignored by all but
`Count`.

The same over many groups, in batches: the classes with ``Grouped`` before their names.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Self

from penstock.changes.aggregates.totals import Number, Total, number
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["Aggregate", "Avg", "Count", "CountColumn", "Max", "Min", "Sum"]


class Aggregate(ABC):
    """What all of them can do."""

    __slots__ = ()
    name: ClassVar[str]

    @abstractmethod
    def accumulate(self, value: Any, weight: int = 1) -> None:
        """Add ``weight`` copies of the value; a negative weight takes copies away."""

    def retract(self, value: Any) -> None:
        """Take one copy away: the inverse of `accumulate`."""
        self.accumulate(value, -1)

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add everything the other state holds."""

    @abstractmethod
    def finalize(self) -> Any:
        """The result of what is there now. Changes nothing."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the beginning."""

    @property
    def supports_efficient_retraction(self) -> bool:
        """Whether a retraction, and the result after it, cost the same however much is there."""
        return True

    def _check_same(self, other: object) -> None:
        if type(other) is not type(self):
            raise SchemaMismatch(
                f"the other state is a {type(other).__name__}",
                subject=self.name,
                hint="Merge only states of the same aggregate.",
            )

    def _check_kind(self, mine: type | None, theirs: type | None) -> None:
        if mine is not None and theirs is not None and mine is not theirs:
            raise SchemaMismatch(
                f"the values so far are {mine.__name__}, this is {theirs.__name__}",
                subject=self.name,
                hint="Give values of one type, as a column has.",
            )

    def _check_weight(self, weight: object) -> None:
        if not isinstance(weight, int) or isinstance(weight, bool):
            raise InvalidArgument(
                f"the weight {weight!r} is not an integer",
                subject=self.name,
                hint="Weights count copies: give integers.",
            )


class Count(Aggregate):
    """COUNT(*): how many rows. Negative when more was taken away than was there.

    >>> count = Count()
    >>> count.accumulate("a"); count.accumulate(None, 2); count.retract("a")
    >>> count.finalize()
    2
    """

    __slots__ = ("_count",)
    name = "COUNT"

    def __init__(self) -> None:
        self._count = 0

    def accumulate(self, value: Any = None, weight: int = 1) -> None:
        self._check_weight(weight)
        self._count += weight

    def retract(self, value: Any = None) -> None:
        self.accumulate(value, -1)

    def merge(self, other: Self) -> None:
        self._check_same(other)
        self._count += other._count

    def finalize(self) -> int:
        return self._count

    def reset(self) -> None:
        self._count = 0


class CountColumn(Count):
    """COUNT(column): how many rows whose value is not None.

    >>> count = CountColumn()
    >>> count.accumulate("a"); count.accumulate(None)
    >>> count.finalize()
    1
    """

    __slots__ = ()

    def accumulate(self, value: Any = None, weight: int = 1) -> None:
        if value is not None:
            super().accumulate(value, weight)


class Sum(Aggregate):
    """SUM over int, Decimal or float: always exact, a float result is rounded once.

    None when the state is zero: no rows, or as many taken away as added. Integers have no limit here; the
    grouped form checks against its Arrow type. Floats: see `penstock.changes.aggregates.exact`.

    >>> total = Sum()
    >>> for value in (1e100, 3.14, -7.5): total.accumulate(value)
    >>> total.retract(1e100); total.retract(-7.5)
    >>> total.finalize()
    3.14
    """

    __slots__ = ("_count", "_total")
    name = "SUM"

    def __init__(self) -> None:
        self._count = 0
        self._total: Total | None = None

    def accumulate(self, value: Any, weight: int = 1) -> None:
        self._check_weight(weight)
        if value is None:
            return
        value = number(value, self.name)
        self._total_of(type(value)).add(value, weight)
        self._count += weight

    def merge(self, other: Self) -> None:
        self._check_same(other)
        if other._total is not None:
            self._total_of(other._total.kind).merge(other._total)
            self._count += other._count

    def finalize(self) -> Number | None:
        if self._total is None or (self._count == 0 and self._total.is_zero):
            return None
        return self._total.sum()

    def reset(self) -> None:
        self._count = 0
        self._total = None

    def _total_of(self, kind: type) -> Total:
        if self._total is None:
            self._total = Total.of(kind)
        self._check_kind(self._total.kind, kind)
        return self._total


class Avg(Sum):
    """AVG: the exact sum by the count; None for no rows.

    Floats and integers: the sum as the nearest double, divided by the count. Decimals: the exact quotient,
    rounded half up to four more decimal places than the values have, as Spark does.

    >>> average = Avg()
    >>> for text in ("0.01", "0.02", "0.02"): average.accumulate(Decimal(text))
    >>> average.finalize()
    Decimal('0.016667')
    """

    __slots__ = ()
    name = "AVG"

    def finalize(self) -> Number | None:
        if self._total is None or self._count == 0:
            return None
        return self._total.average(self._count)


class _Extreme(Aggregate):
    __slots__ = ("_extreme", "_kind", "_known", "_weights")

    def __init__(self) -> None:
        self._weights: dict[Any, int] = {}
        self._kind: type | None = None
        self._known = True
        self._extreme: Any = None

    @property
    def supports_efficient_retraction(self) -> bool:
        """False: after the last copy of the extreme is gone, the next result looks at every value."""
        return False

    def accumulate(self, value: Any, weight: int = 1) -> None:
        self._check_weight(weight)
        if value is None:
            return
        value = self._canonical(value)
        self._check_kind(self._kind, type(value))
        self._kind = type(value)
        self._add(value, weight)

    def merge(self, other: Self) -> None:
        self._check_same(other)
        self._check_kind(self._kind, other._kind)
        self._kind = self._kind or other._kind
        for value, weight in list(other._weights.items()):
            self._add(value, weight)

    def finalize(self) -> Any:
        if not self._known:
            alive = [value for value, weight in self._weights.items() if weight > 0]
            self._extreme = self._choose(alive) if alive else None
            self._known = True
        return self._extreme

    def reset(self) -> None:
        self._weights.clear()
        self._kind = None
        self._known = True
        self._extreme = None

    @abstractmethod
    def _choose(self, values: Sequence[Any]) -> Any: ...

    def _add(self, value: Any, weight: int) -> None:
        total = self._weights.get(value, 0) + weight
        if total:
            self._weights[value] = total
        else:
            self._weights.pop(value, None)
        if not self._known:
            return
        if total > 0:
            known = [value] if self._extreme is None else [self._extreme, value]
            self._extreme = self._choose(known)
        elif self._extreme is not None and _spark_order(value) == _spark_order(self._extreme):
            self._known = False

    def _canonical(self, value: Any) -> Any:
        if isinstance(value, Decimal | Real) and not isinstance(value, bool):
            value = number(value, self.name)
            # A dictionary finds NaN by identity only, so there is one of it; 0.0 stands for −0.0.
            return (math.nan if math.isnan(value) else value + 0.0) if isinstance(value, float) else value
        try:
            hash(value)
            value < value  # noqa: B015
        except TypeError:
            raise InvalidArgument(
                f"{value!r} cannot be put in order",
                subject=self.name,
                hint="Give numbers, strings, bytes, dates or times, or None for NULL.",
            ) from None
        return value


class Min(_Extreme):
    """MIN: the least value of weight > 0; None when there is none. NaN is above every number, as in Spark.

    It remembers every value with its weight. `accumulate` and `retract` are O(1); but after the last copy
    of the least value went, the next `finalize` looks at every distinct value that is left.

    >>> least = Min()
    >>> for value in (3, 1, 2): least.accumulate(value)
    >>> least.retract(1)
    >>> least.finalize()
    2
    """

    __slots__ = ()
    name = "MIN"

    def _choose(self, values: Sequence[Any]) -> Any:
        return min(values, key=_spark_order)


class Max(_Extreme):
    """MAX: the greatest value of weight > 0; None when there is none. NaN is above every number, as in Spark.

    State and cost are those of `Min`.

    >>> greatest = Max()
    >>> for text in ("a", "c", "b"): greatest.accumulate(text)
    >>> greatest.retract("c")
    >>> greatest.finalize()
    'b'
    """

    __slots__ = ()
    name = "MAX"

    def _choose(self, values: Sequence[Any]) -> Any:
        return max(values, key=_spark_order)


def _spark_order(value: Any) -> tuple[bool, Any]:
    """NaN after everything; NaNs are equal because there is only one (see `_canonical`)."""
    return value != value, value
