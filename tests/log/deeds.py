"""Transactions that can be told from one another, and whether a log holds those it acknowledged.

A *deed* is the n-th transaction of a writer. What is in it follows from these two numbers alone, so whoever
finds it in a log knows whether it is whole, and whoever was told of its LSNs knows where it has to be.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.changes.op import Op
from penstock.log.log import Log
from penstock.lsn import LsnRange

__all__ = ["NAMES", "SCHEMA", "Deed", "Event", "Found", "Ledger", "add_collections", "found_in", "perform"]

NAMES = ("people", "orders", "lines")
SCHEMA = pa.schema(
    [("writer", pa.int32()), ("number", pa.int64()), ("item", pa.int32()), ("text", pa.string())]
)


class Deed(NamedTuple):
    writer: int
    number: int


class Event(NamedTuple):
    collection: str
    refresh: bool
    rows: tuple[tuple[int, int, str], ...]  # operation, item, text


class Found(NamedTuple):
    """A transaction as it was read."""

    deed: Deed
    lsns: LsnRange
    events: tuple[Event, ...]


def add_collections(log: Log) -> None:
    for name in NAMES:
        log.add_collection(name, SCHEMA, ["item"])


def _steps(deed: Deed) -> Iterator[tuple[str, str, list[tuple[Op, int, str]]]]:
    """What the deed does, step by step: verb, collection, rows."""
    chance = random.Random(f"{deed.writer}/{deed.number}")
    for step in range(chance.choice([1, 1, 2, 4])):
        verb = chance.choice(["append", "append", "update", "refresh", "emit"])
        rows: list[tuple[Op, int, str]] = []
        for i in range(1 if verb == "emit" else chance.randrange(1, 6)):
            item, text = 100 * step + i, chance.choice("abcdef") * chance.choice([0, 3, 40])
            if verb == "update":
                rows += [(Op.UPDATE_BEFORE, item, text), (Op.UPDATE_AFTER, item, text + "!")]
            elif verb == "append" and chance.random() < 0.3:
                rows.append((Op.DELETE, item, text))
            else:
                rows.append((Op.INSERT, item, text))
        yield verb, chance.choice(NAMES), rows


def _batch(deed: Deed, rows: list[tuple[Op, int, str]], ops: bool) -> pa.RecordBatch:
    values = [(deed.writer, deed.number, item, text) for _, item, text in rows]
    batch = pa.RecordBatch.from_pylist([_row(it) for it in values], schema=SCHEMA)
    return batch.append_column("_op", pa.array([int(op) for op, _, _ in rows], pa.int8())) if ops else batch


def _row(values: tuple[int, int, int, str]) -> dict[str, Any]:
    return dict(zip(SCHEMA.names, values, strict=True))


def perform(log: Log, deed: Deed) -> LsnRange:
    """Do it, as one transaction; the LSNs are the log's acknowledgement."""
    steps = list(_steps(deed))
    if len(steps) == 1 and steps[0][0] != "emit":
        verb, name, rows = steps[0]
        return (log.refresh if verb == "refresh" else log.append)(name, _batch(deed, rows, verb != "refresh"))
    with log.transaction() as transaction:
        for verb, name, rows in steps:
            if verb == "emit":
                ((_, item, text),) = rows
                transaction.emit("insert", name, after=_row((*deed, item, text)))
            elif verb == "refresh":
                transaction.refresh(name, _batch(deed, rows, ops=False))
            else:
                transaction.append(name, _batch(deed, rows, ops=True))
    assert transaction.lsns is not None
    return transaction.lsns


@cache
def expected(deed: Deed) -> tuple[Event, ...]:
    events = []
    for verb, name, rows in _steps(deed):
        told = tuple((int(op), item, text) for op, item, text in rows)
        if verb == "refresh":
            events.append(Event(name, True, told))
        else:
            size = 2 if verb == "update" else 1
            events += [Event(name, False, told[i : i + size]) for i in range(0, len(told), size)]
    return tuple(events)


