"""`ChangeEventBatch`: events of one source, delivered together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.changes import event_bytes
from penstock.changes.event import ChangeEvent
from penstock.changes.event_bytes import Kind
from penstock.errors import InvalidArgument

__all__ = ["ChangeEventBatch"]


class ChangeEventBatch:
    """Events of one source, in its order.

    Law: the batch covers the sequences ``[start_sequence, end_sequence)``: from the first event *that
    has a sequence* up to, and without, the one after the last that has one. Watermarks and snapshots
    have none, so a trailing watermark does not shrink the range. Sequences never go down.
    Cost: events and their batches are shared, never copied.

    >>> rows = pa.record_batch({"id": [1]})
    >>> events = [ChangeEvent.insert(rows, 10, 5), ChangeEvent.insert(rows, 11, 6), ChangeEvent.watermark(12)]
    >>> ChangeEventBatch("orders", events)
    ChangeEventBatch('orders', [5, 7), 3 events, 2 rows)
    """

    __slots__ = ("_events", "_sequences", "_source")

    def __init__(self, source: str, events: Iterable[ChangeEvent]) -> None:
        self._source = source
        self._events = tuple(events)
        first = last = None
        for event in self._events:
            sequence = event.sequence
            if sequence is None:
                continue
            if last is not None and sequence < last:
                raise InvalidArgument(
                    f"the sequence {sequence} comes after {last}",
                    subject=f"ChangeEventBatch {source!r}",
                    hint="Give the events in the order of their source.",
                )
            first, last = sequence if first is None else first, sequence
        self._sequences = (0, 0) if first is None or last is None else (first, last + 1)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview | pa.Buffer) -> ChangeEventBatch:
        """The batch that `to_bytes` wrote; damaged bytes are `DamagedBytes`, never another batch."""
        return event_bytes.from_bytes(
            data, Kind.BATCH, lambda source, stored: cls(source, map(ChangeEvent._from_stored, stored))
        )

    def to_bytes(self) -> bytes:
        """The batch as checked, versioned bytes; a schema that events share is written once."""
        return event_bytes.to_bytes(Kind.BATCH, self._source, [event._stored for event in self._events])

    @property
    def source(self) -> str:
        """The name of the table or view that the events come from."""
        return self._source

    @property
    def events(self) -> tuple[ChangeEvent, ...]:
        """The events, in order."""
        return self._events

    @property
    def start_sequence(self) -> int:
        """The first sequence covered; 0 when no event has one."""
        return self._sequences[0]

    @property
    def end_sequence(self) -> int:
        """The sequence after the last one covered; 0 when no event has one."""
        return self._sequences[1]

    @property
    def total_rows(self) -> int:
        """The rows of all events; an update counts its new side."""
        return sum(event.row_count for event in self._events)

    @property
    def is_empty(self) -> bool:
        """Whether there is no event at all, not even a watermark."""
        return not self._events

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[ChangeEvent]:
        return iter(self._events)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChangeEventBatch):
            return NotImplemented
        return self._source == other._source and self._events == other._events

    def __hash__(self) -> int:
        return hash((self._source, self._events))

    def __repr__(self) -> str:
        start, end = self._sequences
        events = f"{len(self)} {'event' if len(self) == 1 else 'events'}"
        rows = f"{self.total_rows} {'row' if self.total_rows == 1 else 'rows'}"
        return f"ChangeEventBatch({self._source!r}, [{start}, {end}), {events}, {rows})"
