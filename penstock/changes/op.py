"""What can happen to a row (`Op`), and what kind of event says so (`EventType`)."""

from __future__ import annotations

from enum import IntEnum

from penstock.errors import InvalidArgument

__all__ = ["EventType", "Op"]


class Op(IntEnum):
    """What one change does to one row.

    The integers are the values of the ``_op`` column and of stored formats: they never change.

    >>> [(op.short, op.weight) for op in Op]
    [('+I', 1), ('-U', -1), ('+U', 1), ('-D', -1)]
    >>> Op.from_short("-U")
    <Op.UPDATE_BEFORE: 1>
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def weight(self) -> int:
        """+1 when the row is added, −1 when it is taken away."""
        return 1 if self.is_insert else -1

    @property
    def is_insert(self) -> bool:
        """Whether the row is there afterwards: an insert, or the new side of an update."""
        return self in (Op.INSERT, Op.UPDATE_AFTER)

    @property
    def short(self) -> str:
        """The name Flink's changelogs use: ``+I``, ``-U``, ``+U``, ``-D``."""
        return _SHORT[self]

    @classmethod
    def from_short(cls, short: str) -> Op:
        """The operation with this short name; a true minus sign is understood too."""
        try:
            return _LONG[short.replace("−", "-")]
        except KeyError:
            raise InvalidArgument(
                f"{short!r} is not the short name of an operation",
                subject="Op",
                hint=f"Use one of {', '.join(_LONG)}.",
            ) from None


_SHORT = {Op.INSERT: "+I", Op.UPDATE_BEFORE: "-U", Op.UPDATE_AFTER: "+U", Op.DELETE: "-D"}
_LONG = {short: op for op, short in _SHORT.items()}


class EventType(IntEnum):
    """What kind of event happened at a source.

    The integers are part of `NotificationRef`'s layout and of stored formats: they never change.
    """

    INSERT = 0
    DELETE = 1
    UPDATE = 2
    WATERMARK = 3
    SNAPSHOT = 4

    @property
    def weight(self) -> int:
        """The weight of the rows that stay: an update counts +1, for its new side.

        As a Z-set an update is always −old +new; see `ChangeEvent.to_zset`.

        >>> [(kind.name, kind.weight) for kind in EventType]
        [('INSERT', 1), ('DELETE', -1), ('UPDATE', 1), ('WATERMARK', 0), ('SNAPSHOT', 1)]
        """
        return _WEIGHT[self]

    @property
    def has_data(self) -> bool:
        """Whether the event carries rows; only a watermark does not."""
        return self is not EventType.WATERMARK

    @classmethod
    def from_op(cls, op: Op) -> EventType:
        """The kind of event an operation is part of; both sides of an update are `UPDATE`.

        >>> EventType.from_op(Op.UPDATE_BEFORE).name
        'UPDATE'
        """
        return _FROM_OP[op]


_WEIGHT = {
    EventType.INSERT: 1,
    EventType.DELETE: -1,
    EventType.UPDATE: 1,
    EventType.WATERMARK: 0,
    EventType.SNAPSHOT: 1,
}
_FROM_OP = {
    Op.INSERT: EventType.INSERT,
    Op.UPDATE_BEFORE: EventType.UPDATE,
    Op.UPDATE_AFTER: EventType.UPDATE,
    Op.DELETE: EventType.DELETE,
}
