"""What a primary sends to its replicas: whole transactions as they are stored, and what the log is.

A shipment has a form in bytes, for those who send it further than to another object. It is described in
docs/FORMAT.md, and every byte of it is covered by a checksum.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import pyarrow as pa

from penstock.log.format import ALIGN, FRAME_BYTES, Frame, crc32c, damaged, padding
from penstock.log.meta import Meta
from penstock.log.replica_rules import Place

__all__ = ["Shipment", "TransactionRecord", "place_of"]

_MAGIC = b"PSTKSHP\x01"
# magic, crc of what follows, bytes of the meta, since, current LSN; first and last LSN and digest of `before`
_HEAD = struct.Struct("<8sIIQQQQ16s")
_COVERED = 12
_NAME = "shipment"

# body bytes, first LSN, commit time, body crc, collection, events, rows, kind, flags
_DIGESTED = struct.Struct("<QQqIIIIBB")


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One transaction of a log, sent under the term that ``meta`` has."""

    meta: Meta
    frames: tuple[Frame, ...]
    bodies: tuple[pa.Buffer, ...]

    @property
    def term(self) -> int:
        """The sender's: the transaction may have been written under an earlier one."""
        return self.meta.term

    @property
    def first_lsn(self) -> int:
        return self.frames[0].first_lsn

    @property
    def last_lsn(self) -> int:
        return self.frames[-1].last_lsn

    @property
    def commit_time(self) -> int:
        return self.frames[0].commit_time

    @property
    def place(self) -> Place:
        """Where it is, and what it holds."""
        return place_of(self.frames)

    def __repr__(self) -> str:
        return f"TransactionRecord(LSN {self.first_lsn} to {self.last_lsn}, term {self.term})"


def place_of(frames: Iterable[Frame]) -> Place:
    """The place of the transaction of these frames."""
    kept = tuple(frames)
    return Place(kept[0].first_lsn, kept[-1].last_lsn, partial(_digest, kept))


def _digest(frames: Sequence[Frame]) -> bytes:
    """Equal for transactions that say the same, in whichever copy of a log and under whichever term.

    It is made of headers alone, for these hold the checksums of the bodies.
    """
    said = hashlib.blake2b(digest_size=16)
    for it in frames:
        numbers = (it.body_crc, it.collection, it.events, it.rows, it.kind, it.flags)
        said.update(_DIGESTED.pack(it.body_bytes, it.first_lsn, it.commit_time, *numbers))
    return said.digest()


@dataclass(frozen=True, slots=True)
class Shipment:
    """The transactions after ``since``, or the first of them, and the meta as it was read after them.

    After them, so that it tells of every collection and every split or merge of ranges that the transactions
    come after. ``before`` is the transaction that ``since`` is in, where the sender still keeps it: whoever
    has another one there has another history.
    """

    meta: Meta
    since: int
    current_lsn: int
    before: Place | None
    records: tuple[TransactionRecord, ...]

    @property
    def term(self) -> int:
        return self.meta.term

    def encode(self) -> bytes:
        """The shipment as bytes."""
        meta = self.meta.encode()
        first, last, digest = 0, 0, bytes(16)
        if self.before is not None and self.before.digest is not None:
            first, last, digest = self.before.first_lsn, self.before.last_lsn, self.before.digest()
        numbers = (len(meta), self.since, self.current_lsn, first, last, digest)
        covered = _HEAD.pack(_MAGIC, 0, *numbers)[_COVERED:]
        seed = crc32c(covered)
        parts: list[bytes] = [_MAGIC, seed.to_bytes(4, "little"), covered, meta, padding(len(meta))]
        for record in self.records:
            for frame, body in zip(record.frames, record.bodies, strict=True):
                header = frame._replace(synced_bytes=0).encode(seed)
                parts += (header, body.to_pybytes(), padding(body.size))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes | pa.Buffer) -> Self:
        """The shipment in these bytes, all checked; its bodies are slices of them. Or `DamagedBytes`."""
        whole = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        if whole.size < _HEAD.size:
            raise damaged(_NAME, 0, f"the head is cut short at {whole.size}")
        head = whole.slice(0, _HEAD.size).to_pybytes()
        magic, crc, meta_bytes, since, current, first, last, digest = _HEAD.unpack(head)
        if magic != _MAGIC or crc != crc32c(head[_COVERED:]):
            raise damaged(_NAME, 0, "the head does not match its checksum")
        at = _HEAD.size + meta_bytes + len(padding(meta_bytes))
        if at > whole.size or any(whole.slice(_HEAD.size + meta_bytes, at - _HEAD.size - meta_bytes)):
            raise damaged(_NAME, _HEAD.size, "the meta is cut short, or what follows it is not empty")
        meta = Meta.decode(whole.slice(_HEAD.size, meta_bytes).to_pybytes(), _NAME)
        before = Place(first, last, lambda: digest) if last else None
        return cls(meta, since, current, before, tuple(_records(whole, at, crc, meta)))


def _records(whole: pa.Buffer, at: int, seed: int, meta: Meta) -> list[TransactionRecord]:
    found: list[TransactionRecord] = []
    frames: list[Frame] = []
    bodies: list[pa.Buffer] = []
    while at < whole.size:
        header = whole.slice(at, min(FRAME_BYTES, whole.size - at)).to_pybytes()
        frame = Frame.decode(header, _NAME, at, seed)
        begin, stop = at + FRAME_BYTES, at + frame.frame_bytes
        if stop > whole.size:
            raise damaged(_NAME, at, "a frame is cut short")
        frame.check_body(whole.slice(begin, stop - begin), _NAME, begin)
        _check_order(frame, frames, meta, at)
        frames.append(frame)
        bodies.append(whole.slice(begin, frame.body_bytes))
        if frame.ends:
            found.append(TransactionRecord(meta, tuple(frames), tuple(bodies)))
            frames, bodies = [], []
        at = stop
    if frames:
        raise damaged(_NAME, at, "the last transaction is cut short")
    return found


def _check_order(frame: Frame, before: list[Frame], meta: Meta, at: int) -> None:
    if frame.begins == bool(before) or (before and frame.first_lsn != before[-1].last_lsn + 1):
        raise damaged(_NAME, at, "the frames are not those of whole transactions")
    if frame.collection not in meta.by_id:
        raise damaged(
            _NAME, at, f"a frame is of a collection numbered {frame.collection}, unknown to the meta"
        )


assert _HEAD.size == ALIGN
