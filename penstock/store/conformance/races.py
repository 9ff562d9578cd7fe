"""Claims about threads that want the same name at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event

from penstock.errors import NotFound
from penstock.store.conformance.asserting import Claim, names, together
from penstock.store.interface import Store

__all__ = ["CLAIMS"]

_THREADS = 8
_ROUNDS = 6


def of_many_creates_one_wins(store: Store) -> None:
    for number in range(_ROUNDS):
        name = f"race{number}/a"
        contents = [bytes([racer]) * 20_000 for racer in range(_THREADS)]
        answers = together(*(partial(store.create, name, content) for content in contents))
        assert sorted(answers) == [False] * (_THREADS - 1) + [True]
        assert store.get(name) == contents[answers.index(True)]


def of_creates_and_commits_one_wins(store: Store) -> None:
    for number in range(_ROUNDS):
        name = f"race{number}/a"
        contents = [bytes([racer]) * 20_000 for racer in range(_THREADS)]
        racers: list[Callable[[], bool]] = []
        for racer, content in enumerate(contents):
            if racer % 2:
                writer = store.writer(name)
                writer.write(content)
                racers.append(writer.commit)
            else:
                racers.append(partial(store.create, name, content))
        answers = together(*racers)
        assert sorted(answers) == [False] * (_THREADS - 1) + [True]
        assert store.get(name) == contents[answers.index(True)]
        assert names(store, f"race{number}/") == [name]


def a_loser_can_read_the_winner(store: Store) -> None:
    def race(content: bytes) -> bytes:
        store.create("a", content)
        return store.get("a")

    contents = [bytes([racer]) * 1000 for racer in range(_THREADS)]
    seen = together(*(partial(race, content) for content in contents))
    assert len(set(seen)) == 1
    assert seen[0] in contents


def readers_see_one_put_or_another_and_never_a_mixture(store: Store) -> None:
    sizes = [1 + racer * 7919 for racer in range(4)]
    contents = {bytes([racer]) * size for racer, size in enumerate(sizes)}
    store.put("a", next(iter(contents)))
    done = Event()

    def write(content: bytes) -> None:
        for _ in range(25):
            store.put("a", content)

    def write_all() -> None:
        try:
            together(*(partial(write, content) for content in contents))
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            assert store.get("a") in contents
            assert store.map("a").to_pybytes() in contents
            assert store.stat("a").size in sizes
            assert [blob.size in sizes for blob in store.list()] == [True]

    together(write_all, read, read)
    assert store.get("a") in contents


def whoever_reads_while_names_come_and_go_sees_all_or_nothing(store: Store) -> None:
    content = b"whole" * 5000
    done = Event()

    def come_and_go() -> None:
        try:
            for _ in range(25):
                assert store.create("folder/a", content)
                store.delete("folder/a")
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            try:
                assert store.get("folder/a") == content
            except NotFound:
                continue

    together(come_and_go, read, read)


def what_was_created_is_in_every_later_listing(store: Store) -> None:
    def create_and_list(racer: int) -> None:
        for number in range(_ROUNDS):
            name = f"{number:02}/{racer}"
            assert store.create(name, b"1")
            assert name in names(store, f"{number:02}/")

    together(*(partial(create_and_list, racer) for racer in range(4)))
    assert names(store) == [f"{number:02}/{racer}" for number in range(_ROUNDS) for racer in range(4)]


CLAIMS: tuple[Claim, ...] = (
    of_many_creates_one_wins,
    of_creates_and_commits_one_wins,
    a_loser_can_read_the_winner,
    readers_see_one_put_or_another_and_never_a_mixture,
    whoever_reads_while_names_come_and_go_sees_all_or_nothing,
    what_was_created_is_in_every_later_listing,
)
