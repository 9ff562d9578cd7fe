"""From frame to frame through a segment's bytes, in large pieces, with or without looking at the bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from penstock.log.format import FRAME_BYTES, Frame
from penstock.store.interface import Store

__all__ = ["Walked", "walk"]

_PIECE = 1 << 20


class Walked(NamedTuple):
    """A frame found by walking: where it is, its header as bytes and decoded."""

    offset: int
    header: bytes
    frame: Frame


def walk(
    store: Store, name: str, start: int, size: int, seed: int, *, bodies: bool = False
) -> Iterator[Walked]:
    """The frames from ``start`` that are wholly within ``size``.

    Stops before the first that is not whole; raises `DamagedBytes` at a header that does not check, and
    with ``bodies`` at a body. The bytes are read, never mapped: another process may cut a torn end meanwhile.
    """
    piece, at = b"", start
    while start + FRAME_BYTES <= size:
        if start + FRAME_BYTES > at + len(piece):
            piece, at = store.read(name, start, min(_PIECE, size - start)), start
            if len(piece) < FRAME_BYTES:
                return
        header = piece[start - at : start - at + FRAME_BYTES]
        frame = Frame.decode(header, name, start, seed)
        stop = start + frame.frame_bytes
        if stop > size:
            return
        if bodies and frame.body_bytes:
            if stop > at + len(piece):
                piece, at = store.read(name, start, min(max(_PIECE, stop - start), size - start)), start
                if stop > at + len(piece):
                    return
            begin = start + FRAME_BYTES
            body = pa.py_buffer(piece).slice(begin - at, stop - begin)
            frame.check_body(body, name, begin)
        yield Walked(start, header, frame)
        start = stop
