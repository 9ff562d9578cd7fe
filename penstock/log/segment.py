"""One segment as its readers see it: which frame holds which LSN, and its body without copying.

State: some 90 bytes per frame, and the map of the file. A sealed segment's index comes from its
sidecar, which is derived from the segment and made anew when missing or damaged.
Cost: finding an LSN is a binary search; a body is a slice of the map, its checksum verified when first read.
"""

from __future__ import annotations

import logging
import struct
import threading
from array import array
from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa

from penstock.errors import NotFound, PenstockError
from penstock.log.format import (
    FRAME_BYTES,
    FRAME_DTYPE,
    HEAD_BYTES,
    Frame,
    Head,
    Kind,
    crc32c,
    damaged,
    padded,
    segment_name,
)
from penstock.log.walk import walk
from penstock.store.interface import Store

__all__ = ["INDEX", "SEGMENTS", "Segment", "blob_name", "index_name", "read_head"]

_logger = logging.getLogger(__name__)

SEGMENTS = "segments/"
INDEX = "index/"  # beside the segments, not among them, so that listing one does not list the other
_INDEX_MAGIC = b"PSTKIDX\x01"
# magic, crc of what follows, seed of the segment, its frames with events, its size; then offsets and headers
_INDEX_HEAD = struct.Struct("<8sIIQQ")
_INDEX_COVERED = 12


def blob_name(first_lsn: int) -> str:
    return SEGMENTS + segment_name(first_lsn)


def index_name(first_lsn: int) -> str:
    return f"{INDEX}{first_lsn:020d}.index"


def read_head(store: Store, first_lsn: int, log_id: bytes) -> Head:
    """The segment's head, refused when it is another log's or another segment's."""
    name = blob_name(first_lsn)
    head = Head.decode(store.read(name, 0, HEAD_BYTES), name)
    if head.first_lsn != first_lsn:
        raise damaged(name, 0, f"the head says that it begins at LSN {head.first_lsn}")
    if head.log_id != log_id:
        raise damaged(name, 0, f"the segment belongs to another log ({head.log_id.hex()})")
    return head


