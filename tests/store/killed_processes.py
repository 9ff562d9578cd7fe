"""Processes that use one folder store and are killed, or race: run by the tests as a program of its own.

Everything here forks, so it must not be run where threads are. Each mode exits with 0 when every look at the
store after a death was as it should be, and prints how many deaths there were.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock.store import LocalStore, Store
from penstock.store.faulty import FaultyStore, every_fault

OPERATIONS = [
    ("put", "state", 0),
    ("create", "manifest/1", 0),
    ("put", "state", 1),
    ("commit", "runs/deep/1", 0),
    ("create", "manifest/2", 0),
    ("delete", "manifest/1", 0),
    ("create", "manifest/2", 1),
    ("commit", "runs/deep/1", 1),
    ("put", "state", 2),
]


def content_of(name: str, version: int, turn: int = 0) -> bytes:
    return f"{name} in version {version} of turn {turn};".encode() * 4000


def perform(store: Store, operation: tuple[str, str, int], turn: int = 0) -> None:
    verb, name, version = operation
    content = content_of(name, version, turn)
    if verb == "put":
        store.put(name, content)
    elif verb == "create":
        assert store.create(name, content) is (version == 0)
    elif verb == "delete":
        store.delete(name)
    else:
        with store.writer(name) as writer:
            for start in range(0, len(content), 70_000):
                writer.write(content[start : start + 70_000])
            assert writer.commit() is (version == 0)


def after(count: int, turn: int = 0) -> dict[str, bytes]:
    """What is there when so many operations were done."""
    there: dict[str, bytes] = {}
    for verb, name, version in OPERATIONS[:count]:
        content = content_of(name, version, turn)
        if verb == "delete":
            there.pop(name, None)
        elif verb == "put":
            there[name] = content
        else:
            there.setdefault(name, content)
    return there


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fork(child: Callable[[Callable[[int], None]], None]) -> tuple[int, int]:
    """Start a child that is given a function to tell numbers with; its id, and where the numbers come out."""
    out, into = os.pipe()
    write = os.write
    process = os.fork()
    if process == 0:
        os.close(out)
        status = 1
        try:
            child(lambda number: write(into, bytes([number])) and None)
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    return process, out


def outcome(process: int, out: int) -> tuple[bool, bytes]:
    """Whether the process was killed, and what it told. It must not have failed by itself."""
    told = b""
    while piece := os.read(out, 1 << 16):
        told += piece
    os.close(out)
    _, status = os.waitpid(process, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return killed, told


def check(root: Path, done: int, turn: int = 0) -> None:
    """The store is as after the operations that were told, or as after one more; and it goes on working."""
    store = LocalStore(root)
    there = {blob.name: store.get(blob.name) for blob in store.list()}
    reached = done if there == after(done, turn) else done + 1
    assert there == after(reached, turn), (done, sorted(there))
    store.collect_leftovers(timedelta(0))
    assert not list(root.rglob(".tmp-*")), "leftovers are left"
    assert {blob.name: store.get(blob.name) for blob in store.list()} == there
    for operation in OPERATIONS[reached:]:
        perform(store, operation, turn)
    assert {blob.name: store.get(blob.name) for blob in store.list()} == after(len(OPERATIONS), turn)


def at_each_operation(root: Path, links: bool) -> int:
    calm = FaultyStore(LocalStore(root / "calm", hard_links=links))
    for operation in OPERATIONS:
        perform(calm, operation)
    faults = every_fault(calm.operations, "kill")
    for number, fault in enumerate(faults):
        place = root / str(number)
        store = FaultyStore(LocalStore(place, hard_links=links), [fault])

        def child(tell: Callable[[int], None], store: Store = store) -> None:
            for operation in OPERATIONS:
                perform(store, operation)
                tell(0)

        killed, told = outcome(*fork(child))
        assert killed
        check(place, len(told))
    return len(faults)


def at_each_system_call(root: Path, links: bool) -> int:
    deaths = 0
    while True:
        place = root / str(deaths)
        store = LocalStore(place, hard_links=links)

        def child(tell: Callable[[int], None], store: Store = store, moment: int = deaths) -> None:
            die_at(moment)
            for operation in OPERATIONS:
                perform(store, operation)
                tell(0)

        killed, told = outcome(*fork(child))
        if not killed:
            assert len(told) == len(OPERATIONS)
            return deaths
        check(place, len(told))
        deaths += 1


def die_at(moment: int) -> None:
    """Kill this process at its n-th moment: before a system call, amid a write, or after a call."""
    moments = iter(range(1 << 30))

    def here() -> None:
        if next(moments) == moment:
            die()

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            here()
            result = call(*arguments, **options)
            here()
            return result

        return run

    for name in ("open", "fsync", "link", "rename", "replace", "unlink", "mkdir", "close"):
        setattr(os, name, watched(getattr(os, name)))
    writev = os.writev

    def write_in_two(descriptor: int, parts: list[memoryview]) -> int:
        half = parts[0][: len(parts[0]) // 2]
        here()
        written = writev(descriptor, [half]) if len(half) else 0
        here()
        return written + writev(descriptor, [parts[0][written:], *parts[1:]])

    os.writev = write_in_two  # type: ignore[assignment]


def at_any_time(root: Path, links: bool) -> int:
    deaths = 20
    chance = random.Random(7)
    for number in range(deaths):
        place = root / str(number)
        store = LocalStore(place, hard_links=links)

        def child(tell: Callable[[int], None], store: Store = store) -> None:
            for turn in range(200):
                for operation in OPERATIONS:
                    perform(store, operation, turn)
                    tell(turn)
                store.delete(*(blob.name for blob in store.list()))
                tell(turn)

        process, out = fork(child)
        told = b""
        for _ in range(chance.randrange(1, 50)):
            told += os.read(out, 1)
        os.kill(process, signal.SIGKILL)
        killed, rest = outcome(process, out)
        assert killed
        turn, done = divmod(len(told + rest), len(OPERATIONS) + 1)
        check_turn(place, turn, done)
    return deaths


def check_turn(root: Path, turn: int, done: int) -> None:
    if done < len(OPERATIONS):
        check(root, done, turn)
        return
    there = {blob.name: LocalStore(root).get(blob.name) for blob in LocalStore(root).list()}
    assert there.items() <= after(done, turn).items()  # it was deleting them all


def race(root: Path, links: bool) -> int:
    racers, names = 6, 40

    def run(racer: int, gate: int, tell: Callable[[int], None]) -> None:
        os.read(gate, 1)
        store = LocalStore(root, hard_links=links)
        for number in range(names):
            if (racer + number) % 2:
                tell(store.create(f"race/{number % 4}/{number}", content_of("race", racer)))
            else:
                with store.writer(f"race/{number % 4}/{number}") as writer:
                    writer.write(content_of("race", racer))
                    tell(writer.commit())

    def children() -> Iterator[tuple[int, int]]:
        for racer in range(racers):

            def child(tell: Callable[[int], None], racer: int = racer) -> None:
                os.close(start)
                run(racer, gate, tell)

            yield fork(child)

    gate, start = os.pipe()
    started = list(children())
    os.close(start)
    answers = [outcome(*child)[1] for child in started]
    store = LocalStore(root)
    for number in range(names):
        winners = [racer for racer in range(racers) if answers[racer][number]]
        assert len(winners) == 1, (number, winners)
        assert store.get(f"race/{number % 4}/{number}") == content_of("race", winners[0])
    assert store.collect_leftovers(timedelta(0)) == 0
    return names


MODES = {
    function.__name__: function for function in (at_each_operation, at_each_system_call, at_any_time, race)
}

if __name__ == "__main__":
    mode, folder, how = sys.argv[1:]
    print(MODES[mode](Path(folder), how == "links"))
