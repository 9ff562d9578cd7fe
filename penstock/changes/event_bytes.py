"""How events are stored: a checked header, a table of events, and one Arrow IPC stream per schema.

::

    magic 4   "PsCE"
    crc   4   CRC32C of every byte after it
    version 2 | kind 2 (1 one event, 2 a batch) | zero 4 | length of what follows 8
    events 4 | streams 4 | length of the source's name 4 | zero 4
    one entry of 32 bytes per event: timestamp 8, sequence 8, stream 4, second stream 4, type 1, zero 7
    one length of 8 bytes per stream
    the source's name in UTF-8, then the streams; each begins at a multiple of 8

All numbers are little-endian. The events' batches stand in the streams in the events' order, an
update's old side before its new one (the second stream's); batches with equal schemas share a stream,
so each schema is written once. The magic and the checksum keep their places in every version.

Nothing is believed before the checksum agrees: no length is used, no memory is taken. CRC32C finds
accidents (every flipped byte, every cut), not malice: read only bytes that Penstock wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import google_crc32c
import numpy as np
import pyarrow as pa

from penstock.changes.op import EventType
from penstock.errors import DamagedBytes, InvalidArgument, Unsupported

__all__ = ["Kind", "StoredEvent", "from_bytes", "to_bytes"]

T = TypeVar("T")
_MAGIC = b"PsCE"
_VERSION = 1
_START = struct.Struct("<4sI")
_HEADER = struct.Struct("<HH4xQ")
_COUNTS = struct.Struct("<III4x")
_ENTRY = np.dtype(
    {
        "names": ["timestamp", "sequence", "stream", "second", "type"],
        "formats": ["<i8", "<u8", "<u4", "<u4", "u1"],
        "offsets": [0, 8, 16, 20, 24],
        "itemsize": 32,
    }
)
_BATCHES = {
    EventType.INSERT: 1,
    EventType.DELETE: 1,
    EventType.UPDATE: 2,
    EventType.WATERMARK: 0,
    EventType.SNAPSHOT: 1,
}
_SEQUENCED = (EventType.INSERT, EventType.DELETE, EventType.UPDATE)


_Stream = tuple[pa.Schema, list[pa.RecordBatch]]


class Kind(IntEnum):
    """What the bytes hold. The integers are stored: they never change."""

    EVENT = 1
    BATCH = 2


class StoredEvent(NamedTuple):
    """An event as its parts; an update's batches are old and new, a watermark has none."""

    event_type: EventType
    timestamp: int
    sequence: int | None
    batches: tuple[pa.RecordBatch, ...]


def to_bytes(kind: Kind, source: str, events: Sequence[StoredEvent]) -> bytes:
    """Events as bytes. O(size); each distinct schema is written once."""
    streams: list[_Stream] = []
    places = [[_place(batch, streams) for batch in event.batches] for event in events]
    entries: Any = np.zeros(len(events), _ENTRY)
    entries["timestamp"] = [event.timestamp for event in events]
    entries["sequence"] = [event.sequence or 0 for event in events]
    entries["type"] = [event.event_type for event in events]
    entries["stream"] = [numbers[0] if numbers else 0 for numbers in places]
    entries["second"] = [numbers[-1] if numbers else 0 for numbers in places]
    name = _encode(source)
    written = [_write(stream) for stream in streams]
    parts: list[Any] = [
        _COUNTS.pack(len(events), len(streams), len(name)),
        entries.tobytes(),
        np.array([stream.size for stream in written], "<u8").tobytes(),
    ]
    for part in (name, *written):
        parts += [part, bytes(-len(part) % 8)]
    length = sum(len(part) for part in parts)
    rest = b"".join([_HEADER.pack(_VERSION, kind, length), *parts])
    return _START.pack(_MAGIC, google_crc32c.value(rest)) + rest


def from_bytes(data: Any, kind: Kind, make: Callable[[str, list[StoredEvent]], T]) -> T:
    """What ``make`` makes of the source's name and the events. Batches share ``data``'s memory."""
    body = _checked_body(_frozen(data), kind)
    try:
        source, events = _read_body(body)
        if kind is Kind.EVENT and len(events) != 1:
            raise ValueError(f"there are {len(events)} events where one is expected")
        return make(source, events)
    except (pa.ArrowException, ValueError, LookupError, struct.error, OSError) as error:
        raise _damaged(f"their content does not follow the format: {error}") from error


