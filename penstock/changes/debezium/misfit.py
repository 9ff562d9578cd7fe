"""`Misfit`: a value that does not fit its column, on its way to becoming an error.

The code that finds such a value knows its place in one array only. Each level of nesting above it turns that
place into its own and adds its name to the path; at the top it becomes a `MalformedMessage` that names the
message. It never leaves this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

__all__ = ["Misfit", "of_field", "of_item", "shown"]

Int64s = npt.NDArray[np.int64]


class Misfit(Exception):
    """The value at place ``at`` is wrong: ``path`` leads to it, ``what`` and ``hint`` say the rest."""

    def __init__(self, at: int, what: str, hint: str, path: str = "") -> None:
        super().__init__(what)
        self.at = at
        self.what = what
        self.hint = hint
        self.path = path


def shown(value: object) -> str:
    """The value as an error shows it: JSON-like and short."""
    try:
        text = repr(value)
    except RecursionError:  # JSON nests deeper than Python prints
        return f"a {type(value).__name__} of very many levels"
    return text if len(text) <= 60 else f"{text[:57]}…"


@contextmanager
def of_item(offsets: Int64s) -> Iterator[None]:
    """Lift a misfit among items, laid end to end, to the list that holds it."""
    try:
        yield
    except Misfit as misfit:
        row = int(np.searchsorted(offsets, misfit.at, side="right")) - 1
        raise Misfit(row, misfit.what, misfit.hint, f"[{misfit.at - offsets[row]}]{misfit.path}") from None


@contextmanager
def of_field(name: str) -> Iterator[None]:
    """Lift a misfit in a field to the struct, or the row, that has the field."""
    try:
        yield
    except Misfit as misfit:
        raise Misfit(misfit.at, misfit.what, misfit.hint, f".{name}{misfit.path}") from None
