"""`ChangeEvent`: what happened once at a source, with its rows as Arrow batches.

An event is immutable and shares its batches: handing one to a thousand subscribers copies nothing.
Its five variants are classes of their own, made for ``match``; their constructors stand on
`ChangeEvent` too, so most code needs this one name.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from penstock.changes import event_bytes, rows
from penstock.changes.changelog import ChangelogRecord
from penstock.changes.event_bytes import Kind, StoredEvent
from penstock.changes.names import check_user_schema
from penstock.changes.op import EventType, Op
from penstock.changes.pickable import pickable_rows
from penstock.changes.shown import shown_row
from penstock.changes.zset import ZSet
from penstock.errors import InvalidArgument

__all__ = ["ChangeEvent", "Delete", "Insert", "Snapshot", "Update", "Watermark"]

E = TypeVar("E", bound="ChangeEvent")
_MOST_ROWS = 2**31 - 1  # in one batch: beyond it Arrow's 32-bit offsets and indexes end


class ChangeEvent:
    """What happened once at a source: an insert, a delete, an update, a watermark, or a snapshot.

    Law: as a Z-set an insert and a snapshot are +rows, a delete is −rows, an update is −old +new.
    Equality is by content: same variant, timestamp, sequence, columns and rows in order, where rows
    are equal as `penstock.changes.rows` says.
    Cost: making one checks its arguments and copies no row; `clone` is O(1).

    >>> import pyarrow as pa
    >>> rows = pa.record_batch({"id": [1, 2], "total": [10.0, 7.5]})
    >>> event = ChangeEvent.insert(rows, timestamp=1_000, sequence=5)
    >>> event
    Insert(sequence=5, timestamp=1000, 2 rows: (id=1, total=10.0), (id=2, total=7.5))
    >>> match event:
    ...     case Insert(data=d):
    ...         print(d.num_rows, "new")
    ...     case Update(old=o, new=n):
    ...         print(o.num_rows, "changed")
    2 new
    >>> event.clone().data is rows
    True
    """

    __slots__ = ("_timestamp",)

    event_type: ClassVar[EventType]
    _timestamp: int

    def __init__(self, *_: object) -> None:
        raise InvalidArgument(
            "an event is of one of five kinds",
            subject="ChangeEvent",
            hint="Use ChangeEvent.insert, .delete, .update, .watermark or .snapshot.",
        )

    @staticmethod
    def insert(data: pa.RecordBatch, timestamp: int, sequence: int) -> Insert:
        """Rows that are new."""
        return Insert(data, timestamp, sequence)

    @staticmethod
    def delete(data: pa.RecordBatch, timestamp: int, sequence: int) -> Delete:
        """Rows that are gone."""
        return Delete(data, timestamp, sequence)

    @staticmethod
    def update(old: pa.RecordBatch, new: pa.RecordBatch, timestamp: int, sequence: int) -> Update:
        """Rows that changed: row i of ``old`` became row i of ``new``."""
        return Update(old, new, timestamp, sequence)

    @staticmethod
    def watermark(timestamp: int) -> Watermark:
        """The promise that nothing older than ``timestamp`` will come, except as late data."""
        return Watermark(timestamp)

    @staticmethod
    def snapshot(data: pa.RecordBatch, timestamp: int) -> Snapshot:
        """The state from which the changes that follow go on."""
        return Snapshot(data, timestamp)

    @staticmethod
    def from_changelog_record(record: ChangelogRecord[pa.RecordBatch], sequence: int) -> Insert | Delete:
        """The event of one changelog record; it shares the record's batch.

        The new side of an update (+U) is an insert and its old side (-U) a delete. A weight of ±1 is
        every row once; ±n is every row n times, and 0 is no row.

        >>> record = ChangelogRecord.delete(pa.record_batch({"id": [7]}), timestamp=3)
        >>> ChangeEvent.from_changelog_record(record, sequence=1)
        Delete(sequence=1, timestamp=3, 1 row: (id=7))
        """
        data = record.data
        if record.weight not in (1, -1):
            data = _copies(_batch(data, "data"), abs(record.weight))
        return _OF_OP[record.op](data, record.timestamp, sequence)

    @staticmethod
    def from_changelog_records(
        records: Iterable[ChangelogRecord[pa.RecordBatch]], first_sequence: int
    ) -> list[Insert | Delete]:
        """One event per record, numbered from ``first_sequence``. The cost is per record, not per row."""
        make = ChangeEvent.from_changelog_record
        return [make(record, sequence) for sequence, record in enumerate(records, first_sequence)]

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview | pa.Buffer) -> ChangeEvent:
        """The event that `to_bytes` wrote; damaged bytes are `DamagedBytes`, never another event."""
        return event_bytes.from_bytes(data, Kind.EVENT, lambda _, stored: ChangeEvent._from_stored(stored[0]))

    @property
    def timestamp(self) -> int:
        """When it happened, as the source counts time."""
        return self._timestamp

    @property
    def sequence(self) -> int | None:
        """Its number at the source; None for a watermark and a snapshot."""
        return None

    @property
    def row_count(self) -> int:
        """How many rows it carries; an update counts its new side."""
        batches = self._batches
        return int(batches[-1].num_rows) if batches else 0

    @property
    def has_data(self) -> bool:
        """Whether it carries rows; only a watermark does not."""
        return self.event_type.has_data

    @property
    def _batches(self) -> tuple[pa.RecordBatch, ...]:
        return ()

    def clone(self: E) -> E:
        """The event again, sharing every buffer. O(1): nothing can change it, so it is the same object."""
        return self

    __copy__ = clone

    def __deepcopy__(self: E, memo: dict[int, Any]) -> E:
        return self

    def to_zset(self) -> ZSet:
        """The event as changes. Refused for a watermark, which has neither rows nor columns.

        >>> old, new = pa.record_batch({"id": [1]}), pa.record_batch({"id": [2]})
        >>> ChangeEvent.update(old, new, timestamp=0, sequence=1).to_zset()
        ZSet(2 rows: −1 (id=1), +1 (id=2))
        """
        batches = self._batches
        if not batches:
            raise InvalidArgument(
                "a watermark has no rows", subject="ChangeEvent.to_zset", hint="Ask has_data first."
            )
        check_user_schema(batches[0].schema, "ChangeEvent.to_zset")
        signs = (-1, 1) if self.event_type is EventType.UPDATE else (self.event_type.weight,)
        sides = zip(batches, signs, strict=True)
        return ZSet.concat([ZSet(side, np.full(side.num_rows, sign, np.int64)) for side, sign in sides])

    def to_bytes(self) -> bytes:
        """The event as checked, versioned bytes; `penstock.changes.event_bytes` tells the format.

        >>> event = ChangeEvent.snapshot(pa.record_batch({"id": [1]}), timestamp=9)
        >>> ChangeEvent.from_bytes(event.to_bytes()) == event
        True
        """
        return event_bytes.to_bytes(Kind.EVENT, "", [self._stored])

    @property
    def _stored(self) -> StoredEvent:
        return StoredEvent(self.event_type, self._timestamp, self.sequence, self._batches)

    @staticmethod
    def _from_stored(stored: StoredEvent) -> ChangeEvent:
        numbers = (stored.timestamp,) if stored.sequence is None else (stored.timestamp, stored.sequence)
        event: ChangeEvent = _VARIANTS[stored.event_type](*stored.batches, *numbers)
        return event

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChangeEvent):
            return NotImplemented
        return (
            self.event_type is other.event_type
            and self._timestamp == other._timestamp
            and self.sequence == other.sequence
            and all(_same(a, b) for a, b in zip(self._batches, other._batches, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.event_type, self._timestamp, self.sequence, self.row_count))

    def __repr__(self) -> str:
        number = "" if self.sequence is None else f"sequence={self.sequence}, "
        shown = " → ".join(_show(batch) for batch in self._batches)
        count = f", {self.row_count} {'row' if self.row_count == 1 else 'rows'}" if self.has_data else ""
        return f"{type(self).__name__}({number}timestamp={self.timestamp}{count}{': ' * bool(shown)}{shown})"


class _Rows(ChangeEvent):
    """One batch: what all variants but `Update` and `Watermark` have in common."""

    __slots__ = ("_data",)
    _data: pa.RecordBatch

    @property
    def data(self) -> pa.RecordBatch:
        """The rows."""
        return self._data

    @property
    def _batches(self) -> tuple[pa.RecordBatch, ...]:
        return (self._data,)


class _Change(_Rows):
    """One batch with a place in the source's order: what `Insert` and `Delete` have in common."""

    __slots__ = ("_sequence",)
    __match_args__ = ("data", "timestamp", "sequence")

    def __init__(self, data: pa.RecordBatch, timestamp: int, sequence: int) -> None:
        self._data = _batch(data, "data")
        self._timestamp = _integer(timestamp, -(2**63), 2**63 - 1, "timestamp")
        self._sequence = _integer(sequence, 0, 2**64 - 1, "sequence")

    @property
    def sequence(self) -> int:
        return self._sequence


