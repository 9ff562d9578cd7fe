"""A scripted run: deeds that follow from their numbers alone, the views over them, and what a run left.

A *deed* is one transaction. How many events it has is known, so where a log ends tells which deeds are done,
and whoever begins anew goes on with the next one.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.changes import ZSet
from penstock.store import Store
from penstock.views import Manifest
from penstock.views.commit import files_of

__all__ = ["CREATE", "LATE", "VIEWS", "Contents", "Script", "check_run", "leftovers"]

CREATE = """
CREATE TABLE IF NOT EXISTS orders (
  id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12, 2), weight DOUBLE);
CREATE TABLE IF NOT EXISTS tags (customer STRING, tag STRING);
"""
VIEWS = {
    "sums": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n, MAX(amount) AS most"
    " FROM orders GROUP BY customer",
    "tagged": "SELECT o.id, o.customer, t.tag FROM orders o JOIN tags t ON o.customer = t.customer",
    "used": "SELECT DISTINCT tag FROM tags",
    "large": "SELECT customer, total * 2 AS doubled FROM sums WHERE n > 1",
    "by_n": "SELECT n, COUNT(*) AS customers FROM sums GROUP BY n",
    "whole": "SELECT COUNT(*) AS n, SUM(weight) AS weight, MIN(amount) AS least FROM orders",
}
"""With aggregates, a join, DISTINCT, views on views, one row over everything; some of them need Spark."""
LATE = {"words": "SELECT upper(tag) AS tag, COUNT(*) AS n FROM tags GROUP BY upper(tag)"}
"""Created in the middle of the run."""

Row = dict[str, Any]
Contents = Mapping[str, ZSet]
"""By view."""


@dataclass
class Deed:
    """One transaction: rows by table and verb, in this order."""

    steps: list[tuple[str, str, list[Row]]] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(len(rows) for _, _, rows in self.steps)


class Script:
    """So many deeds over two tables, one with a key and one without."""

    def __init__(
        self,
        deeds: int,
        views: Mapping[str, str] = VIEWS,
        late: Mapping[str, str] = LATE,
        rows: int = 4,
        seed: int = 11,
    ) -> None:
        self.views, self.late = dict(views), dict(late)
        self.middle = deeds // 2
        chance = random.Random(seed)
        tags: list[Row] = []
        self.deeds = [_deed(chance, tags, rows) for _ in range(deeds)]
        self.ends = [0]
        """The LSN that the tables' log has after so many deeds."""
        for deed in self.deeds:
            self.ends.append(self.ends[-1] + deed.events)

    def prepare(self, db: ps.Database, done: int) -> None:
        """Create what there should be by now. May have been begun before, and broken off anywhere."""
        db.sql(CREATE)
        for name, sql in (self.views | (self.late if done >= self.middle else {})).items():
            db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {sql}")

    def done(self, db: ps.Database) -> int:
        """How many deeds the tables' log holds."""
        if "orders" not in db.tables():
            return 0
        lsn = db.log("main").current_lsn
        found = bisect_left(self.ends, lsn)
        assert self.ends[found] == lsn, "a deed is there whole or not at all"
        return found

    def perform(self, db: ps.Database, number: int) -> None:
        with db.transaction():
            for table, verb, rows in self.deeds[number].steps:
                getattr(db.table(table), verb)(rows)

    def go_on(
        self, db: ps.Database, upto: int | None = None, told: Callable[[int], object] = lambda _: None
    ) -> None:
        """Do what is left, a tick for each deed."""
        done = self.done(db)
        self.prepare(db, 0)
        db.refresh()
        while True:
            if done >= self.middle and not self.late.keys() <= {*db.views()}:
                self.prepare(db, done)
            db.refresh()
            if done == (len(self.deeds) if upto is None else upto):
                break
            told(done)
            self.perform(db, done)
            done += 1
        told(done)


