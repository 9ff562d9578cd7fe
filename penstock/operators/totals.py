"""What of an aggregate is plain addition: counts and sums by group, and the results that they give.

Law: linear. What a tick adds to a group does not depend on what is there; old = Σ runs, new = old + delta.
State: in ``sums`` a row of int64 columns per group, of which a tick writes its delta only. Sums are kept in
limbs, so that they are exact, and written in canonical form, so that limbs stay short in any number of ticks.
The digits of doubles of rare size are in ``sparse<i>``, a bag of (group, limb) weighted by amount.
Cost: O(rows) to add up, and per group that changed one look-up and one result before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.aggregates import GroupedAvg, GroupedCountColumn, GroupedSum
from penstock.changes.names import WEIGHT
from penstock.errors import ArithmeticOverflow
from penstock.operators.arguments import Argument
from penstock.operators.batches import numbers
from penstock.operators.values import Values
from penstock.plan import Function
from penstock.spine import Layout, Spine
from penstock.spine.layout import Int64s

__all__ = [
    "LIMB",
    "Digits",
    "Totals",
    "digits_in",
    "digits_layout",
    "plus",
    "result",
    "sparse_rows",
    "totals",
]

LIMB = "_limb"


@dataclass(frozen=True, slots=True)
class Digits:
    """Rare digits of doubles: (group, limb, amount), amounts of equal groups and limbs add up."""

    groups: Int64s
    limbs: Int64s
    amounts: Int64s

    def __len__(self) -> int:
        return len(self.groups)

    @classmethod
    def none(cls) -> Digits:
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    def of_groups(self, begin: int, end: int) -> Digits:
        """Those of some groups, which are numbered from 0 then."""
        some = (self.groups >= begin) & (self.groups < end)
        return (
            self
            if some.all() and not begin
            else Digits(self.groups[some] - begin, self.limbs[some], self.amounts[some])
        )

    def beside(self, other: Digits, by: int) -> Digits:
        """These, and others whose groups are numbered from ``by`` on."""
        return Digits(
            np.concatenate([self.groups, other.groups + by]),
            np.concatenate([self.limbs, other.limbs]),
            np.concatenate([self.amounts, other.amounts]),
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """What rows add to the columns of one argument, by group."""

    columns: Mapping[str, Int64s]
    digits: Digits


def totals(
    argument: Argument, groups: int, values: Values, started: GroupedSum | GroupedCountColumn | None = None
) -> Totals:
    """Add up the values of one argument; ``started`` is a sum that others have begun, and is used up."""
    kind = GroupedSum if argument.is_added else GroupedCountColumn
    state = kind(argument.kind) if started is None else started
    state.update(values.ids, values.array, values.weights)
    state.grow(groups)
    told = state.state_columns()
    columns = {argument.count: numbers(told, "count")}
    columns.update((argument.limb(it), numbers(told, it)) for it in argument.limbs)
    if not argument.is_double:
        return Totals(columns, Digits.none())
    rare = state.sparse_state()
    return Totals(columns, Digits(*(numbers(rare, it) for it in ("group", "limb", "amount"))))


def plus(old: Int64s, more: Int64s, column: str) -> Int64s:
    """old + more, refused where that leaves 64 bits."""
    new = old + more
    if (((old ^ new) & (more ^ new)) < 0).any():
        raise ArithmeticOverflow(
            f"the accumulator {column!r} leaves the range of 64 bits",
            subject="Aggregate",
            hint="No real bag is that large: look for a change applied over and over.",
        )
    return new


def result(argument: Argument, function: Function, columns: Mapping[str, Int64s], digits: Digits) -> pa.Array:
    """What SUM or AVG is for each group."""
    kind = GroupedSum if function is Function.SUM else GroupedAvg
    named = {"count": columns[argument.count], **{it: columns[argument.limb(it)] for it in argument.limbs}}
    sparse = None
    if len(digits):
        sparse = pa.record_batch({"group": digits.groups, "limb": digits.limbs, "amount": digits.amounts})
    return kind.from_state(argument.kind, pa.record_batch(named), sparse=sparse).finalize()


def digits_layout(keys: pa.Schema) -> Layout:
    """Of the bag in which digits of doubles of rare size are kept."""
    return Layout(pa.schema([*keys, pa.field(LIMB, pa.int64(), nullable=False)]), tuple(keys.names), "bag")


def sparse_rows(keys: pa.RecordBatch, digits: Digits) -> pa.RecordBatch:
    """Digits as rows of that bag."""
    rows = keys.take(pa.array(digits.groups))
    return rows.append_column(LIMB, pa.array(digits.limbs)).append_column(WEIGHT, pa.array(digits.amounts))


def digits_in(spine: Spine, keys: pa.RecordBatch) -> Digits:
    """The digits that the bag holds for these groups."""
    found = Digits.none()
    if spine.rows:
        for at, rows in spine.matches(keys):
            found = found.beside(Digits(at, numbers(rows, LIMB), numbers(rows, WEIGHT)), 0)
    return found
