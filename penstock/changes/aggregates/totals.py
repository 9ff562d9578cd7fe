"""Exact totals for one-at-a-time sums: one class per kind of number.

Each is a group element: adding with weight −w undoes adding with weight w, to the last bit.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections import Counter
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact
from typing import Any, ClassVar, Self

from penstock.errors import InvalidArgument

__all__ = ["Number", "Total", "number"]

Number = int | Decimal | float

_POINT = 1074  # every finite double is an integer times 2^-1074
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])


def number(value: Any, subject: str) -> Number:
    """A value as int, Decimal or float; NumPy's numbers are taken too."""
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return float(value)
    raise InvalidArgument(
        f"{value!r} is not an int, a float or a finite Decimal",
        subject=subject,
        hint="Give values of one of these types, or None for NULL.",
    )


class Total(ABC):
    """Σ weight·value, exactly."""

    __slots__ = ()
    kind: ClassVar[type]

    @staticmethod
    def of(kind: type) -> Total:
        """The zero of that kind."""
        return _KINDS[kind]()

    @abstractmethod
    def add(self, value: Any, weight: int) -> None: ...

    @abstractmethod
    def merge(self, other: Self) -> None: ...

    @property
    @abstractmethod
    def is_zero(self) -> bool: ...

    @abstractmethod
    def sum(self) -> Number: ...

    @abstractmethod
    def average(self, count: int) -> Number:
        """Sum / count, as the grouped form rounds it; the count is not 0."""


class _Integers(Total):
    __slots__ = ("_sum",)
    kind = int

    def __init__(self) -> None:
        self._sum = 0

    def add(self, value: int, weight: int) -> None:
        self._sum += value * weight

    def merge(self, other: Self) -> None:
        self._sum += other._sum

    @property
    def is_zero(self) -> bool:
        return not self._sum

    def sum(self) -> int:
        return self._sum

    def average(self, count: int) -> float:
        return _nearest(self._sum, 1) / count


class _Decimals(Total):
    """The scale of the result is the greatest among the values that are left, so it is counted with them."""

    __slots__ = ("_scales", "_sum")
    kind = Decimal

    def __init__(self) -> None:
        self._sum = Decimal(0)
        self._scales: Counter[int] = Counter()

    def add(self, value: Decimal, weight: int) -> None:
        self._sum = _EXACT.fma(value, Decimal(weight), self._sum)
        self._scales[_scale(value)] += weight

    def merge(self, other: Self) -> None:
        self._sum = _EXACT.add(self._sum, other._sum)
        for scale, weight in other._scales.items():
            self._scales[scale] += weight

    @property
    def is_zero(self) -> bool:
        return not self._sum

    @property
    def _scale(self) -> int:
        needed = _scale(
            _EXACT.normalize(self._sum)
        )  # more, where +1.5 and −0.4 cancel out each other's scale
        return max([needed, *(scale for scale, weight in self._scales.items() if weight)])

    def sum(self) -> Decimal:
        return _EXACT.quantize(self._sum, Decimal((0, (1,), -self._scale)))

    def average(self, count: int) -> Decimal:
        scale = self._scale + 4
        units = int(_EXACT.scaleb(self._sum, scale))
        rounded = (2 * abs(units) + abs(count)) // (2 * abs(count))
        return _EXACT.scaleb(Decimal(rounded if (units < 0) == (count < 0) else -rounded), -scale)


class _Doubles(Total):
    """The sum in units of 2^-1074, and how many NaNs and infinities there are beside it."""

    __slots__ = ("_minus", "_nan", "_plus", "_units")
    kind = float

    def __init__(self) -> None:
        self._units = self._nan = self._plus = self._minus = 0

    def add(self, value: float, weight: int) -> None:
        if math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self._units += (numerator << (_POINT + 1 - denominator.bit_length())) * weight
        elif math.isnan(value):
            self._nan += weight
        elif value > 0:
            self._plus += weight
        else:
            self._minus += weight

    def merge(self, other: Self) -> None:
        self._units += other._units
        self._nan += other._nan
        self._plus += other._plus
        self._minus += other._minus

    @property
    def is_zero(self) -> bool:
        return not (self._units or self._nan or self._plus or self._minus)

    def sum(self) -> float:
        # −n copies of +∞ are n copies of −∞.
        up, down = self._plus > 0 or self._minus < 0, self._plus < 0 or self._minus > 0
        if self._nan or (up and down):
            return math.nan
        if up or down:
            return math.inf if up else -math.inf
        return _nearest(self._units, 1 << _POINT)

    def average(self, count: int) -> float:
        return self.sum() / count


_KINDS: dict[type, type[Total]] = {total.kind: total for total in (_Integers, _Decimals, _Doubles)}


def _scale(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _nearest(numerator: int, denominator: int) -> float:
    """The double nearest to a fraction, half to even; infinity beyond the largest."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
