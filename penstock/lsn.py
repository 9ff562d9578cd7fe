"""Places in a log: LSNs count events from 1, without gaps, over all collections of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import InvalidArgument

__all__ = ["FIRST", "LsnRange", "check_lsn"]

FIRST = 1
_TOP = 2**63 - 1


def check_lsn(value: int, subject: str) -> int:
    """The value as a cursor: an integer from 0 (nothing read yet) up to 2⁶³ − 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _TOP:
        raise InvalidArgument(
            f"{value!r} is not a cursor",
            subject=subject,
            hint="A cursor is an integer from 0, which means from the beginning.",
        )
    return value


@dataclass(frozen=True, slots=True)
class LsnRange:
    """Events ``first`` to ``last``, both included; ``last == first - 1`` is the empty range.

    >>> r = LsnRange(5, 7)
    >>> len(r), 7 in r, 8 in r, list(r)
    (3, True, False, [5, 6, 7])
    >>> r.cursor                            # having read the range, poll from here
    7
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first < FIRST or self.last < self.first - 1:
            raise InvalidArgument(
                f"{self.first} to {self.last} is not a range of LSNs",
                subject="LsnRange",
                hint="LSNs count from 1, and the last is at least the first less one.",
            )

    @property
    def cursor(self) -> int:
        """What to poll from once all of the range was read."""
        return self.last

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __bool__(self) -> bool:
        return self.last >= self.first

    def __contains__(self, lsn: object) -> bool:
        return isinstance(lsn, int) and self.first <= lsn <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"[{self.first}, {self.last}]" if self else f"[] at {self.first}"
