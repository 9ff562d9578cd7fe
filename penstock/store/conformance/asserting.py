"""What the claims are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TypeAlias, TypeVar

from penstock.errors import PenstockError
from penstock.store.interface import Store

__all__ = ["Claim", "names", "raising", "together"]

Claim: TypeAlias = Callable[[Store], None]
_T = TypeVar("_T")


@contextmanager
def raising(kind: type[PenstockError]) -> Iterator[None]:
    """The block must raise an error of this kind, and one that says what to do."""
    raised: PenstockError | None = None
    try:
        yield
    except kind as error:
        raised = error
    assert raised is not None, f"{kind.__name__} was not raised"
    assert raised.what, "an error says what happened"
    assert raised.subject, "an error says to what"
    assert raised.hint, "an error says what to do"


def together(*functions: Callable[[], _T]) -> list[_T]:
    """Call each in a thread of its own, all let go at one moment; their results, or the first error."""
    start = Barrier(len(functions))

    def run(function: Callable[[], _T]) -> _T:
        start.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(run, function) for function in functions]]


def names(store: Store, prefix: str = "", *, after: str = "") -> list[str]:
    """The names that a listing gives."""
    return [blob.name for blob in store.list(prefix, after=after)]
