"""The oracle: any plan evaluated over whole tables, in plain Python dictionaries. Slow and by the book."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.plan import (
    Aggregate,
    Call,
    Distinct,
    Function,
    Join,
    Keyed,
    Node,
    Scan,
    Select,
    Union,
    in_order,
)

__all__ = ["Content", "Meaning", "TooLarge", "answers", "plain"]

Row: TypeAlias = tuple[Any, ...]
Content: TypeAlias = Counter[Row]
"""Rows and how often each is there."""
Meaning: TypeAlias = Mapping[str, Callable[[dict[str, Any]], Any]]
"""What the expressions of a plan mean, by their text."""

_NAN = math.nan
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


class TooLarge(Exception):
    """An exact result does not fit its type: the whole tick must be refused."""


def plain(value: Any) -> Any:
    """A value that equals another one, and has its hash, just where Spark groups the two together."""
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    return value


def answers(
    roots: Iterable[Node],
    tables: Mapping[tuple[str, str], Content],
    schemas: Mapping[Node, pa.Schema],
    meaning: Meaning,
) -> dict[Node, Content]:
    """The content of every node of these plans. A table is what its log amounts to, keyed or not."""
    found: dict[Node, Content] = {}
    for node in in_order(roots):
        match node:
            case Scan(log, collection):
                found[node] = tables[log, collection]
            case Keyed(input=below):
                found[node] = found[below]
            case Select(input=below):
                found[node] = _selected(node, found[below], schemas[below].names, meaning)
            case Union(inputs=several):
                found[node] = sum((found[it] for it in several), Counter())
            case Distinct(input=below):
                found[node] = Counter(dict.fromkeys(found[below], 1))
            case Join(left=left, right=right):
                found[node] = _joined(
                    node, found[left], found[right], schemas[left].names, schemas[right].names
                )
            case Aggregate(input=below):
                found[node] = _aggregated(node, found[below], schemas[below], schemas[node])
    return found


def _selected(node: Select, content: Content, names: list[str], meaning: Meaning) -> Content:
    out: Content = Counter()
    for row, count in content.items():
        named = dict(zip(names, row, strict=True))
        if node.where is None or meaning[node.where](named) is True:
            out[tuple(plain(meaning[it.sql](named)) for it in node.columns)] += count
    return out


def _joined(node: Join, left: Content, right: Content, mine: list[str], theirs: list[str]) -> Content:
    pairs = [(mine.index(it.left), theirs.index(it.right), it.null_safe) for it in node.on]
    by_key: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, count in right.items():
        by_key[tuple(row[j] for _, j, _ in pairs)].append((row, count))
    out: Content = Counter()
    for row, count in left.items():
        key = tuple(row[i] for i, _, _ in pairs)
        if all(value is not None or safe for value, (_, _, safe) in zip(key, pairs, strict=True)):
            for other, times in by_key.get(key, ()):
                out[row + other] += count * times
    return out


def _aggregated(node: Aggregate, content: Content, below: pa.Schema, told: pa.Schema) -> Content:
    groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    if not node.keys:
        groups[()] = []
    at = [below.names.index(it) for it in node.keys]
    for row, count in content.items():
        groups[tuple(row[i] for i in at)].append((row, count))
    out: Content = Counter()
    for key, rows in groups.items():
        results = (_result(call, rows, below, told.field(call.name).type) for call in node.calls)
        out[(*key, *map(plain, results))] = 1
    return out


def _result(call: Call, rows: list[tuple[Row, int]], below: pa.Schema, kind: pa.DataType) -> Any:
    if call.column is None:
        return sum(count for _, count in rows)
    at = below.names.index(call.column)
    bag = [(row[at], count) for row, count in rows if row[at] is not None]
    count = sum(times for _, times in bag)
    match call.function:
        case Function.COUNT_COLUMN:
            return count
        case Function.COUNT_DISTINCT:
            return len({value for value, _ in bag})
        case Function.MIN | Function.MAX if bag:
            extreme = min if call.function is Function.MIN else max
            return extreme((value for value, _ in bag), key=_in_order)
        case Function.SUM if bag:
            return _sum(bag, kind)
        case Function.AVG if bag and pa.types.is_decimal(kind):
            exact = sum(Fraction(value) * times for value, times in bag) / count
            return _rounded(exact, kind)
        case Function.AVG if bag:
            return _sum(bag, pa.float64()) / count
    return None


def _sum(bag: list[tuple[Any, int]], kind: pa.DataType) -> Any:
    special = [value for value, _ in bag if not math.isfinite(value)]
    if special:
        return sum(special)  # NaN, or ∞ − ∞ is NaN, or the one infinity there is
    exact = sum(Fraction(value) * times for value, times in bag)
    if pa.types.is_integer(kind):
        return _fitting(int(exact), -(2**63), 2**63 - 1)
    if pa.types.is_decimal(kind):
        return _rounded(exact, kind)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _rounded(exact: Fraction, kind: pa.Decimal128Type) -> Decimal:
    units = exact * 10**kind.scale
    half_up = (2 * abs(units.numerator) + units.denominator) // (2 * units.denominator)
    top = 10**kind.precision - 1
    told = _fitting(half_up if units >= 0 else -half_up, -top, top)
    return _EXACT.scaleb(Decimal(told), -kind.scale)


def _fitting(number: int, least: int, greatest: int) -> int:
    if not least <= number <= greatest:
        raise TooLarge
    return number


def _in_order(value: Any) -> Any:
    if isinstance(value, float):
        return math.isnan(value), 0.0 if math.isnan(value) else value
    return value.encode() if isinstance(value, str) else value
