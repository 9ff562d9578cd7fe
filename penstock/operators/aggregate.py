"""`Aggregate`: GROUP BY.

Law: Σ in a commutative group per call; −old +new for a group whose results differ. A group is there while its
COUNT(*) is above 0; without keys there is one group, which is always there.
State: ``sums``, the accumulators by group, and as calls need them ``sparse<i>`` (see `totals`), ``bag<i>``
and ``extremes`` (`extremes`), ``distinct<i>`` (`distinct_counts`); i is the number of the argument. A tick
adds the delta of the accumulators, so it writes O(Δ), however large the history of a group is.
Cost: O(Δ) to add up, and one look-up per group that the tick touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.operators.arguments import ROWS, Argument, arguments_of
from penstock.operators.batches import changes, numbers, taken
from penstock.operators.distinct_counts import DistinctCounts
from penstock.operators.extremes import Extremes
from penstock.operators.operator import changes_of, columns_of, with_weight
from penstock.operators.partials import partial_inputs, started
from penstock.operators.results import Results, differing
from penstock.operators.tick import GLOBAL, Tick
from penstock.operators.totals import Digits, digits_in, digits_layout, plus, sparse_rows, totals
from penstock.plan import Aggregate
from penstock.spine import Layout, ShardState
from penstock.spine.layout import Int64s

__all__ = ["AggregateOperator"]


class AggregateOperator:
    """The step of `Aggregate`.

    With ``partial``, most of the adding up has been done before, by Spark as `partial_sql` tells; the state,
    and what is yielded, are the same.

    >>> from penstock.changes import xxhash64
    >>> from penstock.plan import Call, Function, Scan
    >>> calls = Call("n", Function.COUNT), Call("total", Function.SUM, "x"), Call("least", Function.MIN, "x")
    >>> node = Aggregate(Scan("main", "t"), ("k",), calls)
    >>> aggregate = AggregateOperator(node, [pa.schema([("k", pa.string()), ("x", pa.float64())])])
    >>> def tick(x, weights, state):
    ...     rows = pa.record_batch({"k": ["a"] * len(x), "x": x, "_weight": weights})
    ...     rows = rows.append_column("_hash", pa.array(xxhash64([rows["k"]])))
    ...     said = [row for batch in aggregate.step({"changes": [rows]}, state) for row in batch.to_pylist()]
    ...     return said, state.after(state.finish(), "1/")
    >>> said, state = tick([0.1, 0.2, 1e300], [1, 1, 1], ShardState.in_memory(aggregate.layouts))
    >>> said
    [{'k': 'a', 'n': 3, 'total': 1e+300, 'least': 0.1, '_weight': 1}]
    >>> said, state = tick([0.1, 1e300], [-1, -1], state)
    >>> said
    [{'k': 'a', 'n': 3, 'total': 1e+300, 'least': 0.1, '_weight': -1},
     {'k': 'a', 'n': 1, 'total': 0.2, 'least': 0.2, '_weight': 1}]
    """

    def __init__(self, node: Aggregate, below: Sequence[pa.Schema], partial: bool = False) -> None:
        self.node = node
        self.output = with_weight(columns_of(node, below))
        (rows,) = below
        keys = pa.schema([rows.field(it) for it in node.keys])
        arguments = arguments_of(node, rows)
        raw = {"changes": changes_of(rows)}
        self.inputs: Mapping[str, pa.Schema] = partial_inputs(rows, keys, arguments) if partial else raw
        self.keys: Mapping[str, tuple[str, ...]] = dict.fromkeys(self.inputs, node.keys)
        self._read = {**raw, **self.inputs}
        self._arguments = arguments
        self._by_column = {it.column: it for it in arguments}
        self._distinct = [DistinctCounts(it, keys) for it in arguments if it.is_distinct]
        self._extremes = Extremes(keys, arguments)
        self._sums = _sums_layout(keys, arguments)
        self.layouts: Mapping[str, Layout] = {
            "sums": self._sums,
            **{it.sparse: digits_layout(keys) for it in arguments if it.is_double},
            **{it.argument.distinct: it.layout for it in self._distinct},
            **self._extremes.layouts,
        }

    def step(
        self, inputs: Mapping[str, Iterable[pa.RecordBatch]], state: ShardState
    ) -> Iterator[pa.RecordBatch]:
        """The changes of one tick and shard → the results that were taken back and the new ones."""
        tick = Tick(self.node.keys, self._read, inputs)
        if not self.node.keys and state.is_new and state.begin <= GLOBAL < state.end:
            tick.have_the_global_group()
        if not tick.count:
            return
        more, digits = self._added(tick)
        for it in self._distinct:
            more[it.argument.live_values] = it.step(tick.keys, tick.bag(it.argument), state)
        bags = {it.bag: tick.bag(it) for it in self._arguments if it.has_extremes}
        extremes = self._extremes.step(tick.keys, bags, state)
        results = Results(
            tick.keys.columns[1:],
            self._before_and_after(tick.keys, more, state),
            {name: _both(some, tick.keys, name, state) for name, some in digits.items()},
            extremes,
        )
        yield from self._said(results, tick.keys, state.is_new)
        self._keep(tick.keys, more, digits, state)

    def _added(self, tick: Tick) -> tuple[dict[str, Int64s], dict[str, Digits]]:
        """What the tick adds to the columns of ``sums``, and the digits that go elsewhere, by spine."""
        more, digits = {ROWS: tick.rows()}, {}
        partials = tick.partials()
        for it in self._arguments:
            if it.is_counted:
                begun = None if partials is None else started(it, *partials)
                total = totals(it, tick.count, tick.values(it), begun)
                more.update(total.columns)
                if it.is_double:
                    digits[it.sparse] = total.digits
        return more, digits

    def _before_and_after(
        self, keys: pa.RecordBatch, more: Mapping[str, Int64s], state: ShardState
    ) -> dict[str, Int64s]:
        sums = state.spine("sums").sums(keys)
        before = {name: numbers(sums, name) for name in more}
        return {name: np.concatenate([old, plus(old, more[name], name)]) for name, old in before.items()}

    def _said(self, results: Results, keys: pa.RecordBatch, is_new: bool) -> Iterator[pa.RecordBatch]:
        columns = [
            results.of(it, None if it.column is None else self._by_column[it.column])
            for it in self.node.calls
        ]
        was_there, is_there = results.there()
        if not self.node.keys:
            was_there, is_there = np.array([not is_new]), np.array([True])
        differs = ~(was_there & is_there) | differing(columns, len(was_there))
        for which, weight, offset in ((was_there, -1, 0), (is_there, 1, len(is_there))):
            rows = np.flatnonzero(which & differs)
            said = [*taken(keys.columns[1:], rows), *taken(columns, rows + offset)]
            yield from changes(self.output, said, np.full(len(rows), weight))

    def _keep(
        self,
        keys: pa.RecordBatch,
        more: Mapping[str, Int64s],
        digits: Mapping[str, Digits],
        state: ShardState,
    ) -> None:
        arrays = [*keys.columns, *(pa.array(more[it]) for it in self._sums.summed)]
        names = [*keys.schema.names, *self._sums.summed]
        state.add("sums", pa.RecordBatch.from_arrays(arrays, names=names))
        for name, some in digits.items():
            if len(some):
                state.add(name, sparse_rows(keys, some))


def _sums_layout(keys: pa.Schema, arguments: Sequence[Argument]) -> Layout:
    names = [ROWS]
    for it in arguments:
        names += [*it.columns, *([it.live_values] if it.is_distinct else [])]
    columns = [*keys, *(pa.field(it, pa.int64(), nullable=False) for it in names)]
    return Layout(pa.schema(columns), tuple(keys.names), "sums")


def _both(more: Digits, keys: pa.RecordBatch, name: str, state: ShardState) -> Digits:
    """The digits kept aside of the groups before the tick and, numbered on from there, after it."""
    old, by = digits_in(state.spine(name), keys), keys.num_rows
    return old.beside(old, by).beside(more, by)
