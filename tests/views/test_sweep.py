"""What nobody needs goes, what a manifest names never does: whoever sweeps, whatever fails."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.errors import Fenced, OutcomeUnknown, StoreUnavailable
from penstock.spark import Place
from penstock.spine import Slice
from penstock.store import MemoryStore, Store
from penstock.store.faulty import Fault, FaultyStore
from penstock.views.commit import files_of
from penstock.views.driver import Driver
from penstock.views.manifest import ChangeFile, Manifest, ViewState, manifest_name
from penstock.views.tick_log import TickLog

FOLDER = "pipelines/main"


class Ticking:
    """A driver with the work of ticks reduced to the files that they leave."""

    def __init__(self, store: Store, seed: int = 0) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.log = TickLog(store, FOLDER, "the views", dict)
        self.driver = Driver(store, FOLDER, self.log, lambda: 1)

    def begin(self, before: Manifest) -> tuple[Manifest, Place]:
        """Do the work of a tick: runs that replace others, files of changes, registrations; and more that an
        attempt which lost left."""
        tick = before.tick + 1
        attempt = f"{tick:012d}-{self.chance.randrange(16**8):08x}"
        place = Place(
            self.store, self.store, *(f"{FOLDER}/{kind}/{attempt}" for kind in ("runs", "changes", "steps"))
        )
        runs = list(before.states.get("node", {}).get("sums", ()))
        runs = [it for it in runs if self.chance.random() < 0.7]
        for i in range(self.chance.randrange(3)):
            runs.append(Slice(self.write(f"{place.runs}.node-{i}"), 1, 10))
        files = tuple(
            ChangeFile(self.write(f"{place.changes}.view-{i}"), 1, ((64, 8, 1, 1, 1, 0),))
            for i in range(self.chance.randrange(3))
        )
        self.write(f"{place.steps}.node.0")
        self.write(f"{place.runs}.node-lost")
        manifest = replace(
            before,
            tick=tick,
            driver=self.driver.name,
            first_lsn=before.last_lsn + 1,
            events=len(files),
            states={"node": {"sums": tuple(runs)}},
            views={"v": ViewState("v#1", files)},
        )
        return manifest, place

    def write(self, name: str) -> str:
        self.store.put(name, b"x")
        return name

    def tick(self) -> Manifest:
        before = self.driver.own()
        manifest, place = self.begin(before)
        self.driver.commit(before, manifest, place)
        return manifest


def needed(store: Store) -> set[str]:
    """The runs of the newest manifest, and the files of changes of all."""
    manifests = [Manifest.decode(store.get(it.name), it.name) for it in store.list(f"{FOLDER}/manifest/")]
    changes = {file.name for it in manifests for view in it.views.values() for file in view.files}
    return changes | (files_of(manifests[-1]) if manifests else set())


def there(store: Store) -> set[str]:
    return {it.name for it in store.list() if "/manifest/" not in it.name}


class Drivers(RuleBasedStateMachine):
    """Several drivers take over from one another at any time, in the middle of ticks, die, and come again."""

    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.drivers = [Ticking(self.store, seed) for seed in range(3)]
        self.working: dict[int, tuple[Manifest, Manifest, Place]] = {}

    @rule(who=st.integers(0, 2))
    def own(self, who: int) -> None:
        self.drivers[who].driver.own()

    @rule(who=st.integers(0, 2))
    def work(self, who: int) -> None:
        ticking = self.drivers[who]
        before = ticking.driver.own()
        self.working[who] = (before, *ticking.begin(before))

    @rule(who=st.integers(0, 2))
    def commit(self, who: int) -> None:
        if who in self.working:
            before, manifest, place = self.working.pop(who)
            newest = self.drivers[who].log.newest()
            assert newest is not None
            driver = self.drivers[who].driver
            if newest.tick == before.tick:
                driver.commit(before, manifest, place)
            else:
                with pytest.raises(Fenced):
                    driver.commit(before, manifest, place)

    @rule(who=st.integers(0, 2))
    def fail(self, who: int) -> None:
        if who in self.working:
            before, _, place = self.working.pop(who)
            driver = self.drivers[who].driver
            newest = self.drivers[who].log.newest()
            assert newest is not None
            error = StoreUnavailable("x", subject="x", hint="x")
            if newest.driver == driver.name:
                driver.give_up(before, place, error)
            else:
                with pytest.raises(Fenced):
                    driver.give_up(before, place, error)

    @rule(who=st.integers(0, 2))
    def die(self, who: int) -> None:
        self.working.pop(who, None)
        self.drivers[who] = Ticking(self.store, self.drivers[who].chance.randrange(1000))

    @invariant()
    def what_a_manifest_names_is_there(self) -> None:
        if hasattr(self, "store"):
            assert needed(self.store) <= there(self.store)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.working.clear()
            last = Ticking(self.store, 99)
            last.driver.own()
            assert there(self.store) == needed(self.store), "the next one leaves no orphan"


TestDrivers = Drivers.TestCase
TestDrivers.settings = settings(deadline=None, max_examples=150, stateful_step_count=14)


@pytest.mark.parametrize("kind", ["steps", "runs", "changes"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_who_sweeps_slowly_takes_nothing_from_the_one_that_has_taken_over_meanwhile(
    kind: str, when: str
) -> None:
    inner = MemoryStore()
    Ticking(inner, 1).tick()
    new = Ticking(inner, 2)
    working: list[tuple[Manifest, Manifest, Place]] = []

    def take_over() -> None:
        new.tick()
        before = new.driver.own()
        working.append((before, *new.begin(before)))

    prefix = f"{FOLDER}/{kind}/"
    slow = FaultyStore(inner, [Fault(1, "delay", when, "list", prefix, wait=take_over)])  # type: ignore[arg-type]
    Ticking(slow, 3).driver.own()
    ((before, manifest, place),) = working
    assert needed(inner) | {f"{place.steps}.node.0"} <= there(inner)
    new.driver.commit(before, manifest, place)
    assert needed(inner) <= there(inner)


def test_a_long_life_leaves_what_is_needed_and_what_was_until_lately() -> None:
    store = MemoryStore()
    ticking = Ticking(store, 5)
    for _ in range(60):
        ticking.tick()
    extra = {name for name in there(store) - needed(store) if "lost" not in name}
    assert not any("/steps/" in name for name in extra)
    ticks = {int(name.rpartition("/")[2][:12]) for name in extra}
    assert len(extra) < 60  # of 8 ticks, about
    assert ticks
    Ticking(store).driver.own()
    assert there(store) == needed(store)


def test_what_late_tasks_of_the_driver_before_write_goes_some_ticks_later() -> None:
    store = MemoryStore()
    old, new = Ticking(store, 1), Ticking(store, 2)
    before = old.tick()
    new.driver.own()
    late = [f"{FOLDER}/{kind}/{before.tick + 1:012d}-dead.late" for kind in ("steps", "runs", "changes")]
    for name in late:
        store.put(name, b"x")
    for _ in range(9):
        new.tick()
    assert not there(store) & set(late)


def test_what_late_tasks_of_a_tick_that_was_given_up_write_goes_some_ticks_later() -> None:
    store = MemoryStore()
    ticking = Ticking(store, 1)
    before = ticking.tick()
    _, place = ticking.begin(before)
    ticking.driver.give_up(before, place, ValueError())
    late = [f"{prefix}.late" for prefix in (place.steps, place.runs, place.changes)]
    for name in late:
        store.put(name, b"x")
    for _ in range(9):
        ticking.tick()
    assert not there(store) & set(late)
    assert needed(store) <= there(store)


@pytest.mark.parametrize("seed", range(12))
def test_a_store_that_fails_now_and_then_loses_nothing_that_is_needed(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    inner = MemoryStore()
    chance = random.Random(seed)
    drivers = [Ticking(FaultyStore(inner, rate=0.08, seed=seed + i), seed + i) for i in range(2)]
    done = 0
    while done < 25:
        ticking = chance.choice(drivers)
        place = before = None
        try:
            before = ticking.driver.own()
            manifest, place = ticking.begin(before)
            ticking.driver.commit(before, manifest, place)
            done += 1
        except (StoreUnavailable, OutcomeUnknown, Fenced) as error:
            if before is not None and place is not None:
                try:
                    ticking.driver.give_up(before, place, error)
                except Fenced:
                    continue
        assert needed(inner) <= there(inner)
    Ticking(inner).driver.own()
    assert needed(inner) <= there(inner)
    lsns = [Manifest.decode(inner.get(it.name), it.name) for it in inner.list(f"{FOLDER}/manifest/")]
    assert all(a.last_lsn + 1 == b.first_lsn for a, b in pairwise(lsns))


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_who_does_not_know_whether_it_committed_finds_out(when: str) -> None:
    """A tick whose answer was lost is committed once or not at all, and the driver goes on by itself."""
    inner = MemoryStore()
    ticking = Ticking(FaultyStore(inner, [Fault(3, "fail", when, "create")]), 3)  # type: ignore[arg-type]
    ticking.tick()
    before = ticking.driver.own()
    manifest, place = ticking.begin(before)
    if when == "after":
        ticking.driver.commit(before, manifest, place)
        assert ticking.driver.own() == manifest
    else:
        with pytest.raises(StoreUnavailable):
            ticking.driver.commit(before, manifest, place)
        ticking.driver.give_up(before, place, ValueError())
        assert ticking.driver.own() == before
    assert ticking.tick().term == before.term
    assert needed(inner) <= there(inner)


def test_who_can_neither_commit_nor_look_takes_over_from_itself() -> None:
    inner = MemoryStore()
    faults = [
        Fault(3, "fail", "after", "create"),
        Fault(1, "fail", "before", "get", manifest_name(FOLDER, 3)),
    ]
    ticking = Ticking(FaultyStore(inner, faults), 3)
    ticking.tick()
    before = ticking.driver.own()
    manifest, place = ticking.begin(before)
    with pytest.raises(OutcomeUnknown) as caught:
        ticking.driver.commit(before, manifest, place)
    ticking.driver.give_up(before, place, caught.value)
    mine = ticking.driver.own()
    assert (mine.tick, mine.term, mine.frontier) == (4, before.term + 1, manifest.frontier)
    assert needed(inner) <= there(inner)


def test_an_interrupt_after_the_commit_takes_nothing_back() -> None:
    class Interrupted(MemoryStore):
        def delete(self, *names: str) -> None:
            raise KeyboardInterrupt

    store = Interrupted()
    ticking = Ticking(store, 3)
    ticking.driver.own()
    for _ in range(3):
        before = ticking.driver.own()
        manifest, place = ticking.begin(before)
        with pytest.raises(KeyboardInterrupt) as caught:
            ticking.driver.commit(before, manifest, place)
        ticking.driver.give_up(before, place, caught.value)
        assert needed(store) <= there(store)
