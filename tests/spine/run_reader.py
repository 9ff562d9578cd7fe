"""A reader of run files written from docs/FORMAT-runs.md alone, with nothing of Penstock in it."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["RunFile", "crc", "read_run"]

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def crc(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


@dataclass
class RunFile:
    rows: pa.RecordBatch
    description: dict[str, Any]
    schema: pa.Schema


def read_run(path: Path) -> RunFile:
    data = path.read_bytes()
    tail = data[-64:]
    magic, check, version, rows, stream, fences, checks, description, tables, zeros = struct.unpack(
        "<8sIIQQQQQI4s", tail
    )
    assert magic == b"PSTKRUN\x01"
    assert check == crc(tail[12:])
    assert version == 1
    assert zeros == bytes(4)
    assert stream % 64 == 0
    assert stream + fences + checks + description + 64 == len(data)
    assert tables == crc(data[stream:-64])
    sums = struct.unpack_from(f"<{checks // 4}I", data, stream + fences)
    assert list(sums) == [crc(data[at : min(at + 4096, stream)]) for at in range(0, stream, 4096)]
    batches = list(pa.ipc.open_stream(data))
    assert len(batches) == 1
    (batch,) = batches
    assert batch.num_rows == rows > 0
    hashes = [number % 2**64 for number in batch.column("_hash").to_pylist()]
    assert hashes == sorted(hashes)
    assert list(struct.unpack_from(f"<{fences // 8}Q", data, stream)) == hashes[::512]
    told = json.loads(data[stream + fences + checks : -64])
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["layout"]["schema"])))
    names = ["_hash", *schema.names, *(["_weight"] if told["layout"]["kind"] == "bag" else [])]
    assert batch.schema.names == names
    return RunFile(batch, told, schema)
