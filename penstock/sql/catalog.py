"""What a query may read: tables and views, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.plan import Node

__all__ = ["Catalog", "Relation"]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view as a plan reads it.

    ``node`` is `Keyed(Scan(log, table), key)` for a table with a key, `Scan(log, table)` for one without, the
    view's own plan for a view of the same pipeline, and `Scan(log, view)` for one of another. ``schema`` has
    its columns, without those of a change.
    """

    node: Node
    schema: pa.Schema


class Catalog(Protocol):
    """Finds tables and views."""

    def relation(self, name: str) -> Relation | None:
        """What has that name, compared without case; None where nothing has."""

    def names(self) -> Iterable[str]:
        """All names, for those who misspelt one."""
