"""Exact sums of doubles: what is left after any history sums to what `math.fsum` gives, bit for bit.

**The number.** Every finite double is an integer times 2^-1074, so a sum of doubles is an integer too, and
integers can be taken away again without a trace. The integer is written in base 2³²: limb j stands for
2^(32·j − 1074).

**The digits of one row.** With E the 11 exponent bits of x and F its 52 fraction bits, let m = F + 2⁵²·[E >
0] and s = max(E, 1) − 1; then |x| = m·2^(s − 1074). The row touches three neighbouring limbs from j = s >>
5 on; their digits are those of m << (s & 31), each in [0, 2³²). *All digits carry the sign of x*, and are
multiplied by the row's weight. So the state is linear in the rows: columns of int64 that plain SUM adds up.

**The window.** Limbs 30 … 35 are kept as six dense columns per group. A row goes there if and only if x = 0
or 2^-62 ≤ |x| < 2^66 (that is 961 ≤ E ≤ 1088, j from 30 to 33). 66 bits above the point hold every int64
and any sum of money; 62 below hold what is small beside it; 48 bytes per group hold both. The digits of
such a row in plain arithmetic, exact at each step because only powers of two are involved, for instance in
Spark SQL::

    a35 = abs(x)                      d35 = floor(a35 * 2^-46)
    a34 = a35 - d35 * 2^46            d34 = floor(a34 * 2^-14)
    a33 = a34 - d34 * 2^14            d33 = floor(a33 * 2^18)
    a32 = a33 - d33 * 2^-18           d32 = floor(a32 * 2^50)
    a31 = a32 - d32 * 2^-50           d31 = floor(a31 * 2^82)
    a30 = a31 - d31 * 2^-82           d30 = floor(a30 * 2^114)
    limb_j = SUM(weight * sign(x) * CAST(d_j AS BIGINT))

In a state these are the columns limb30 … limb35, after ``count``, the weight of all rows that are not NULL.

**The side store.** Every other row adds (group, limb, amount) entries with the same limb numbers, 0 … 65,
and carries may reach 67. NaN, +∞ and −∞ are counted there as numbers of their own at limbs 96, 100 and 104,
so they can be taken back as well. An entry may lie within the window: amounts of one limb add up wherever
they are kept.

**Room.** An amount is below 2³² in absolute value, so int64 takes 2³⁰ rows of weight ±1 between carries;
bounds are kept as in `Limbs`. A batch whose weights are so large that this is not enough has its weights
cut into digits as well (`times`) and goes to the side store. A window whose highest limb runs full hands
its upper half over.

**The result** is the exact sum rounded once, half to even, subnormals included; beyond the largest double
it is ±infinity (where `math.fsum` raises). No NaN and not both infinities, else NaN; a sum of zeros is 0.0,
never −0.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.aggregates.batch import Batch
from penstock.changes.aggregates.limbs import DIGIT, LOW, ROOM, Commit, Int64s, Limbs, times, widest_totals
from penstock.changes.aggregates.results import to_float64
from penstock.changes.aggregates.sparse import Entries, SparseLimbs

__all__ = ["FIRST", "LAST", "MINUS_INF", "NAN", "PLUS_INF", "DoubleSums", "digits"]

FIRST, LAST = 30, 35
NAN, PLUS_INF, MINUS_INF = 96, 100, 104

_POINT = -1074
_LOWEST_EXPONENT = (FIRST << 5) + 1  # 961
_EXPONENTS = (LAST - 2 - FIRST + 1) << 5  # 128 of them
_HIDDEN = 1 << 52
_FRACTION = _HIDDEN - 1
_BLOCK = 8_192  # rows at a time, so that all passes over a block stay in the processor's cache
_SIDE_BLOCK = 1 << 20
_SIDE_MASS = 1 << 27


def digits(bits: Int64s, lowest_exponent: int = 1) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """For bit patterns of finite doubles: the first limb, and the three digits of |x|.

    >>> import numpy as np
    >>> limb, low, middle, high = digits(np.array([-0.75]).view(np.int64))
    >>> int(limb[0]), [int(d[0]) for d in (low, middle, high)]  # 0.75 = 3·2^1072·2^-1074, 1072 = 32·33 + 16
    (31, [0, 0, 196608])

    A higher ``lowest_exponent`` only says where the three zero digits of 0.0 are put.
    """
    exponent = (bits >> 52) & 0x7FF
    fraction = bits & _FRACTION
    fraction |= np.minimum(exponent, 1) << 52
    shift = np.maximum(exponent, lowest_exponent)
    shift -= 1
    limb = shift >> 5
    shift &= 31
    high = fraction >> DIGIT
    high <<= shift
    fraction &= LOW
    fraction <<= shift
    high += fraction >> DIGIT
    fraction &= LOW
    return limb, fraction, high & LOW, high >> DIGIT


class DoubleSums:
    """One exact sum of doubles per group."""

    __slots__ = ("_side", "_window")

    sum_type = pa.float64()
    average_type = pa.float64()
    column_names = tuple(f"limb{limb}" for limb in range(FIRST, LAST + 1))

    def __init__(self) -> None:
        self._window = Limbs(LAST - FIRST + 1)
        self._side = SparseLimbs()

    @staticmethod
    def takes(kind: pa.DataType) -> bool:
        return kind in (pa.float32(), pa.float64())

    def prepare(self, batch: Batch, values: pa.Array) -> Commit:
        """The change that adds a batch without NULLs. Nothing here can fail."""
        return partial(self._add, batch, values.to_numpy().astype(np.float64, copy=False))

    def _add(self, batch: Batch, values: npt.NDArray[np.float64]) -> None:
        self.grow(batch.groups)
        bits = values.view(np.int64)
        if not self._reserve([batch.mass << DIGIT] * self._window.width):
            self._add_beside(batch, bits)
            return
        exponent = bits >> 52
        exponent &= 0x7FF
        exponent -= _LOWEST_EXPONENT
        outside = exponent.view(np.uint64) >= _EXPONENTS
        if outside.any():
            outside &= (bits << 1) != 0
            inside = ~outside
            self._add_beside(batch.where(outside), bits[outside])
            batch, bits = batch.where(inside), bits[inside]
        self._add_inside(batch, bits)

    def _add_inside(self, batch: Batch, bits: Int64s) -> None:
        for rows in _blocks(len(bits), _BLOCK):
            block = bits[rows]
            limb, *parts = digits(block, _LOWEST_EXPONENT)
            limb -= FIRST
            factor = block >> 63
            factor |= 1
            if batch.weights is not None:
                factor *= batch.weights[rows]
            for part in parts:
                part *= factor
            self._window.scatter(batch.groups, batch.ids[rows], parts, first=limb)

    def _add_beside(self, batch: Batch, bits: Int64s) -> None:
        finite = (bits >> 52) & 0x7FF != 0x7FF
        if not finite.all():
            self._count_specials(batch.where(~finite), bits[~finite])
            batch, bits = batch.where(finite), bits[finite]
        for rows in _blocks(len(bits), _SIDE_BLOCK):
            block, ids = bits[rows], batch.ids[rows]
            limb, *parts = digits(block)
            weights = None if batch.weights is None else batch.weights[rows]
            if batch.mass > _SIDE_MASS:
                parts = times(parts, block < 0, weights)
                self._side.add(ids, limb, parts, len(ids) << 35)
                continue
            factor = (block >> 63) | 1
            if weights is not None:
                factor *= weights
            for part in parts:
                part *= factor
            self._side.add(ids, limb, parts, batch.mass << DIGIT)

    def _count_specials(self, batch: Batch, bits: Int64s) -> None:
        for rows in _blocks(len(bits), _SIDE_BLOCK):
            block = bits[rows]
            limb = np.where((block & _FRACTION) != 0, NAN, np.where(block < 0, MINUS_INF, PLUS_INF))
            one = [np.ones(len(block), np.int64)]
            weights = None if batch.weights is None else batch.weights[rows]
            parts = times(one, np.zeros(len(block), np.bool_), weights)
            self._side.add(batch.ids[rows], limb, parts, len(block) << 35)

    def _reserve(self, bounds: list[int]) -> bool:
        """Claim room in the window, at the side store's cost if the highest limb is full."""
        if self._window.reserve(bounds):
            return True
        if max(bounds) > ROOM // 2:
            return False
        groups, amounts = self._window.spill()
        self._side.add(groups, np.full(len(groups), LAST + 1), [amounts], 1 << DIGIT)
        return self._window.reserve(bounds)

    def prepare_merge(self, other: DoubleSums) -> Commit:
        return partial(self._merge, other)

    def _merge(self, other: DoubleSums) -> None:
        theirs = other._window
        # Both halves are taken before anything moves: ``other`` may be this very state.
        columns, bounds, entries = list(theirs.columns.copy()), theirs.bounds, other._side.entries()
        self._add_columns(theirs.count, None, columns, bounds)
        self._side.merge(entries)

    def _add_columns(self, count: int, ids: Int64s | None, columns: list[Int64s], bounds: list[int]) -> None:
        self.grow(count)
        if self._reserve(bounds):
            self._window.scatter(count, ids, columns)
            return
        rows = np.arange(count) if ids is None else ids
        nothing = np.zeros(len(rows), np.int64)
        parts = [
            (low & LOW) + (below >> DIGIT)
            for low, below in zip([*columns, nothing], [nothing, *columns], strict=True)
        ]
        self._side.add(rows, np.full(len(rows), FIRST), parts, len(rows) << (DIGIT + 1))

    def prepare_columns(self, count: int, ids: Int64s, columns: dict[str, Int64s]) -> Commit:
        parts = list(columns.values())
        return partial(self._add_columns, count, ids, parts, widest_totals(parts))

    def add_sparse(self, groups: Int64s, limbs: Int64s, amounts: Int64s) -> None:
        """Add side-store entries; several may have the same group and limb."""
        for some in _blocks(len(groups), _SIDE_BLOCK):
            parts = [amounts[some] & LOW, amounts[some] >> DIGIT]
            self._side.add(groups[some], limbs[some], parts, _SIDE_BLOCK << DIGIT)

    def columns(self) -> dict[str, Int64s]:
        """The window in canonical form, as columns that add up."""
        return dict(zip(self.column_names, self._window.signed(), strict=True))

    def sparse(self) -> Entries:
        """The side store in canonical form."""
        return self._side.entries()

    def grow(self, count: int) -> None:
        self._window.grow(count)

    def clear(self) -> None:
        self._window.clear()
        self._side.clear()

    def sum(self, counts: Int64s) -> pa.Array:
        """Per group: the sum; NULL where count and sum are both 0."""
        values = self._values()
        return pa.array(values, mask=(counts == 0) & (values == 0))

    def average(self, counts: Int64s) -> pa.Array:
        """Per group: the rounded sum / count; NULL where the count is 0."""
        empty = counts == 0
        return pa.array(self._values() / np.where(empty, 1, counts), mask=empty)

    def _values(self) -> npt.NDArray[np.float64]:
        values = to_float64(self._window.columns, DIGIT * FIRST + _POINT)
        if not self._side:
            return values
        entries = self._side.entries()
        end = int(np.searchsorted(entries.limbs, NAN))
        if end:
            self._recompute(values, entries.groups[:end], entries.limbs[:end], entries.amounts[:end])
        if end < len(entries):
            _put_specials(values, entries.groups[end:], entries.limbs[end:], entries.amounts[end:])
        return values

    def _recompute(
        self, values: npt.NDArray[np.float64], owners: Int64s, limbs: Int64s, amounts: Int64s
    ) -> None:
        """The sums of groups that have entries beside the window: both put into one table, block by block."""
        order = np.argsort(owners, kind="stable")
        owners, limbs, amounts = owners[order], limbs[order], amounts[order]
        groups, starts = np.unique(owners, return_index=True)
        lowest = min(FIRST, int(limbs.min()))
        height = max(LAST, int(limbs.max())) - lowest + 2  # one more for the last carry
        for some in _blocks(len(groups), _BLOCK):
            block = groups[some]
            end = starts[some.stop] if some.stop < len(groups) else len(owners)
            entries = slice(starts[some.start], end)
            table = np.zeros((height, len(block)), np.int64)
            table[FIRST - lowest : LAST - lowest + 1] = self._window.columns[:, block]
            table[limbs[entries] - lowest, np.searchsorted(block, owners[entries])] += amounts[entries]
            values[block] = to_float64(table, DIGIT * lowest + _POINT)


def _put_specials(values: npt.NDArray[np.float64], groups: Int64s, limbs: Int64s, amounts: Int64s) -> None:
    """Overwrite the sums of groups that hold NaN or an infinity; −n copies of +∞ are n copies of −∞."""
    signs = np.zeros((3, len(values)), np.int64)
    # Entries come lowest limb first and the last one written stays: a number's sign is its highest limb's.
    signs[(limbs - NAN) // 4, groups] = np.sign(amounts)
    nan, plus, minus = signs
    up, down = (plus > 0) | (minus < 0), (plus < 0) | (minus > 0)
    values[up] = np.inf
    values[down] = -np.inf
    values[(nan != 0) | (up & down)] = np.nan


def _blocks(length: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))
