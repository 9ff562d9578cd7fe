"""Limbs of few groups: a sorted list of (limb, group) → amount.

Law: group g's number is Σ amount·2^(32·limb) over its entries; entries with equal keys add up.
State: sorted runs of distinct keys. A batch becomes a run, or three; runs are merged when the newer ones have
together grown to four times the oldest, so an entry is copied O(log n) times in all.
Invariant: |amount| ≤ bound ≤ 2⁶² for each entry, with a bound known without looking, as in `Limbs`.
Cost: O(rows) per batch where groups and limbs lie close together, O(rows·log rows) otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.changes.aggregates.limbs import DIGIT, ROOM, Int64s

__all__ = ["Entries", "SparseLimbs"]

_GROUP_BITS = 40
_GROUP = (1 << _GROUP_BITS) - 1
_CARRIED = 1 << (DIGIT + 1)
_SMALL = 1 << 16


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries with distinct keys, sorted by limb, then group."""

    keys: Int64s
    amounts: Int64s

    @property
    def groups(self) -> Int64s:
        return self.keys & _GROUP

    @property
    def limbs(self) -> Int64s:
        return self.keys >> _GROUP_BITS

    def __len__(self) -> int:
        return len(self.keys)


_NONE = Entries(np.empty(0, np.int64), np.empty(0, np.int64))


class SparseLimbs:
    """Limbs for the few groups that need them.

    >>> import numpy as np
    >>> side = SparseLimbs()
    >>> side.add(np.array([7, 7]), np.array([50, 50]), [np.array([3, -1])], bound=4)
    >>> entries = side.entries()
    >>> entries.groups.tolist(), entries.limbs.tolist(), entries.amounts.tolist()
    ([7], [50], [2])
    """

    __slots__ = ("_bound", "_runs")

    def __init__(self) -> None:
        self._runs: list[Entries] = []
        self._bound = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, ids: Int64s, first: Int64s, parts: Sequence[Int64s], bound: int) -> None:
        """Add row r's parts to limbs first[r], first[r]+1, … of group ids[r].

        No entry changes by more than ``bound`` through any one part; it is at most 2⁵⁹.
        """
        if not len(ids):
            return
        total = bound * len(parts)  # several parts of a row may meet other rows' in one limb
        if self._bound + total > ROOM:
            self._settle()
        self._bound += total
        self._push(_gathered(ids, first, parts))

    def merge(self, entries: Entries) -> None:
        """Add what the `entries` of another store gave."""
        if not len(entries):
            return
        if self._bound + _CARRIED > ROOM:
            self._settle()
        self._bound += _CARRIED
        self._push([entries])

    def entries(self) -> Entries:
        """Everything, in canonical form: amounts in [−2³¹, 2³¹), no zeros. Equal numbers, equal entries."""
        self._settle()
        return self._runs[0] if self._runs else _NONE

    def clear(self) -> None:
        self._runs = []
        self._bound = 0

    def _push(self, runs: Sequence[Entries]) -> None:
        self._runs.extend(runs)
        newer = sum(len(run) for run in self._runs[1:])
        if newer > max(4 * len(self._runs[0]), _SMALL):
            self._runs = [_merged(self._runs)]

    def _settle(self) -> None:
        """One run, with all carries moved. Seldom more than two rounds; 70 at the very worst."""
        entries = _merged(self._runs)
        while True:
            up = (entries.amounts + (1 << (DIGIT - 1))) >> DIGIT
            over = up != 0
            if not over.any():
                break
            stay = Entries(entries.keys, entries.amounts - (up << DIGIT))
            entries = _merged([stay, Entries(entries.keys[over] + (1 << _GROUP_BITS), up[over])])
        self._runs = [entries] if len(entries) else []
        self._bound = _CARRIED if len(entries) else 0


def _gathered(ids: Int64s, first: Int64s, parts: Sequence[Int64s]) -> list[Entries]:
    """What a batch adds up to: one run per part, or one run of all parts."""
    lowest = int(first.min())
    span = int(first.max()) - lowest + len(parts)
    groups = int(ids.max()) + 1
    if _is_dense(span, groups, len(ids)):
        return [_through_table(ids, first, parts, groups, span, lowest)]
    # Sorting by (limb, group) once serves all parts: the next part's keys are all one limb further.
    keys, order = _sorted(ids, first - lowest, groups, span)
    starts = _starts(keys)
    keys = keys[starts] + (lowest << _GROUP_BITS)
    return [
        Entries(keys + (i << _GROUP_BITS), np.add.reduceat(part[order], starts))
        for i, part in enumerate(parts)
    ]


def _merged(runs: Sequence[Entries]) -> Entries:
    """One run of distinct keys, without zeros."""
    if not runs:
        return _NONE
    keys = np.concatenate([run.keys for run in runs])
    amounts = np.concatenate([run.amounts for run in runs])
    if len(runs) > 1 and len(keys):
        ids, limbs = keys & _GROUP, keys >> _GROUP_BITS
        lowest, groups = int(limbs.min()), int(ids.max()) + 1
        span = int(limbs.max()) - lowest + 1
        if _is_dense(span, groups, len(keys)):
            return _through_table(ids, limbs, [amounts], groups, span, lowest)
        order = np.argsort(keys, kind="stable")  # timsort: merging sorted runs is linear
        keys = keys[order]
        starts = _starts(keys)
        keys, amounts = keys[starts], np.add.reduceat(amounts[order], starts)
    filled = amounts != 0
    return Entries(keys, amounts) if filled.all() else Entries(keys[filled], amounts[filled])


def _is_dense(span: int, groups: int, rows: int) -> bool:
    """Whether a table of all limbs and groups in question is worth its zeros."""
    return span * groups <= 8 * rows + _SMALL


def _through_table(
    ids: Int64s, first: Int64s, parts: Sequence[Int64s], groups: int, span: int, lowest: int
) -> Entries:
    table = np.zeros(span * groups, np.int64)
    place = first - lowest
    place *= groups
    place += ids
    for part in parts:
        np.add.at(table, place, part)
        place += groups
    filled = np.flatnonzero(table != 0)
    limb, group = np.divmod(filled, groups)
    return Entries(((limb + lowest) << _GROUP_BITS) | group, table[filled])


def _sorted(ids: Int64s, limbs: Int64s, groups: int, span: int) -> tuple[Int64s, Int64s]:
    """Keys in order, and the rows they came from.

    Sorting plain numbers is several times faster than `argsort`, so the row's number rides in the low bits.
    """
    of_group, of_row = (groups - 1).bit_length(), (len(ids) - 1).bit_length()
    if (span - 1).bit_length() + of_group + of_row > 63:
        keys = (limbs << _GROUP_BITS) | ids
        order = np.argsort(keys)
        return keys[order], order
    packed = limbs << of_group
    packed |= ids
    packed <<= of_row
    packed |= np.arange(len(ids))
    packed.sort()
    order = packed & ((1 << of_row) - 1)
    packed >>= of_row
    keys = packed >> of_group
    keys <<= _GROUP_BITS
    packed &= (1 << of_group) - 1
    keys |= packed
    return keys, order


def _starts(keys: Int64s) -> Int64s:
    """Where a run of equal keys begins."""
    new = np.empty(len(keys), np.bool_)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.flatnonzero(new)
