"""`EmitStrategy`: when a windowed result is told, and so whether it may ever be taken back."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from penstock.errors import AppendOnly, InvalidArgument

__all__ = ["EmitKind", "EmitStrategy"]


class EmitKind(StrEnum):
    """The six answers to "when?", as SQL spells them after EMIT."""

    ON_WATERMARK = "ON WATERMARK"
    """When the watermark passes the window's end; again, as −old +new, when a late row changes it."""
    EVERY = "EVERY"
    """What has changed since the last time, once per interval."""
    ON_UPDATE = "ON UPDATE"
    """After every change, as −old +new."""
    ON_WINDOW_CLOSE = "ON WINDOW CLOSE"
    """Once, when the window's end and its allowed lateness have passed."""
    CHANGES = "CHANGES"
    """Every change as it is, with its weight."""
    FINAL = "FINAL"
    """Once, when nothing can change it any more; all that lies between is kept back."""


@dataclass(frozen=True, slots=True)
class EmitStrategy:
    """When results are told. ``interval`` is how often, and only for ``EVERY``.

    >>> EmitStrategy.every(dt.timedelta(seconds=5)).sql
    "EMIT EVERY INTERVAL '5' SECOND"
    >>> EmitStrategy(EmitKind.FINAL).is_append_only, EmitStrategy(EmitKind.ON_UPDATE).is_append_only
    (True, False)
    """

    kind: EmitKind
    interval: dt.timedelta | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, EmitKind):
            raise InvalidArgument(
                f"the strategy is {self.kind!r}",
                subject="EmitStrategy",
                hint=f"Use a member of EmitKind: {', '.join(EmitKind)}.",
            )
        timed = isinstance(self.interval, dt.timedelta) and self.interval > dt.timedelta(0)
        if not (timed if self.kind is EmitKind.EVERY else self.interval is None):
            raise InvalidArgument(
                f"{self.kind} comes with the interval {self.interval!r}",
                subject="EmitStrategy",
                hint="EVERY has an interval of more than nothing; the others have none.",
            )

    @classmethod
    def every(cls, interval: dt.timedelta) -> EmitStrategy:
        """Once per interval."""
        return cls(EmitKind.EVERY, interval)

    @property
    def is_append_only(self) -> bool:
        """Whether what is told is never taken back."""
        return self.kind in (EmitKind.ON_WINDOW_CLOSE, EmitKind.FINAL)

    @property
    def sql(self) -> str:
        """The clause that says so."""
        if self.interval is None:
            return f"EMIT {self.kind}"
        seconds, micros = divmod(self.interval // dt.timedelta(microseconds=1), 10**6)
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        return f"EMIT {self.kind} INTERVAL '{seconds}{fraction}' SECOND"

    def check_append_only(self, subject: str) -> None:
        """Refuse, before the first row, to feed a sink that only appends with what may be taken back."""
        if not self.is_append_only:
            raise AppendOnly(
                f"{self.sql} takes results back when they change",
                subject=subject,
                hint="Use EMIT ON WINDOW CLOSE or EMIT FINAL, or a sink that takes deletes.",
            )
