"""How a log is kept: options that check themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from penstock.errors import InvalidArgument

__all__ = ["Fsync", "LogOptions"]

Fsync = Literal["always", "interval", "never"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Durability, segment size and retention of a log.

    * ``fsync="always"``: an append returns when its events survive a loss of power; appends at the same time
      share one sync. ``"interval"``: they survive a killed process at once, and a loss of power after
      ``interval``. ``"never"``: the operating system decides.
    * ``retain_bytes``, ``retain_age``, ``retain_events``: segments wholly beyond any of these limits are
      dropped when the log is opened, when it rolls to a new segment, and by `Log.retain`. The newest
      transaction always stays. What a cursor may then no longer read is told by `CursorExpired`.

    >>> LogOptions(fsync="sometimes")
    Traceback (most recent call last):
    ...
    penstock.errors.InvalidArgument: [invalid-argument] LogOptions: fsync is 'sometimes'. Use "always", ...
    """

    fsync: Fsync = "interval"
    interval: timedelta = timedelta(milliseconds=100)
    segment_bytes: int = 64 << 20
    ring_bytes: int = 32 << 20
    retain_bytes: int | None = None
    retain_age: timedelta | None = None
    retain_events: int | None = None

    def __post_init__(self) -> None:
        if self.fsync not in ("always", "interval", "never"):
            raise _wrong(f"fsync is {self.fsync!r}", 'Use "always", "interval" or "never".')
        if self.interval <= timedelta(0):
            raise _wrong(f"interval is {self.interval}", "Give a time greater than 0.")
        if self.segment_bytes < 1 << 12:
            raise _wrong(f"segment_bytes is {self.segment_bytes}", "Give 4,096 or more.")
        if self.ring_bytes < 0:
            raise _wrong(f"ring_bytes is {self.ring_bytes}", "Give 0 or more.")
        if self.retain_bytes is not None and self.retain_bytes < 0:
            raise _wrong(f"retain_bytes is {self.retain_bytes}", "Give 0 or more, or None to keep all.")
        if self.retain_age is not None and self.retain_age < timedelta(0):
            raise _wrong(f"retain_age is {self.retain_age}", "Give 0 or more, or None to keep all.")
        if self.retain_events is not None and self.retain_events < 0:
            raise _wrong(f"retain_events is {self.retain_events}", "Give 0 or more, or None to keep all.")

    @property
    def retains_all(self) -> bool:
        """Whether nothing is ever dropped unless somebody asks for it."""
        return self.retain_bytes is None and self.retain_age is None and self.retain_events is None


def _wrong(what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(what, subject="LogOptions", hint=hint)
