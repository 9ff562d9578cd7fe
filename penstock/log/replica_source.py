"""Where a replica gets its primary's transactions from: the log itself, or whatever else can ship them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from penstock.log.format import Frame
from penstock.log.log import Log
from penstock.log.shipment import Shipment, TransactionRecord, place_of

__all__ = ["SHIPMENT_BYTES", "LogSource", "ReplicaSource"]

SHIPMENT_BYTES = 8 << 20
"""About how much is shipped at once: enough that a round costs little, and little enough to hold."""


class ReplicaSource(ABC):
    """A primary as its replicas see it. Another one is a few lines: ask somewhere, and decode the answer."""

    @abstractmethod
    def ship(self, since: int | None, max_bytes: int = SHIPMENT_BYTES) -> Shipment:
        """The transactions after this cursor (None: from the oldest that is kept), at least one if there is.

        Raises `CursorExpired` where some of them are not kept any more. A primary that has not come so far
        ships nothing, and `Shipment.current_lsn` tells it: first it matters whether its term is over.
        """

    @abstractmethod
    def wait(self, since: int, timeout: float | None = None) -> int:
        """Return the primary's newest LSN once it is greater than ``since``, or when the time is over."""


class LogSource(ReplicaSource):
    """A log in this process, or one whose folder is in reach: open that to read.

    The log stays its owner's: close it there. Cost: nothing is copied, bodies are mapped as readers' are.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    def ship(self, since: int | None, max_bytes: int = SHIPMENT_BYTES) -> Shipment:
        log = self._log
        end = log.current_lsn
        if since is None:
            since = log.oldest_lsn - 1
        kept = log.transaction_at(since) if since <= end else []
        before = place_of(it.frame for it in kept) if kept else None
        found: list[tuple[tuple[Frame, ...], tuple[pa.Buffer, ...]]] = []
        if before is None or before.last_lsn == since:  # else the cursor is of another history
            frames: list[Frame] = []
            bodies: list[pa.Buffer] = []
            size = 0
            for it in log.frames(since, end):
                frames.append(it.frame)
                bodies.append(it.body)
                size += it.frame.frame_bytes
                if it.frame.ends:
                    found.append((tuple(frames), tuple(bodies)))
                    frames, bodies = [], []
                    if size >= max_bytes:
                        break
        meta = log.reload_meta()  # after what it has to explain
        return Shipment(meta, since, end, before, tuple(TransactionRecord(meta, *it) for it in found))

    def wait(self, since: int, timeout: float | None = None) -> int:
        return self._log.wait(since, timeout)
