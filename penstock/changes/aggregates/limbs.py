"""Sums wider than 64 bits: one integer per group, kept as int64 limbs in base 2³².

Law: group g's integer is Σ limb[i][g]·2^(32·i). Adding is limb by limb, so states form a commutative
group, and any columns that add up to the right integer (also ones summed by Spark) are a good state.
State: a table of ``width`` rows of int64, one column per group.
Invariant: ``|limb[i]| ≤ bound[i] ≤ 2⁶²`` for a bound that is known *without looking at the limbs*; so one
comparison of Python integers per batch shows that no addition can wrap. Carries are moved only when a bound
runs out, and a batch that still does not fit takes a slower way through a wider table.
Cost: O(rows) per batch, and O(groups) for a carry, which is rare: with 32-bit digits it takes 2³⁰ rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.errors import ArithmeticOverflow

__all__ = [
    "DIGIT",
    "LOW",
    "ROOM",
    "Bools",
    "Commit",
    "Int64s",
    "Limbs",
    "Part",
    "carry",
    "fold",
    "times",
    "widest_totals",
]

Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Part: TypeAlias = Int64s | int
"""What is added to one limb: a number per row, or one number for all rows."""
Commit: TypeAlias = Callable[[], None]
"""The second half of a change, which cannot fail: everything that can was checked in the first."""

DIGIT = 32
LOW = (1 << DIGIT) - 1
ROOM = 1 << 62


class Limbs:
    """One wide integer per group.

    >>> import numpy as np
    >>> sums = Limbs(width=3)
    >>> big = np.array([2**62, 2**62, 2**62])
    >>> sums.prepare(2, np.array([0, 1, 0]), [big], [3 * 2**62])()
    >>> [sums.exact(group) == 2**62 * n for group, n in ((0, 2), (1, 1))]
    [True, True]
    """

    __slots__ = ("_bounds", "_table", "count", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self._table: Int64s = np.zeros((width, 0), np.int64)
        self._bounds = [0] * width

    @property
    def columns(self) -> Int64s:
        """The limbs as they are, least significant first."""
        return self._table[:, : self.count]

    @property
    def bounds(self) -> list[int]:
        """What no limb of each row exceeds in absolute value."""
        return self._bounds

    def grow(self, count: int) -> None:
        """Make room for groups 0..count−1; new ones are 0. Amortised O(new groups)."""
        if count > self._table.shape[1]:
            table = np.zeros((self.width, max(count, 2 * self._table.shape[1])), np.int64)
            table[:, : self.count] = self.columns
            self._table = table
        self.count = max(self.count, count)

    def prepare(self, count: int, ids: Int64s | None, parts: Sequence[Part], bounds: Sequence[int]) -> Commit:
        """Check that ``parts[i]`` can be added to limb i of groups ``ids``; the answer does it.

        ``bounds[i]`` is at least Σ |parts[i]| over all rows. Without ids, ``parts`` are whole columns.
        There may be more parts than limbs, as long as the result fits.
        """
        if len(parts) <= self.width and self.reserve(bounds):
            return partial(self.scatter, count, ids, parts)
        table = self._wide(count, ids, parts)
        return partial(self._replace, table)

    def reserve(self, bounds: Sequence[int]) -> bool:
        """Claim room for adding that much to each limb, moving carries if need be; False if there is none.

        A claim that is not used costs an earlier carry, nothing else.
        """
        more = list(bounds) + [0] * (self.width - len(bounds))
        if not self._fits(more):
            if max(more) > ROOM or max(self._bounds) > ROOM:
                return False  # a top limb beyond ROOM may be too full to take a carry
            carry(self.columns)
            self._know_bounds()
            if not self._fits(more):
                return False
        self._bounds = [mine + extra for mine, extra in zip(self._bounds, more, strict=True)]
        return True

    def scatter(
        self, count: int, ids: Int64s | None, parts: Sequence[Part], first: Int64s | None = None
    ) -> None:
        """Add what was reserved. With ``first``, row r's parts go to limbs first[r], first[r]+1, …"""
        self.grow(count)
        if first is not None:
            capacity = self._table.shape[1]
            flat = self._table.reshape(-1)
            index = first * capacity
            index += ids
            for part in parts:
                np.add.at(flat, index, part)
                index += capacity
            return
        for row, part in zip(self._table, parts, strict=False):
            if ids is None:
                row[:count] += part
            elif self.count == 1:
                row[0] += part * len(ids) if isinstance(part, int) else part.sum()
            else:
                np.add.at(row, ids, part)

    def spill(self) -> tuple[Int64s, Int64s]:
        """Take away what the top limb holds beyond 32 bits: the groups, and amounts of the limb above it."""
        if max(self._bounds) <= ROOM:
            carry(self.columns)
        top = self.columns[-1]
        groups = np.flatnonzero(top >> DIGIT)
        amounts = top[groups] >> DIGIT
        top &= LOW
        self._know_bounds()
        return groups, amounts

    def carried(self) -> Int64s:
        """A copy with carries moved: digits in [0, 2³²), and a signed top limb."""
        table = self.columns.copy()
        carry(table)
        return table

    def signed(self) -> Int64s:
        """A copy in canonical form: the digits of the absolute value, each with the sign of the whole."""
        table = self.carried()
        negative = table[-1] < 0
        np.negative(table, out=table, where=negative)
        carry(table)
        np.negative(table, out=table, where=negative)
        return table

    def exact(self, group: int) -> int:
        """One group's integer."""
        return sum(int(limb) << (DIGIT * i) for i, limb in enumerate(self.columns[:, group]))

    def clear(self) -> None:
        """Back to no groups at all."""
        self.count = 0
        self._table = np.zeros((self.width, 0), np.int64)
        self._bounds = [0] * self.width

    def _fits(self, more: Sequence[int]) -> bool:
        return all(mine + extra <= ROOM for mine, extra in zip(self._bounds, more, strict=True))

    def _know_bounds(self) -> None:
        top = self.columns[-1]
        widest = max(int(top.max()), -int(top.min())) if self.count else 0
        self._bounds = [LOW] * (self.width - 1) + [widest]

    def _wide(self, count: int, ids: Int64s | None, parts: Sequence[Part]) -> Int64s:
        """The whole state after adding, through a table wide enough for anything. O(groups + rows)."""
        count = max(count, self.count)
        rows = np.arange(np.size(parts[0])) if ids is None else ids
        wide = np.zeros((max(self.width, len(parts)) + 2, count), np.int64)
        for i, part in enumerate(parts):
            np.add.at(wide[i], rows, part & LOW)
            np.add.at(wide[i + 1], rows, part >> DIGIT)
        for i, column in enumerate(self.columns):
            wide[i, : self.count] += column & LOW
            wide[i + 1, : self.count] += column >> DIGIT
        carry(wide)
        table, fits = fold(wide, self.width)
        # −2⁶³ has no absolute value in int64: leaving it out keeps negation simple everywhere.
        fits &= table[-1] > -(1 << 63)
        if not fits.all():
            group = int(np.flatnonzero(~fits)[0])
            raise ArithmeticOverflow(
                f"the total of group {group} leaves the {DIGIT * self.width + DIGIT} bits of its state",
                subject="aggregate",
                hint="No real bag is that large: look for a change that is applied again and again.",
            )
        return table

    def _replace(self, table: Int64s) -> None:
        self._table = table
        self.count = table.shape[1]
        self._know_bounds()