class Segment:
    """Frames of one segment by LSN. Marks are not among them: they hold no events."""

    def __init__(self, store: Store, head: Head) -> None:
        self.store = store
        self.head = head
        self.seed = head.seed
        self.name = blob_name(head.first_lsn)
        self.end = HEAD_BYTES  # the byte after the last frame that was taken in
        self.last_lsn = head.first_lsn - 1
        self.last_time = head.after_time
        self.sealed = False
        self.offsets = array("q")
        self.firsts = array("q")
        self.times = array("q")
        self.headers = bytearray()
        self._checked = bytearray()
        self._map: pa.Buffer | None = None
        self._lock = threading.Lock()

    @property
    def first_lsn(self) -> int:
        return self.head.first_lsn

    def add(self, offset: int, header: bytes, frame: Frame) -> None:
        """The next frame, in order. Readers in other threads see it when `offsets` has grown."""
        self.end = offset + frame.frame_bytes
        self.last_time = frame.commit_time
        if frame.events:
            self.last_lsn = frame.last_lsn
            self.headers += header
            self.firsts.append(frame.first_lsn)
            self.times.append(frame.commit_time)
            self._checked.append(0)
            self.offsets.append(offset)
        elif frame.kind is Kind.SEAL:
            self.sealed = True

    @classmethod
    def sealed_one(cls, store: Store, first_lsn: int, log_id: bytes, *, keep_index: bool = False) -> Segment:
        """A sealed segment with its index, from the sidecar or by walking, which the writer then keeps."""
        segment = cls(store, read_head(store, first_lsn, log_id))
        size = store.stat(segment.name).size
        if not segment._read_index(size):
            for it in walk(store, segment.name, HEAD_BYTES, size, segment.seed):
                segment.add(it.offset, it.header, it.frame)
            if segment.end != size or not segment.sealed:
                raise damaged(segment.name, segment.end, "a sealed segment does not end with a seal")
            if keep_index:
                segment.keep_index()
        return segment

    def __len__(self) -> int:
        return len(self.offsets)

    def frame(self, i: int) -> Frame:
        return Frame.trusted(self.headers, i * FRAME_BYTES)

    def checksum(self, i: int) -> int:
        """Of the i-th header, which covers the body's: equal for equal frames only."""
        return int.from_bytes(self.headers[i * FRAME_BYTES + 4 : i * FRAME_BYTES + 8], "little")

    def at(self, lsn: int) -> int:
        """The frame that holds the LSN, or the first after it."""
        return max(bisect_right(self.firsts, lsn, hi=len(self)) - 1, 0)

    def at_time(self, time: int) -> int:
        """The first frame committed at this time or later."""
        return bisect_left(self.times, time, hi=len(self))

    def collections(self) -> set[int]:
        """The numbers of the collections that its frames are of."""
        fields = np.frombuffer(bytes(self.headers), FRAME_DTYPE, len(self))
        return set(np.unique(fields["collection"]).tolist())

    def body(self, i: int, frame: Frame) -> pa.Buffer:
        """The body of a frame: a slice of the map. Its checksum is verified the first time."""
        start = self.offsets[i] + FRAME_BYTES
        stop = start + padded(frame.body_bytes)
        mapped = self._map
        if mapped is None or mapped.size < stop:
            with self._lock:
                mapped = self._map
                if mapped is None or mapped.size < stop:
                    mapped = self._map = self.store.map(self.name)
        if mapped.size < stop:
            raise damaged(self.name, start, f"the file ends at {mapped.size}, within a frame's body")
        if not self._checked[i]:
            frame.check_body(mapped.slice(start, stop - start), self.name, start)
            self._checked[i] = 1
        return mapped.slice(start, frame.body_bytes)

    def unmap(self) -> None:
        """Let go of the file's map until a body is asked for again; bodies given out keep theirs."""
        self._map = None

    def keep_index(self) -> None:
        """Keep offsets and headers beside the sealed segment. Doing without costs a walk, nothing else."""
        content = self.offsets.tobytes() + self.headers
        fields = (self.seed, len(self), self.end)
        covered = _INDEX_HEAD.pack(_INDEX_MAGIC, 0, *fields)[_INDEX_COVERED:] + content
        crc = crc32c(covered).to_bytes(4, "little")
        try:
            self.store.put(index_name(self.first_lsn), [_INDEX_MAGIC, crc, covered])
        except PenstockError as error:
            _logger.warning("the index of %s could not be kept: %s", self.name, error)

    def _read_index(self, size: int) -> bool:
        """Take the index from the sidecar, if it is there, whole, and of this very segment."""
        name = index_name(self.first_lsn)
        try:
            data = self.store.get(name)
        except NotFound:
            return False
        if len(data) < _INDEX_HEAD.size:
            return False
        magic, crc, seed, count, end = _INDEX_HEAD.unpack_from(data)
        content = data[_INDEX_HEAD.size :]
        known = magic == _INDEX_MAGIC and crc == crc32c(data[_INDEX_COVERED:])
        if not known or seed != self.seed or end != size or len(content) != count * (8 + FRAME_BYTES):
            _logger.warning("the index %s is not that of its segment, and is not used", name)
            return False
        headers = content[count * 8 :]
        fields = np.frombuffer(headers, FRAME_DTYPE)
        self.offsets.frombytes(np.frombuffer(content, "<i8", count).astype(np.int64).tobytes())
        self.firsts.frombytes(fields["first_lsn"].astype(np.int64).tobytes())
        self.times.frombytes(fields["commit_time"].astype(np.int64).tobytes())
        self.headers += headers
        self._checked = bytearray(count)
        if count:
            last = self.frame(count - 1)
            self.last_lsn, self.last_time = last.last_lsn, last.commit_time
        self.end, self.sealed = size, True
        return True
