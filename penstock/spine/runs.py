"""`Runs`: the run files that a process has open."""

from __future__ import annotations

import threading
from collections import OrderedDict

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.spine.layout import Layout
from penstock.spine.run import Run
from penstock.spine.run_format import BLOCK, TAIL_BYTES, Tail, damaged
from penstock.store.interface import Store

__all__ = ["Runs"]


class Runs:
    """Opens run files of a store and checks them. Thread safe; keeps the ones last used."""

    def __init__(self, store: Store, *, keep_bytes: int = 1 << 30) -> None:
        self.store = store
        self._keep_bytes = keep_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Run, int]] = OrderedDict()
        self._bytes = 0

    def open(self, name: str, layout: Layout) -> Run:
        """The whole run of this name."""
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
                return found[0]
        buffer = self.store.map(name)
        run = _checked(buffer, layout, name)
        with self._lock:
            if name not in self._kept:
                self._kept[name] = run, buffer.size
                self._bytes += buffer.size
            while self._bytes > self._keep_bytes and len(self._kept) > 1:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size
        return run


def _checked(buffer: pa.Buffer, layout: Layout, name: str) -> Run:
    start = max(buffer.size - TAIL_BYTES, 0)
    tail = Tail.decode(buffer.slice(start).to_pybytes(), buffer.size, name)
    if google_crc32c.value(buffer.slice(tail.stream_bytes, start - tail.stream_bytes)) != tail.crc:
        raise damaged(name, tail.stream_bytes, "fences, checks and layout do not match their checksum")
    checks = np.frombuffer(
        buffer.slice(tail.stream_bytes + tail.fence_bytes, tail.check_bytes), np.uint32
    ).tolist()
    for block, check in enumerate(checks):
        at = block * BLOCK
        if google_crc32c.value(buffer.slice(at, min(BLOCK, tail.stream_bytes - at))) != check:
            raise damaged(name, at, "a block does not match its checksum")
    batch = pa.ipc.open_stream(buffer.slice(0, tail.stream_bytes)).read_next_batch()
    layout.check_stored(batch, name)
    return Run(batch)
