"""Random plans over the tables, and what their expressions mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from penstock.plan import Aggregate, Call, Distinct, Function, Join, Named, Node, On, Select, Union
from tests.operators.tables import COLLECTIONS, LEAVES

__all__ = ["Query", "queries"]

Columns: TypeAlias = dict[str, pa.DataType]
Means: TypeAlias = Callable[[Any], Any]

_LEAF_COLUMNS = [{it.name: it.type for it in COLLECTIONS["main", name]} for name in ("t", "u", "v")]
_STRING, _LONG, _INT, _DOUBLE, _BOOL = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
_EXPRESSIONS: dict[pa.DataType, list[tuple[str, pa.DataType, Means]]] = {
    _STRING: [
        ("coalesce({0}, 'none')", _STRING, lambda v: "none" if v is None else v),
        ("{0} || '!'", _STRING, lambda v: None if v is None else v + "!"),
        ("{0} IS NULL", _BOOL, lambda v: v is None),
        ("CASE WHEN {0} = 'a' THEN {0} END", _STRING, lambda v: v if v == "a" else None),
    ],
    _LONG: [
        ("{0} + 1", _LONG, lambda v: None if v is None else v + 1),
        ("{0} % 3", _LONG, lambda v: None if v is None else int(math.fmod(v, 3))),
        ("coalesce({0}, 0)", _LONG, lambda v: v or 0),
        ("{0} > 1", _BOOL, lambda v: None if v is None else v > 1),
    ],
    _INT: [
        ("CAST({0} AS BIGINT)", _LONG, lambda v: v),
        ("CASE WHEN {0} > 0 THEN {0} END", _INT, lambda v: v if v is not None and v > 0 else None),
    ],
    _DOUBLE: [
        ("{0} * 2", _DOUBLE, lambda v: None if v is None else v * 2),
        ("CASE WHEN {0} > 1 THEN {0} END", _DOUBLE, lambda v: v if _over_one(v) else None),
        # Tells 0.0 from −0.0, so no operator may hand on now one and now the other.
        ("CAST({0} AS VARCHAR) = '0.0'", _BOOL, lambda v: None if v is None else v == 0),
    ],
    _BOOL: [("NOT {0}", _BOOL, lambda v: None if v is None else not v)],
    pa.date32(): [("{0} IS NOT NULL", _BOOL, lambda v: v is not None)],
}
_CONDITIONS: dict[pa.DataType, list[tuple[str, Means]]] = {
    _STRING: [("{0} IS NOT NULL", lambda v: v is not None), ("{0} <> 'a'", lambda v: v not in (None, "a"))],
    _LONG: [("{0} > 0", lambda v: v is not None and v > 0), ("{0} IS NULL", lambda v: v is None)],
    _DOUBLE: [("{0} > 1", lambda v: _over_one(v))],
    _BOOL: [("{0}", lambda v: v)],
}
_MOST_JOINS = 2


def _over_one(value: float | None) -> bool:
    return value is not None and (value > 1 or math.isnan(value))


@dataclass(frozen=True)
class Query:
    """A plan, and what its expressions mean."""

    node: Node
    meaning: dict[str, Callable[[dict[str, Any]], Any]] = field(repr=False)


@st.composite
def queries(draw: st.DrawFn, storeys: int = 3) -> Query:
    """Any plan that is at most so high."""
    make = _Maker(draw)
    node, _ = make.node(storeys)
    return Query(node, make.meaning)


class _Maker:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.meaning: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self._named = 0
        self._joins = 0

    def node(self, storeys: int) -> tuple[Node, Columns]:
        if not storeys:
            leaf = self.draw(st.integers(0, 2))
            return LEAVES[leaf], _LEAF_COLUMNS[leaf]
        make = [self.aggregate, self.aggregate, self.select, self.join, self.distinct, self.union]
        return make[self.draw(st.integers(0, len(make) - 1))](storeys - 1)

    def select(self, storeys: int) -> tuple[Node, Columns]:
        below, columns = self.node(storeys)
        made: list[Named] = []
        out: Columns = {}
        for it in self._some(columns, 1, 3):
            text, kind, means = self._one([("{0}", columns[it], _itself), *_EXPRESSIONS.get(columns[it], [])])
            made.append(Named(self._name(), self._sql(text, it, means)))
            out[made[-1].name] = kind
        where = None
        told = [it for it in columns if columns[it] in _CONDITIONS]
        if told and self.draw(st.booleans()):
            it = self._one(told)
            text, means = self._one(_CONDITIONS[columns[it]])
            where = self._sql(text, it, means)
        return Select(below, tuple(made), where), out

    def distinct(self, storeys: int) -> tuple[Node, Columns]:
        below, columns = self.node(storeys)
        if self.draw(st.booleans()):
            below, columns = self._renamed(below, columns, self._some(columns, 1, 2))
        return Distinct(below), columns

    def union(self, storeys: int) -> tuple[Node, Columns]:
        left, columns = self.node(storeys)
        right, others = (left, columns) if self.draw(st.booleans()) else self.node(storeys)
        mine, theirs = [], []
        for it in self._some(columns, 1, 3):
            like = [other for other in others if others[other] == columns[it]]
            if like:
                mine.append(it)
                theirs.append(self._one(like))
        if not mine:
            right, others, mine, theirs = left, columns, list(columns), list(columns)
        one, out = self._renamed(left, columns, mine)
        other, _ = self._renamed(right, others, theirs)
        return Union((one, other)), out

    def join(self, storeys: int) -> tuple[Node, Columns]:
        self._joins += 1
        if self._joins > _MOST_JOINS:
            return self.aggregate(storeys)
        left, columns = self.node(storeys)
        right, others = (left, columns) if self.draw(st.booleans()) else self.node(storeys)
        right, others = self._renamed(right, others, list(others)[:4])
        pairs = [(it, other) for it in columns for other in others if columns[it] == others[other]]
        on = []
        if pairs:
            on = [On(*self._one(pairs), self.draw(st.booleans())) for _ in range(self._one([1, 1, 2]))]
            near = [(on[0].left, other) for other in others if columns[on[0].left] == others[other]]
            if self._one([0, 0, 1]):  # one column that must equal two
                on.append(On(*self._one(near), self.draw(st.booleans())))
        return Join(left, right, tuple(on)), columns | others

    def aggregate(self, storeys: int) -> tuple[Node, Columns]:
        below, columns = self.node(storeys)
        many = self._one([1, 1, 0, 1, 2])
        keys = self._some(columns, many, many)
        out = {it: columns[it] for it in keys}
        calls = []
        for column in [None, *self._some(columns, 0, 3)]:
            if column is None and self.draw(st.booleans()):
                calls.append(Call(self._name(), Function.COUNT))
            elif column is not None:
                function = self._one(_functions(columns[column]))
                calls.append(Call(self._name(), function, column))
                if self.draw(st.booleans()):
                    calls.append(Call(self._name(), self._one(_functions(columns[column])), column))
        if not out and not calls:
            calls.append(Call(self._name(), Function.COUNT))
        for it in calls:
            out[it.name] = _kind(it, columns)
        return Aggregate(below, tuple(keys), tuple(calls)), out

    def _renamed(self, node: Node, columns: Columns, names: list[str]) -> tuple[Node, Columns]:
        made = [Named(self._name(), self._sql("{0}", it, _itself)) for it in names]
        return Select(node, tuple(made)), {
            it.name: columns[name] for it, name in zip(made, names, strict=True)
        }

    def _sql(self, text: str, column: str, means: Means) -> str:
        sql = text.format(column)
        self.meaning[sql] = lambda row: means(row[column])
        return sql

    def _some(self, columns: Columns, least: int, most: int) -> list[str]:
        names = st.sampled_from(list(columns))
        return self.draw(st.lists(names, min_size=min(least, len(columns)), max_size=most, unique=True))

    def _one(self, several: list[Any]) -> Any:
        return several[self.draw(st.integers(0, len(several) - 1))]

    def _name(self) -> str:
        self._named += 1
        return f"c{self._named}"


def _itself(value: Any) -> Any:
    return value


def _functions(kind: pa.DataType) -> list[Function]:
    told = [Function.COUNT_COLUMN, Function.MIN, Function.MAX, Function.COUNT_DISTINCT]
    t = pa.types
    can_add = t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)
    return [Function.SUM, Function.AVG, Function.SUM, *told] if can_add else told


def _kind(call: Call, columns: Columns) -> pa.DataType:
    """Only as far as plans are made of it: operators know better."""
    if call.column is None or call.function in (Function.COUNT_COLUMN, Function.COUNT_DISTINCT):
        return _LONG
    kind = columns[call.column]
    t = pa.types
    if call.function is Function.SUM:
        if t.is_decimal(kind):
            return pa.decimal128(min(38, kind.precision + 10), kind.scale)
        return _LONG if t.is_integer(kind) else _DOUBLE
    if call.function is Function.AVG:
        if t.is_decimal(kind):
            return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
        return _DOUBLE
    return kind
