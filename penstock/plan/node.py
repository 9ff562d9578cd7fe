"""The nodes. Each is a frozen value that says what is computed, and nothing about how.

Expressions stand only in `Select`, as Spark SQL text over the columns of its input. Every other node speaks
of columns by name, and its output columns are told apart by name: no node has two of one name.

Nodes are equal when they say the same, with all below them. That is told by their fingerprints, which are
made once, from those below: plans in which much is shared stay cheap to compare and to look up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeAlias

import orjson

from penstock.changes.names import is_reserved
from penstock.errors import InvalidArgument, ReservedName

__all__ = [
    "Aggregate",
    "Call",
    "Distinct",
    "Function",
    "Join",
    "Keyed",
    "Named",
    "Node",
    "On",
    "Scan",
    "Select",
    "Union",
]


_VERSION = 1
"""Part of every fingerprint: raised when a node keeps another state for the same words."""


class _Node:
    __slots__ = ("fingerprint",)

    fingerprint: str
    """Sixteen hex digits that tell the node, with all below it, from every other: its state's name."""

    def __post_init__(self) -> None:
        self._check()
        told = {field.name: _told(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        said = orjson.dumps([_VERSION, type(self).__name__, told], option=orjson.OPT_SORT_KEYS)
        object.__setattr__(self, "fingerprint", hashlib.sha256(said).hexdigest()[:16])

    def _check(self) -> None:
        """Refuse what no engine could run."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]


def _told(value: Any) -> Any:
    if isinstance(value, _Node):
        return {"node": value.fingerprint}
    if isinstance(value, tuple):
        return [_told(item) for item in value]
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Named | On | Call):
        return {field.name: _told(getattr(value, field.name)) for field in fields(value)}
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Scan(_Node):
    """The changes of one collection of a log. Its columns are the collection's."""

    log: str
    collection: str


@dataclass(frozen=True, slots=True, eq=False)
class Keyed(_Node):
    """Events by key made into −old +new: the last event of a key says what its row is now.

    Law: content = the last row written per key. State: that. A row written again as it was is no change.
    """

    input: Node
    key: tuple[str, ...]

    def _check(self) -> None:
        _check_names(self.key, "Keyed")


@dataclass(frozen=True, slots=True)
class Named:
    """An expression of Spark SQL and the name of the column it makes."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(_Node):
    """Expressions over each row, and a condition for it to stay. Law: linear. State: none."""

    input: Node
    columns: tuple[Named, ...]
    where: str | None = None

    def _check(self) -> None:
        _check_names((it.name for it in self.columns), "Select")


@dataclass(frozen=True, slots=True, eq=False)
class Union(_Node):
    """All rows of all inputs, by position, under the names of the first. Law: linear. State: none."""

    inputs: tuple[Node, ...]

    def _check(self) -> None:
        if not self.inputs:
            raise InvalidArgument("there is no input", subject="Union", hint="Give one node or more.")


@dataclass(frozen=True, slots=True)
class On:
    """A pair of columns that must be equal; NULL equals NULL only where ``null_safe``."""

    left: str
    right: str
    null_safe: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Join(_Node):
    """Pairs of rows that agree on all of ``on``; without any, all pairs. Columns: left's, then right's.

    Law: bilinear, Δ(A⋈B) = ΔA⋈B + A⋈ΔB + ΔA⋈ΔB. State: the rows of each side by join key.
    """

    left: Node
    right: Node
    on: tuple[On, ...]


class Function(StrEnum):
    """What an aggregate computes. The values are Spark SQL's names."""

    COUNT = "count"
    COUNT_COLUMN = "count_column"
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"

    @property
    def is_linear(self) -> bool:
        """Whether its state is numbers that add up; else it needs the bag of values."""
        return self not in _OF_BAGS


_OF_BAGS = frozenset((Function.COUNT_DISTINCT, Function.MIN, Function.MAX))


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate: the column it makes, the function, and the column it reads (COUNT(*) reads none)."""

    name: str
    function: Function
    column: str | None = None

    def __post_init__(self) -> None:
        if (self.column is None) != (self.function is Function.COUNT):
            raise InvalidArgument(
                f"{self.function} of {'no column' if self.column is None else self.column}",
                subject=f"Call {self.name!r}",
                hint="COUNT(*) reads no column, and every other function exactly one.",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(_Node):
    """GROUP BY columns. Without keys there is one row, always, also over nothing.

    Law: Σ in a commutative group per call. State: accumulators by group, and bags where a call needs them.
    """

    input: Node
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    def _check(self) -> None:
        _check_names((*self.keys, *(call.name for call in self.calls)), "Aggregate")


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(_Node):
    """Each row once that is there at all. Law: crossing of weight > 0. State: counts by row."""

    input: Node


Node: TypeAlias = Scan | Keyed | Select | Union | Join | Aggregate | Distinct


def _check_names(names: Iterable[str], subject: str) -> None:
    seen: set[str] = set()
    for name in names:
        if is_reserved(name):
            raise ReservedName(
                f"the column {name!r} begins with one underscore",
                subject=subject,
                hint="Such names are Penstock's own: give the column another one, with AS.",
            )
        if name in seen:
            raise InvalidArgument(
                f"there are two columns {name!r}", subject=subject, hint="Name one of them anew, with AS."
            )
        seen.add(name)