def found_in(log: Log, since: int | None = None) -> list[Found]:
    """All transactions after the cursor, or all that are kept; their LSNs are without a gap."""
    lsn = log.oldest_lsn - 1 if since is None else since
    found: list[Found] = []
    events: list[Event] = []
    deeds: set[Deed] = set()
    first = lsn + 1
    for changes in log.read(since=lsn):
        assert changes.first_lsn == lsn + 1, f"LSN {lsn + 1} is missing"
        lsn = changes.last_lsn
        writers, numbers, items, texts = (column.to_pylist() for column in changes.data.columns)
        deeds |= {Deed(*it) for it in zip(writers, numbers, strict=True)}
        rows = list(zip(changes.ops.tolist(), items, texts, strict=True))
        if changes.is_refresh:
            events.append(Event(changes.collection.name, True, tuple(rows)))
        else:
            bounds = [*changes.stored.event_starts().tolist(), len(rows)]
            assert len(bounds) == len(changes) + 1
            cuts = itertools.pairwise(bounds)
            events += [Event(changes.collection.name, False, tuple(rows[a:b])) for a, b in cuts]
        if changes.ends_transaction:
            assert len(deeds) == 1, f"one transaction holds the rows of {deeds}"
            found.append(Found(deeds.pop(), LsnRange(first, lsn), tuple(events)))
            events, first = [], lsn + 1
    assert not events, "the log ends within a transaction"
    assert lsn == log.current_lsn
    return found


@dataclass
class Ledger:
    """What a log acknowledged, and what it was asked for without an answer."""

    acknowledged: dict[Deed, LsnRange] = field(default_factory=dict)
    asked: set[Deed] = field(default_factory=set)

    def next_number(self, writer: int) -> int:
        numbers = [it.number for it in (*self.acknowledged, *self.asked) if it.writer == writer]
        return max(numbers, default=0) + 1

    def perform(self, log: Log, deed: Deed) -> None:
        self.asked.add(deed)
        self.acknowledged[deed] = perform(log, deed)
        self.asked.discard(deed)

    def check(self, log: Log) -> None:
        """The log holds what it acknowledged, where it did so; and of the rest only what it was asked for.

        What it turns out to hold is acknowledged from now on, and what it does not hold will never come.
        """
        self.check_found(found_in(log), log.oldest_lsn, log.current_lsn)

    def check_found(self, found: Iterable[Found], oldest_lsn: int, current_lsn: int) -> None:
        there = self._check_whole(found)
        for deed, lsns in self.acknowledged.items():
            if lsns.first >= oldest_lsn:
                assert there.get(deed) == lsns, f"{deed} was acknowledged at {lsns}, and is {there.get(deed)}"
        for deed in there.keys() - self.acknowledged.keys():
            assert deed in self.asked, f"nobody asked for {deed}"
            self.acknowledged[deed] = there[deed]
        assert current_lsn == max((it.last for it in self.acknowledged.values()), default=0)
        self.asked.clear()

    def check_prefix(self, log: Log, durable_lsn: int) -> None:
        """After a loss of power: nothing up to the durable LSN is lost, and no other LSN between."""
        there = self._check_whole(found_in(log))
        end = log.current_lsn
        assert end >= durable_lsn, f"events up to {durable_lsn} were durable, and the log ends at {end}"
        for deed, lsns in self.acknowledged.items():
            assert there.get(deed) == (lsns if lsns.last <= end else None)
        assert there.keys() <= self.acknowledged.keys() | self.asked

    def _check_whole(self, found: Iterable[Found]) -> dict[Deed, LsnRange]:
        there: dict[Deed, LsnRange] = {}
        last: dict[int, int] = {}
        for deed, lsns, events in found:
            assert events == expected(deed), f"{deed} is not whole, or not as it was"
            assert len(lsns) == len(events)
            assert deed.number > last.get(deed.writer, 0), f"{deed} came twice, or too late"
            last[deed.writer] = deed.number
            there[deed] = lsns
        return there
