"""From limbs to results: one rounding, or an error when the exact number does not fit its type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.aggregates.limbs import DIGIT, LOW, Bools, Int64s, carry, fold

__all__ = ["divide_half_up", "magnitude", "to_decimal", "to_float64", "to_int64"]

Float64s = npt.NDArray[np.float64]
_BLOCK = 16_384  # groups at a time, so that all passes over a block stay in the processor's cache
_MAX_DIVISOR = 1 << 31


def magnitude(limbs: Int64s) -> tuple[Bools, Int64s]:
    """Which numbers are negative, and the digits of |number|, each in [0, 2³²): one row more than limbs."""
    digits = np.empty((len(limbs) + 1, limbs.shape[1]), np.int64)
    digits[:-1] = limbs
    carry(digits[:-1])
    negative = digits[-2] < 0
    np.negative(digits[:-1], out=digits[:-1], where=negative)
    carry(digits[:-1])
    digits[-1] = digits[-2] >> DIGIT
    digits[-2] &= LOW
    return negative, digits


def to_float64(limbs: Int64s, exponent: int) -> Float64s:
    """The doubles nearest to number·2^exponent, half to even; beyond the largest, ±infinity.

    The leading 64 bits go into one integer whose last bit also says whether anything non-zero follows
    (the sticky bit). Converting that to a double rounds exactly once, because 64 > 53 + 2, and scaling by
    a power of two is exact: a result below 2^-1022 has at most 52 bits when ``exponent`` ≥ −1074.

    >>> import numpy as np
    >>> to_float64(np.array([[3], [1]]), -32).tolist()
    [1.000000000698492]
    """
    result = np.empty(limbs.shape[1], np.float64)
    for start in range(0, limbs.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = _round_block(limbs[:, block], exponent)
    return result


def _round_block(limbs: Int64s, exponent: int) -> Float64s:
    negative, digits = magnitude(limbs)
    padded = np.vstack([np.zeros((2, digits.shape[1]), np.int64), digits])
    filled = padded != 0
    lead = np.full(digits.shape[1], 2)
    for i in range(3, len(padded)):
        lead[filled[i]] = i
    # something_below[i]: whether a digit under row i is not zero
    something_below = np.logical_or.accumulate(filled, axis=0)
    column = np.arange(digits.shape[1])
    first, second, third = (padded[lead - i, column] for i in range(3))
    bits = np.frexp(first.astype(np.float64))[1].astype(np.int64)  # bit length of the leading digit
    rest = third & ((1 << bits) - 1)
    sticky = (rest != 0) | (something_below[lead - 3, column] & (lead > 2))
    word = first.astype(np.uint64) << (64 - np.maximum(bits, 1)).astype(np.uint64)
    word |= (second << (DIGIT - bits)).view(np.uint64)
    word |= (third >> bits).view(np.uint64)
    word |= sticky
    rounded = word.astype(np.float64)
    np.negative(rounded, out=rounded, where=negative)
    with np.errstate(over="ignore"):  # infinity is the answer, as the docstring says
        scaled: Float64s = np.ldexp(rounded, DIGIT * (lead - 2) + bits - 64 + exponent)
    return scaled


def to_int64(limbs: Int64s) -> tuple[Int64s, Bools]:
    """Carried limbs as plain integers, and where they fit."""
    folded, fits = fold(limbs, 1)
    return folded[0], fits


def to_decimal(limbs: Int64s, kind: pa.Decimal128Type, valid: Bools) -> tuple[pa.Array, Bools]:
    """Carried limbs as unscaled decimals, NULL where not valid; and where the precision suffices."""
    while len(limbs) < 3:
        limbs = np.vstack([limbs[:-1], limbs[-1:] & LOW, limbs[-1:] >> DIGIT])
    (d0, d1, high), fits = fold(limbs, 3)
    words = np.empty((len(high), 2), np.int64)
    words[:, 0] = (d1 << DIGIT) | d0
    words[:, 1] = high
    fits &= _below(words, 10**kind.precision)
    bitmap = pa.array(valid).buffers()[1]
    array = pa.Array.from_buffers(kind, len(words), [bitmap, pa.py_buffer(words)])
    return array, fits | ~valid


def _below(words: Int64s, limit: int) -> Bools:
    """Whether |word pair| < limit, in 128-bit two's complement."""
    negative = words[:, 1] < 0
    low = np.where(negative, -words[:, 0], words[:, 0]).view(np.uint64)
    high = np.where(negative, ~words[:, 1] + (words[:, 0] == 0), words[:, 1]).view(np.uint64)
    top, bottom = np.uint64(limit >> 64), np.uint64(limit & (2**64 - 1))
    less: Bools = (high < top) | ((high == top) & (low < bottom))
    return less


def divide_half_up(limbs: Int64s, factor: int, divisors: Int64s) -> Int64s:
    """number·factor / divisor with one rounding, ties away from zero; divisors are not 0.

    Long division, digit by digit, over all groups at once; groups of more than 2³¹ rows take Python's
    integers one by one. ``factor`` is below 2³⁰.

    >>> import numpy as np
    >>> to_int64(divide_half_up(np.array([[-1]]), 10_000, np.array([32])))  # −1/32 = −0.03125
    (array([-313]), array([ True]))
    """
    negative, digits = magnitude(limbs)
    quotient = np.vstack([digits * factor, np.zeros((1, digits.shape[1]), np.int64)])
    carry(quotient)
    divisor = np.abs(divisors)
    large = (divisor >= _MAX_DIVISOR) | (divisor < 0)  # |−2⁶³| stays negative
    divisor[large] = 1
    exact = _divide_one_by_one(quotient[:, large], divisors[large])
    remainder = np.zeros(len(divisor), np.int64)
    for i in range(len(quotient) - 1, -1, -1):
        current = (remainder << DIGIT) | quotient[i]
        quotient[i] = current // divisor
        remainder = current - quotient[i] * divisor
    quotient[0] += 2 * remainder >= divisor
    quotient[:, large] = exact
    np.negative(quotient, out=quotient, where=negative != (divisors < 0))
    carry(quotient)
    return quotient


def _divide_one_by_one(digits: Int64s, divisors: Int64s) -> Int64s:
    quotients = np.empty_like(digits)
    for group, divisor in enumerate(np.abs(divisors.astype(object))):
        number = sum(int(digit) << (DIGIT * i) for i, digit in enumerate(digits[:, group]))
        rounded = (2 * number + divisor) // (2 * divisor)
        for i in range(len(digits)):
            quotients[i, group] = (rounded >> (DIGIT * i)) & LOW
    return quotients
