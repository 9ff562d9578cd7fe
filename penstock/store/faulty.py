"""A store that fails on purpose: at the n-th operation, before it, in its middle, or after it.

Run a script once to learn its operations, then once more for each fault that could hit one of them::

    calm = FaultyStore(MemoryStore())
    script(calm)
    for fault in every_fault(calm.operations, "die"):
        inner = MemoryStore()
        with suppress(Died):
            script(FaultyStore(inner, [fault]))
        recover_and_check(inner)
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal, TypeVar

import pyarrow as pa

from penstock.errors import InvalidArgument, OutcomeUnknown, PenstockError, StoreUnavailable
from penstock.store.data import Data, parts_of
from penstock.store.interface import Blob, Store, Writer

__all__ = ["Action", "Died", "Fault", "FaultyStore", "Operation", "When", "every_fault"]

Action = Literal["fail", "die", "kill", "delay"]
When = Literal["before", "during", "after"]

_WHENS: tuple[When, ...] = ("before", "during", "after")
_READS = {"get", "read", "map", "stat", "list"}
_T = TypeVar("_T")


class Died(BaseException):
    """Stands for the end of the process. Not an `Exception`, so that no handler goes on as if alive."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that reached the store: the how manieth, which, of what."""

    number: int
    verb: str
    name: str

    @property
    def writes(self) -> bool:
        """Whether it can change the store."""
        return self.verb not in _READS


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the ``at``-th operation (from 1) among those of this verb and prefix.

    ========  ===========================================  ==============================================
    when      what was done to the store                   what ``fail`` raises
    ========  ===========================================  ==============================================
    before    nothing                                      `StoreUnavailable`
    during    half the bytes were written aside, half the  `StoreUnavailable`; `OutcomeUnknown` for
              names deleted, half the list was given       ``delete``
    after     all of it, and the answer is lost            `OutcomeUnknown`; `StoreUnavailable` for reads
    ========  ===========================================  ==============================================

    ``die`` raises `Died` and the store refuses everything from then on, ``kill`` sends the process a
    SIGKILL, ``delay`` waits: so many seconds, or until a function returns.
    """

    at: int
    action: Action = "fail"
    when: When = "before"
    verb: str | None = None
    prefix: str = ""
    error: PenstockError | None = None
    wait: float | Callable[[], object] = 0.0

    def __post_init__(self) -> None:
        if self.at < 1:
            raise InvalidArgument(f"there is no operation {self.at}", subject="Fault", hint="Count from 1.")

    def concerns(self, operation: Operation) -> bool:
        """Whether the operation is one of those that ``at`` counts."""
        return self.verb in (None, operation.verb) and operation.name.startswith(self.prefix)


def every_fault(operations: Iterable[Operation], action: Action) -> list[Fault]:
    """One fault for each moment of each operation: three for one that writes, one for one that reads.

    >>> operations = [Operation(1, "get", "a"), Operation(2, "put", "a")]
    >>> [(fault.at, fault.when) for fault in every_fault(operations, "die")]
    [(1, 'before'), (2, 'before'), (2, 'during'), (2, 'after')]
    """
    return [
        Fault(operation.number, action, when)
        for operation in operations
        for when in (_WHENS if operation.writes else _WHENS[:1])
    ]


class FaultyStore(Store):
    """Hands everything to ``inner``, save where a fault says otherwise. Counts and records what it is asked.

    Besides the scripted ``faults``, each operation fails with probability ``rate``, at a moment and in an
    order that ``seed`` decides.

    >>> from penstock.store.memory import MemoryStore
    >>> store = FaultyStore(MemoryStore(), [Fault(2, when="after")])
    >>> store.put("a", b"1")
    >>> store.create("b", b"2")
    Traceback (most recent call last):
    penstock.errors.OutcomeUnknown: [outcome-unknown] b: a fault was injected after create. ...
    >>> store.get("b"), [operation.verb for operation in store.operations]
    (b'2', ['put', 'create', 'get'])
    """

    def __init__(
        self, inner: Store, faults: Iterable[Fault] = (), *, rate: float = 0.0, seed: int = 0
    ) -> None:
        self.inner = inner
        self._faults = tuple(faults)
        self._met = [0] * len(self._faults)
        self._rate = rate
        self._random = random.Random(seed)  # noqa: S311 - to be repeatable is the point
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self._dead = False

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What was asked so far, in order."""
        with self._lock:
            return tuple(self._operations)

    @property
    def dead(self) -> bool:
        """Whether a fault made it die."""
        return self._dead

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r})"

    def put(self, name: str, data: Data) -> None:
        self._run("put", name, lambda: self.inner.put(name, data), partial(self._tear, name, data))

    def create(self, name: str, data: Data) -> bool:
        return self._run(
            "create", name, lambda: self.inner.create(name, data), partial(self._tear, name, data)
        )

    def writer(self, name: str) -> Writer:
        return self._run("writer", name, lambda: _FaultyWriter(self, self.inner.writer(name)))

    def get(self, name: str) -> bytes:
        return self._run("get", name, lambda: self.inner.get(name))

    def read(self, name: str, start: int, length: int) -> bytes:
        return self._run("read", name, lambda: self.inner.read(name, start, length))

    def map(self, name: str) -> pa.Buffer:
        return self._run("map", name, lambda: self.inner.map(name))

    def stat(self, name: str) -> Blob:
        return self._run("stat", name, lambda: self.inner.stat(name))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Blob]:
        operation, fault = self._next("list", prefix)
        found = self.inner.list(prefix, after=after)
        if fault is not None and fault.when == "during" and fault.action != "delay":
            return self._broken_off(operation, fault, tuple(found))
        return self._apply(operation, fault, lambda: found)

    def delete(self, *names: str) -> None:
        self._run(
            "delete",
            names[0] if names else "",
            lambda: self.inner.delete(*names),
            lambda fault: self.inner.delete(*names[: len(names) // 2]),
        )

    def collect_leftovers(self, older_than: timedelta) -> int:
        return self._run("collect_leftovers", "", lambda: self.inner.collect_leftovers(older_than))

    def _run(
        self, verb: str, name: str, act: Callable[[], _T], act_half: Callable[[Fault], None] | None = None
    ) -> _T:
        return self._apply(*self._next(verb, name), act, act_half)

    def _next(self, verb: str, name: str) -> tuple[Operation, Fault | None]:
        """Count the operation, and find the fault that is meant for it."""
        with self._lock:
            if self._dead:
                raise Died(f"the store died before this {verb}")
            operation = Operation(len(self._operations) + 1, verb, name)
            self._operations.append(operation)
            hit = None
            for i, fault in enumerate(self._faults):
                if fault.concerns(operation):
                    self._met[i] += 1
                    if self._met[i] == fault.at:
                        hit = hit or fault
            if hit is None and self._rate and self._random.random() < self._rate:
                hit = Fault(operation.number, "fail", self._random.choice(_WHENS))
        return operation, hit

    def _apply(
        self,
        operation: Operation,
        fault: Fault | None,
        act: Callable[[], _T],
        act_half: Callable[[Fault], None] | None = None,
    ) -> _T:
        if fault is None:
            return act()
        if fault.action == "delay":
            if fault.when != "after":
                _wait(fault.wait)
                return act()
            result = act()
            _wait(fault.wait)
            return result
        with suppress(PenstockError):  # what the store would have said is lost too
            if fault.when == "after":
                act()
            elif fault.when == "during" and act_half is not None:
                act_half(fault)
        raise self._struck(operation, fault)

    def _struck(self, operation: Operation, fault: Fault) -> BaseException:
        """What is to be raised; with ``kill`` it never comes to that."""
        what = f"a fault was injected {fault.when} {operation.verb}"
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()  # the signal may find another thread first
        if fault.action == "die":
            self._dead = True
            return Died(f"{what} of {operation.name}")
        if fault.error is not None:
            return fault.error
        partly = operation.verb == "delete" and fault.when == "during"
        if operation.writes and (fault.when == "after" or partly):
            return OutcomeUnknown(what, subject=operation.name, hint="Look whether it happened.")
        return StoreUnavailable(what, subject=operation.name, hint="Call again.")

    def _tear(self, name: str, data: Data, fault: Fault) -> None:
        """Write half the bytes aside. Who is told cleans up; who dies cannot."""
        writer = self.inner.writer(name)
        writer.write(_first_half(parts_of(data)))
        writer.flush()
        if fault.action == "fail":
            writer.abandon()

    def _broken_off(self, operation: Operation, fault: Fault, found: tuple[Blob, ...]) -> Iterator[Blob]:
        yield from found[: len(found) // 2]
        raise self._struck(operation, fault)


class _FaultyWriter(Writer):
    """Its writes and its commit are operations of the store; abandoning is none, as nobody can see it."""

    def __init__(self, store: FaultyStore, inner: Writer) -> None:
        super().__init__(inner.name)
        self._store = store
        self._inner = inner

    def flush(self) -> None:
        super().flush()
        self._inner.flush()

    def _append(self, parts: list[memoryview]) -> None:
        self._store._run(
            "write", self.name, lambda: self._inner.write(parts), lambda fault: self._tear(parts)
        )

    def _publish(self) -> bool:
        return self._store._run("commit", self.name, self._inner.commit, lambda fault: self._inner.flush())

    def _discard(self) -> None:
        if not self._store.dead:  # the dead clean nothing up
            self._inner.abandon()

    def _tear(self, parts: list[memoryview]) -> None:
        self._inner.write(_first_half(parts))
        self._inner.flush()


def _first_half(parts: list[memoryview]) -> list[memoryview]:
    left = sum(part.nbytes for part in parts) // 2
    half = []
    for part in parts:
        half.append(part[:left])
        left -= half[-1].nbytes
    return half


def _wait(wait: float | Callable[[], object]) -> None:
    if callable(wait):
        wait()
    else:
        time.sleep(wait)