class Insert(_Change):
    """Rows that are new."""

    __slots__ = ()
    event_type = EventType.INSERT


class Delete(_Change):
    """Rows that are gone."""

    __slots__ = ()
    event_type = EventType.DELETE


class Update(ChangeEvent):
    """Rows that changed: row i of ``old`` became row i of ``new``; columns and row counts agree."""

    __slots__ = ("_new", "_old", "_sequence")
    __match_args__ = ("old", "new", "timestamp", "sequence")
    event_type = EventType.UPDATE

    def __init__(self, old: pa.RecordBatch, new: pa.RecordBatch, timestamp: int, sequence: int) -> None:
        self._old = _batch(old, "old")
        self._new = _batch(new, "new")
        self._timestamp = _integer(timestamp, -(2**63), 2**63 - 1, "timestamp")
        self._sequence = _integer(sequence, 0, 2**64 - 1, "sequence")
        rows.check_same_schema(old.schema, new.schema, "ChangeEvent.update")
        if old.num_rows != new.num_rows:
            raise InvalidArgument(
                f"there are {old.num_rows} old rows and {new.num_rows} new ones",
                subject="ChangeEvent.update",
                hint="Pair them row by row; what has no partner is an insert or a delete.",
            )

    @property
    def old(self) -> pa.RecordBatch:
        """The rows as they were."""
        return self._old

    @property
    def new(self) -> pa.RecordBatch:
        """The rows as they are now."""
        return self._new

    @property
    def sequence(self) -> int:
        return self._sequence

    @property
    def _batches(self) -> tuple[pa.RecordBatch, ...]:
        return (self._old, self._new)


