"""Reading the files of a view's changes, as `penstock.spark.output` writes them, frame by frame.

The manifest says where each frame is and what its checksum is, so no byte of a file can change unnoticed.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.log.format import Frame, damaged, padded
from penstock.spark.output import HEAD
from penstock.store import Store
from penstock.views.manifest import ChangeFile

__all__ = ["body_of", "mapped"]


def mapped(store: Store, file: ChangeFile) -> pa.Buffer:
    """The whole file, after a look at its size and its first bytes."""
    data = store.map(file.name)
    if data.size != file.bytes:
        raise damaged(file.name, data.size, f"the file has {data.size} bytes and not {file.bytes}")
    if not data.slice(0, len(HEAD)).equals(pa.py_buffer(HEAD)):
        raise damaged(file.name, 0, "these are not the first bytes of a file of changes")
    return data


def body_of(data: pa.Buffer, file: ChangeFile, offset: int, frame: Frame) -> pa.Buffer:
    """The body of the frame that begins here, if it is what was written."""
    whole = data[offset : offset + padded(frame.body_bytes)]
    frame.check_body(whole, file.name, offset)
    return whole[: frame.body_bytes]
