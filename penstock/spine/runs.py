"""`Runs`: the run files that a process has open."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from concurrent.futures import Future

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.spine.guard import Guard
from penstock.spine.layout import Layout
from penstock.spine.run import RunData
from penstock.spine.run_format import TAIL_BYTES, Tail, damaged
from penstock.store.interface import Store

__all__ = ["Runs"]

_PREFIX = struct.Struct("<iI")  # how each message of an Arrow stream begins: −1, bytes of its metadata
_MAPPED = "file:"


class Runs:
    """Opens run files of a store. Thread safe; have one for each store and process.

    What was opened stays open, and what was checked is not checked again, until ``keep_files`` others were
    used since. A file of a folder is mapped and costs no memory of its own; of other stores the whole blob
    is read, so no more than ``keep_bytes`` of those are kept.
    """

    def __init__(self, store: Store, *, keep_bytes: int = 1 << 30, keep_files: int = 4096) -> None:
        if keep_bytes < 0 or keep_files < 1:
            raise InvalidArgument(
                f"it keeps {keep_bytes} bytes and {keep_files} files",
                subject="Runs",
                hint="Keep one file at least.",
            )
        self.store = store
        self._keep_bytes, self._keep_files = keep_bytes, keep_files
        self._is_mapped = store.url.startswith(_MAPPED)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[RunData, int]] = OrderedDict()
        self._bytes = 0
        self._opening: dict[str, Future[RunData]] = {}

    def open(self, name: str, layout: Layout) -> RunData:
        """The run of this name. Threads that ask for one file at once wait for one of them to open it."""
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
                return kept[0]
            future = self._opening.get(name)
            is_mine = future is None
            if future is None:
                future = self._opening[name] = Future()
        if not is_mine:
            return future.result()
        try:
            data = self.store.map(name)
            run = opened(data, layout, name)
        except BaseException as error:
            with self._lock:
                del self._opening[name]
            future.set_exception(error)
            raise
        with self._lock:
            del self._opening[name]
            self._keep(name, run, 0 if self._is_mapped else data.size)
        future.set_result(run)
        return run

    def _keep(self, name: str, run: RunData, nbytes: int) -> None:
        self._kept[name] = run, nbytes
        self._bytes += nbytes
        while len(self._kept) > 1 and (len(self._kept) > self._keep_files or self._bytes > self._keep_bytes):
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


def opened(data: pa.Buffer, layout: Layout, name: str) -> RunData:
    """A run in these bytes. Checked at once: all but the rows, and the blocks that hold their description."""
    start = max(data.size - TAIL_BYTES, 0)
    tail = Tail.decode(data.slice(start).to_pybytes(), data.size, name)
    if google_crc32c.value(data.slice(tail.stream_bytes, start - tail.stream_bytes)) != tail.crc:
        raise damaged(name, tail.stream_bytes, "fences, checks and layout do not match their checksum")
    at = tail.stream_bytes
    fences = np.frombuffer(data, np.uint64, tail.fence_bytes // 8, at)
    at += tail.fence_bytes
    checks = np.frombuffer(data, np.uint32, tail.check_bytes // 4, at)
    at += tail.check_bytes
    told = orjson.loads(data.slice(at, tail.layout_bytes).to_pybytes())
    stored = Layout.from_json(told["layout"])
    if stored != layout:
        raise InvalidArgument(
            f"the file holds rows of {stored}, and rows of {layout} are wanted",
            subject=name,
            hint="A spine keeps one layout; give a plan that says something else a spine of its own.",
        )
    stream = data.slice(0, tail.stream_bytes)
    guard = Guard(name, stream, checks)
    guard.touch(0, _body(stream, guard))
    guard.touch(tail.stream_bytes - 1, tail.stream_bytes)
    batch = pa.ipc.open_stream(stream).read_next_batch()
    return RunData(
        batch, fences=fences, guard=guard, base=data.address, nbytes=data.size, group=told["group"]
    )


def _body(stream: pa.Buffer, guard: Guard) -> int:
    """Where the rows begin: after the schema, and after the description of the one batch."""
    at = 0
    for _ in range(2):
        guard.touch(at, at + _PREFIX.size)
        at += _PREFIX.size + _PREFIX.unpack_from(stream, at)[1]
    return at
