"""Which segments a log still keeps."""

from __future__ import annotations

from penstock.log.options import LogOptions
from penstock.log.segment import blob_name, index_name
from penstock.log.segments import Segments
from penstock.store.interface import Store

__all__ = ["dropped_before", "keep_from"]


def keep_from(store: Store, segments: Segments, options: LogOptions, time: int) -> int:
    """The first LSN that the options keep. Only whole segments are dropped, and never the one being written.

    By bytes: the oldest segments go until the rest fits. By age: those whose newest event is too old go.
    """
    firsts = segments.firsts
    if options.retain_bytes is None and options.retain_age is None:
        return firsts[0]
    sizes = []
    if options.retain_bytes is not None:
        sizes = [store.stat(blob_name(first)).size for first in firsts]
    total = sum(sizes)
    oldest_time = None
    if options.retain_age is not None:
        oldest_time = time - int(options.retain_age.total_seconds() * 1_000_000)
    for i, first in enumerate(firsts[:-1]):
        too_many = options.retain_bytes is not None and total > options.retain_bytes
        too_old = oldest_time is not None and segments.holding(first).last_time < oldest_time
        if not too_many and not too_old:
            return first
        total -= sizes[i] if sizes else 0
    return firsts[-1]


def dropped_before(segments: Segments, first_lsn: int) -> list[str]:
    """Forget the segments before this one, and name the blobs that may go."""
    gone = segments.drop_before(first_lsn)
    return [blob_name(it) for it in gone] + [index_name(it) for it in gone]
