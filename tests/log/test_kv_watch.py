"""Watching keys of the CDC ring: every matching event is given once, or counted as dropped."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import ChangeOperation
from penstock.errors import CursorAhead, CursorExpired, InvalidArgument
from penstock.log import CdcBuffer, KvWatch, KvWatchEvent

INSERT, UPDATE, DELETE = ChangeOperation.INSERT, ChangeOperation.UPDATE, ChangeOperation.DELETE


@pytest.fixture
def ring() -> CdcBuffer:
    return CdcBuffer(1000, clock=lambda: 1_700_000_000_000)


def put(ring: CdcBuffer, *keys: str, collection: str = "c") -> None:
    for key in keys:
        ring.emit_kv(INSERT, collection, key, 1, after=key)


def all_there(watch: KvWatch) -> list[KvWatchEvent]:
    return list(iter(lambda: watch.next(timeout=0), None))


def keys(watch: KvWatch) -> list[str]:
    return [it.key for it in all_there(watch)]


def test_an_event_has_before_after_lsn_and_the_time_of_its_commit(ring: CdcBuffer) -> None:
    watch = ring.watch("c", "k")
    ring.emit(INSERT, "c", 1, "table")
    ring.emit_kv(INSERT, "c", "k", 1, after={"n": 1})
    ring.emit_kv(UPDATE, "c", "k", 1, before={"n": 1}, after={"n": 2})
    ring.emit_kv(DELETE, "c", "k", 1, before={"n": 2})
    assert all_there(watch) == [
        KvWatchEvent("c", "k", INSERT, None, {"n": 1}, 2, 1_700_000_000_000),
        KvWatchEvent("c", "k", UPDATE, {"n": 1}, {"n": 2}, 3, 1_700_000_000_000),
        KvWatchEvent("c", "k", DELETE, {"n": 2}, None, 4, 1_700_000_000_000),
    ]


def test_the_ring_has_the_same_event_with_its_kind_and_the_columns_it_touched(ring: CdcBuffer) -> None:
    ring.emit_kv(UPDATE, "c", "k", 7, before={"a": 1, "b": 2}, after={"a": 1, "b": 3})
    ring.emit_kv(UPDATE, "c", "k", 7, before=1, after=2)
    ring.emit_kv(INSERT, "c", "k", 7, after=2)
    events = list(ring.poll(0))
    assert [(it.entity_kind, it.kind, it.entity_id) for it in events] == [("kv", "kv", 7)] * 3
    assert [it.changed_columns for it in events] == [("b",), ("value",), None]
    assert [it.kv.lsn for it in events if it.kv] == [1, 2, 3]
    assert [it.lsn for it in ring.poll(0).kv_events()] == [1, 2, 3]


def test_integers_are_integers_on_the_wire(ring: CdcBuffer) -> None:
    ring.set_current_lsn(2**53)
    ring.emit_kv(UPDATE, "c", "k", 1, before=2**60 + 1, after=None)
    (event,) = ring.poll(2**53)
    told = json.loads(json.dumps(event.to_json()))
    assert told["kv"] == {
        "key": "k",
        "op": "update",
        "before": 2**60 + 1,
        "after": None,
        "lsn": 2**53 + 1,
        "committed_at": 1_700_000_000_000,
        "dropped_event_count": 0,
    }


def test_watches_are_of_a_key_a_prefix_a_collection_or_all(ring: CdcBuffer) -> None:
    watches = {
        "key": ring.watch(key="ab"),
        "key of c": ring.watch("c", "ab"),
        "prefix": ring.watch(prefix="a"),
        "prefix of d": ring.watch("d", prefix="a"),
        "d": ring.watch("d"),
        "all": ring.watch(),
    }
    put(ring, "ab", "a", "b", "")
    put(ring, "ab", "abc", collection="d")
    assert {name: keys(it) for name, it in watches.items()} == {
        "key": ["ab", "ab"],
        "key of c": ["ab"],
        "prefix": ["ab", "a", "ab", "abc"],
        "prefix of d": ["ab", "abc"],
        "d": ["ab", "abc"],
        "all": ["ab", "a", "b", "", "ab", "abc"],
    }


def test_a_watch_begins_now_or_after_an_lsn(ring: CdcBuffer) -> None:
    put(ring, "k", "k", "other", "k")
    assert [it.lsn for it in all_there(ring.watch(key="k"))] == []
    assert [it.lsn for it in all_there(ring.watch(key="k", since=0))] == [1, 2, 4]
    assert [it.lsn for it in all_there(ring.watch(key="k", since=1))] == [2, 4]
    with pytest.raises(CursorAhead):
        ring.watch(key="k", since=5)
    small = CdcBuffer(2)
    put(small, "k", "k", "k")
    with pytest.raises(CursorExpired):
        small.watch(key="k", since=0)


def test_a_watch_from_an_lsn_has_all_that_was_there_and_all_that_comes(ring: CdcBuffer) -> None:
    put(ring, *["k"] * 50)
    watch = ring.watch(key="k", since=0, limit=3)
    assert watch.dropped_event_count == 0, "what is there when the watch begins is not dropped"
    assert [it.lsn for it in all_there(watch)] == list(range(1, 51))


def test_what_a_transaction_did_appears_at_its_commit_and_nothing_of_one_rolled_back(ring: CdcBuffer) -> None:
    watch = ring.watch(key="k")
    with ring.transaction() as t:
        t.emit_kv(INSERT, "c", "k", 1, after=1)
        t.emit_kv(UPDATE, "c", "k", 1, before=1, after=2)
        assert keys(watch) == []
    assert [it.after for it in all_there(watch)] == [1, 2]
    t = ring.transaction()
    t.emit_kv(DELETE, "c", "k", 1, before=2)
    t.rollback()
    assert keys(watch) == []


def test_a_slow_watch_drops_the_oldest_and_tells_how_many_of_its_own(ring: CdcBuffer) -> None:
    watch = ring.watch(key="k", limit=2)
    put(ring, "k", "other", "k", "k", "other", "k")
    first = watch.next(0)
    assert first is not None
    assert (first.lsn, first.dropped_event_count) == (4, 2), "events of other keys do not count"
    put(ring, "k", "k", "k")
    assert [(it.lsn, it.dropped_event_count) for it in all_there(watch)] == [(8, 4), (9, 4)]
    assert watch.dropped_event_count == 4
    put(ring, "k")
    assert [it.dropped_event_count for it in all_there(watch)] == [4], (
        "the count is of all since the beginning"
    )
    assert [it.kv.dropped_event_count for it in ring.poll(0) if it.kv] == [0] * 10, "and the watch's alone"


def test_a_ring_that_keeps_nothing_still_tells_its_watches() -> None:
    ring = CdcBuffer(0)
    watch = ring.watch(key="k")
    put(ring, "k", "x", "k")
    assert [it.lsn for it in all_there(watch)] == [1, 3]


def test_a_closed_watch_gives_nothing_more_and_costs_nothing(ring: CdcBuffer) -> None:
    for key in ("k", None):
        watch = ring.watch(key=key)
        put(ring, "k")
        with watch:
            pass
        watch.close()
        assert watch.closed
        assert list(watch) == []
        put(ring, "k")
        assert list(watch) == []
    assert not ring._watches._by_key
    assert not ring._watches._others


def test_what_cannot_be_watched_is_refused(ring: CdcBuffer) -> None:
    with pytest.raises(InvalidArgument, match="both the key 'a' and the prefix 'b'"):
        ring.watch(key="a", prefix="b")
    with pytest.raises(InvalidArgument, match="limit is 0"):
        ring.watch(limit=0)
    with pytest.raises(InvalidArgument, match="not a cursor"):
        ring.watch(since=-1)


def in_thread(act: Callable[[], Any]) -> Callable[[], Any]:
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(act()))
    thread.start()

    def result() -> Any:
        thread.join(30)
        assert not thread.is_alive(), "it waits for ever"
        return outcome[0]

    return result


def test_an_event_ends_the_wait_for_it_and_so_does_closing(ring: CdcBuffer) -> None:
    watch = ring.watch(key="k")
    event = in_thread(watch.next)
    put(ring, "other", "k")
    assert event().lsn == 2
    assert watch.next(timeout=0.001) is None
    rest = in_thread(lambda: list(watch))
    watch.close()
    assert rest() == []


def test_watches_that_begin_while_others_emit_have_each_event_once(ring: CdcBuffer) -> None:
    """From 0 on, at any moment: what was there before and what comes after meet without a seam."""
    ring = CdcBuffer(100_000)
    done = threading.Event()

    def emit() -> None:
        for _ in range(1500):
            put(ring, "k", "x")
        done.set()

    emitters = [in_thread(emit) for _ in range(2)]
    watches = [ring.watch(key="k", since=0, limit=100_000)]
    while not done.is_set():
        watches.append(ring.watch(key="k", since=0, limit=100_000))
    for it in emitters:
        it()
    expected = [it.lsn for it in ring.poll(0).kv_events() if it.key == "k"]
    assert len(expected) == 3000
    for watch in watches[:: max(1, len(watches) // 9)]:
        assert [it.lsn for it in all_there(watch)] == expected


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.sampled_from(["a", "ab", "b", "take"]), max_size=40),
    st.sampled_from([{}, {"key": "a"}, {"prefix": "a"}, {"collection": "d"}]),
    st.integers(1, 4),
)
def test_each_matching_event_is_given_once_or_counted_before_the_next(
    steps: list[str], meant: dict[str, str], limit: int
) -> None:
    ring = CdcBuffer(3)
    watch = ring.watch(**meant, limit=limit)
    queue: list[int] = []
    dropped = 0
    for i, step in enumerate(steps):
        if step == "take":
            event = watch.next(0)
            expected = queue.pop(0) if queue else None
            assert (None if event is None else event.lsn) == expected
            assert event is None or event.dropped_event_count == dropped
            continue
        collection = "cd"[i % 2]
        ring.emit_kv(INSERT, collection, step, i, after=i)
        matches = {
            "key": step == meant.get("key"),
            "prefix": step.startswith(meant.get("prefix", "?")),
            "collection": collection == meant.get("collection"),
        }
        if all(matches[name] for name in meant):
            queue.append(ring.current_lsn)
            if len(queue) > limit:
                queue.pop(0)
                dropped += 1
    assert [it.lsn for it in all_there(watch)] == queue
    assert watch.dropped_event_count == dropped
