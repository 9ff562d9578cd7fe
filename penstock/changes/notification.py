"""`NotificationRef`: that something happened, in 64 bytes without its rows; and the ring they pass through.

A producer that must not wait says "event 17 of source 3, two rows, at offset 4096" and goes on. Whoever
delivers events drains these in bulk and fetches the rows. Each reference fills one cache line, alone, so
that writing one never disturbs the reader of its neighbour.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.changes.op import EventType
from penstock.errors import InvalidArgument

__all__ = [
    "CACHE_LINE",
    "NOTIFICATION_DTYPE",
    "Gaps",
    "NotificationRef",
    "NotificationRing",
    "aligned_refs",
    "gaps",
]

Refs = npt.NDArray[np.void]
UInt64s = npt.NDArray[np.uint64]

CACHE_LINE = 64
NOTIFICATION_DTYPE = np.dtype(
    {
        "names": ["sequence", "source_id", "event_type", "row_count", "timestamp", "batch_offset"],
        "formats": ["<u8", "<u4", "u1", "<u4", "<i8", "<u8"],
        "offsets": [0, 8, 12, 16, 24, 32],
        "itemsize": CACHE_LINE,
    }
)
"""A `NotificationRef` in memory: little-endian, each number at a multiple of its size, 24 bytes unused."""

_LAYOUT = struct.Struct("<QIB3xI4xqQ")
_EVENT_TYPES = len(EventType)


@dataclass(frozen=True, slots=True)
class NotificationRef:
    """One reference, for people; in bulk they are arrays of `NOTIFICATION_DTYPE`.

    >>> refs = aligned_refs(1)
    >>> refs[0] = (17, 3, EventType.UPDATE, 2, 1_000, 4_096)
    >>> NotificationRef.from_record(refs[0]) == NotificationRef(17, 3, EventType.UPDATE, 2, 1_000, 4_096)
    True
    """

    sequence: int
    """Its number in the ring (64 bits): what is missing between two of them was dropped."""
    source_id: int
    """The source's number in its registry (32 bits)."""
    event_type: EventType
    row_count: int
    """How many rows are concerned (32 bits)."""
    timestamp: int
    batch_offset: int
    """Where the rows are in their source's own storage (64 bits)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "event_type", _event_type(self.event_type))
        try:
            _LAYOUT.pack(*self.as_tuple())
        except struct.error as error:
            raise _misfit("NotificationRef", error) from None

    @classmethod
    def from_record(cls, record: np.void) -> NotificationRef:
        """One element of an array of `NOTIFICATION_DTYPE`."""
        return cls(*record.item())

    def as_tuple(self) -> tuple[int, int, EventType, int, int, int]:
        """The values in the order of `NOTIFICATION_DTYPE`: ``refs[i] = ref.as_tuple()``."""
        return (
            self.sequence,
            self.source_id,
            self.event_type,
            self.row_count,
            self.timestamp,
            self.batch_offset,
        )


def aligned_refs(count: int) -> Refs:
    """``count`` references, all zero, in memory of their own where each begins a cache line.

    >>> refs = aligned_refs(3)
    >>> refs.itemsize, refs.ctypes.data % CACHE_LINE
    (64, 0)
    """
    refs = _aligned(count)
    refs.view(np.uint8).fill(0)
    return refs


@dataclass(frozen=True, slots=True)
class Gaps:
    """Where numbers are missing: ``sizes[i]`` of them, from ``starts[i]`` on."""

    starts: UInt64s
    sizes: UInt64s
    next_expected: int
    """The number that follows the last one seen: what to expect of the next drain."""

    @property
    def total(self) -> int:
        """How many are missing."""
        return int(self.sizes.sum())


def gaps(refs: Refs, expected: int) -> Gaps:
    """What was dropped before and between these references, whose first should be ``expected``.

    What was dropped after the last one shows with the next: until then, compare ``next_expected``
    with the ring's ``next_sequence``.

    >>> refs = aligned_refs(3)
    >>> refs["sequence"] = [4, 5, 9]
    >>> missing = gaps(refs, expected=2)
    >>> missing.starts.tolist(), missing.sizes.tolist(), missing.total, missing.next_expected
    ([2, 6], [2, 3], 5, 10)
    """
    if "sequence" not in (refs.dtype.names or ()):
        raise InvalidArgument(
            f"an array of {refs.dtype} has no sequences", subject="gaps", hint="Give what a ring drained."
        )
    if not 0 <= expected < 2**64:
        raise InvalidArgument(
            f"expected is {expected}", subject="gaps", hint="Give a sequence: 0 or more, with 64 bits."
        )
    seen: UInt64s = np.ascontiguousarray(refs["sequence"])
    due = np.empty_like(seen)
    due[:1] = expected
    np.add(seen[:-1], np.uint64(1), out=due[1:])
    if (seen < due).any():
        at = int(np.argmax(seen < due))
        raise InvalidArgument(
            f"the sequence {seen[at]} comes where {due[at]} or more is due",
            subject="gaps",
            hint="Give each drain's references once, in order, with the last call's next_expected.",
        )
    behind = np.flatnonzero(seen != due)
    following = int(seen[-1]) + 1 if len(seen) else expected
    return Gaps(due[behind], (seen - due)[behind], following)


class NotificationRing:
    """A bounded queue of references in memory that is allocated once.

    Law: every push takes the next sequence, also one that is refused because the ring is full; so the
    consumer sees each drop as a gap in the sequence, with its size (`gaps`). What is kept comes out in
    order, once. The producer never waits.
    State: ``capacity`` cache lines and three counters.
    Cost: pushing and draining many are one or two copies of memory; nothing is allocated per reference.

    One thread may push while one other drains, without a lock: the producer alone moves ``_tail``, and
    only after the lines before it are written; the consumer alone moves ``_head``, and only after it has
    copied the lines before it. The interpreter's lock makes each move one step that the other side sees
    after what went before it. (On an interpreter without that lock, or with several producers or several
    consumers, put one lock around the pushes and one around the drains: some 50 ns per call.)

    >>> ring = NotificationRing(capacity=2)
    >>> [ring.push_fields(1, EventType.INSERT, rows, 0, 0) for rows in (10, 20, 30)]
    [True, True, False]
    >>> ring.drain()["sequence"].tolist(), ring.dropped, ring.next_sequence
    ([0, 1], 1, 3)
    """

    __slots__ = (
        "_bytes",
        "_capacity",
        "_count",
        "_dropped",
        "_first",
        "_head",
        "_memory",
        "_sequences",
        "_tail",
    )

    def __init__(self, capacity: int, *, first_sequence: int = 0) -> None:
        if not 0 <= first_sequence < 2**63:
            raise InvalidArgument(
                f"first_sequence is {first_sequence}",
                subject="NotificationRing",
                hint="Give 0 or more, below 2**63: the other half of the numbers is for counting on.",
            )
        refs = aligned_refs(capacity)
        # NumPy copies records field by field (10 ns each); as plain bytes they are one memcpy (1 ns).
        self._bytes = refs.view(np.uint8)
        self._memory = self._bytes.data
        self._sequences: UInt64s = refs["sequence"]
        self._count: UInt64s = np.arange(capacity, dtype=np.uint64)
        self._capacity = capacity
        self._first = first_sequence
        self._head = 0  # drained so far: the consumer's
        self._tail = 0  # pushed so far: the producer's
        self._dropped = 0  # the producer's

    def push(self, ref: NotificationRef) -> bool:
        """Keep the reference under the next sequence (its own is ignored), or drop it: False."""
        return self.push_fields(ref.source_id, ref.event_type, ref.row_count, ref.timestamp, ref.batch_offset)

    def push_fields(
        self, source_id: int, event_type: EventType | int, row_count: int, timestamp: int, batch_offset: int
    ) -> bool:
        """`push` without making a `NotificationRef` first."""
        tail = self._tail
        full = tail - self._head >= self._capacity
        memory, at = (bytearray(CACHE_LINE), 0) if full else (self._memory, tail % self._capacity)
        if not 0 <= event_type < _EVENT_TYPES:
            _event_type(event_type)
        try:
            _LAYOUT.pack_into(
                memory,
                at * CACHE_LINE,
                self._first + tail + self._dropped,
                source_id,
                event_type,
                row_count,
                timestamp,
                batch_offset,
            )
        except struct.error as error:
            raise _misfit("NotificationRing.push", error) from None
        if full:
            self._dropped += 1
        else:
            self._tail = tail + 1
        return not full

    def push_many(self, refs: Refs) -> int:
        """Keep as many as there is room for, from the front, and say how many; the rest is dropped.

        All of them take a sequence. Their own ones are ignored, their other values are not looked at.
        """
        _check_refs(refs, "NotificationRing.push_many")
        tail, sequence = self._tail, self.next_sequence
        taken = min(len(refs), self._capacity - (tail - self._head))
        given = np.ascontiguousarray(refs[:taken]).view(np.uint8)
        done = 0
        for start, stop in self._spans(tail, taken):
            count = stop - start
            self._bytes[start * CACHE_LINE : stop * CACHE_LINE] = given[
                done * CACHE_LINE : (done + count) * CACHE_LINE
            ]
            np.add(self._count[:count], np.uint64(sequence + done), out=self._sequences[start:stop])
            done += count
        self._dropped += len(refs) - taken
        self._tail = tail + taken
        return taken

    def drain(self, most: int | None = None) -> Refs:
        """The oldest references, all or at most so many, as an array of the caller's own."""
        if most is not None and most < 0:
            raise InvalidArgument(f"most is {most}", subject="NotificationRing.drain", hint="Give 0 or more.")
        waiting = self._tail - self._head
        out = _aligned(waiting if most is None else min(most, waiting))
        self.drain_into(out)
        return out

    def drain_into(self, out: Refs) -> int:
        """Move the oldest references into ``out``, as many as fit, and say how many. Allocates nothing."""
        _check_refs(out, "NotificationRing.drain_into")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise InvalidArgument(
                "the array cannot be written in one piece",
                subject="NotificationRing.drain_into",
                hint="Give an array of its own, for instance from aligned_refs.",
            )
        head = self._head
        count = min(len(out), self._tail - head)
        target = out.view(np.uint8)
        done = 0
        for start, stop in self._spans(head, count):
            size = (stop - start) * CACHE_LINE
            target[done : done + size] = self._bytes[start * CACHE_LINE : stop * CACHE_LINE]
            done += size
        self._head = head + count
        return count

    @property
    def capacity(self) -> int:
        """How many references can wait."""
        return self._capacity

    @property
    def pushed(self) -> int:
        """How many were kept since the beginning."""
        return self._tail

    @property
    def dropped(self) -> int:
        """How many were refused because the ring was full."""
        return self._dropped

    @property
    def next_sequence(self) -> int:
        """The sequence that the next push takes."""
        return self._first + self._tail + self._dropped

    def __len__(self) -> int:
        """How many are waiting."""
        head = self._head  # first: the tail can only be ahead of a head that was read before it
        return min(self._tail - head, self._capacity)

    def _spans(self, position: int, count: int) -> tuple[tuple[int, int], ...]:
        """Where ``count`` lines from a position on lie in memory: in one piece, or two around the end."""
        if not count:
            return ()
        start = position % self._capacity
        stop = start + count
        if stop <= self._capacity:
            return ((start, stop),)
        return ((start, self._capacity), (0, stop - self._capacity))


