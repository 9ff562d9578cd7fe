"""What `decode` gives back: rows in Arrow, collection by collection, and the other events beside them.

A topic, or a whole database's stream, mixes events of many tables with transactions' ends, truncates and
tombstones. A sink wants each table's rows as columns; a feed wants everything in order. So rows are gathered
by collection (`RowEvents`), every part knows the numbers of its messages (``index``), and `Decoded.in_order`
cuts the parts back into runs in the order of the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.messages import Kind
from penstock.changes.debezium.positions import Collection
from penstock.changes.names import LSN, META_FIELDS, OP, TS, WEIGHT, check_user_schema
from penstock.changes.op import Op
from penstock.errors import Unsupported

__all__ = ["Decoded", "Part", "RowEvents", "Tombstones"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowEvents:
    """Inserts, updates, deletes and snapshot reads of one collection, one row each, in message order.

    * ``index``: the number of the message. ``op``: ``c``, ``u``, ``d`` or ``r``.
    * ``before``, ``after``: the images, with ``schema``'s columns, all nullable; where ``has_before`` or
      ``has_after`` is false the row is NULL throughout and means nothing.
    * ``key_only``: the before image holds nothing but the key, or cannot be told from one that does. Under
      PostgreSQL's REPLICA IDENTITY DEFAULT a delete has such an image: its other columns are NULL, their
      declared default, or zero where NULL is not allowed, and none of that was in the row.
    * ``key``: the message keys, NULL where a message had none; None when no keys were given to `decode`.
    * ``unavailable``, ``before_unavailable``: by column, where the source did not send the value because an
      update left it unchanged. The cell is NULL, and NULL is not its value.
    * ``position``: where in the source the event stands, as `positions.POSITION` lists it.
    """

    collection: Collection
    schema: pa.Schema
    index: Int64s
    op: pa.Array
    before: pa.RecordBatch
    after: pa.RecordBatch
    has_before: Bools
    has_after: Bools
    key_only: Bools
    key: pa.RecordBatch | None
    unavailable: Mapping[str, Bools]
    before_unavailable: Mapping[str, Bools]
    position: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.index)

    @property
    def before_unknown(self) -> Bools:
        """Updates that came without their old row. They are no inserts: the row was there."""
        updates: Bools = pc.equal(self.op, "u").to_numpy(zero_copy_only=False)
        return updates & ~self.has_before

    @property
    def known(self) -> Bools:
        """Events that tell their change as a Z-set: the whole old row and the whole new one, if there are."""
        whole = self.has_before & ~self.key_only & ~_any(self.before_unavailable, len(self))
        deletes: Bools = pc.equal(self.op, "d").to_numpy(zero_copy_only=False)
        updates: Bools = pc.equal(self.op, "u").to_numpy(zero_copy_only=False)
        # What an update left unchanged is in the old row, when that is whole.
        sent = ~_any(self.unavailable, len(self))
        known: Bools = np.where(deletes | updates, whole, sent)
        return known

    def where(self, mask: Bools) -> RowEvents:
        """The events for which the mask is true."""
        chosen = np.asarray(mask, np.bool_)
        return self._picked(lambda array: array[chosen], lambda data: data.filter(pa.array(chosen)))

    def slice(self, start: int, length: int) -> RowEvents:
        """Some events in a row, without copying."""
        end = start + length
        return self._picked(lambda array: array[start:end], lambda data: data.slice(start, length))

    def _picked(self, numpy: Any, arrow: Any) -> RowEvents:
        return replace(
            self,
            index=numpy(self.index),
            op=arrow(self.op),
            before=arrow(self.before),
            after=arrow(self.after),
            has_before=numpy(self.has_before),
            has_after=numpy(self.has_after),
            key_only=numpy(self.key_only),
            key=None if self.key is None else arrow(self.key),
            unavailable=_masks(self.unavailable, numpy),
            before_unavailable=_masks(self.before_unavailable, numpy),
            position=arrow(self.position),
        )

    def changes(self) -> pa.RecordBatch:
        """The events as a batch of changes: the columns, ``_op``, ``_weight``, and ``_lsn``, ``_ts`` if told.

        Law: an insert or read is +1, a delete −1, an update −1 of its old row directly followed by +1 of its
        new one. `encode` takes such a batch.
        Raises `Unsupported` unless all events are `known`: choose them with ``where(events.known)``, and
        bring the others through a keyed table, which knows the old rows.
        """
        unknown = ~self.known
        if unknown.any():
            raise Unsupported(
                f"{int(unknown.sum())} of {len(self)} events do not tell their whole change, "
                f"message {int(self.index[unknown.argmax()])} for one",
                subject=self.collection.id,
                hint="Bring them through a keyed table, or set REPLICA IDENTITY FULL on the source's table "
                "and say so with replica_identity='full'.",
            )
        check_user_schema(self.schema, self.collection.id)
        op = self.op
        first = pc.if_else(pc.equal(op, "d"), int(Op.DELETE), int(Op.INSERT))
        first = pc.if_else(pc.equal(op, "u"), int(Op.UPDATE_BEFORE), first).to_numpy()
        event = np.repeat(np.arange(len(self)), 1 + (first == Op.UPDATE_BEFORE))
        again = np.zeros(len(event), np.bool_)
        again[1:] = event[1:] == event[:-1]
        ops = np.where(again, Op.UPDATE_AFTER, first[event]).astype(np.int8)
        from_before = (ops == Op.UPDATE_BEFORE) | (ops == Op.DELETE)
        rows = pa.array(np.where(from_before, event, event + len(self)))
        columns = []
        for number, field in enumerate(self.schema):
            old, new = self.before.column(number), self.after.column(number)
            if field.name in self.unavailable:
                new = pc.if_else(pa.array(self.unavailable[field.name]), old, new)
            columns.append(pa.concat_arrays([old, new]).take(rows))
        weights = np.where(from_before, -1, 1).astype(np.int64)
        told = self.position.take(pa.array(event))
        meta = {OP: pa.array(ops), WEIGHT: pa.array(weights), LSN: told.column("lsn"), TS: told.column("ts")}
        extra = [field for field in META_FIELDS if not meta[field.name].null_count]
        return pa.RecordBatch.from_arrays(
            [*columns, *(meta[field.name] for field in extra)], schema=pa.schema([*self.schema, *extra])
        )


def _any(masks: Mapping[str, Bools], length: int) -> Bools:
    found = np.zeros(length, np.bool_)
    for mask in masks.values():
        found |= mask
    return found


def _masks(masks: Mapping[str, Bools], pick: Any) -> dict[str, Bools]:
    picked = {name: pick(mask) for name, mask in masks.items()}
    return {name: mask for name, mask in picked.items() if mask.any()}


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Messages without a value: all earlier messages of the key may be forgotten.

    They follow deletes. Where a compacted topic has lost the delete, a tombstone alone says that the key is
    gone. ``key`` is None when no keys were given to `decode`, or when these have none.
    """

    index: Int64s
    key: pa.RecordBatch | None

    def __len__(self) -> int:
        return len(self.index)

    def slice(self, start: int, length: int) -> Tombstones:
        """Some tombstones in a row, without copying."""
        key = None if self.key is None else self.key.slice(start, length)
        return Tombstones(self.index[start : start + length], key)


