"""Stores that hurt one side only: the driver, or the tasks that it sends out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import StoreUnavailable
from penstock.store import Store
from penstock.store.faulty import Fault, FaultyStore, When

__all__ = ["DriverStore", "TaskStore", "Trap"]


class DriverStore(FaultyStore):
    """Its faults strike in the driver only: what travels to tasks is ``in_tasks``, else the store within."""

    def __init__(self, inner: Store, faults: Iterable[Fault] = (), in_tasks: Store | None = None) -> None:
        super().__init__(inner, faults)
        self._in_tasks = inner if in_tasks is None else in_tasks

    def __reduce__(self) -> tuple[object, ...]:
        return _itself, (self._in_tasks,)


def _itself(store: Store) -> Store:
    return store


@dataclass(frozen=True)
class Trap:
    """Strikes whoever steps into it first, once each time it is set, in whichever process that is."""

    path: Path

    def set(self, how: str = "kill") -> None:
        self.path.write_text(how)

    @property
    def is_set(self) -> bool:
        return self.path.exists()

    def __call__(self) -> None:
        try:
            how = self.path.read_text()
            self.path.unlink()
        except FileNotFoundError:
            return
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise StoreUnavailable("it was made to fail", subject="a task", hint="Try again.")


class TaskStore(FaultyStore):
    """Has a trap before or after the n-th operation of each task."""

    def __init__(self, inner: Store, trap: Trap, at: int, when: When) -> None:
        super().__init__(inner, [Fault(at, "delay", when, wait=trap)])
        self._made_of = inner, trap, at, when

    def __reduce__(self) -> tuple[object, ...]:
        return TaskStore, self._made_of
