"""Opening what another process left: find the last whole transaction, and cut what is torn after it.

A process may die at any byte. Frames are appended, so what it leaves is a prefix: after a killed process the
file may end within a frame or within a transaction, and that end is cut (and kept aside, under ``torn/``).
After a loss of power the tail that was never synced may hold anything.

Damage is told apart from a torn tail by what later frames say: each carries up to which byte its segment was
synced when it was written. If a whole frame after the bad place says that the bad place was synced, then
it was whole once and has been changed since: `DamagedBytes`, and nothing is cut. A log that was closed or
came to rest ends with a mark that says so of all events in it. See docs/design/log.md.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from penstock.errors import DamagedBytes, NotFound, PenstockError
from penstock.log.format import ALIGN, FRAME_BYTES, HEAD_BYTES, MAGIC, Frame, Kind, damaged
from penstock.log.segment import INDEX, SEGMENTS, Segment, blob_name, index_name, read_head
from penstock.log.walk import Walked, walk
from penstock.store.interface import Store

__all__ = ["Found", "Listed", "Listing", "check_chain", "find_end", "list_segments", "tidy", "transactions"]

_logger = logging.getLogger(__name__)
_NAME = re.compile(r"(\d{20})\.segment", re.ASCII)
_OLD = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment in the listing."""

    first_lsn: int
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The segments in order, and the names of those that retention was about to delete."""

    kept: list[Listed]
    stale: list[str]


@dataclass(frozen=True, slots=True)
class Found:
    """What is in the last segment: whole transactions up to a byte, and perhaps a torn end."""

    active: Segment
    torn_bytes: int
    marked: bool  # whether it ends with a mark: all events are known to be synced


def list_segments(store: Store, oldest_lsn: int) -> Listing:
    """What segments there are. One that lies wholly before the oldest LSN is not needed any more."""
    found = []
    for blob in store.list(SEGMENTS):
        name = _NAME.fullmatch(blob.name, len(SEGMENTS))
        if name is None:
            raise damaged(blob.name, 0, "this is not the name of a segment")
        found.append(Listed(int(name[1]), blob.size))
    if not found:
        raise NotFound(
            "the log has no segment", subject=store.url, hint="Restore the folder, or build the log anew."
        )
    stale = sum(it.first_lsn <= oldest_lsn for it in found[1:])
    kept = found[stale:]
    if kept[0].first_lsn > oldest_lsn:
        missing = f"the segment with LSN {oldest_lsn} is missing: the first begins at {kept[0].first_lsn}"
        raise damaged(SEGMENTS, 0, missing)
    return Listing(kept, [blob_name(it.first_lsn) for it in found[:stale]])


def check_chain(store: Store, listed: list[Listed], log_id: bytes) -> None:
    """Check by the seals that no segment between is missing: one read of 64 bytes and one of a head each."""
    for it, following in itertools.pairwise(listed):
        seed = read_head(store, it.first_lsn, log_id).seed
        leads_to = _seal(store, it, seed).first_lsn
        if leads_to != following.first_lsn:
            raise damaged(
                SEGMENTS,
                0,
                f"the segment from LSN {it.first_lsn} leads to {leads_to}, "
                f"but the next begins at {following.first_lsn}",
            )


def _seal(store: Store, it: Listed, seed: int) -> Frame:
    """The frame that seals a segment: its `first_lsn` is where the next segment begins."""
    name, at = blob_name(it.first_lsn), it.size - FRAME_BYTES
    if at < HEAD_BYTES:
        raise damaged(name, max(at, 0), "the segment is not sealed, and a later one follows it")
    try:
        frame = Frame.decode(store.read(name, at, FRAME_BYTES), name, at, seed)
    except DamagedBytes as error:
        raise damaged(name, at, "the segment does not end with a seal, and a later one follows it") from error
    if frame.kind is not Kind.SEAL:
        raise damaged(name, at, "the segment is not sealed, and a later one follows it")
    return frame


def find_end(store: Store, log_id: bytes, last: Listed) -> Found:
    """Take in what is whole of the last segment, bodies checked. Changes nothing."""
    active = Segment(store, read_head(store, last.first_lsn, log_id))
    size = store.stat(active.name).size
    marked = True  # an empty segment has nothing that is not synced
    for transaction in transactions(store, active, size, bodies=True):
        for it in transaction:
            active.add(it.offset, it.header, it.frame)
        marked = it.frame.kind in (Kind.MARK, Kind.SEAL)
    return Found(active, size - active.end, marked)


def transactions(store: Store, segment: Segment, size: int, *, bodies: bool) -> Iterator[list[Walked]]:
    """The whole transactions from the segment's end on; the caller adds each before asking for the next.

    Ends at what is not whole, be it torn or still being written; raises where that was whole once.
    """
    pending: list[Walked] = []
    last, time, term = segment.last_lsn, segment.last_time, segment.head.term
    for it in _whole_frames(store, segment, size, bodies):
        frame = it.frame
        wrong = None
        if frame.first_lsn != last + 1:
            wrong = f"a frame begins at LSN {frame.first_lsn} and not at {last + 1}"
        elif frame.commit_time < time or frame.term < term:
            wrong = "a frame was committed before the one before it"
        elif frame.begins == bool(pending):
            wrong = "a transaction begins within another, or in its middle"
        elif segment.sealed:
            wrong = "a frame follows the seal"
        if wrong is not None:
            raise damaged(segment.name, it.offset, wrong)
        last, time, term = frame.last_lsn, frame.commit_time, frame.term
        pending.append(it)
        if frame.ends:
            yield pending
            pending = []


def _whole_frames(store: Store, segment: Segment, size: int, bodies: bool) -> Iterator[Walked]:
    """The frames up to the end or the first bad place; raises when that place was whole once."""
    at = segment.end
    try:
        for it in walk(store, segment.name, at, size, segment.seed, bodies=bodies):
            at = it.offset + it.frame.frame_bytes
            yield it
    except DamagedBytes:
        if _synced_told_after(store, segment, at + ALIGN, size) > at:
            raise


def _synced_told_after(store: Store, segment: Segment, start: int, size: int) -> int:
    """The highest number of synced bytes that any whole header after this byte tells of."""
    data = store.read(segment.name, start, max(size - start, 0))
    words = np.frombuffer(data, "<u4", len(data) // ALIGN * (ALIGN // 4))[:: ALIGN // 4]
    highest = 0
    for i in np.flatnonzero(words == MAGIC).tolist():
        told = Frame.synced_told(data[i * ALIGN : i * ALIGN + FRAME_BYTES], segment.seed)
        highest = max(highest, told or 0)
    return highest


def tidy(store: Store, listing: Listing) -> None:
    """Remove what a died writer left: segments that were dropped, lonely indexes, half-written blobs."""
    indexes = {index_name(it.first_lsn) for it in listing.kept}
    try:
        lonely = [blob.name for blob in store.list(INDEX) if blob.name not in indexes]
        store.delete(*listing.stale, *lonely)
        store.collect_leftovers(_OLD)
    except PenstockError as error:
        _logger.warning("what an earlier writer left could not be removed: %s", error)
