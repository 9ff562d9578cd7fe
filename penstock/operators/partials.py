"""What of an aggregate Spark adds up before rows are sent to their shards: as SQL text, and the way back.

Law: SUM over rows of weight · digit, for digits that are exact integers and add up to the row's value, is
linear; so it does not matter where, and in how many parts, it is done. What comes is put into canonical form
here, so a state does not tell by which way it was fed.
Not every row can be added up so: *plain* are the rows whose doubles are of usual size and whose decimals have
at most 18 digits before and after the point. The rest is handed on row by row.
Cost: per row and column one SUM for integers up to 32 bits, two for BIGINT and decimals up to 18 digits, four
for wider decimals, six for doubles. No product or sum leaves a BIGINT as long as the weights of a group's
changes in one tick, all taken as positive, add up to less than 2³¹; else Spark says so (ANSI mode, its
default), and the tick can be run without adding up before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changes.aggregates import GroupedCountColumn, GroupedSum
from penstock.changes.aggregates.exact import FIRST, LAST
from penstock.changes.aggregates.limbs import DIGIT, LOW, carry, fold, times
from penstock.changes.names import WEIGHT
from penstock.operators.arguments import ROWS, Argument, arguments_of
from penstock.operators.batches import numbers
from penstock.operators.operator import changes_of, with_hash
from penstock.operators.values import VALUE
from penstock.plan import Aggregate, Named
from penstock.spine.layout import Int64s

__all__ = ["InputSql", "partial_inputs", "partial_sql", "started"]

_NARROW = 18
"""Digits of a decimal that fit a BIGINT whatever they are."""
_POINT = -1074


@dataclass(frozen=True, slots=True)
class InputSql:
    """How Spark makes one input of a step out of the node's changes, which have a column ``_weight``.

    ``SELECT by, sums FROM changes WHERE where GROUP BY by HAVING having``; without ``sums`` there is no GROUP
    BY, and ``by`` are plain columns. ``_hash`` comes on top, from the operator's `keys`.
    """

    name: str
    where: str | None
    by: tuple[Named, ...]
    sums: tuple[Named, ...] = ()
    having: str | None = None


def partial_sql(node: Aggregate, below: Sequence[pa.Schema]) -> tuple[InputSql, ...]:
    """The inputs of the node's step with ``partial=True``, in Spark's own functions only.

    >>> from penstock.plan import Call, Function, Scan
    >>> node = Aggregate(Scan("main", "t"), ("k",), (Call("total", Function.SUM, "x"),))
    >>> (partials,) = partial_sql(node, [pa.schema([("k", pa.string()), ("x", pa.int32())])])
    >>> for it in partials.sums:
    ...     print(it.name, "=", it.sql)
    _rows = coalesce(SUM(`_weight`), 0L)
    _count0 = coalesce(SUM(CASE WHEN `x` IS NULL THEN 0L ELSE `_weight` END), 0L)
    _sum0_limb0 = coalesce(SUM(`_weight` * (CAST(`x` AS BIGINT))), 0L)
    """
    (rows,) = below
    arguments = arguments_of(node, rows)
    plain = " AND ".join(f"({it})" for it in map(_plain, arguments) if it is not None) or None
    keys = tuple(_column(it) for it in node.keys)
    told = [InputSql("partials", plain, keys, tuple(Named(*it) for it in _sums(arguments)))]
    for it in arguments:
        if it.has_extremes or it.is_distinct:
            there = f"{_quoted(it.column)} IS NOT NULL"
            where = there if plain is None else f"{plain} AND {there}"
            by = (*keys, Named(VALUE, _quoted(it.column)))
            weight = Named(WEIGHT, f"SUM({_quoted(WEIGHT)})")
            told.append(InputSql(it.bag, where, by, (weight,), f"{weight.sql} <> 0"))
    if plain is not None:
        told.append(InputSql("changes", f"NOT ({plain})", tuple(map(_column, (*rows.names, WEIGHT)))))
    return tuple(told)


def partial_inputs(rows: pa.Schema, keys: pa.Schema, arguments: Sequence[Argument]) -> dict[str, pa.Schema]:
    """The columns of these inputs."""
    sums = [pa.field(name, pa.int64(), nullable=False) for name, _ in _sums(arguments)]
    told = {"partials": pa.schema([*with_hash(keys), *sums])}
    for it in arguments:
        if it.has_extremes or it.is_distinct:
            value = pa.field(VALUE, it.kind, nullable=False)
            told[it.bag] = changes_of(pa.schema([*keys, value]))
    if any(_plain(it) is not None for it in arguments):
        told["changes"] = changes_of(rows)
    return told


def started(argument: Argument, ids: Int64s, partials: pa.RecordBatch) -> GroupedSum | GroupedCountColumn:
    """The state that partial sums of one argument make; row r of them is of group ``ids[r]``."""
    columns = {"count": numbers(partials, argument.count)}
    if not argument.is_added:
        return GroupedCountColumn.from_state(argument.kind, pa.record_batch(columns), group_ids=ids)
    pieces = {name: numbers(partials, argument.limb(name)) for name, _ in _digits(argument)}
    if _is_wide(argument.kind):
        pieces = _limbs_of_wide(argument, pieces)
    nothing = np.zeros(partials.num_rows, np.int64)
    columns.update((name, pieces.get(name, nothing)) for name in argument.limbs)
    return GroupedSum.from_state(argument.kind, pa.record_batch(columns), group_ids=ids)


def _sums(arguments: Sequence[Argument]) -> list[tuple[str, str]]:
    weight = _quoted(WEIGHT)
    told = [(ROWS, weight)]
    for it in arguments:
        if it.is_counted:
            told.append((it.count, f"CASE WHEN {_quoted(it.column)} IS NULL THEN 0L ELSE {weight} END"))
        if it.is_added:
            told += [(it.limb(name), f"{weight} * ({digit})") for name, digit in _digits(it)]
    # A SUM over nothing but NULL is NULL.
    return [(name, f"coalesce(SUM({sql}), 0L)") for name, sql in told]


def _plain(argument: Argument) -> str | None:
    """When a row can be added up before, as far as this argument is concerned; None: always."""
    kind, x = argument.kind, _number(argument)
    if argument.is_double:
        low, high = (_literal(2.0 ** (DIGIT * limb + 1 - 1023)) for limb in (FIRST, LAST - 1))
        return f"{x} IS NULL OR {x} = 0D OR (abs({x}) >= {low} AND abs({x}) < {high})"
    if not argument.is_added or not _is_wide(kind):
        return None
    if kind.scale > _NARROW:
        return f"{x} IS NULL"
    if kind.precision - kind.scale <= _NARROW:
        return None
    # Without abs(), which rounds a negative decimal to 34 digits.
    return f"{x} IS NULL OR ({x} > -{10**_NARROW} AND {x} < {10**_NARROW})"


def _digits(argument: Argument) -> list[tuple[str, str]]:
    """Integers that make up a row's value, by the name of the limb they belong to: SQL over the row."""
    kind, x = argument.kind, _number(argument)
    if argument.is_double:
        return _digits_of_double(x)
    if pa.types.is_integer(kind):
        return [("limb0", f"CAST({x} AS BIGINT)")] if kind.bit_width <= DIGIT else _halves(x, "limb")
    if kind.scale > _NARROW:
        return []
    units = f"CAST({10**kind.scale} AS DECIMAL({kind.scale + 1}, 0))"
    if not _is_wide(kind):
        return _halves(f"CAST({x} * {units} AS BIGINT)", "limb")
    fraction = f"CAST(({x} % CAST(1 AS DECIMAL(1, 0))) * {units} AS BIGINT)"
    return [*_halves(fraction, "fraction"), *_halves(f"CAST({x} AS BIGINT)", "whole")]


