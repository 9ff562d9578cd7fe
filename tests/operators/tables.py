"""Tables for random plans, and random histories of them: values that repeat, NULLs, a hot key, extremes."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.changes import Op
from penstock.changes.names import LSN, OP, WEIGHT
from penstock.plan import Keyed, Node, Scan
from tests.operators.model import Content, plain

__all__ = ["COLLECTIONS", "LEAVES", "Tables", "histories"]

_HOT = ["a"] * 6
POOLS: dict[pa.DataType, list[Any]] = {
    pa.string(): [None, *_HOT, "b", "c", "", "ä" * 40],
    pa.int32(): [0, None, 1, 2, -1, 2**31 - 1, -(2**31)],
    pa.int64(): [0, None, 1, 2, 3, -1, 7, 10**12, -(10**12)],
    pa.float64(): [
        0.0, None, 1.5, 0.1, 0.2, math.nan, math.inf, -math.inf, 1e300, 5e-324, -5e-324, 2.0**66, -0.3
    ],
    pa.decimal128(12, 2): [
        Decimal("0.00"), None, Decimal("0.01"), Decimal("10.50"), Decimal("-10.50"), Decimal("9999999999.99")
    ],
    pa.decimal128(38, 10): [
        Decimal(0), None, Decimal("-0.0000000001"), Decimal("123456789012345678901234567.0000000005"),
        Decimal("-99999999999999999"), Decimal("1.5"),
    ],
    pa.bool_(): [False, None, True],
    pa.date32(): [dt.date(2024, 2, 29), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
}  # fmt: skip
_KINDS = {"g": pa.string(), "h": pa.int32(), "x": pa.int64(), "y": pa.float64(), "d": pa.decimal128(12, 2)}
COLLECTIONS = {
    ("main", "t"): pa.schema([("id", pa.int64()), *_KINDS.items(), ("b", pa.bool_()), ("e", pa.date32())]),
    ("main", "u"): pa.schema([*((name, _KINDS[name]) for name in "gxy"), ("d", pa.decimal128(38, 10))]),
    ("main", "v"): pa.schema([("k", pa.string()), ("n", pa.int32()), ("x", pa.int64())]),
}
"""t has one key, v a key of two columns that may be NULL, and u is a multiset."""
_KEYS = {"t": ("id",), "v": ("k", "n"), "u": ()}
LEAVES: tuple[Node, ...] = (
    Keyed(Scan("main", "t"), ("id",)),
    Scan("main", "u"),
    Keyed(Scan("main", "v"), ("k", "n")),
)


def histories(least: int = 12, most: int = 48) -> st.SearchStrategy[list[list[int]]]:
    """What is done, tick by tick. A deed is a number, which `Tables` reads.

    Hypothesis chooses a seed only: left to itself it would try mostly short and uniform histories.
    """
    return st.builds(_history, st.integers(0, 2**32 - 1), st.just(least), st.just(most))


def _history(seed: int, least: int, most: int) -> list[list[int]]:
    chance = random.Random(seed)
    deeds = chance.randint(least, most)
    per_tick = chance.choice([1, 3, 6, 12])
    ticks: list[list[int]] = [[]]
    for _ in range(deeds):
        while chance.random() < 1 / (per_tick + 1) and len(ticks) < 10:
            ticks.append([])
        ticks[-1].append(chance.getrandbits(48))
    return ticks


@dataclass
class Tables:
    """The tables as their history goes, and the events that tell it."""

    lsn: int = 0
    rows: dict[str, dict[Any, dict[str, Any]]] = field(default_factory=lambda: {"t": {}, "u": {}, "v": {}})

    def contents(self) -> dict[tuple[str, str], Content]:
        """What each table holds."""
        return {
            ("main", name): Counter(tuple(map(plain, row.values())) for row in rows.values())
            for name, rows in self.rows.items()
        }

    def tick(self, deeds: Sequence[int]) -> dict[tuple[str, str], pa.RecordBatch]:
        """Do these, and tell them as events of each table."""
        events: dict[str, list[dict[str, Any]]] = {name: [] for name in self.rows}
        for deed in deeds:
            for table, op, row in self._do(_Dice(deed)):
                self.lsn += op != Op.UPDATE_AFTER
                events[table].append({**row, OP: int(op), LSN: self.lsn, WEIGHT: op.weight})
        return {("main", name): _batch(some, COLLECTIONS["main", name]) for name, some in events.items()}

    def _do(self, dice: _Dice) -> Iterator[tuple[str, Op, dict[str, Any]]]:
        table = "tuvtu"[dice.roll(5)]
        rows = self.rows[table]
        what = dice.roll(8)
        row = {it.name: dice.choose(POOLS[it.type]) for it in COLLECTIONS["main", table]}
        if table == "u":
            if what >= 5 and rows:
                yield table, Op.DELETE, rows.pop(list(rows)[dice.roll(len(rows))])
                return
            if what == 4 and rows:
                row = dict(list(rows.values())[dice.roll(len(rows))])  # one more of a row that is there
            rows[self.lsn, len(rows)] = row
            yield table, Op.INSERT, row
            return
        if table == "t":
            row["id"] = dice.roll(7)
            # Only here: a multiset hands on what it was given, and Spark tells −0.0 from 0.0 in a text.
            row["y"] = -0.0 if dice.roll(6) == 0 else row["y"]
        key = tuple(row[it] for it in _KEYS[table])
        old = rows.get(key)
        if what >= 5:
            rows.pop(key, None)
            yield table, Op.DELETE, row if old is None else old
            return
        if what == 4 and old is not None:
            row = old  # written again as it is
        rows[key] = row
        if old is not None and what > 1:
            yield table, Op.UPDATE_BEFORE, old
            yield table, Op.UPDATE_AFTER, row
            return
        yield table, Op.INSERT, row


class _Dice:
    """Choices read off one number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def roll(self, sides: int) -> int:
        self._number, told = divmod(self._number, sides)
        return told

    def choose(self, pool: Sequence[Any]) -> Any:
        return pool[self.roll(len(pool))]


def _batch(rows: Sequence[dict[str, Any]], columns: pa.Schema) -> pa.RecordBatch:
    schema = pa.schema([*columns, (OP, pa.int8()), (LSN, pa.int64()), (WEIGHT, pa.int64())])
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)
