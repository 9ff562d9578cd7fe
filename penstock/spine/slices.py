"""`Slice` and `Edit`: which parts of which run files make up a spine, as a manifest keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import InvalidArgument, MalformedMessage
from penstock.spine.layout import END
from penstock.store.names import is_name

__all__ = ["Edit", "Slice", "edited"]

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a run file that belongs to a spine: the rows whose unsigned hash is in [begin, end).

    ``rows`` and ``bytes`` are of the whole file.

    >>> Slice("runs/7-0", 1000, 40_000, 0, 2**63).cut(2**62, END)
    Slice(file='runs/7-0', rows=1000, bytes=40000, begin=4611686018427387904, end=9223372036854775808)
    """

    file: str
    rows: int
    bytes: int
    begin: int = 0
    end: int = END

    def __post_init__(self) -> None:
        if not 0 <= self.begin < self.end <= END:
            raise InvalidArgument(
                f"[{self.begin}, {self.end}) is no range of hashes",
                subject=f"slice of {self.file}",
                hint="A range begins at 0 or later, ends at 2**64 or before, and holds a hash at least.",
            )

    def cut(self, begin: int, end: int) -> Slice | None:
        """What of it lies in the range; None where nothing does."""
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return None
        return self if (begin, end) == (self.begin, self.end) else replace(self, begin=begin, end=end)

    def to_json(self) -> dict[str, Any]:
        """As a manifest keeps it. The edges are hexadecimal texts, for numbers in JSON end at 2⁵³."""
        return {
            "file": self.file,
            "rows": self.rows,
            "bytes": self.bytes,
            "begin": f"{self.begin:x}",
            "end": f"{self.end:x}",
        }

    @classmethod
    def from_json(cls, told: Any) -> Slice:
        """What `to_json` gave; anything else is `MalformedMessage`."""
        fields = _fields(told, ("file", "rows", "bytes", "begin", "end"), "slice")
        file, rows, nbytes = fields["file"], fields["rows"], fields["bytes"]
        if not is_name(file):
            raise _malformed("slice", f"{file!r} is no name of a blob")
        for name, number in (("rows", rows), ("bytes", nbytes)):
            if type(number) is not int or not 0 <= number <= _MOST:
                raise _malformed("slice", f"{number!r} is no number of {name}")
        begin, end = (_edge(fields[name]) for name in ("begin", "end"))
        if not begin < end <= END:
            raise _malformed("slice", f"[{begin:x}, {end:x}) is no range of hashes")
        return cls(file, rows, nbytes, begin, end)


@dataclass(frozen=True, slots=True)
class Edit:
    """What a step did to one spine: slices that came, and ranges of files that are no part of it any more."""

    added: tuple[Slice, ...] = ()
    dropped: tuple[Slice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "added": [it.to_json() for it in self.added],
            "dropped": [it.to_json() for it in self.dropped],
        }

    @classmethod
    def from_json(cls, told: Any) -> Edit:
        """What `to_json` gave; anything else is `MalformedMessage`."""
        fields = _fields(told, ("added", "dropped"), "edit")
        for name, items in fields.items():
            if not isinstance(items, list):
                raise _malformed("edit", f"{name} is no list")
        return cls(
            tuple(Slice.from_json(it) for it in fields["added"]),
            tuple(Slice.from_json(it) for it in fields["dropped"]),
        )


def edited(slices: Sequence[Slice], edits: Iterable[Edit]) -> tuple[Slice, ...]:
    """The slices after the edits: entries are cut and split where a range of theirs was dropped.

    Law: what a file has afterwards is what it had, with what was added, without what was dropped. So the
    edits of several shards give the same in any order; the result is sorted, and ranges of one file that
    meet are one. Refuses to drop what is not there and to add what is there already.

    >>> whole = Slice("a", 100, 4000)
    >>> merged = Edit((Slice("b", 9, 400, 0, 2**63),), (whole.cut(0, 2**63),))
    >>> [(it.file, it.begin == 0, it.end == END) for it in edited([whole], [merged])]
    [('b', True, False), ('a', False, True)]
    """
    parts: dict[str, list[Slice]] = {}
    for it in slices:
        parts.setdefault(it.file, []).append(it)
    for edit in edits:
        for added in edit.added:
            there = parts.setdefault(added.file, [])
            if any(it.cut(added.begin, added.end) for it in there):
                raise _refused(added, "it is part of the spine already, or some of it is")
            there.append(added)
        for dropped in edit.dropped:
            parts[dropped.file] = _without(parts.get(dropped.file, []), dropped)
    left = [it for there in parts.values() for it in _joined(there)]
    return tuple(sorted(left, key=lambda it: (it.begin, it.end, it.file)))


def _without(there: list[Slice], dropped: Slice) -> list[Slice]:
    left, found = [], 0
    for it in there:
        gone = it.cut(dropped.begin, dropped.end)
        if gone is None:
            left.append(it)
            continue
        found += gone.end - gone.begin
        edges = (it.begin, gone.begin), (gone.end, it.end)
        left += [replace(it, begin=begin, end=end) for begin, end in edges if begin < end]
    if found != dropped.end - dropped.begin:
        raise _refused(dropped, "some of it is no part of the spine, so it cannot be dropped")
    return left


def _joined(there: list[Slice]) -> list[Slice]:
    joined: list[Slice] = []
    for it in sorted(there, key=lambda it: it.begin):
        if joined and joined[-1].end == it.begin:
            joined[-1] = replace(joined[-1], end=it.end)
        else:
            joined.append(it)
    return joined


def _fields(told: Any, names: tuple[str, ...], what: str) -> Mapping[str, Any]:
    if not isinstance(told, dict) or sorted(told) != sorted(names):
        raise _malformed(what, f"it has not just the fields {', '.join(names)}")
    return told


def _edge(text: Any) -> int:
    if not isinstance(text, str) or not 1 <= len(text) <= 17 or set(text) - set("0123456789abcdef"):
        raise _malformed("slice", f"{text!r} is no hash in hexadecimal")
    return int(text, 16)


def _malformed(what: str, fault: str) -> MalformedMessage:
    return MalformedMessage(
        f"this is no {what}: {fault}", subject=f"{what} of a spine", hint=f"Give what {what}.to_json() gave."
    )


def _refused(it: Slice, what: str) -> InvalidArgument:
    return InvalidArgument(
        what,
        subject=f"{it.file} [{it.begin:x}, {it.end:x})",
        hint="Apply each edit once, to the slices that it was made from.",
    )
