"""A changelog: single changes for people (`ChangelogRecord`), and references to them for the hot path.

A `ChangelogRef` says *which row of which batch* changed and by how much, so a changelog of a million
rows is one NumPy array of 12-byte references beside batches that nobody copies. `ChangelogBuffer`
keeps such references between the step that makes them and the step that takes them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.changes.op import Op
from penstock.errors import InvalidArgument

__all__ = [
    "CHANGELOG_DTYPE",
    "OP_WEIGHTS",
    "ChangelogBuffer",
    "ChangelogRecord",
    "ChangelogRef",
    "changelog_refs",
]

T = TypeVar("T")
Refs = npt.NDArray[np.void]

CHANGELOG_DTYPE = np.dtype(
    {
        "names": ["batch_offset", "row_index", "weight", "op"],
        "formats": ["<u4", "<u4", "<i2", "u1"],
        "offsets": [0, 4, 8, 10],
        "itemsize": 12,
    }
)
"""A `ChangelogRef` in memory: 12 bytes, little-endian, the last one unused."""

OP_WEIGHTS = np.array([op.weight for op in Op], np.int16)
"""The weight of each operation, by its number: ``OP_WEIGHTS[ops]`` for a column of them."""
OP_WEIGHTS.flags.writeable = False

_LAYOUT = struct.Struct("<IIhBx")
_WORDS = CHANGELOG_DTYPE.itemsize // 4


@dataclass(frozen=True, slots=True)
class ChangelogRecord(Generic[T]):
    """One change: ``weight`` copies of ``data`` are added, or taken away when it is negative.

    ``op`` says what kind of change it was; its sign and the weight's agree, and a weight of 0 is
    no change at all.

    >>> old, new = ChangelogRecord.retraction("ada: 10.00", "ada: 12.50", timestamp=3_000)
    >>> old.weight, old.op.short, new.weight, new.op.short
    (-1, '-U', 1, '+U')
    """

    data: T
    weight: int
    timestamp: int
    op: Op

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", _op(self.op))
        _check_int64(self.weight, "weight")
        _check_int64(self.timestamp, "timestamp")
        if self.weight and (self.weight > 0) is not self.op.is_insert:
            raise InvalidArgument(
                f"the weight {self.weight} and the operation {self.op.short} contradict each other",
                subject="ChangelogRecord",
                hint="+I and +U add (weight > 0); -D and -U take away (weight < 0).",
            )

    @classmethod
    def insert(cls, data: T, timestamp: int) -> ChangelogRecord[T]:
        """One copy of ``data`` is added."""
        return cls(data, 1, timestamp, Op.INSERT)

    @classmethod
    def delete(cls, data: T, timestamp: int) -> ChangelogRecord[T]:
        """One copy of ``data`` is taken away."""
        return cls(data, -1, timestamp, Op.DELETE)

    @classmethod
    def retraction(cls, old: T, new: T, timestamp: int) -> tuple[ChangelogRecord[T], ChangelogRecord[T]]:
        """An update, as the pair it is: ``old`` is taken away, then ``new`` is added."""
        return cls(old, -1, timestamp, Op.UPDATE_BEFORE), cls(new, 1, timestamp, Op.UPDATE_AFTER)

    @property
    def is_insert(self) -> bool:
        """Whether it adds: ``weight > 0``."""
        return self.weight > 0

    @property
    def is_delete(self) -> bool:
        """Whether it takes away: ``weight < 0``. A weight of 0 does neither."""
        return self.weight < 0


class ChangelogRef(NamedTuple):
    """One reference, for people: row ``row_index`` of batch ``batch_offset`` changed by ``weight``.

    In bulk the same four live in an array of `CHANGELOG_DTYPE`; see `changelog_refs`.
    """

    batch_offset: int
    row_index: int
    weight: int
    op: Op

    @classmethod
    def from_record(cls, record: np.void) -> ChangelogRef:
        """One element of an array of `CHANGELOG_DTYPE`.

        >>> refs = changelog_refs([Op.UPDATE_BEFORE, Op.UPDATE_AFTER], batch_offset=7)
        >>> ChangelogRef.from_record(refs[1])
        ChangelogRef(batch_offset=7, row_index=1, weight=1, op=<Op.UPDATE_AFTER: 2>)
        """
        batch_offset, row_index, weight, op = record.item()
        return cls(batch_offset, row_index, weight, _op(op))


def changelog_refs(
    ops: npt.ArrayLike,
    *,
    batch_offset: npt.ArrayLike,
    row_index: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
) -> Refs:
    """References to many rows at once, one per operation. O(rows), a few passes of NumPy.

    ``batch_offset`` is one number or one per row. Rows are numbered from 0 and weights are those of
    the operations, unless given.

    >>> changelog_refs([0, 3], batch_offset=4)[["row_index", "weight"]].tolist()
    [(0, 1), (1, -1)]
    """
    codes = _integers(ops, 0, len(Op) - 1, "operations")
    if codes.ndim != 1:
        raise InvalidArgument(
            f"the operations have {codes.ndim} dimensions",
            subject="changelog_refs",
            hint="Give one operation per row, in one dimension.",
        )
    count = len(codes)
    refs: Refs = np.zeros(count, CHANGELOG_DTYPE)
    refs["op"] = codes
    refs["batch_offset"] = _fit(_integers(batch_offset, 0, 2**32 - 1, "batch offsets"), count)
    if row_index is None:
        refs["row_index"] = np.arange(count, dtype=np.uint32)
    else:
        refs["row_index"] = _fit(_integers(row_index, 0, 2**32 - 1, "row indexes"), count)
    if weights is None:
        refs["weight"] = OP_WEIGHTS[codes]
    else:
        refs["weight"] = _fit(_integers(weights, -(2**15), 2**15 - 1, "weights"), count)
    return refs


class ChangelogBuffer:
    """References waiting to be taken, in memory that is allocated once.

    Law: what is drained is what was pushed and accepted, in order; a push that is refused changes
    nothing. ``False`` (or fewer taken than given) is backpressure: drain, then push the rest again.
    State: two arrays of ``capacity`` references that change places at every `drain`.
    Cost: pushing many is one copy of memory; draining is O(1) and hands out the array itself.
    One thread at a time: it is the private buffer of one step.

    >>> buffer = ChangelogBuffer(capacity=3)
    >>> buffer.push(ChangelogRef(0, 5, 1, Op.INSERT))
    True
    >>> buffer.push_many(changelog_refs([Op.DELETE] * 9, batch_offset=1))
    2
    >>> buffer.push(ChangelogRef(0, 6, 1, Op.INSERT))
    False
    >>> buffer.drain()["row_index"].tolist(), len(buffer)
    ([5, 0, 1], 0)
    """

    __slots__ = ("_bytes", "_capacity", "_length", "_refs", "_words")

    def __init__(self, capacity: int) -> None:
        if capacity < 0:
            raise InvalidArgument(
                f"capacity is {capacity}", subject="ChangelogBuffer", hint="Give 0 or more."
            )
        # The first array is the one being filled, the second the one drained last.
        self._refs = [np.zeros(capacity, CHANGELOG_DTYPE) for _ in range(2)]
        # NumPy copies records field by field (13 ns each); as plain words they are one memcpy (0.1 ns).
        self._words = [refs.view(np.uint32) for refs in self._refs]
        self._bytes = [refs.view(np.uint8).data for refs in self._refs]
        self._capacity = capacity
        self._length = 0

    @property
    def capacity(self) -> int:
        """How many references it can hold."""
        return self._capacity

    @property
    def is_empty(self) -> bool:
        """Whether nothing is waiting."""
        return self._length == 0

    def __len__(self) -> int:
        return self._length

    def push(self, ref: ChangelogRef) -> bool:
        """Take one reference, or answer False when full."""
        packed = _pack(ref)
        if self._length == self._capacity:
            return False
        self._put(packed)
        return True

    def push_retraction(self, before: ChangelogRef, after: ChangelogRef) -> bool:
        """Take the two sides of an update: both, or neither when there is no room for both."""
        if before.op != Op.UPDATE_BEFORE or after.op != Op.UPDATE_AFTER:
            raise InvalidArgument(
                f"the pair is {_op(before.op).short}, {_op(after.op).short}",
                subject="ChangelogBuffer.push_retraction",
                hint="Give the -U side first and the +U side second.",
            )
        first, second = _pack(before), _pack(after)
        if self._length + 2 > self._capacity:
            return False
        self._put(first)
        self._put(second)
        return True

    def push_many(self, refs: Refs) -> int:
        """Take as many as there is room for, from the front, and say how many that were.

        A -U is never taken without the +U that follows it: nobody drains half an update.
        """
        if refs.dtype != CHANGELOG_DTYPE or refs.ndim != 1:
            raise InvalidArgument(
                f"an array of {refs.dtype} with {refs.ndim} dimensions is not one of references",
                subject="ChangelogBuffer.push_many",
                hint="Make it with changelog_refs, or with the dtype CHANGELOG_DTYPE.",
            )
        taken = min(len(refs), self._capacity - self._length)
        if 0 < taken < len(refs):
            edge = refs["op"][taken - 1 : taken + 1]
            taken -= bool(edge[0] == Op.UPDATE_BEFORE and edge[1] == Op.UPDATE_AFTER)
        start = self._length * _WORDS
        given = np.ascontiguousarray(refs[:taken]).view(np.uint32)
        self._words[0][start : start + taken * _WORDS] = given
        self._length += taken
        return taken

    def drain(self) -> Refs:
        """Everything pushed since the last drain, as a read-only array of `CHANGELOG_DTYPE`.

        The array is the buffer's own memory: it stays as it is while you push, **until the next
        drain**. Copy it to keep it longer.
        """
        drained = self._refs[0][: self._length]
        drained.flags.writeable = False
        for pair in (self._refs, self._words, self._bytes):
            pair.reverse()
        self._length = 0
        return drained

    def _put(self, packed: bytes) -> None:
        start = self._length * CHANGELOG_DTYPE.itemsize
        self._bytes[0][start : start + CHANGELOG_DTYPE.itemsize] = packed
        self._length += 1


def _pack(ref: ChangelogRef) -> bytes:
    try:
        return _LAYOUT.pack(ref.batch_offset, ref.row_index, ref.weight, _op(ref.op))
    except struct.error:
        raise InvalidArgument(
            f"{ref} does not fit its layout",
            subject="ChangelogRef",
            hint="batch_offset and row_index have 32 bits without sign, weight has 16 with sign.",
        ) from None


def _op(value: int) -> Op:
    if type(value) is Op:
        return value
    try:
        return Op(value)
    except ValueError:
        raise InvalidArgument(
            f"{value!r} is not the number of an operation",
            subject="Op",
            hint="Use 0 to 3, or a member of Op.",
        ) from None


def _integers(values: npt.ArrayLike, low: int, high: int, what: str) -> npt.NDArray[np.integer[Any]]:
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu" or int(array.min()) < low or int(array.max()) > high:
        raise InvalidArgument(
            f"the {what} are not all integers from {low} to {high}",
            subject="changelog_refs",
            hint="Give an array of integers in that range.",
        )
    return array


def _fit(array: npt.NDArray[np.integer[Any]], count: int) -> npt.NDArray[np.integer[Any]]:
    if array.ndim and array.shape != (count,):
        raise InvalidArgument(
            f"there are {count} operations and values of shape {array.shape}",
            subject="changelog_refs",
            hint="Give one value for all, or exactly one per operation.",
        )
    return array


def _check_int64(value: int, what: str) -> None:
    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise InvalidArgument(
            f"the {what} {value!r} is not a 64-bit integer",
            subject="ChangelogRecord",
            hint="Give an int between -2**63 and 2**63 - 1.",
        )