def _encode(source: str) -> bytes:
    try:
        return source.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"the source's name {source!r} is not Unicode text: {error.reason}",
            subject="stored events",
            hint="Name the source without lone surrogates.",
        ) from error


def _place(batch: pa.RecordBatch, streams: list[_Stream]) -> int:
    """Put the batch into the stream of its schema, a new one where there is none yet, and say which."""
    schema = batch.schema
    # Newest first: neighbours mostly agree, so this is mostly one comparison.
    for number in range(len(streams) - 1, -1, -1):
        known, batches = streams[number]
        if known.equals(schema, check_metadata=True):
            batches.append(batch)
            return number
    streams.append((schema, [batch]))
    return len(streams) - 1


def _write(stream: _Stream) -> pa.Buffer:
    schema, batches = stream
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"Arrow cannot write rows of ({', '.join(schema.names)}): {error}",
            subject="stored events",
            hint="Cast the columns to types that Arrow IPC stores.",
        ) from error
    return sink.getvalue()


def _frozen(data: Any) -> pa.Buffer:
    """A buffer that nobody can change later: events share it, and they are immutable."""
    if isinstance(data, pa.Buffer):
        return data if not data.is_mutable else pa.py_buffer(data.to_pybytes())
    if isinstance(data, bytes):
        return pa.py_buffer(data)
    if isinstance(data, bytearray | memoryview):
        return pa.py_buffer(bytes(data))
    raise InvalidArgument(
        f"{type(data).__name__} is not bytes",
        subject="from_bytes",
        hint="Give bytes, a bytearray, a memoryview or a pyarrow Buffer.",
    )


def _checked_body(data: pa.Buffer, kind: Kind) -> pa.Buffer:
    head = _START.size + _HEADER.size
    if data.size < head:
        raise _damaged(f"there are {data.size} bytes, and the header alone has {head}")
    magic, crc = _START.unpack(data.slice(0, _START.size))
    if magic != _MAGIC:
        raise _damaged(f"they begin with {magic!r}, not {_MAGIC!r}")
    rest = data.slice(_START.size)
    if google_crc32c.value(rest) != crc:
        raise _damaged("the checksum does not agree with the content")
    version, stored, length = _HEADER.unpack(rest.slice(0, _HEADER.size))
    if version != _VERSION:
        raise Unsupported(
            f"the bytes have format version {version}, and this Penstock reads {_VERSION}",
            subject="stored events",
            hint="Read them with the version of Penstock that wrote them, or a later one.",
        )
    if stored != kind:
        raise _damaged(f"they hold kind {stored}, not {kind.value} ({kind.name.lower()})")
    if length != data.size - head:
        raise _damaged(f"the header tells of {length} bytes and {data.size - head} follow")
    return data.slice(head)


def _read_body(body: pa.Buffer) -> tuple[str, list[StoredEvent]]:
    events, streams, name_length = _COUNTS.unpack(body.slice(0, _COUNTS.size))
    at = _COUNTS.size
    entries = np.frombuffer(body, _ENTRY, events, at)
    at += entries.nbytes
    lengths = np.frombuffer(body, "<u8", streams, at)
    at += lengths.nbytes
    parts = []
    for length in (name_length, *lengths.tolist()):
        if length > body.size - at:
            raise ValueError("a part is longer than what is left")
        parts.append(body.slice(at, length))
        at += length + -length % 8
    if at != body.size:
        raise ValueError(f"{body.size - at} bytes are left over")
    source = parts[0].to_pybytes().decode()
    readers = [_read_stream(part) for part in parts[1:]]
    found = [_event(entry, readers) for entry in entries.tolist()]
    if any(next(reader, None) is not None for reader in readers):
        raise ValueError("there are more batches than events")
    return source, found


def _read_stream(stream: pa.Buffer) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            batch.validate(full=True)
            yield batch


def _event(entry: tuple[int, int, int, int, int], readers: list[Iterator[pa.RecordBatch]]) -> StoredEvent:
    timestamp, sequence, first, second, number = entry
    event_type = EventType(number)
    batches = tuple([_next(readers[stream]) for stream in (first, second)[: _BATCHES[event_type]]])
    return StoredEvent(event_type, timestamp, sequence if event_type in _SEQUENCED else None, batches)


def _next(reader: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    batch = next(reader, None)
    if batch is None:
        raise ValueError("there are fewer batches than events")
    return batch


def _damaged(what: str) -> DamagedBytes:
    return DamagedBytes(what, subject="stored events", hint="Read them again, or from another copy.")