Part: TypeAlias = RowEvents | Tombstones | pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Decoded:
    """All that some messages said. ``kinds[i]`` is the `Kind` of message i.

    ``rows`` has one part per collection, in order of first appearance (two, if some of a collection's
    messages carry their schema and some do not); ``tombstones`` one per form of key. The others are record
    batches with the columns that `notices` lists.
    """

    kinds: npt.NDArray[np.int8]
    rows: tuple[RowEvents, ...]
    tombstones: tuple[Tombstones, ...]
    truncates: pa.RecordBatch
    logical: pa.RecordBatch
    transactions: pa.RecordBatch
    schema_changes: pa.RecordBatch
    heartbeats: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.kinds)

    def in_order(self) -> Iterator[tuple[Kind, Part]]:
        """Everything in the order of the messages, cut into the longest runs of one part.

        Cost: O(messages) in NumPy, then one slice per run.
        """
        if not len(self):
            return
        notices = (
            (Kind.TRUNCATE, self.truncates),
            (Kind.LOGICAL, self.logical),
            (Kind.TRANSACTION, self.transactions),
            (Kind.SCHEMA_CHANGE, self.schema_changes),
            (Kind.HEARTBEAT, self.heartbeats),
        )
        parts: list[tuple[Kind, Part, Int64s]] = [(Kind.ROW, part, part.index) for part in self.rows]
        parts += [(Kind.TOMBSTONE, part, part.index) for part in self.tombstones]
        parts += [
            (kind, batch, batch.column("index").to_numpy()) for kind, batch in notices if batch.num_rows
        ]
        owner = np.empty(len(self), np.int64)
        place = np.empty(len(self), np.int64)
        for number, (_, _, index) in enumerate(parts):
            owner[index] = number
            place[index] = np.arange(len(index))
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(self)], strict=True):
            kind, part, _ = parts[owner[start]]
            yield kind, part.slice(int(place[start]), end - start)
