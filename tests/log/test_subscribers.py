from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.log.subscribers import Subscribers, Turn, Unsubscribe


def callback(name: str, said: list[str]) -> Callable[[], None]:
    return lambda: said.append(name)


def test_ids_count_from_1_and_are_never_used_twice() -> None:
    subscribers: Subscribers[Callable[[], None]] = Subscribers()
    first = subscribers.subscribe(lambda: None)
    first()
    second = subscribers.subscribe(lambda: None)
    assert [first.id, second.id] == [1, 2]


@pytest.mark.parametrize("wrong", [None, 7, "callback"])
def test_what_cannot_be_called_is_refused_before_anything_happens(wrong: object) -> None:
    subscribers: Subscribers[Callable[[], None]] = Subscribers()
    with pytest.raises(InvalidArgument, match="cannot be called"):
        subscribers.subscribe(wrong)  # type: ignore[arg-type]
    assert subscribers.snapshot() == ()
    assert subscribers.subscribe(lambda: None).id == 1


def test_one_callback_may_be_subscribed_twice_and_each_subscription_ends_by_itself() -> None:
    subscribers: Subscribers[Callable[[], None]] = Subscribers()

    def same() -> None: ...

    first, second = subscribers.subscribe(same), subscribers.subscribe(same)
    first()
    assert subscribers.snapshot() == (same,)
    second()
    assert subscribers.snapshot() == ()


def test_a_snapshot_does_not_change_and_callbacks_may_subscribe_and_unsubscribe() -> None:
    subscribers: Subscribers[Callable[[], None]] = Subscribers()
    said: list[str] = []

    def first() -> None:
        said.append("first")
        subscribers.subscribe(callback("new", said))
        leave()

    subscribers.subscribe(first)
    leave = subscribers.subscribe(callback("second", said))
    for call in subscribers.snapshot():
        call()
    assert said == ["first", "second"]
    assert len(subscribers) == 2


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=40))
def test_a_snapshot_holds_those_who_are_subscribed_oldest_first(steps: list[int | None]) -> None:
    """None subscribes; a number ends the subscription of that number, if there is one, perhaps again."""
    subscribers: Subscribers[Callable[[], None]] = Subscribers()
    unsubscribe: list[Unsubscribe] = []
    model: dict[int, Callable[[], None]] = {}
    for step in steps:
        if step is None:
            new = callback("", [])
            unsubscribe.append(subscribers.subscribe(new))
            model[len(unsubscribe)] = new
        elif step < len(unsubscribe):
            unsubscribe[step]()
            model.pop(step + 1, None)
        assert [it.id for it in unsubscribe] == list(range(1, len(unsubscribe) + 1))
        assert subscribers.snapshot() == tuple(model.values())
        assert len(subscribers) == len(model)


def test_threads_that_subscribe_at_once_get_ids_of_their_own() -> None:
    subscribers: Subscribers[Callable[[], None]] = Subscribers()
    ids: list[list[int]] = [[] for _ in range(8)]

    def work(mine: list[int]) -> None:
        for _ in range(500):
            unsubscribe = subscribers.subscribe(lambda: None)
            mine.append(unsubscribe.id)
            if unsubscribe.id % 2:
                unsubscribe()
            subscribers.snapshot()

    threads = [threading.Thread(target=work, args=(mine,)) for mine in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in ids)
    assert sorted(number for mine in ids for number in mine) == list(range(1, 4001))
    assert len(subscribers.snapshot()) == len(subscribers) == 2000


def test_work_that_asks_for_itself_is_repeated_afterwards_and_not_nested() -> None:
    turn, said = Turn(), list[str]()

    def work() -> None:
        said.append("begin")
        if len(said) == 1:
            turn.run(work)
            turn.run(work)
        said.append("end")

    turn.run(work)
    assert said == ["begin", "end", "begin", "end"]
    assert not turn.is_mine


def test_two_threads_never_work_at_once() -> None:
    turn, inside, most = Turn(), [0], [0]

    def work() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        os.sched_yield()
        inside[0] -= 1

    def often() -> None:
        for _ in range(50):
            turn.run(work)

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_closing_waits_for_the_work_that_runs_and_lets_no_other_begin() -> None:
    turn, begun, go_on, said = Turn(), threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        said.append("worked")

    worker = threading.Thread(target=turn.run, args=(work,))
    worker.start()
    assert begun.wait(10)

    def close() -> None:
        turn.close()
        said.append("closed")

    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    go_on.set()
    closer.join(10)
    worker.join(10)
    assert said == ["worked", "closed"]
    turn.run(work)
    turn.close()
    assert said == ["worked", "closed"]


def test_closing_from_inside_does_not_wait_for_itself() -> None:
    turn, said = Turn(), list[str]()

    def work() -> None:
        turn.run(work)
        turn.close()
        said.append("worked")

    turn.run(work)
    assert said == ["worked"]
    assert turn.closed


def test_an_error_ends_the_turn_and_the_next_one_begins_afresh() -> None:
    turn, said = Turn(), list[str]()

    def fails() -> None:
        turn.run(fails)
        raise LookupError

    with pytest.raises(LookupError):
        turn.run(fails)
    turn.run(lambda: said.append("worked"))
    assert said == ["worked"]
