"""`write_run`: rows of the stored form → a run file, seen whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import google_crc32c
import numpy as np
import orjson
import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.errors import AlreadyExists, InvalidArgument
from penstock.spine.layout import HASH, Layout, UInt64s, int64s
from penstock.spine.run_format import ALIGN, BLOCK, FENCE, Tail, crc32c
from penstock.spine.slices import Slice
from penstock.store.interface import Store, Writer

__all__ = ["write_run"]


def write_run(
    store: Store,
    name: str,
    layout: Layout,
    rows: pa.RecordBatch | Sequence[pa.RecordBatch],
    *,
    group: str = "",
) -> Slice:
    """A new run file of rows in the stored form (`arrange` makes it), given whole or in pieces in hash order.

    Whoever dies before this returns leaves no file of this name, or the whole one. Files of one ``group`` lie
    side by side: together they are one sorted run.
    """
    pieces = [rows] if isinstance(rows, pa.RecordBatch) else rows
    for piece in pieces:
        layout.check_stored(piece, name)
    columns = [
        _joined([piece.column(i) for piece in pieces], kind) for i, kind in enumerate(layout.stored.types)
    ]
    for told in (HASH, *layout.summed):
        int64s(columns[layout.stored.get_field_index(told)], told)
    batch = pa.RecordBatch.from_arrays(columns, schema=layout.stored)
    hashes = unsigned(batch.column(0).to_numpy())
    if not len(hashes) or not bool((hashes[1:] >= hashes[:-1]).all()):
        raise InvalidArgument(
            "rows of a run are sorted by hash, and there is one at least", subject=name, hint="Arrange them."
        )
    with store.writer(name) as writer:
        size = _write(writer, layout, batch, hashes, group or name)
        if not writer.commit():
            raise AlreadyExists(
                "there is a file of this name already, and run files never change",
                subject=name,
                hint="Give each attempt of a step a prefix of its own.",
            )
    return Slice(name, len(hashes), size)


def _joined(pieces: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    if len(pieces) == 1:
        return pieces[0]
    return pa.concat_arrays(pieces) if pieces else pa.array([], kind)


def _write(writer: Writer, layout: Layout, batch: pa.RecordBatch, hashes: UInt64s, group: str) -> int:
    summing = _Summing(writer)
    with pa.ipc.new_stream(summing, batch.schema) as stream:
        stream.write_batch(batch)
    summing.write(bytes(-writer.tell() % ALIGN))
    stream_bytes = writer.tell()
    fences = hashes[::FENCE].tobytes()
    checks = np.array(summing.checks(), np.uint32).tobytes()
    told = orjson.dumps({"layout": layout.to_json(), "group": group})
    crc = crc32c(fences)
    for more in (checks, told):
        crc = google_crc32c.extend(crc, more)
    for part in (fences, checks, told):
        writer.write(part)
    writer.write(Tail(len(hashes), stream_bytes, len(fences), len(checks), len(told), crc).encode())
    return writer.tell()


class _Summing:
    """Passes bytes on to a writer, and keeps the checksum of each block of them."""

    closed = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._checks: list[int] = []
        self._crc, self._filled = 0, 0

    def write(self, data: Any) -> int:
        buffer = pa.py_buffer(data)
        at = self._filled and self._fill(buffer, 0)
        whole = (buffer.size - at) // BLOCK * BLOCK + at
        self._checks += [google_crc32c.value(buffer.slice(it, BLOCK)) for it in range(at, whole, BLOCK)]
        if whole < buffer.size:
            self._fill(buffer, whole)
        return self._writer.write(buffer)

    def _fill(self, buffer: pa.Buffer, at: int) -> int:
        """Take the next bytes into the block that is begun; where those end."""
        piece = buffer.slice(at, min(BLOCK - self._filled, buffer.size - at))
        self._crc = google_crc32c.extend(self._crc, piece)
        self._filled += piece.size
        if self._filled == BLOCK:
            self._checks.append(self._crc)
            self._crc, self._filled = 0, 0
        return at + int(piece.size)

    def checks(self) -> list[int]:
        return [*self._checks, self._crc] if self._filled else self._checks

    def flush(self) -> None:
        """Nothing: what was written is seen by nobody before the commit."""
