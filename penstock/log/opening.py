"""Making a log, and opening it for the one who writes."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import AlreadyExists, InvalidArgument, PenstockError
from penstock.log.format import HEAD_BYTES, Head, damaged
from penstock.log.meta import META, Meta
from penstock.log.options import LogOptions
from penstock.log.reader import read_meta
from penstock.log.recovery import Found, check_chain, find_end, list_segments, tidy
from penstock.log.segment import SEGMENTS, blob_name
from penstock.log.writer import Writer
from penstock.store.appending import Lock, appender, lock
from penstock.store.interface import Store
from penstock.store.opening import open_store

__all__ = ["Clock", "Recovered", "make", "now", "open_to_write", "store_at", "take_lock"]

_logger = logging.getLogger(__name__)

LOCK = "writer.lock"

Clock = Callable[[], int]
"""Tells microseconds since 1970."""


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Recovered:
    """What opening for writing found torn at the end, cut, and kept aside."""

    torn_bytes: int
    kept_as: str


def store_at(place: str | os.PathLike[str] | Store) -> Store:
    return place if isinstance(place, Store) else open_store(place)


def take_lock(store: Store) -> Lock:
    return lock(store, LOCK, f"process {os.getpid()} on {socket.gethostname()}")


def make(store: Store, first_lsn: int, log_id: bytes | None, clock: Clock) -> None:
    """Make the files of a new log. Called by the holder of its lock."""
    log_id = uuid.uuid4().bytes if log_id is None else log_id
    if len(log_id) != 16:
        raise InvalidArgument("log_id is not of 16 bytes", subject="Log.create", hint="Give a UUID's bytes.")
    if not 1 <= first_lsn < 2**63:
        raise InvalidArgument(
            f"first_lsn is {first_lsn}", subject="Log.create", hint="LSNs count from 1, up to 2⁶³ − 1."
        )
    there = AlreadyExists(
        "there is a log already", subject=store.url, hint="Open it, or choose another place."
    )
    if store.exists(META):
        raise there
    _clear(store)
    meta = Meta(log_id, clock(), oldest_lsn=first_lsn)
    # The segment first: a log without meta is not there yet, one with meta is whole.
    store.put(blob_name(first_lsn), Head(log_id, first_lsn, 0, meta.term).encode())
    if not store.create(META, meta.encode()):
        raise there


def _clear(store: Store) -> None:
    """Remove what somebody left who died while making a log; but never events."""
    heads = []
    for blob in store.list(SEGMENTS):
        if blob.size > HEAD_BYTES:
            raise AlreadyExists(
                f"there are segments, but no {META}: a log that lost it",
                subject=store.url,
                hint=f"Restore {META}, or remove {SEGMENTS} if the events in it are not needed.",
            )
        heads.append(blob.name)
    store.delete(*heads)


def open_to_write(
    store: Store, options: LogOptions, held: Lock, clock: Clock
) -> tuple[Writer, Recovered | None]:
    """Recover what a died writer left, and go on from there. Called by the holder of the lock."""
    data, meta = read_meta(store)
    assert meta is not None
    store.create(META, data)  # it loses; but with that, what is there is known to be durable
    listing = list_segments(store, meta.oldest_lsn)
    check_chain(store, listing.kept, meta.log_id)
    found = find_end(store, meta.log_id, listing.kept[-1])
    unknown = found.active.collections() - meta.by_id.keys()
    if unknown:
        what = f"there are frames of a collection numbered {min(unknown)}, of which {META} knows nothing"
        raise damaged(found.active.name, 0, what)
    recovered = _cut(store, found, clock) if found.torn_bytes else None
    if listing.stale or not found.marked:
        tidy(store, listing)
    firsts = [it.first_lsn for it in listing.kept]
    writer = Writer(store, meta, options, firsts, found, held, clock)
    if not options.retains_all:
        try:
            writer.retain()
        except PenstockError as error:
            _logger.warning("old segments stay for now: %s", error)
    return writer, recovered


def _cut(store: Store, found: Found, clock: Clock) -> Recovered:
    """Keep the torn end aside, then cut it off."""
    active = found.active
    torn = store.read(active.name, active.end, found.torn_bytes)
    kept = f"torn/{active.first_lsn:020d}.{active.end}.{clock()}"
    store.put(kept, torn)
    grown = appender(store, active.name)
    try:
        grown.truncate(active.end)
    finally:
        grown.close()
    return Recovered(found.torn_bytes, kept)