def _halves(number: str, name: str) -> list[tuple[str, str]]:
    return [(f"{name}0", f"{number} & {LOW}L"), (f"{name}1", f"shiftright({number}, {DIGIT})")]


def _digits_of_double(x: str) -> list[tuple[str, str]]:
    """With r(j) = the double rounded to a multiple of limb j's unit, in these units: r(j) − r(j+1)·2³².

    Each r is exact, for scaling is by powers of two; and so is their difference, an integer of 32 bits.
    """
    told = []
    for limb in range(FIRST, LAST + 1):
        here, above = (f"{x} * {_literal(2.0 ** -(DIGIT * it + _POINT))}" for it in (limb, limb + 1))
        digit = here if limb == FIRST else f"rint({here})"
        if limb < LAST:
            digit = f"{digit} - rint({above}) * {_literal(2.0**DIGIT)}"
        told.append((f"limb{limb}", f"CAST({digit} AS BIGINT)"))
    return told


def _limbs_of_wide(argument: Argument, pieces: Mapping[str, Int64s]) -> dict[str, Int64s]:
    """(whole0 + whole1·2³²)·10^scale + fraction0 + fraction1·2³², as limbs."""
    if not pieces:
        return {}
    rows = len(pieces["whole0"])
    table = np.zeros((6, rows), np.int64)
    for at, name in enumerate(("fraction0", "fraction1")):
        table[at] += pieces[name]
    for at, name in enumerate(("whole0", "whole1")):
        size = np.abs(pieces[name])
        parts = times([size & LOW, size >> DIGIT], pieces[name] < 0, np.full(rows, 10**argument.kind.scale))
        table[at : at + len(parts)] += parts
    carry(table)
    limbs, fits = fold(table, len(argument.limbs))
    assert fits.all(), "the limbs of a kind hold 2⁶³ of its widest value"
    return dict(zip(argument.limbs, limbs, strict=True))


def _is_wide(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.precision > _NARROW)


def _number(argument: Argument) -> str:
    x = _quoted(argument.column)
    return f"CAST({x} AS DOUBLE)" if argument.kind == pa.float32() else x


def _literal(number: float) -> str:
    return f"{number!r}D"


def _column(name: str) -> Named:
    return Named(name, _quoted(name))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
