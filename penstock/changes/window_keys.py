"""`WindowKeys`: what a window is called, as columns of 64-bit integers, one window or many at once.

An integer stands for itself and a timestamp for its microseconds. Any other value gets a number of its
own (a *code*) the first time it is seen: of a batch only its distinct values are looked at one by one.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidArgument

__all__ = ["Shape", "WindowKeys"]

Int64s = npt.NDArray[np.int64]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_UNKNOWN = -1
_ONE_NAN = math.nan


class Shape(NamedTuple):
    """What a window's name is made of; names of different shapes are never the same window."""

    is_tuple: bool
    kinds: str
    """Per column, ``i`` for integers and times, ``c`` for codes."""

    @property
    def has_end(self) -> bool:
        """Whether its second column is the end of a time span that begins with its first."""
        return self.is_tuple and self.kinds.startswith("ii")


class WindowKeys:
    """Names of windows → columns of integers; equal names give equal integers.

    >>> keys = WindowKeys()
    >>> keys.of_many(np.array([[0, 60], [60, 120]]))
    (Shape(is_tuple=True, kinds='ii'), [array([ 0, 60]), array([ 60, 120])])
    >>> keys.of_one((0, 60, "ada"))
    (Shape(is_tuple=True, kinds='iic'), [array([0]), array([60]), array([0])])
    """

    __slots__ = ("_codes", "_next")

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._next = 0

    def of_one(self, window: Hashable, *, learn: bool = True) -> tuple[Shape, list[Int64s]]:
        """One window; without ``learn``, values never seen have a code that no window has."""
        is_tuple = isinstance(window, tuple) and len(window) > 0
        parts = window if isinstance(window, tuple) and window else (window,)
        kinds, columns = "", []
        for part in parts:
            number = _number(part)
            kinds += "c" if number is None else "i"
            columns.append(np.array([self._code(part, learn) if number is None else number], np.int64))
        return Shape(is_tuple, kinds), columns

    def of_many(self, windows: Any) -> tuple[Shape, list[Int64s]]:
        """One window per row of a NumPy array of integers or of an Arrow array; a struct is a tuple."""
        if isinstance(windows, np.ndarray):
            return _of_numpy(windows)
        if isinstance(windows, pa.ChunkedArray):
            windows = windows.combine_chunks()
        if not isinstance(windows, pa.Array):
            raise _unfit(f"{type(windows).__name__} is not an array of windows")
        is_tuple = pa.types.is_struct(windows.type) and windows.type.num_fields > 0
        parts = windows.flatten() if is_tuple else [windows]
        if windows.null_count or any(part.null_count for part in parts):
            raise _unfit("a window's name is or holds NULL")
        found = [self._column(part) for part in parts]
        return Shape(is_tuple, "".join(kind for kind, _ in found)), [column for _, column in found]

    def forget_all_but(self, used: Int64s) -> None:
        """Keep only these codes; the others' values are as if never seen."""
        kept = set(used.tolist())
        self._codes = {value: code for value, code in self._codes.items() if code in kept}

    def __len__(self) -> int:
        """How many values have a code."""
        return len(self._codes)

    def _column(self, part: pa.Array) -> tuple[str, Int64s]:
        kind = part.type
        try:
            if pa.types.is_timestamp(kind):
                part = part.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
            if pa.types.is_integer(part.type):
                return "i", part.cast(pa.int64()).to_numpy(zero_copy_only=False)
            encoded = part if pa.types.is_dictionary(kind) else pc.dictionary_encode(part)
        except pa.ArrowException as error:
            raise _unfit(f"values of type {kind} cannot name windows: {error}") from error
        codes = np.array(
            [self._code(value, learn=True) for value in encoded.dictionary.to_pylist()], np.int64
        )
        indices: npt.NDArray[np.integer[Any]] = encoded.indices.to_numpy(zero_copy_only=False)
        return "c", codes[indices]

    def _code(self, value: Any, learn: bool) -> int:
        if value is None:
            raise _unfit("a window's name is or holds None")
        if value != value:
            value = _ONE_NAN
        try:
            code = self._codes.get(value)
        except TypeError:
            raise _unfit(f"{type(value).__name__} is not hashable") from None
        if code is None:
            if not learn:
                return _UNKNOWN
            code = self._codes[value] = self._next
            self._next += 1
        return code


def _of_numpy(windows: npt.NDArray[Any]) -> tuple[Shape, list[Int64s]]:
    if windows.dtype.kind not in "iu" or windows.ndim not in (1, 2) or 0 in windows.shape[1:]:
        raise _unfit(f"an array of {windows.dtype} of shape {windows.shape} does not name windows")
    if windows.dtype == np.uint64 and windows.size and int(windows.max()) >= 2**63:
        raise _unfit("an integer has more than 63 bits")
    if windows.ndim == 1:
        return Shape(False, "i"), [np.ascontiguousarray(windows, np.int64)]
    columns = [np.ascontiguousarray(windows[:, i], np.int64) for i in range(windows.shape[1])]
    return Shape(True, "i" * len(columns)), columns


def _number(part: Any) -> int | None:
    """The integer that an integer or a time stands for; None for every other value."""
    if isinstance(part, bool):
        return None
    if isinstance(part, dt.datetime):
        aware = part if part.tzinfo else part.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if not isinstance(part, int | np.integer):
        return None
    if not -(2**63) <= part < 2**63:
        raise _unfit(f"{part} has more than 63 bits")
    return int(part)


def _unfit(what: str) -> InvalidArgument:
    return InvalidArgument(
        what,
        subject="LateDataRetractions",
        hint="Name a window by (start, end) or another hashable; in bulk, by integers of shape (n, 2) or "
        "an Arrow array without NULLs.",
    )
