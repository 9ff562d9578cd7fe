"""What happened to one entity, as the CDC ring tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.changes.record import ChangeOperation, public_kind

__all__ = ["CdcEvent", "CdcStats", "KvWatchEvent"]


@dataclass(frozen=True, slots=True)
class KvWatchEvent:
    """A committed change of one key. ``before`` and ``after`` are JSON values; None where there is none.

    ``dropped_event_count`` says how many events that the watch asked for were dropped before this one, since
    the watch began: where it is greater than in the event before, that many are missing between the two.
    """

    collection: str
    key: str
    op: ChangeOperation
    before: Any
    after: Any
    lsn: int
    committed_at: int
    dropped_event_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object. Integers are integers, whatever their size."""
        return {
            "key": self.key,
            "op": self.op.value,
            "before": self.before,
            "after": self.after,
            "lsn": self.lsn,
            "committed_at": self.committed_at,
            "dropped_event_count": self.dropped_event_count,
        }


class CdcEvent(NamedTuple):
    """One change of one entity. A named tuple, because making one is most of what emitting costs.

    >>> event = CdcEvent(7, 1700000000000, ChangeOperation.UPDATE, "users", 42, "table", ("email",))
    >>> event.rid, event.kind, event.touches(["age"]), event.touches(["age", "email"])
    (42, 'row', False, True)
    """

    lsn: int
    timestamp: int
    """When it was committed, in milliseconds since 1970; never less than the event's before it."""
    operation: ChangeOperation
    collection: str
    entity_id: int
    entity_kind: str
    changed_columns: tuple[str, ...] | None = None
    """The columns that an update touched, added and removed ones included; None where that is unknown."""
    kv: KvWatchEvent | None = None

    @property
    def rid(self) -> int:
        return self.entity_id

    @property
    def kind(self) -> str:
        """What the outside calls this kind of entity."""
        return public_kind(self.entity_kind)

    def touches(self, columns: Iterable[str]) -> bool:
        """Whether any of these columns may have changed: if it is not known which did, any may have."""
        return self.changed_columns is None or not set(columns).isdisjoint(self.changed_columns)

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object. What is not known is not there; integers are integers."""
        fields: dict[str, Any] = {
            "lsn": self.lsn,
            "timestamp": self.timestamp,
            "operation": self.operation.value,
            "collection": self.collection,
            "rid": self.entity_id,
            "kind": self.kind,
        }
        if self.changed_columns is not None:
            fields["changed_columns"] = list(self.changed_columns)
        if self.kv is not None:
            fields["kv"] = self.kv.to_json()
        return fields


@dataclass(frozen=True, slots=True)
class CdcStats:
    """The ring at one moment. ``oldest_lsn`` and ``newest_lsn`` are None when nothing is held."""

    buffered_events: int
    current_lsn: int
    oldest_lsn: int | None
    newest_lsn: int | None
