"""Which segments a log still keeps."""

from __future__ import annotations

from penstock.log.options import LogOptions
from penstock.log.segment import blob_name
from penstock.log.segments import Segments
from penstock.store.interface import Store

__all__ = ["droppable", "keep_from"]


def droppable(segments: Segments) -> tuple[int, ...]:
    """The segments that may be dropped, oldest first, each by its first LSN, and then the first that may not.

    That one holds the newest transaction: a copy of the log is compared with it, and a cursor's fingerprint.
    """
    firsts = segments.firsts
    return firsts[:-1] if len(firsts) > 1 and not len(segments.active) else firsts


def keep_from(store: Store, segments: Segments, options: LogOptions, time: int) -> int:
    """The first LSN that the options keep at this time. Only whole segments are dropped.

    By bytes: the oldest segments go until the rest fits. By age: those whose newest event is too old go. By
    events: those go that lie wholly before the newest so many.
    """
    firsts = droppable(segments)
    if options.retains_all:
        return firsts[0]
    sizes = []
    if options.retain_bytes is not None:
        sizes = [store.stat(blob_name(first)).size for first in segments.firsts]
    total = sum(sizes)
    oldest_time = oldest_lsn = None
    if options.retain_age is not None:
        oldest_time = time - int(options.retain_age.total_seconds() * 1_000_000)
    if options.retain_events is not None:
        oldest_lsn = segments.active.last_lsn - options.retain_events + 1
    for i, first in enumerate(firsts[:-1]):
        too_large = options.retain_bytes is not None and total > options.retain_bytes
        too_many = oldest_lsn is not None and firsts[i + 1] <= oldest_lsn
        too_old = oldest_time is not None and segments.holding(first).last_time < oldest_time
        if not too_large and not too_many and not too_old:
            return first
        total -= sizes[i] if sizes else 0
    return firsts[-1]
