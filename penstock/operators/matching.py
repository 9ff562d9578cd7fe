"""What the `on` of a join says of each side: by which columns its rows meet, and which rows can meet nobody.

Columns that must be equal fall into classes: from ``a = x AND a = y`` follows ``x = y``. One column of each
class and side is the join key; a row in which another column of its class differs from that one matches
nothing. NULL equals NULL in a class only if it does so in all of the comparisons that make it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.rows import same_rows
from penstock.plan import Join, On
from penstock.spine.layout import Bools

__all__ = ["Side", "sides"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join."""

    rows: pa.Schema
    key: tuple[str, ...]
    not_null: tuple[str, ...]
    """Columns of the key in which NULL matches nothing."""
    alike: tuple[tuple[str, str], ...]
    """Pairs of columns that must be equal within a row."""

    def can_match(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows may find a partner; None where all may."""
        able: Bools | None = None
        for name in self.not_null:
            column = batch.column(name)
            if column.null_count:
                able = _and(able, pc.is_valid(column).to_numpy(zero_copy_only=False))
        for one, other in self.alike:
            able = _and(able, same_rows([batch.column(one)], [batch.column(other)], batch.num_rows))
        return None if able is None or able.all() else pa.array(able)


def sides(node: Join, left: pa.Schema, right: pa.Schema) -> tuple[Side, Side]:
    """The left side and the right side. Their keys have as many columns, in the same order.

    >>> from penstock.plan import Scan
    >>> ids = pa.schema([("a", pa.int64())]), pa.schema([("x", pa.int64()), ("y", pa.int64())])
    >>> one, other = sides(Join(Scan("l", "l"), Scan("l", "r"), (On("a", "x"), On("a", "y"))), *ids)
    >>> one.key, other.key, other.alike
    (('a',), ('x',), (('x', 'y'),))
    """
    classes = _classes(node.on)
    strict = [any(not it.null_safe for it in some) for some in classes]
    made = []
    for rows, names in (
        (left, [_distinct(it.left for it in some) for some in classes]),
        (right, [_distinct(it.right for it in some) for some in classes]),
    ):
        key = tuple(it[0] for it in names)
        not_null = tuple(name for name, refuses in zip(key, strict, strict=True) if refuses)
        alike = tuple((it[0], other) for it in names for other in it[1:])
        made.append(Side(rows, key, not_null, alike))
    return made[0], made[1]


def _classes(on: Sequence[On]) -> list[list[On]]:
    """The comparisons that share a column, directly or through others, together."""
    classes: list[list[On]] = []
    for it in on:
        near = [some for some in classes if any(it.left == one.left or it.right == one.right for one in some)]
        merged = [one for some in near for one in some]
        classes = [some for some in classes if some not in near]
        classes.append([*merged, it])
    return classes


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _and(one: Bools | None, other: Bools) -> Bools:
    return other if one is None else one & other