def carry(limbs: Int64s) -> None:
    """Move carries upwards, in place: all but the top limb end up in [0, 2³²). Values stay."""
    for i in range(len(limbs) - 1):
        limbs[i + 1] += limbs[i] >> DIGIT
        limbs[i] &= LOW


def fold(limbs: Int64s, width: int) -> tuple[Int64s, Bools]:
    """Carried limbs as only ``width`` of them, the rest taken into the last; and where that fits.

    >>> import numpy as np
    >>> fold(np.array([[1], [1], [0]]), 1)
    (array([[4294967297]]), array([ True]))
    """
    fits = np.ones(limbs.shape[1], np.bool_)
    top = limbs[-1].copy()
    for i in range(len(limbs) - 2, width - 2, -1):
        fits &= (top >= -(1 << 31)) & (top < 1 << 31)
        top <<= DIGIT
        top |= limbs[i]
    return np.vstack([limbs[: width - 1], top[None]]), fits


def times(magnitude: Sequence[Int64s], negative: Bools, weights: Int64s | None) -> list[Int64s]:
    """Digits of weight·value, for weights and values of any size: two more than ``magnitude`` has.

    ``magnitude`` holds the digits of |value|, each below 2³². Every product of two digits is below 2⁶⁴ and
    is cut in two again, so the results stay below 2³⁵.

    >>> import numpy as np
    >>> parts = times([np.array([7]), np.array([1])], np.array([True]), np.array([2**40]))
    >>> sum(int(part[0]) << 32 * i for i, part in enumerate(parts)) == -(2**32 + 7) * 2**40
    True
    """
    if weights is None:
        weights = np.ones(len(negative), np.int64)
    size = np.abs(weights).view(np.uint64)  # |−2⁶³| wraps to −2⁶³, whose bits are 2⁶³ unsigned
    mask, shift = np.uint64(LOW), np.uint64(DIGIT)
    factors = (size & mask, size >> shift)
    parts = [np.zeros(len(weights), np.int64) for _ in range(len(magnitude) + 2)]
    for i, digit in enumerate(magnitude):
        for j, factor in enumerate(factors):
            product = digit.view(np.uint64) * factor
            parts[i + j] += (product & mask).view(np.int64)
            parts[i + j + 1] += (product >> shift).view(np.int64)
    sign = np.where(negative != (weights < 0), -1, 1)
    return [part * sign for part in parts]


def widest_totals(parts: Sequence[Int64s]) -> list[int]:
    """For each part, a bound of what it adds up to, whichever of its rows meet."""
    return [max(int(part.max()), -int(part.min())) * len(part) if len(part) else 0 for part in parts]