class Watermark(ChangeEvent):
    """The promise that nothing older than ``timestamp`` will come, except as late data."""

    __slots__ = ()
    __match_args__ = ("timestamp",)
    event_type = EventType.WATERMARK

    def __init__(self, timestamp: int) -> None:
        self._timestamp = _integer(timestamp, -(2**63), 2**63 - 1, "timestamp")


class Snapshot(_Rows):
    """The state from which the changes that follow go on."""

    __slots__ = ()
    __match_args__ = ("data", "timestamp")
    event_type = EventType.SNAPSHOT

    def __init__(self, data: pa.RecordBatch, timestamp: int) -> None:
        self._data = _batch(data, "data")
        self._timestamp = _integer(timestamp, -(2**63), 2**63 - 1, "timestamp")


_VARIANTS: dict[EventType, Any] = {
    kind.event_type: kind for kind in (Insert, Delete, Update, Watermark, Snapshot)
}
_OF_OP: tuple[type[Insert | Delete], ...] = tuple(Insert if op.is_insert else Delete for op in Op)


def _batch(data: Any, what: str) -> pa.RecordBatch:
    if isinstance(data, pa.RecordBatch):
        return data
    raise InvalidArgument(
        f"{what} is a {type(data).__name__}",
        subject="ChangeEvent",
        hint="Give a pyarrow RecordBatch; of a Table, table.combine_chunks().to_batches() gives them.",
    )


def _integer(value: Any, low: int, high: int, what: str) -> int:
    """NumPy's integers are taken too: they come out of columns."""
    if type(value) is int and low <= value <= high:
        return value
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidArgument(
            f"the {what} is {value!r}", subject="ChangeEvent", hint=f"Give an integer from {low} to {high}."
        )
    return number


def _copies(data: pa.RecordBatch, count: int) -> pa.RecordBatch:
    if data.num_rows * count > _MOST_ROWS:
        raise InvalidArgument(
            f"a weight of {count} makes {data.num_rows * count} rows of {data.num_rows}",
            subject="ChangeEvent.from_changelog_record",
            hint="Keep such changes as a ZSet, whose weights cost nothing.",
        )
    return pickable_rows(data).take(pa.array(np.repeat(np.arange(data.num_rows), count)))


def _same(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    if left is right:
        return True
    if left.num_rows != right.num_rows or left.schema.names != right.schema.names:
        return False
    if left.schema.types != right.schema.types:
        return False
    # Arrow's own comparison is quicker, but knows several NaNs and zeros.
    return left.equals(right) or bool(rows.same_rows(left.columns, right.columns, left.num_rows).all())


def _show(batch: pa.RecordBatch, most: int = 3) -> str:
    rows = [shown_row(batch, row) for row in range(min(batch.num_rows, most))]
    return ", ".join(rows + [f"… {batch.num_rows - most} more"] * (batch.num_rows > most))