def _deed(chance: random.Random, tags: list[Row], most: int) -> Deed:
    deed = Deed()
    customers = "abcdefg"
    orders = [
        {
            "id": chance.randrange(30),
            "customer": chance.choice([*customers, None]),
            "amount": f"{chance.randrange(2000) / 100:.2f}",
            "weight": chance.choice([0.1, 0.2, 1e300, -1e300, None]),
        }
        for _ in range(chance.randint(1, most))
    ]
    deed.steps.append(("orders", "upsert", orders))
    if chance.random() < 0.5:
        deed.steps.append(("orders", "delete", [{"id": chance.randrange(30)} for _ in range(2)]))
    if chance.random() < 0.6:
        new = [{"customer": chance.choice(customers), "tag": chance.choice("xyz")} for _ in range(2)]
        tags += new
        deed.steps.append(("tags", "insert", new))
    if tags and chance.random() < 0.4:
        deed.steps.append(("tags", "delete", [tags.pop(chance.randrange(len(tags)))]))
    return deed


# -- what a run left --------------------------------------------------------------------------------


def told_by_tick(db: ps.Database) -> Iterator[tuple[Manifest, dict[str, ZSet]]]:
    """For each tick what it said of each view. On the way: LSNs have no gap, and nothing is told in vain."""
    log = db._workspace.pipeline("main").log
    newest = log.newest()
    assert newest is not None
    manifests = [log.at_tick(tick) for tick in range(1, newest.tick + 1)]
    assert all(a.last_lsn + 1 == b.first_lsn for a, b in pairwise(manifests))
    assert all(a.term <= b.term for a, b in pairwise(manifests))
    for manifest in manifests:
        said: dict[str, ZSet] = {}
        cursor = manifest.first_lsn - 1
        for changes in log.read(since=cursor, upto=manifest.last_lsn):
            assert changes.first_lsn == cursor + 1, f"LSN {cursor + 1} is missing"
            cursor = changes.last_lsn
            name, zset = changes.collection.name, changes.zset()
            said[name] = said[name] + zset if name in said else zset
        assert cursor == manifest.last_lsn
        for name, zset in said.items():
            assert len(zset.consolidate()) == len(zset), f"{name} takes back what it says in one tick"
        yield manifest, said


def contents_by_frontier(db: ps.Database) -> dict[int, Contents]:
    """What the views' changes add up to, after the last tick of each frontier."""
    now: dict[str, ZSet] = {}
    found: dict[int, Contents] = {}
    for manifest, said in told_by_tick(db):
        for name, zset in said.items():
            now[name] = (now[name] + zset).consolidate() if name in now else zset.consolidate()
            assert not len(now[name]) or now[name].weights.min() > 0, f"{name}: there less often than never"
        found[manifest.frontier.get("main", 0)] = dict(now)
    return found


def check_run(db: ps.Database, script: Script, expected: Mapping[int, Contents]) -> None:
    """At each tick the changes so far are the undisturbed run's contents, and so is what is read."""
    found = contents_by_frontier(db)
    assert script.ends[-1] in found, "the run came to its end"
    for frontier, contents in found.items():
        assert frontier in expected, "ticks end between transactions"
        for name, zset in contents.items():
            wanted = expected[frontier].get(name)
            assert zset.is_zero() if wanted is None else zset == wanted, (name, frontier)
    last = found[script.ends[-1]]
    for name, wanted in expected[script.ends[-1]].items():
        assert last[name] == wanted, name
        assert ZSet.from_arrow(_plain(db.view(name).snapshot())) == wanted, name
        assert ZSet.from_arrow(_plain(db.query(f"SELECT * FROM {name}").arrow())) == wanted, name


def _plain(table: pa.Table) -> pa.Table:
    return table.combine_chunks()


def leftovers(store: Store, folder: str = "pipelines/main") -> set[str]:
    """Files that no manifest needs; what it needs has to be there."""
    names = {blob.name for blob in store.list(f"{folder}/")}
    told = sorted(name for name in names if "/manifest/" in name)
    manifests = [Manifest.decode(store.get(name), name) for name in told]
    needed = {file.name for it in manifests for view in it.views.values() for file in view.files}
    needed |= files_of(manifests[-1])
    assert needed <= names, "what a manifest names is there"
    return names - needed - set(told)
