"""`Tick`: what one step of an aggregate was given, numbered by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.changes.rows import canonical
from penstock.operators.arguments import ROWS, Argument
from penstock.operators.batches import gathered, numbers, taken
from penstock.operators.groups import added_up, grouped
from penstock.operators.values import VALUE, Values
from penstock.spine import HASH
from penstock.spine.layout import Int64s

__all__ = ["GLOBAL", "Tick"]

GLOBAL = 42
"""The hash of the one group there is without keys."""


class Tick:
    """The rows of all inputs, and the groups that they are of.

    ``keys`` has a row per group: ``_hash`` and the group's columns, canonical.
    """

    def __init__(
        self,
        keys: Sequence[str],
        schemas: Mapping[str, pa.Schema],
        inputs: Mapping[str, Iterable[pa.RecordBatch]],
    ) -> None:
        names = [HASH, *keys]
        batches = {it: gathered(schemas[it], inputs.get(it, ()), f"Aggregate, {it}") for it in schemas}
        parts = [batch.select(names) for batch in batches.values() if batch.num_rows]
        rows = pa.concat_batches(parts) if parts else next(iter(batches.values())).select(names)
        self._groups = grouped(numbers(rows, HASH), rows.columns[1:])
        first = [canonical(it) for it in taken(rows.columns, self._groups.first)]
        self.keys = pa.RecordBatch.from_arrays(first, names=names)
        edges = np.cumsum([batch.num_rows for batch in batches.values()])[:-1]
        ids = np.split(self._groups.ids, edges)
        self._parts = dict(zip(batches, zip(ids, batches.values(), strict=True), strict=True))

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.keys)

    def have_the_global_group(self) -> None:
        """See to it that the one group there is without keys is there, be it without rows."""
        if not self.count:
            self.keys = pa.RecordBatch.from_arrays([pa.array([GLOBAL])], names=[HASH])

    def partials(self) -> tuple[Int64s, pa.RecordBatch] | None:
        """What was added up before, and the groups of its rows; None where nothing ever is."""
        return self._parts.get("partials")

    def rows(self) -> Int64s:
        """By how much each group's COUNT(*) changes."""
        if not self._groups.count:
            return np.zeros(self.count, np.int64)
        columns = {"partials": ROWS, "changes": WEIGHT}
        weights = [
            numbers(batch, columns[it]) if it in columns else np.zeros(batch.num_rows, np.int64)
            for it, (_, batch) in self._parts.items()
        ]
        return added_up(np.concatenate(weights), self._groups)

    def values(self, argument: Argument) -> Values:
        """The values of one argument, as far as they come one by one, to be added up."""
        ids, batch = self._parts["changes"]
        return Values.of(ids, batch.column(argument.column), numbers(batch, WEIGHT))

    def bag(self, argument: Argument) -> Values:
        """All values of one argument."""
        if argument.bag not in self._parts:
            return self.values(argument)
        ids, batch = self._parts[argument.bag]
        return Values.together(
            [self.values(argument), Values.of(ids, batch.column(VALUE), numbers(batch, WEIGHT))]
        )
