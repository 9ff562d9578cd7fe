"""A reader of logs written from docs/FORMAT.md alone: it imports nothing of Penstock.

Slow and plain on purpose. What it reads is held against what `Log` reads: so page, writer and reader agree.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

BEGIN, END, _, WEIGHTS, TIMES, CHANGED = (1 << i for i in range(6))
MICROS = pa.timestamp("us", tz="UTC")


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc(data: bytes, so_far: int = 0) -> int:
    value = so_far ^ 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


class Damaged(Exception):
    pass


@dataclass
class Collection:
    name: str
    key: list[str]
    schema: pa.Schema


@dataclass
class Frame:
    offset: int
    body_bytes: int
    first_lsn: int
    commit_time: int
    synced: int
    body_crc: int
    collection: int
    events: int
    rows: int
    term: int
    kind: int
    flags: int
    body: bytes = b""

    @property
    def end(self) -> int:
        return self.offset + 64 + -(-self.body_bytes // 64) * 64


@dataclass
class Event:
    """One event: operation, values, weight and time of each of its rows."""

    lsn: int
    collection: str
    refresh: bool
    committed: int
    rows: list[tuple[int, dict[str, Any], int, int]]
    changed: list[str] | None


def read_meta(data: bytes) -> dict[str, Any]:
    text = data[31:-2]
    if data[:12] != b'{"crc32c": "' or data[20:31] != b'", "meta": ' or data[-2:] != b"}\n":
        raise Damaged("meta")
    if int(data[12:20], 16) != crc(text):
        raise Damaged("meta")
    meta: dict[str, Any] = json.loads(text)
    assert meta["format"] == 1
    return meta


def collections_of(meta: dict[str, Any]) -> dict[int, Collection]:
    return {
        it["id"]: Collection(
            it["name"], it["key"], pa.ipc.read_schema(pa.py_buffer(base64.b64decode(it["schema"])))
        )
        for it in meta["collections"]
    }


def header(data: bytes, offset: int, seed: int) -> Frame | None:
    raw = data[offset : offset + 64]
    if len(raw) < 64 or raw[:4] != b"FRM1" or struct.unpack_from("<I", raw, 4)[0] != crc(raw[8:], seed):
        return None
    return Frame(offset, *struct.unpack_from("<QQqQIIIIIBB", raw, 8))


def frames_of(data: bytes, seed: int) -> Iterator[Frame]:
    """The whole frames of a segment or shipment, from the first; then what the bytes after them mean."""
    at = 64
    while at < len(data):
        frame = header(data, at, seed)
        if frame is not None and frame.end <= len(data):
            whole = data[at + 64 : frame.end]
            if not frame.body_bytes or crc(whole) == frame.body_crc:
                frame.body = whole[: frame.body_bytes]
                yield frame
                at = frame.end
                continue
        later = (header(data, place, seed) for place in range(at + 64, len(data), 64))
        if any(it.synced > at for it in later if it is not None):
            raise Damaged(at)
        return


def transactions_of(frames: Iterator[Frame]) -> Iterator[list[Frame]]:
    pending: list[Frame] = []
    for frame in frames:
        assert bool(frame.flags & BEGIN) == (not pending)
        pending.append(frame)
        if frame.flags & END:
            yield pending
            pending = []


def rows_of(frame: Frame, collection: Collection) -> pa.RecordBatch:
    fields = [*collection.schema, pa.field("_op", pa.int8(), nullable=False)]
    if frame.flags & WEIGHTS:
        fields.append(pa.field("_weight", pa.int64(), nullable=False))
    if frame.flags & TIMES:
        fields.append(pa.field("_ts", MICROS, nullable=False))
    if frame.flags & CHANGED:
        fields.append(pa.field("_changed", pa.list_(pa.string())))
    batch = pa.ipc.read_record_batch(pa.py_buffer(frame.body), pa.schema(fields))
    batch.validate(full=True)
    assert batch.num_rows == frame.rows
    return batch


def events_of(frame: Frame, collection: Collection) -> list[Event]:
    batch = rows_of(frame, collection)
    values = batch.select(collection.schema.names).to_pylist()
    ops = batch.column("_op").to_pylist()
    names = batch.schema.names
    weights = (
        batch.column("_weight").to_pylist() if "_weight" in names else [(1, -1, 1, -1)[it] for it in ops]
    )
    times = [frame.commit_time] * len(ops)
    if "_ts" in names:
        times = batch.column("_ts").view(pa.int64()).to_pylist()
    changed = batch.column("_changed").to_pylist() if "_changed" in names else [None] * len(ops)
    events: list[Event] = []
    refresh = frame.kind == 2
    if refresh:
        events.append(Event(frame.first_lsn, collection.name, True, frame.commit_time, [], None))
    for i, row in enumerate(zip(ops, values, weights, times, strict=True)):
        if not refresh and not (i and (ops[i - 1], ops[i]) == (1, 2)):
            lsn = frame.first_lsn + len(events)
            events.append(Event(lsn, collection.name, False, frame.commit_time, [], None))
        events[-1].rows.append(row)
        if not refresh:
            events[-1].changed = changed[i]
    assert len(events) == frame.events
    return events


def read_log(folder: Path) -> tuple[dict[str, Any], list[list[Event]]]:
    """The meta, and the events of each transaction."""
    meta = read_meta((folder / "meta.json").read_bytes())
    collections = collections_of(meta)
    oldest = meta["oldest_lsn"]
    firsts = sorted(int(it.name.removesuffix(".segment")) for it in (folder / "segments").iterdir())
    while len(firsts) > 1 and firsts[1] <= oldest:
        del firsts[0]
    assert firsts[0] <= oldest
    found = []
    lsn, time, term = firsts[0], None, 0
    for number, first in enumerate(firsts):
        data = (folder / "segments" / f"{first:020d}.segment").read_bytes()
        magic, seed, version, log_id, first_lsn, after_time, head_term = struct.unpack_from(
            "<8sII16sQqI", data
        )
        assert (magic, version, log_id.hex()) == (b"PSTKSEG\x01", 1, meta["log_id"])
        assert seed == crc(data[12:64])
        assert (first_lsn, data[52:64]) == (first, bytes(12))
        assert time in (None, after_time)
        sealed = False
        for transaction in transactions_of(frames_of(data, seed)):
            for frame in transaction:
                assert not sealed
                assert frame.first_lsn == lsn
                assert frame.commit_time >= (time or after_time)
                assert frame.term >= max(term, head_term)
                lsn, time, term = lsn + frame.events, frame.commit_time, frame.term
                sealed = frame.kind == 4
            if transaction[0].events:
                found.append(
                    [it for frame in transaction for it in events_of(frame, collections[frame.collection])]
                )
        assert sealed or number == len(firsts) - 1
        time = time or after_time
    return meta, found


def read_index(folder: Path, first: int) -> list[tuple[int, bytes]]:
    """Offset and header of each frame, from the index, checked against the segment."""
    data = (folder / "index" / f"{first:020d}.index").read_bytes()
    segment = (folder / "segments" / f"{first:020d}.segment").read_bytes()
    magic, check, seed, count, size = struct.unpack_from("<8sIIQQ", data)
    assert (magic, check) == (b"PSTKIDX\x01", crc(data[12:]))
    assert (seed, size) == (crc(segment[12:64]), len(segment))
    offsets = struct.unpack_from(f"<{count}q", data, 32)
    headers = [data[at : at + 64] for at in range(32 + 8 * count, len(data), 64)]
    return list(zip(offsets, headers, strict=True))


@dataclass
class Shipment:
    meta: dict[str, Any]
    since: int
    current_lsn: int
    before: tuple[int, int, bytes]
    transactions: list[list[Frame]]


def read_shipment(data: bytes) -> Shipment:
    magic, seed, length, since, current, first, last, digest = struct.unpack_from("<8sIIQQQQ16s", data)
    assert (magic, seed) == (b"PSTKSHP\x01", crc(data[12:64]))
    meta = read_meta(data[64 : 64 + length])
    start = 64 + -(-length // 64) * 64
    assert not any(data[64 + length : start])
    frames = list(frames_of(bytes(64) + data[start:], seed))
    assert all(it.synced == 0 and it.kind < 3 for it in frames)
    return Shipment(meta, since, current, (first, last, digest), list(transactions_of(iter(frames))))


def digest_of(transaction: list[Frame]) -> bytes:
    said = b"".join(
        struct.pack(
            "<QQqIIIIBB",
            it.body_bytes, it.first_lsn, it.commit_time,
            it.body_crc, it.collection, it.events, it.rows, it.kind, it.flags,
        )
        for it in transaction
    )  # fmt: skip
    return hashlib.blake2b(said, digest_size=16).digest()