def _aligned(count: int) -> Refs:
    if count < 0:
        raise InvalidArgument(
            f"there cannot be {count} references", subject="NotificationRing", hint="Give 0 or more."
        )
    raw = np.empty((count + 1) * CACHE_LINE, np.uint8)
    skip = -raw.ctypes.data % CACHE_LINE
    refs: Refs = raw[skip : skip + count * CACHE_LINE].view(NOTIFICATION_DTYPE)
    return refs


def _check_refs(refs: Refs, subject: str) -> None:
    if refs.dtype != NOTIFICATION_DTYPE or refs.ndim != 1:
        raise InvalidArgument(
            f"an array of {refs.dtype} with {refs.ndim} dimensions is not one of references",
            subject=subject,
            hint="Make it with aligned_refs, or with the dtype NOTIFICATION_DTYPE.",
        )


def _event_type(value: int) -> EventType:
    try:
        return EventType(value)
    except ValueError:
        raise InvalidArgument(
            f"{value!r} is not the number of a kind of event",
            subject="EventType",
            hint="Use 0 to 4, or a member of EventType.",
        ) from None


def _misfit(subject: str, error: struct.error) -> InvalidArgument:
    return InvalidArgument(
        f"a value does not fit its place: {error}",
        subject=subject,
        hint="sequence and batch_offset have 64 bits and source_id and row_count 32, all without sign; "
        "timestamp has 64 with sign.",
    )
