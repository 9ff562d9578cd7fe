"""`LateDataRetractions`: what to take back when a late row changes a window that was already told.

Law: of a window's results, in the order they come, the first is an insert; one equal to the last is
nothing; any other is −last +this. "Equal" is what `penstock.changes.rows` says.
State: per window that is not yet cleaned up, the last result, when it was told, and how many times.
Cost: of a batch, O(its windows), tens of nanoseconds each, whatever the number of windows kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.pickable import decoded, decoded_type
from penstock.changes.rows import same_rows
from penstock.changes.slots import SlotTable, grown
from penstock.changes.told import Told
from penstock.changes.window_keys import Shape, WindowKeys
from penstock.errors import InvalidArgument, SchemaMismatch

__all__ = ["Emission", "LateCheck", "LateCounters", "LateDataRetractions"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Emission:
    """What was last told of a window."""

    data: Any
    emit_time: int
    version: int
    """How many different results were told, this one included."""


@dataclass(slots=True)
class LateCounters:
    """How many results of windows came, by what they were."""

    first: int = 0
    corrected: int = 0
    unchanged: int = 0
    dropped: int = 0
    """Came for a window whose time to be corrected was over."""
    cleaned: int = 0
    """Not results but windows: those forgotten by a clean-up."""


@dataclass(frozen=True, slots=True)
class LateCheck:
    """What a batch of results means: masks over the batch, and the pairs to send on."""

    first: Bools
    corrected: Bools
    dropped: Bools
    old: pa.Array
    """Of each corrected result, in order, what was told before: to be taken back."""
    new: pa.Array
    """Of each corrected result, in order, what holds now: to be added."""

    @property
    def unchanged(self) -> Bools:
        """Results equal to the last one told: nothing to say."""
        return ~(self.first | self.corrected | self.dropped)


class LateDataRetractions:
    """Remembers what was told of each window, and says what to take back when it changes.

    A window is ``(start, end)``, or any hashable that is not and does not hold None. Integers, alone or
    in a tuple, are the quick ones; timestamps count as their microseconds, and two integers at the
    front of a tuple are its start and its end, so ``(start, end, customer)`` has an end too.

    After `cleanup_window` a further result of the window is a first one again. So clean a window only
    when its lateness has passed; `cleanup_before` does so for all windows that end by a watermark, and
    from then on drops and counts what still comes for them.

    >>> late = LateDataRetractions()
    >>> late.check((0, 60_000), b"count=5", timestamp=1_000)          # the first: nothing to take back
    >>> late.check((0, 60_000), b"count=7", timestamp=2_000)
    (b'count=5', b'count=7')
    >>> late.check((0, 60_000), b"count=7", timestamp=3_000)          # no change
    >>> late.emission((0, 60_000))
    Emission(data=b'count=7', emit_time=2000, version=2)
    """

    def __init__(self, *, enabled: bool = True, data_type: pa.DataType | None = None) -> None:
        """``data_type`` is what results are, however encoded; left out, it is what the first one is."""
        self.enabled = enabled
        self.counters = LateCounters()
        self._type = None if data_type is None else decoded_type(data_type)
        self._horizon: int | None = None
        self._keys = WindowKeys()
        self._groups: dict[Shape, _Windows] = {}

    def __len__(self) -> int:
        """How many windows are remembered."""
        return sum(group.live_count for group in self._groups.values())

    @property
    def horizon(self) -> int | None:
        """The watermark up to which windows were cleaned; None when that never happened."""
        return self._horizon

    def check(self, window: Hashable, data: Any, timestamp: int) -> tuple[Any, Any] | None:
        """(old, new) when the window was told otherwise before; None when there is nothing to take back."""
        if not self.enabled:
            return None
        results = self._results(_one(data, self._type))
        result = self._check(*self._keys.of_one(window), results, timestamp)
        return (result.old[0].as_py(), result.new[0].as_py()) if len(result.old) else None

    def check_many(
        self, windows: pa.Array | npt.NDArray[np.integer[Any]], data: pa.Array, timestamp: int
    ) -> LateCheck:
        """`check` for a tick's results at once, as if one after the other; ``data[i]`` is of window i.

        Windows: a NumPy array of integers, of shape ``(n,)`` or ``(n, columns)``; or an Arrow array, where
        a struct is a tuple. ``(start, end)`` is a struct of two integers or timestamps.

        >>> late = LateDataRetractions()
        >>> windows = np.array([[0, 60], [60, 120]])
        >>> late.check_many(windows, pa.array([5, 1]), timestamp=1).first.tolist()
        [True, True]
        >>> again = late.check_many(windows, pa.array([7, 1]), timestamp=2)
        >>> again.corrected.tolist(), again.old.to_pylist(), again.new.to_pylist()
        ([True, False], [5], [7])
        """
        if isinstance(data, pa.ChunkedArray):
            data = data.combine_chunks()
        if len(windows) != len(data):
            raise InvalidArgument(
                f"there are {len(windows)} windows and {len(data)} results",
                subject="LateDataRetractions.check_many",
                hint="Give exactly one result per window.",
            )
        if not self.enabled:
            none = np.zeros(len(data), np.bool_)
            return LateCheck(none, none, none, data.slice(0, 0), data.slice(0, 0))
        return self._check(*self._keys.of_many(windows), self._results(data), timestamp)

    def emission(self, window: Hashable) -> Emission | None:
        """What was last told of the window, or None when it is not remembered."""
        found = self._find(window)
        return found[0].emission(found[1]) if found else None

    def cleanup_window(self, window: Hashable) -> bool:
        """Forget one window, whose lateness has passed; whether it was remembered."""
        found = self._find(window)
        if found is None:
            return False
        group, slot = found
        self._forget(group, np.array([slot]))
        return True

    def cleanup_before(self, watermark: int) -> int:
        """Forget the windows that end at or before the watermark, drop what comes for them, say how many.

        Give the watermark less the allowed lateness. It only moves forward; windows without an end stay.
        """
        if self._horizon is not None and watermark <= self._horizon:
            return 0
        self._horizon = watermark
        over = [(group, group.ended(watermark)) for shape, group in self._groups.items() if shape.has_end]
        for group, slots in over:
            self._forget(group, slots)
        return sum(len(slots) for _, slots in over)

    def _check(self, shape: Shape, columns: list[Int64s], results: pa.Array, timestamp: int) -> LateCheck:
        if not -(2**63) <= timestamp < 2**63:
            raise InvalidArgument(
                f"the timestamp is {timestamp}",
                subject="LateDataRetractions",
                hint="Give an integer of 64 bits.",
            )
        self._type = results.type
        count = len(results)
        dropped = np.zeros(count, np.bool_)
        if self._horizon is not None and shape.has_end:
            dropped = columns[1] <= self._horizon
        rows: Any = slice(None)
        if dropped.any():
            rows = np.flatnonzero(~dropped)
            columns, results = [column[rows] for column in columns], results.take(pa.array(rows))
        group = self._groups.setdefault(shape, _Windows(len(columns)))
        first, corrected = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        first[rows], corrected[rows], old = group.tell(columns, results, timestamp)
        new = _pick(results, corrected[rows])
        self._count(first, corrected, dropped)
        return LateCheck(first, corrected, dropped, old, new)

    def _count(self, first: Bools, corrected: Bools, dropped: Bools) -> None:
        counts = [int(np.count_nonzero(mask)) for mask in (first, corrected, dropped)]
        self.counters.first += counts[0]
        self.counters.corrected += counts[1]
        self.counters.dropped += counts[2]
        self.counters.unchanged += len(first) - sum(counts)

    def _results(self, data: pa.Array) -> pa.Array:
        data = decoded(data)
        if self._type is not None and data.type != self._type:
            if pa.types.is_null(data.type):  # nothing but NULLs, which are of any type
                return pa.nulls(len(data), self._type)
            if pa.types.is_null(self._type):
                for group in self._groups.values():
                    group.told.cast(data.type)
                self._type = data.type
                return data
            raise SchemaMismatch(
                f"the results are of type {data.type}, and {self._type} before",
                subject="LateDataRetractions",
                hint=f"Cast them to {self._type}, or give data_type at the start.",
            )
        return data

    def _find(self, window: Hashable) -> tuple[_Windows, int] | None:
        shape, columns = self._keys.of_one(window, learn=False)
        group = self._groups.get(shape)
        if group is None:
            return None
        slot = int(group.table.find(columns)[0])
        return (group, slot) if slot >= 0 and group.version[slot] else None

    def _forget(self, group: _Windows, slots: Int64s) -> None:
        self.counters.cleaned += len(slots)
        if group.forget(slots) and len(self._keys):
            coded = [
                group.table.columns[i]
                for shape, group in self._groups.items()
                for i, kind in enumerate(shape.kinds)
                if kind == "c"
            ]
            self._keys.forget_all_but(np.unique(np.concatenate(coded)) if coded else np.empty(0, np.int64))


class _Windows:
    """The windows of one shape. Slot s is remembered while ``version[s]`` is not 0.

    Forgotten slots stay in the table until they are the majority; then all is made anew, so that
    forgetting costs O(1) per window in the long run.
    """

    def __init__(self, width: int) -> None:
        self.table = SlotTable(width)
        self.version = np.zeros(8, np.int64)
        self.emit_time = np.zeros(8, np.int64)
        self.live_count = 0
        self._at = np.zeros(8, np.int64)  # where in the told results the last one is
        self._row = np.zeros(8, np.int64)  # scratch: the last row of a batch that has this slot
        self.told = Told()

    def tell(self, columns: list[Int64s], results: pa.Array, timestamp: int) -> tuple[Bools, Bools, pa.Array]:
        """Which results are first, which correct another, and what those others were."""
        slots = self.table.number(columns)
        self._make_room()
        before = self._rows_before(slots)
        known = (self.version[slots] > 0) | (before >= 0)
        old = self._last(slots[known], before[known], results)
        different = ~same_rows([old], [_pick(results, known)], len(old))
        corrected = known.copy()
        corrected[known] = different
        changed = ~known | corrected
        touched = slots[changed]
        self._at[touched] = self.told.append(_pick(results, changed))  # the last one of a slot stays
        self.emit_time[touched] = timestamp
        np.add.at(self.version, touched, 1)
        self.live_count += int(np.count_nonzero(~known))
        if self.told.length > 2 * self.live_count + 1024:
            self._compact_told()
        return ~known, corrected, _pick(old, different)

    def emission(self, slot: int) -> Emission:
        data = self.told.take(self._at[slot : slot + 1])[0].as_py()
        return Emission(data, int(self.emit_time[slot]), int(self.version[slot]))

    def ended(self, watermark: int) -> Int64s:
        """The remembered slots whose second column, the end, is at or before the watermark."""
        over: Int64s = np.flatnonzero((self.table.columns[1] <= watermark) & self._live)
        return over

    def forget(self, slots: Int64s) -> bool:
        """Forget the slots; whether the table was made anew, so that slots have changed."""
        self.version[slots] = 0
        self.live_count -= len(slots)
        if len(self.table) <= 2 * self.live_count + 1024:
            return False
        live = self._live
        self.table = self.table.kept(live)
        kept = [array[: len(live)][live] for array in (self.version, self.emit_time, self._at)]
        self.version, self.emit_time, self._at = (grown(array, max(8, len(array))) for array in kept)
        self._make_room()
        self._compact_told()
        return True

    @property
    def _live(self) -> Bools:
        return self.version[: len(self.table)] > 0

    def _make_room(self) -> None:
        count = len(self.table)
        self.version, self.emit_time = grown(self.version, count), grown(self.emit_time, count)
        self._at, self._row = grown(self._at, count), grown(self._row, count)

    def _rows_before(self, slots: Int64s) -> Int64s:
        """For each row of the batch the one before it of the same slot, or −1."""
        before = np.full(len(slots), -1, np.int64)
        rows = np.arange(len(slots))
        self._row[slots] = rows
        if (self._row[slots] != rows).any():
            order = np.argsort(slots, kind="stable")
            again = slots[order[1:]] == slots[order[:-1]]
            before[order[1:][again]] = order[:-1][again]
        return before

    def _last(self, slots: Int64s, before: Int64s, results: pa.Array) -> pa.Array:
        """What was told last of each slot: in an earlier row of the same batch, or in an earlier batch."""
        in_batch = before >= 0
        stored = self.told.take(self._at[slots[~in_batch]])
        if not in_batch.any():
            return stored if len(stored) else results.slice(0, 0)
        index = np.empty(len(slots), np.int64)
        index[in_batch] = before[in_batch]
        index[~in_batch] = np.arange(len(results), len(results) + len(stored))
        return pa.concat_arrays([results, stored] if len(stored) else [results]).take(pa.array(index))

    def _compact_told(self) -> None:
        live = np.flatnonzero(self._live)
        order = live[np.argsort(self._at[live])]
        self.told.keep(self._at[order])
        self._at[order] = np.arange(len(order))


def _one(value: Any, kind: pa.DataType | None) -> pa.Array:
    kind = None if kind == pa.null() else kind
    try:
        return pa.array([value], kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SchemaMismatch(
            f"{value!r} is not a result of type {kind}" if kind else f"{value!r} is nothing Arrow can hold",
            subject="LateDataRetractions.check",
            hint="Give results of one type, or data_type at the start.",
        ) from error


def _pick(array: pa.Array, mask: Bools) -> pa.Array:
    return array if mask.all() else array.take(pa.array(np.flatnonzero(mask)))
