"""Arithmetic on weights: 64-bit integers that never wrap in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import ArithmeticOverflow, InvalidArgument

__all__ = ["as_weights", "negated", "sum_by_group", "times", "total"]

Int64s = npt.NDArray[np.int64]
_MAX = 2**63 - 1


def as_weights(values: npt.ArrayLike, subject: str) -> Int64s:
    """The values as int64, shared where they are that already; anything but integers is refused.

    >>> as_weights([2, -1], "ZSet").tolist()
    [2, -1]
    """
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except ValueError:  # lists of unequal length
        raise _not_integers("several lengths", subject) from None
    if array.dtype == np.int64:
        return array
    if not array.size:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and array.max() > _MAX):
        raise _not_integers(f"type {array.dtype}", subject)
    return array.astype(np.int64)


def total(weights: Int64s) -> int:
    """The sum of all, exact whatever its size."""
    return int((weights >> 32).sum()) * 2**32 + int((weights & 0xFFFFFFFF).sum())


def negated(weights: Int64s) -> Int64s:
    """−w for each: −2⁶³ has no opposite."""
    if weights.size and weights.min() == -_MAX - 1:
        raise _overflow("negated")
    return -weights


def times(weights: Int64s, factors: Int64s) -> Int64s:
    """Each weight times the factor, or its factor."""
    if weights.size and _widest(weights) * _widest(factors) > _MAX:
        exact = weights.astype(object) * factors.astype(object)
        if max(exact.max(), -1 - exact.min()) > _MAX:
            raise _overflow("multiplied")
    return weights * factors


def sum_by_group(weights: Int64s, ids: Int64s, groups: int) -> Int64s:
    """Σ weight per group.

    >>> sum_by_group(np.array([1, 5, -3]), np.array([0, 1, 0]), 2).tolist()
    [-2, 5]
    """
    if groups == len(weights):
        return weights
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, ids, weights)
    if _widest(weights) * len(weights) > _MAX:
        # int64 may have wrapped: add the upper halves apart and see whether both tell the same.
        upper = np.zeros(groups, np.int64)
        lower = np.zeros(groups, np.int64)
        np.add.at(upper, ids, weights >> 32)
        np.add.at(lower, ids, weights & 0xFFFFFFFF)
        if ((upper + (lower >> 32)) != (sums >> 32)).any():
            raise _overflow("summed")
    return sums


def _widest(values: Int64s) -> int:
    """The greatest absolute value, as a Python integer (|−2⁶³| has no int64)."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def _not_integers(what: str, subject: str) -> InvalidArgument:
    return InvalidArgument(
        f"weights of {what} are not 64-bit integers",
        subject=subject,
        hint="Weights count copies: give integers.",
    )


def _overflow(how: str) -> ArithmeticOverflow:
    return ArithmeticOverflow(
        f"a weight leaves the range of 64 bits when {how}",
        subject="ZSet",
        hint="No real bag holds so many copies of one row: look for a change that is applied over and over.",
    )
