"""MIN and MAX: the least and the greatest value of each group.

Law: the least value whose weights add up to more than 0. Nothing before what was told last is alive, unless
this tick brought it. So where the old least is still alive and nothing below it came, the answer is known
without a look into the bag; otherwise it is the first live value from the lesser of the two on.
State: ``bag<i>``, the values of argument i by group, in their order; ``extremes``, one row per group of what
was told last.
Cost: a sort of the values that the tick brought; one look-up per group; one seek into the bag per group whose
extreme may have changed, from where it stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.names import WEIGHT
from penstock.changes.rows import canonical, same_rows
from penstock.operators.arguments import Argument
from penstock.operators.current import current
from penstock.operators.groups import Groups, added_up
from penstock.operators.values import VALUE, Values
from penstock.plan import Function
from penstock.spine import Layout, ShardState
from penstock.spine.layout import Bools, Int64s
from penstock.spine.order import sorting_of

__all__ = ["EXTREMES", "Extreme", "Extremes"]

EXTREMES = "extremes"


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN or MAX of one argument."""

    argument: Argument
    function: Function

    @property
    def column(self) -> str:
        """Where ``extremes`` keeps it."""
        return f"_{self.function}{self.argument.number}"

    @property
    def is_greatest(self) -> bool:
        return self.function is Function.MAX


class Extremes:
    """All MIN and MAX of one aggregate."""

    def __init__(self, keys: pa.Schema, arguments: Iterable[Argument]) -> None:
        self._keys = keys
        self._arguments = [it for it in arguments if it.has_extremes]
        self.wanted = [
            Extreme(it, function)
            for it in self._arguments
            for function in (Function.MIN, Function.MAX)
            if function in it.functions
        ]
        self.layouts: dict[str, Layout] = {}
        if self.wanted:
            told = [pa.field(it.column, it.argument.kind) for it in self.wanted]
            self.layouts[EXTREMES] = Layout(pa.schema([*keys, *told]), tuple(keys.names), "bag")
        for it in self._arguments:
            value = pa.field(VALUE, it.kind, nullable=False)
            self.layouts[it.bag] = Layout(pa.schema([*keys, value]), tuple(keys.names), "bag", VALUE)

    def step(
        self, keys: pa.RecordBatch, values: Mapping[str, Values], state: ShardState
    ) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
        """What each was for these groups and what it is, by ``Extreme.column``; ``values`` are by bag."""
        if not self.wanted:
            return {}, {}
        found, rows = current(state.spine(EXTREMES), keys)
        at = pa.array(found, mask=found < 0)
        old = {it.column: rows.column(it.column).take(at) for it in self.wanted}
        new = dict(old)
        for argument in self._arguments:
            if len(values[argument.bag]):
                some = [it for it in self.wanted if it.argument == argument]
                ranked = _Ranked(keys, values[argument.bag], [old[it.column] for it in some])
                if len(ranked.brought):
                    state.add(argument.bag, ranked.rows(ranked.brought))
                for nth, it in enumerate(some):
                    new[it.column] = ranked.extreme(nth, it, state)
        self._tell(keys, found >= 0, old, new, state)
        return old, new

    def _tell(
        self,
        keys: pa.RecordBatch,
        was_there: Bools,
        old: Mapping[str, pa.Array],
        new: Mapping[str, pa.Array],
        state: ShardState,
    ) -> None:
        """−old +new into ``extremes``; a group in which all are NULL has no row there."""
        changed = ~same_rows(list(old.values()), list(new.values()), keys.num_rows)
        is_there = np.zeros(keys.num_rows, np.bool_)
        for it in new.values():
            is_there |= pc.is_valid(it).to_numpy(zero_copy_only=False)
        for which, told, weight in ((was_there & changed, old, -1), (is_there & changed, new, 1)):
            at = pa.array(np.flatnonzero(which))
            rows = keys.take(at)
            for name, values in told.items():
                rows = rows.append_column(name, values.take(at))
            state.add(EXTREMES, rows.append_column(WEIGHT, pa.array(np.full(len(at), weight))))


class _Ranked:
    """The values of one argument that a tick brought, and with them what was told before: by group, in order.

    Equal values of a group are one entry. It knows its weight in the tick, and which old extremes it is.
    """

    def __init__(self, keys: pa.RecordBatch, values: Values, old: Sequence[pa.Array]) -> None:
        self._keys = keys
        self._old = old
        touched = np.zeros(keys.num_rows, np.bool_)
        touched[values.ids] = True
        self._touched = touched
        parts = [values]
        for it in old:
            at = np.flatnonzero(touched & pc.is_valid(it).to_numpy(zero_copy_only=False))
            parts.append(Values(at, it.take(pa.array(at)), np.zeros(len(at), np.int64)))
        every = Values.together(parts)
        array = canonical(every.array)
        order = sorting_of(array)
        order = order[np.argsort(every.ids[order], kind="stable")]
        ids, array = every.ids[order], array.take(pa.array(order))
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = ids[1:] != ids[:-1]
        begins[1:] |= ~same_rows([array.slice(1)], [array.slice(0, len(array) - 1)], len(array) - 1)
        first = np.flatnonzero(begins)
        entries = Groups(np.cumsum(begins) - 1, first)
        self.ids = ids[first]
        self._values = array.take(pa.array(first))
        self._weights = added_up(every.weights[order], entries)
        self.brought: Int64s = np.flatnonzero(self._weights)
        source = np.repeat(np.arange(len(parts)), [len(it) for it in parts])[order]
        self._was = [np.zeros(len(first), np.bool_) for _ in old]
        for nth, marks in enumerate(self._was, start=1):
            marks[entries.ids[source == nth]] = True

    def rows(self, entries: Int64s) -> pa.RecordBatch:
        """Entries as rows of the bag."""
        rows = self._keys.take(pa.array(self.ids[entries]))
        rows = rows.append_column(VALUE, self._values.take(pa.array(entries)))
        return rows.append_column(WEIGHT, pa.array(self._weights[entries]))

    def extreme(self, nth: int, wanted: Extreme, state: ShardState) -> pa.Array:
        """The extreme of every group, after the tick."""
        was = self._was[nth]
        candidates = np.flatnonzero(was | (self._weights > 0))
        if not wanted.is_greatest:
            candidates = candidates[::-1]
        best = np.full(self._keys.num_rows, -1)
        best[self.ids[candidates]] = candidates  # of several, the last one written stays
        # Alive for sure: an old extreme of which nothing was taken away. And what came, if the bag was empty.
        has = best >= 0
        sure = np.zeros(len(best), np.bool_)
        sure[has] = was[best[has]] & (self._weights[best[has]] >= 0)
        spine = state.spine(wanted.argument.bag)
        unsure = np.flatnonzero(has & ~sure) if spine.rows else np.empty(0, np.int64)
        if len(unsure):
            ours = np.zeros(len(best), np.bool_)
            ours[unsure] = True
            spine = spine.plus(self.rows(self.brought[ours[self.ids[self.brought]]]))
            bounds = self._values.take(pa.array(best[unsure]))
            looked = spine.extremes(self._keys.take(pa.array(unsure)), bounds, wanted.is_greatest)
        else:
            looked = self._values.slice(0, 0)
        pool = pa.concat_arrays([self._values, looked, self._old[nth]])
        best[unsure] = len(self._values) + np.arange(len(unsure))
        untouched = np.flatnonzero(~self._touched)
        best[untouched] = len(self._values) + len(looked) + untouched
        return pool.take(pa.array(best, mask=best < 0))
