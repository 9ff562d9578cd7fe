"""`Results`: what an aggregate says of the groups of one tick, before it and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock.changes.aggregates import GroupedAvg, GroupedSum
from penstock.changes.rows import canonical, same_rows
from penstock.errors import ArithmeticOverflow
from penstock.operators.arguments import ROWS, Argument
from penstock.operators.extremes import Extreme
from penstock.operators.totals import Digits, result
from penstock.plan import Call, Function
from penstock.spine.layout import Bools, Int64s

__all__ = ["Results"]


class Results:
    """The groups' results, twice: rows 0 … n−1 are the groups before the tick, n … 2n−1 are they after it."""

    def __init__(
        self,
        keys: Sequence[pa.Array],
        sums: Mapping[str, Int64s],
        digits: Mapping[str, Digits],
        extremes: tuple[Mapping[str, pa.Array], Mapping[str, pa.Array]],
    ) -> None:
        self._keys = keys
        self._sums = sums
        self._digits = digits
        self._extremes = extremes
        self._count = len(sums[ROWS]) // 2

    def there(self) -> tuple[Bools, Bools]:
        """Which groups have rows, before and after."""
        some = self._sums[ROWS] > 0
        return some[: self._count], some[self._count :]

    def of(self, call: Call, argument: Argument | None) -> pa.Array:
        """What a call gives."""
        if argument is None:
            return pa.array(self._sums[ROWS])
        match call.function:
            case Function.COUNT_COLUMN:
                return pa.array(self._sums[argument.count])
            case Function.COUNT_DISTINCT:
                return pa.array(self._sums[argument.live_values])
            case Function.MIN | Function.MAX:
                column = Extreme(argument, call.function).column
                return pa.concat_arrays([told[column] for told in self._extremes])
            case _:
                return canonical(self._added(call, argument))

    def _added(self, call: Call, argument: Argument) -> pa.Array:
        columns = {it: self._sums[it] for it in argument.columns}
        digits = self._digits.get(argument.sparse, Digits.none())

        def results(begin: int, end: int) -> pa.Array:
            some = {name: column[begin:end] for name, column in columns.items()}
            return result(argument, call.function, some, digits.of_groups(begin, end))

        try:
            return results(0, 2 * self._count)
        except ArithmeticOverflow as error:
            group = _first_that_overflows(results, 2 * self._count) % self._count
            raise self._overflow(call, argument, group, error) from error

    def _overflow(
        self, call: Call, argument: Argument, group: int, error: ArithmeticOverflow
    ) -> ArithmeticOverflow:
        values = ", ".join(repr(it[group].as_py()) for it in self._keys)
        of_group = f"of the group ({values})" if self._keys else "of all rows"
        name = call.function.upper()
        kind = (GroupedSum if call.function is Function.SUM else GroupedAvg)(argument.kind).result_type
        return ArithmeticOverflow(
            f"the exact result {of_group} does not fit {kind}",
            subject=f"{name}({call.column}) AS {call.name}",
            hint=error.hint,
        )


def differing(columns: Sequence[pa.Array], count: int) -> Bools:
    """Which groups have other results after the tick than before."""
    return ~same_rows([it.slice(0, count) for it in columns], [it.slice(count) for it in columns], count)


def _first_that_overflows(results: Callable[[int, int], pa.Array], count: int) -> int:
    """By halving: who meets an overflow has time."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        try:
            results(low, middle)
        except ArithmeticOverflow:
            high = middle
        else:
            low = middle
    return low
