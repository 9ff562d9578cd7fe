"""Ranges of a collection's key hash: how readers share a collection, with each key in order for one of them.

A range is ``[low, high)`` of the unsigned 64-bit hash of the key columns, from one LSN to another. A
collection begins with one range that is everything. A split retires a range and begins two in its place, a
merge retires two neighbours and begins one. So ranges form a family: each but the first has parents.

Law: at every LSN the living ranges cover every hash once. A range retired at LSN L gives the events up to and
including L, its children those after L; L lies between two transactions. So who reads all parents of a range
to their end before the range itself reads each event once, and each key's events in order.
State: some 50 bytes of `meta.json` for each range there ever was. Cost: a split or merge replaces that
file once; a crash leaves the old table or the new one, and before the call returned either may be the one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.changes.hashing import can_hash
from penstock.errors import Divergence, InvalidArgument, NotFound, Unsupported
from penstock.log.meta import Collection, Meta

__all__ = ["EVERYTHING", "KeyRange", "RangeTable", "check_keyed", "extra_of_both"]

EVERYTHING = 2**64
"""One more than the greatest hash."""

_EXTRA = "ranges"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Hashes from ``low`` up to, but not including, ``high``, for the events after ``from_lsn``."""

    id: int
    low: int
    high: int
    parents: tuple[int, ...] = ()
    from_lsn: int = 0
    """Events up to here are read through the parents; it is the cursor to begin with."""
    until_lsn: int | None = None
    """Events after here are read through the children; None while there are none."""

    @property
    def alive(self) -> bool:
        return self.until_lsn is None

    def serves(self, cursor: int) -> bool:
        """Whether the event after this cursor is read through this range, if its hash is in it."""
        return self.from_lsn <= cursor and (self.until_lsn is None or cursor < self.until_lsn)

    def __contains__(self, hash_: object) -> bool:
        return isinstance(hash_, int) and self.low <= hash_ < self.high

    def __str__(self) -> str:
        lives = f"from LSN {self.from_lsn}" + ("" if self.until_lsn is None else f" to {self.until_lsn}")
        return f"range {self.id} [{self.low:016x}, {self.high:016x}) {lives}"


class RangeTable:
    """All ranges of one collection there ever were. Immutable: a split or a merge makes another table.

    >>> table = RangeTable("users")
    >>> table = table.split(1, None, lsn=7)
    >>> for it in table.living(): print(it)
    range 2 [0000000000000000, 8000000000000000) from LSN 7
    range 3 [8000000000000000, 10000000000000000) from LSN 7
    >>> [it.id for it in table.at(6)], [it.id for it in table.children(1)]
    ([1], [2, 3])
    >>> print(table.merge(3, 2, lsn=9).at(9)[0])
    range 4 [0000000000000000, 10000000000000000) from LSN 9
    """

    __slots__ = ("_ranges", "collection")

    def __init__(self, collection: str, ranges: tuple[KeyRange, ...] = (KeyRange(1, 0, EVERYTHING),)) -> None:
        self.collection = collection
        self._ranges = ranges

    @classmethod
    def of(cls, meta: Meta, collection: Collection) -> Self:
        """The table that the log's meta holds; the first range alone where nothing was split yet."""
        check_keyed(collection)
        stored = meta.extra.get(_EXTRA, {}).get(str(collection.id))
        return cls(collection.name) if stored is None else cls(collection.name, _decode(stored))

    def within(self, meta: Meta, collection: Collection) -> Meta:
        """The meta with this table in it."""
        tables = {**meta.extra.get(_EXTRA, {}), str(collection.id): _encode(self._ranges)}
        return replace(meta, extra={**meta.extra, _EXTRA: tables})

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[KeyRange]:
        return iter(self._ranges)

    def __getitem__(self, id_: int) -> KeyRange:
        # Ids are given from 1 in order, and ranges are never removed.
        if isinstance(id_, int) and 1 <= id_ <= len(self._ranges):
            return self._ranges[id_ - 1]
        raise NotFound(
            f"there is no range {id_!r}",
            subject=self._subject,
            hint=f"Ranges have numbers from 1 to {len(self._ranges)}; `ranges` lists the living ones.",
        )

    def at(self, cursor: int) -> tuple[KeyRange, ...]:
        """Those to go on with from a cursor, by hash. They cover every hash once."""
        return tuple(sorted((it for it in self._ranges if it.serves(cursor)), key=lambda it: it.low))

    def living(self) -> tuple[KeyRange, ...]:
        """Those that were not retired, by hash. They cover every hash once."""
        return tuple(sorted((it for it in self._ranges if it.alive), key=lambda it: it.low))

    def children(self, id_: int) -> tuple[KeyRange, ...]:
        """Those that took its place."""
        return tuple(it for it in self._ranges if id_ in it.parents)

    def split(self, id_: int, at_hash: int | None, lsn: int) -> RangeTable:
        """Two in the place of one. ``at_hash`` is the first hash of the right one; without it, the middle."""
        it = self._alive(id_)
        middle = it.low + (it.high - it.low) // 2 if at_hash is None else at_hash
        if isinstance(middle, bool) or not isinstance(middle, int) or not it.low < middle < it.high:
            raise InvalidArgument(
                f"it cannot be split at {middle!r}",
                subject=str(it),
                hint=f"Give a hash greater than {it.low} and less than {it.high}, unsigned.",
            )
        return self._succeeded((it,), ((it.low, middle), (middle, it.high)), lsn)

    def merge(self, a: int, b: int, lsn: int) -> RangeTable:
        """One in the place of two that lie side by side, in whichever order they are given."""
        left, right = sorted((self._alive(a), self._alive(b)), key=lambda it: it.low)
        if left.high != right.low:
            raise InvalidArgument(
                f"it does not end where {right} begins",
                subject=str(left),
                hint="Merge two ranges that lie side by side.",
            )
        return self._succeeded((left, right), ((left.low, right.high),), lsn)

    def _succeeded(
        self, parents: tuple[KeyRange, ...], bounds: tuple[tuple[int, int], ...], lsn: int
    ) -> RangeTable:
        # A copy of a log may know of ranges that begin after its own end: none is retired before it began.
        lsn = max(lsn, *(it.from_lsn for it in parents))
        ids = tuple(it.id for it in parents)
        kept = [replace(it, until_lsn=lsn) if it.id in ids else it for it in self._ranges]
        made = [KeyRange(len(kept) + i, low, high, ids, lsn) for i, (low, high) in enumerate(bounds, start=1)]
        return RangeTable(self.collection, (*kept, *made))

    def _alive(self, id_: int) -> KeyRange:
        it = self[id_]
        if not it.alive:
            names = ", ".join(str(child.id) for child in self.children(id_))
            raise InvalidArgument(
                f"it was retired at LSN {it.until_lsn}", subject=str(it), hint=f"Its children are {names}."
            )
        return it

    @property
    def _subject(self) -> str:
        return f"collection {self.collection!r}"


