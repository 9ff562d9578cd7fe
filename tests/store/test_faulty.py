"""A store that fails on purpose does so where it was told to, and never lies about what it did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import (
    DidNotHappen,
    InvalidArgument,
    MayHaveHappened,
    NoSpace,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
)
from penstock.store import LocalStore, MemoryStore, Store
from penstock.store.faulty import Died, Fault, FaultyStore, Operation, every_fault

NOW = timedelta(0)


def commit(store: Store, name: str, data: bytes) -> bool:
    with store.writer(name) as writer:
        writer.write(data)
        return writer.commit()


WRITES: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("a", b"new" * 9),
    "create": lambda store: store.create("a", b"new" * 9),
    "writer": lambda store: commit(store, "a", b"new" * 9),
    "write": lambda store: commit(store, "a", b"new" * 9),
    "commit": lambda store: commit(store, "a", b"new" * 9),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_write_that_fails_before_its_end_did_not_happen(verb: str, when: str, tmp_path: Path) -> None:
    inner = LocalStore(tmp_path, fsync=False)
    store = FaultyStore(inner, [Fault(1, "fail", when, verb=verb)])  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        WRITES[verb](store)
    assert list(inner.list()) == []
    assert inner.collect_leftovers(NOW) == 0
    WRITES[verb](store)
    assert inner.get("a") == b"new" * 9


@pytest.mark.parametrize("verb", ["put", "create", "commit"])
def test_a_write_whose_answer_is_lost_may_have_happened_and_has(verb: str) -> None:
    inner = MemoryStore()
    with pytest.raises(OutcomeUnknown) as caught:
        WRITES[verb](FaultyStore(inner, [Fault(1, when="after", verb=verb)]))
    assert verb in str(caught.value)
    assert inner.get("a") == b"new" * 9


def test_a_delete_in_its_middle_has_deleted_half() -> None:
    inner = MemoryStore()
    for name in "abcd":
        inner.put(name, b"")
    with pytest.raises(OutcomeUnknown):
        FaultyStore(inner, [Fault(1, when="during")]).delete(*"abcd")
    assert [blob.name for blob in inner.list()] == ["c", "d"]


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_read_that_fails_never_happened(when: str) -> None:
    inner = MemoryStore()
    inner.put("a", b"1")
    reads: list[Callable[[Store], object]] = [
        lambda store: store.get("a"),
        lambda store: store.read("a", 0, 1),
        lambda store: store.map("a"),
        lambda store: store.stat("a"),
        lambda store: store.exists("a"),
        lambda store: list(store.list()),
    ]
    for read in reads:
        with pytest.raises(StoreUnavailable):
            read(FaultyStore(inner, [Fault(1, when=when)]))  # type: ignore[arg-type]


def test_a_listing_in_its_middle_breaks_off() -> None:
    inner = MemoryStore()
    for name in "abcd":
        inner.put(name, b"")
    listing = FaultyStore(inner, [Fault(1, when="during")]).list()
    assert [next(listing).name, next(listing).name] == ["a", "b"]
    with pytest.raises(StoreUnavailable):
        next(listing)


def test_a_fault_may_bring_its_own_error() -> None:
    full = NoSpace("the disk is full", subject="a", hint="Make room.")
    with pytest.raises(NoSpace) as caught:
        FaultyStore(MemoryStore(), [Fault(1, error=full)]).put("a", b"")
    assert caught.value is full


def test_a_fault_counts_the_operations_that_concern_it() -> None:
    store = FaultyStore(MemoryStore(), [Fault(2, verb="create", prefix="manifest/")])
    store.put("manifest/0", b"")
    assert store.create("manifest/1", b"")
    assert store.create("runs/1", b"")
    assert store.create("runs/2", b"")
    with pytest.raises(StoreUnavailable):
        store.create("manifest/2", b"")
    assert store.create("manifest/2", b"")


def test_operations_are_counted_and_told() -> None:
    store = FaultyStore(MemoryStore())
    store.put("a", b"1")
    commit(store, "b", b"1")
    store.exists("a")
    list(store.list("a"))
    store.delete("a", "b")
    with pytest.raises(InvalidArgument):
        store.get("../a")
    assert store.operations == tuple(
        Operation(number, verb, name)
        for number, (verb, name) in enumerate(
            [
                ("put", "a"),
                ("writer", "b"),
                ("write", "b"),
                ("commit", "b"),
                ("stat", "a"),
                ("list", "a"),
                ("delete", "a"),
                ("get", "../a"),
            ],
            1,
        )
    )


def test_there_is_no_operation_before_the_first() -> None:
    with pytest.raises(InvalidArgument):
        Fault(0)


def test_the_dead_do_nothing_more_and_clean_nothing_up(tmp_path: Path) -> None:
    inner = LocalStore(tmp_path, fsync=False)
    store = FaultyStore(inner, [Fault(4, "die")])
    earlier = store.writer("earlier")
    earlier.write(b"x" * 100_000)
    with pytest.raises(Died), store.writer("a") as writer:
        writer.write(b"x" * 100_000)
    assert store.dead
    acts: list[Callable[[], object]] = [
        lambda: store.put("b", b""),
        lambda: store.create("b", b""),
        lambda: store.get("b"),
        lambda: store.list(),
        lambda: store.delete("b"),
        lambda: store.writer("b"),
        lambda: store.collect_leftovers(NOW),
        lambda: earlier.commit(),
    ]
    for act in acts:
        with pytest.raises(Died):
            act()
    earlier.abandon()
    assert list(inner.list()) == []
    assert inner.collect_leftovers(NOW) == 2


def test_no_handler_of_errors_survives_a_death() -> None:
    store = FaultyStore(MemoryStore(), [Fault(1, "die")])

    def stubborn() -> None:
        with suppress(Exception):
            store.put("a", b"")

    with pytest.raises(Died):
        stubborn()


@pytest.mark.parametrize("verb", ["put", "create"])
def test_one_that_dies_in_the_middle_leaves_a_torn_temporary_file(verb: str, tmp_path: Path) -> None:
    inner = LocalStore(tmp_path, fsync=False)
    with pytest.raises(Died):
        WRITES[verb](FaultyStore(inner, [Fault(1, "die", "during")]))
    assert list(inner.list()) == []
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [(b"new" * 9)[:13]]
    assert inner.collect_leftovers(NOW) == 1


def test_a_script_is_run_once_for_each_moment_it_could_die_at() -> None:
    def script(store: Store) -> None:
        store.put("state", b"1")
        if store.create("lock", b"me"):
            store.put("state", store.get("state") + b"2")
        store.delete("lock")

    calm = FaultyStore(MemoryStore())
    script(calm)
    assert [operation.verb for operation in calm.operations] == ["put", "create", "get", "put", "delete"]
    faults = every_fault(calm.operations, "die")
    assert len(faults) == 3 * 4 + 1
    endings = set()
    for fault in faults:
        inner = MemoryStore()
        with pytest.raises(Died):
            script(FaultyStore(inner, [fault]))
        endings.add(tuple((blob.name, inner.get(blob.name)) for blob in inner.list()))
    assert endings == {
        (),
        (("state", b"1"),),
        (("lock", b"me"), ("state", b"1")),
        (("lock", b"me"), ("state", b"12")),
        (("state", b"12"),),
    }


def test_a_delay_holds_an_operation_until_something_else_is_done() -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        assert go_on.wait(30)

    inner = MemoryStore()
    slow = FaultyStore(inner, [Fault(1, "delay", wait=hold)])
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(slow.create("a", b"slow")))
    thread.start()
    assert reached.wait(30)
    assert inner.create("a", b"quick") is True
    go_on.set()
    thread.join()
    assert answers == [False]


def test_a_delay_after_an_operation_holds_its_answer() -> None:
    inner = MemoryStore()
    seen: list[bool] = []
    slow = FaultyStore(inner, [Fault(1, "delay", "after", wait=lambda: seen.append(inner.exists("a")))])
    slow.put("a", b"1")
    assert seen == [True]


def test_a_delay_may_be_a_time() -> None:
    store = FaultyStore(
        MemoryStore(), [Fault(1, "delay", wait=0.001), Fault(2, "delay", "after", wait=0.001)]
    )
    store.put("a", b"1")
    assert store.get("a") == b"1"


def test_a_seed_decides_which_operations_fail() -> None:
    def failures(seed: int) -> list[int]:
        store = FaultyStore(MemoryStore(), rate=0.3, seed=seed)
        failed = []
        for number in range(200):
            try:
                store.put("a", b"")
            except PenstockError:
                failed.append(number)
        return failed

    assert failures(1) == failures(1)
    assert failures(1) != failures(2)
    assert 30 < len(failures(1)) < 90
    assert FaultyStore(MemoryStore()).operations == ()


NAMES = st.sampled_from(["a", "b/c", "b/d"])
CALLS = st.lists(st.tuples(st.sampled_from(["put", "create", "commit", "delete"]), NAMES), max_size=20)


@settings(deadline=None, max_examples=150)
@given(calls=CALLS, seed=st.integers(0, 1 << 32))
def test_an_error_says_truly_whether_it_happened(calls: list[tuple[str, str]], seed: int) -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, rate=0.4, seed=seed)
    for number, (verb, name) in enumerate(calls):
        content = b"%d" % number
        before = {blob.name: inner.get(blob.name) for blob in inner.list()}
        asked = dict(before)
        if verb == "delete":
            asked.pop(name, None)
        elif verb == "put":
            asked[name] = content
        else:
            asked.setdefault(name, content)
        allowed = [asked]
        try:
            if verb == "put":
                store.put(name, content)
            elif verb == "delete":
                store.delete(name)
            elif verb == "create":
                assert store.create(name, content) is (name not in before)
            else:
                assert commit(store, name, content) is (name not in before)
        except MayHaveHappened:
            allowed.append(before)
        except DidNotHappen:
            allowed = [before]
        assert {blob.name: inner.get(blob.name) for blob in inner.list()} in allowed
