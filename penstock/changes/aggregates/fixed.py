"""Exact sums of integers and decimals.

Law: the sum is Σ weight·value as an integer (for decimals: of units of 10^-scale), in base 2³² limbs; value
= Σ limb[i]·2^(32·i). `FixedSums.columns` gives every limb the sign of the sum, so a sum and its negative
are negatives column by column. Per row, Spark's truncating operators make the same digits: ``v %
4294967296``, ``(v div 4294967296) % 4294967296``, and so on.
State: as many limbs as hold 2⁶³ copies of the widest value, so a sum leaves its state only after the count
of rows has left int64. Sums that leave their *result's* range and come back are fine; `sum` looks then.
Cost: one or two additions per row for values up to 64 bits, four beyond.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.changes.aggregates.batch import Batch
from penstock.changes.aggregates.limbs import (
    DIGIT,
    LOW,
    ROOM,
    Bools,
    Commit,
    Int64s,
    Limbs,
    Part,
    times,
    widest_totals,
)
from penstock.changes.aggregates.results import divide_half_up, to_decimal, to_float64, to_int64
from penstock.errors import ArithmeticOverflow

__all__ = ["FixedSums", "decimal_average", "decimal_sum"]

_INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
_SMALL_TOTAL = 1 << 50


def decimal_sum(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    """Spark's type of SUM over a decimal: ten digits more, up to 38."""
    return pa.decimal128(min(38, kind.precision + 10), kind.scale)


def decimal_average(kind: pa.Decimal128Type) -> pa.Decimal128Type:
    """Spark's type of AVG over a decimal: four more decimal places, each bound by 38."""
    return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))


class FixedSums:
    """One exact sum of integers or decimals per group."""

    __slots__ = ("_kind", "_limbs", "_name")

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._name = str(kind)
        bits = _INTEGERS[kind] if kind in _INTEGERS else (10**kind.precision).bit_length()
        self._limbs = Limbs(-(-bits // DIGIT) + 1)

    @staticmethod
    def takes(kind: pa.DataType) -> bool:
        return kind in _INTEGERS or pa.types.is_decimal128(kind)

    @property
    def is_decimal(self) -> bool:
        return self._kind not in _INTEGERS

    @property
    def sum_type(self) -> pa.DataType:
        return decimal_sum(self._kind) if self.is_decimal else pa.int64()

    @property
    def average_type(self) -> pa.DataType:
        return decimal_average(self._kind) if self.is_decimal else pa.float64()

    def prepare(self, batch: Batch, values: pa.Array) -> Commit:
        """The change that adds a batch without NULLs. Errors come now, not when it is done."""
        low, high = self._words(values)
        parts: list[Part]
        if high is not None and not (high == low >> 63).all():
            digits = [low & LOW, (low >> DIGIT) & LOW, high & LOW, high >> DIGIT]
            return self._digits(batch, digits, low, high)
        widest = max(int(low.max()), -int(low.min())) if len(low) else 0
        total = batch.mass * widest
        # Whole values in the lowest limb are fastest. But they use its room up, and a carry costs O(groups):
        # only when the batch is as large as the state, or the values are small.
        if total <= ROOM // 4 and (total <= _SMALL_TOTAL or len(batch) >= self._limbs.count):
            parts = [low if batch.weights is None else low * batch.weights]
            return self._limbs.prepare(batch.groups, batch.ids, parts, [total])
        return self._digits(batch, [low & LOW, low >> DIGIT], low, None)

    def _digits(self, batch: Batch, digits: list[Int64s], low: Int64s, high: Int64s | None) -> Commit:
        total = batch.mass << DIGIT
        if total <= ROOM // 4:
            if batch.weights is not None:
                digits = [digit * batch.weights for digit in digits]
            return self._limbs.prepare(batch.groups, batch.ids, digits, [total] * len(digits))
        parts = times(*_magnitude(low, high), batch.weights)
        return self._limbs.prepare(batch.groups, batch.ids, parts, [len(batch) << 35] * len(parts))

    def prepare_merge(self, other: FixedSums) -> Commit:
        theirs = other._limbs
        return self._limbs.prepare(theirs.count, None, list(theirs.columns), theirs.bounds)

    def prepare_columns(self, count: int, ids: Int64s, columns: dict[str, Int64s]) -> Commit:
        parts = list(columns.values())
        return self._limbs.prepare(count, ids, parts, widest_totals(parts))

    def columns(self) -> dict[str, Int64s]:
        """The sums in canonical form, as columns that add up."""
        return dict(zip(self.column_names, self._limbs.signed(), strict=True))

    @property
    def column_names(self) -> list[str]:
        return [f"limb{i}" for i in range(self._limbs.width)]

    def grow(self, count: int) -> None:
        self._limbs.grow(count)

    def clear(self) -> None:
        self._limbs.clear()

    def sum(self, counts: Int64s) -> pa.Array:
        """Per group: the sum; NULL where count and sum are both 0."""
        limbs = self._limbs.carried()
        valid = (counts != 0) | (limbs != 0).any(axis=0)
        if self.is_decimal:
            array, fits = to_decimal(limbs, self.sum_type, valid)
        else:
            numbers, fits = to_int64(limbs)
            array = pa.array(numbers, mask=~valid)
        self._check(fits, f"SUM({self._name})", self.sum_type)
        return array

    def average(self, counts: Int64s) -> pa.Array:
        """Per group: sum / count; NULL where the count is 0."""
        valid = counts != 0
        divisors = np.where(valid, counts, 1)
        if not self.is_decimal:
            return pa.array(to_float64(self._limbs.carried(), 0) / divisors, mask=~valid)
        factor = 10 ** (self.average_type.scale - self._kind.scale)
        quotients = divide_half_up(self._limbs.columns, factor, divisors)
        array, fits = to_decimal(quotients, self.average_type, valid)
        self._check(fits, f"AVG({self._name})", self.average_type)
        return array

    def _check(self, fits: Bools, subject: str, kind: pa.DataType) -> None:
        if fits.all():
            return
        group = int(np.flatnonzero(~fits)[0])
        total = self._limbs.exact(group)
        units = f" units of 10^-{self._kind.scale}" if self.is_decimal else ""
        raise ArithmeticOverflow(
            f"the total of group {group}, {total}{units}, gives a result that {kind} cannot hold",
            subject=subject,
            hint="Cast the column to a wider type, or to DOUBLE, before it is aggregated.",
        )

    def _words(self, values: pa.Array) -> tuple[Int64s, Int64s | None]:
        """The values as low and high 64 bits; no high ones where the type cannot need them."""
        if not self.is_decimal:
            return values.to_numpy().astype(np.int64, copy=False), None
        words = np.frombuffer(values.buffers()[1] or b"", np.int64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))]
        low = np.ascontiguousarray(words[::2])
        return low, words[1::2] if self._kind.precision > 18 else None


def _magnitude(low: Int64s, high: Int64s | None) -> tuple[list[Int64s], Bools]:
    """The digits of |value|, and which values are negative."""
    negative = (low if high is None else high) < 0
    size = np.where(negative, -low, low)  # −2⁶³ keeps its bits, which are 2⁶³ unsigned
    digits = [size & LOW, (size >> DIGIT) & LOW]
    if high is not None:
        upper = np.where(negative, ~high + (low == 0), high)
        digits += [upper & LOW, (upper >> DIGIT) & LOW]
    return digits, negative
