"""The bytes that go into a blob, in whatever form the caller has them.

Parts stay where they are: a list of buffers is written one after another and never joined first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import InvalidArgument

__all__ = ["Bytes", "Data", "check_range", "joined", "parts_of"]

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
Data: TypeAlias = Bytes | Sequence[Bytes]


def parts_of(data: Data) -> list[memoryview]:
    """Views of the bytes, in order, without empty ones. Copies nothing.

    >>> [bytes(part) for part in parts_of([b"head", bytearray(b"body"), b""])]
    [b'head', b'body']
    """
    if isinstance(data, Sequence) and not isinstance(data, bytes | bytearray | memoryview | str):
        return [view for part in data if (view := _view(part)).nbytes]
    view = _view(data)
    return [view] if view.nbytes else []


def joined(parts: Sequence[memoryview]) -> bytes:
    """One `bytes` of their own: a copy that the caller's buffers cannot change."""
    return b"".join(parts)


def check_range(name: str, start: int, length: int) -> None:
    """Refuse what is no range of a blob: it begins at 0 or later and has 0 bytes or more."""
    if start < 0 or length < 0:
        raise InvalidArgument(
            f"a range of {length} bytes from {start} on is none",
            subject=name,
            hint="Give a start and a length of 0 or more.",
        )


def _view(part: Bytes) -> memoryview:
    if type(part) is bytes:  # as most parts are: it has no shape to look at
        return memoryview(part)
    try:
        view = memoryview(part)
    except TypeError:
        raise _refused(f"{type(part).__name__} is not bytes") from None
    if not view.nbytes:
        return memoryview(b"")  # `cast` takes no view with a zero in its shape
    if not view.c_contiguous:
        raise _refused("a view with gaps has no bytes in a row")
    return view.cast("B")


def _refused(what: str) -> InvalidArgument:
    return InvalidArgument(
        what,
        subject="data of a blob",
        hint="Give bytes, bytearray, memoryview, a pyarrow Buffer, or a sequence of them.",
    )