def check_keyed(collection: Collection) -> None:
    """Refuse a collection that has no key, or one that cannot be hashed."""
    subject = f"collection {collection.name!r}"
    if not collection.key:
        raise InvalidArgument("it has no key", subject=subject, hint="Read it whole, or give it a key.")
    for name in collection.key:
        kind = collection.schema.field(name).type
        if not can_hash(kind):
            raise Unsupported(
                f"its key column {name!r} is of type {kind}, which has no stable hash",
                subject=subject,
                hint="Use a key of a type that Spark has and hashes.",
            )


def _encode(ranges: tuple[KeyRange, ...]) -> list[list[Any]]:
    # JSON integers end at 2⁶⁴ − 1, so the last hash stands for the bound after it.
    return [[it.low, it.high - 1, list(it.parents), it.from_lsn, it.until_lsn] for it in ranges]


def _decode(stored: list[list[Any]]) -> tuple[KeyRange, ...]:
    return tuple(
        KeyRange(id_, low, last + 1, tuple(parents), from_lsn, until_lsn)
        for id_, (low, last, parents, from_lsn, until_lsn) in enumerate(stored, start=1)
    )


def extra_of_both(own: Meta, other: Meta, subject: str) -> dict[str, Any]:
    """What both metas say beside their collections; of each range table what the one says that knows more.

    A table only ever grows, so of two copies of one the longer begins with the shorter; else they are the
    tables of two histories: `Divergence`.
    """
    tables = dict(own.extra.get(_EXTRA, {}))
    for number, theirs in other.extra.get(_EXTRA, {}).items():
        ours = tables.get(number, [])
        tables[number] = _longer(ours, theirs, f"{subject}, ranges of collection number {number}")
    return {**own.extra, **other.extra, **({_EXTRA: tables} if tables else {})}


def _longer(a: list[list[Any]], b: list[list[Any]], subject: str) -> list[list[Any]]:
    short, long = sorted((a, b), key=len)
    for before, after in zip(short, long, strict=False):
        if before[:4] != after[:4] or before[4] not in (None, after[4]):
            raise Divergence(
                "the two logs have split or merged ranges in different ways",
                subject=subject,
                hint="Two histories have one name. Choose one, and copy it anew to the other side.",
            )
    return long
