"""From an address to the store that is there."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from penstock.errors import InvalidArgument
from penstock.store.interface import Store
from penstock.store.local import LocalStore
from penstock.store.memory import MemoryStore
from penstock.store.objects import ObjectStore

__all__ = ["open_store"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_store(place: str | os.PathLike[str]) -> Store:
    """The store at an address. Nothing is made or asked until it is used.

    ========================================  =========================================================
    ``shop.penstock``, ``/data/shop``         a folder (`LocalStore`)
    ``file:///data/shop?fsync=false``         the same, with its options
    ``memory://name``                         the `MemoryStore` of this name in this process;
                                              ``memory://`` is a new one each time
    ``s3://bucket/prefix?endpoint=http://…``  any S3-compatible service (`ObjectStore`); also
                                              ``region=…`` and ``addressing=path`` or ``virtual``
    ========================================  =========================================================

    >>> open_store("memory://doc") is open_store("memory://doc")
    True
    """
    text = os.fspath(place)
    if not _SCHEME.match(text):
        if not text:
            raise _refused("it is empty", text)
        return LocalStore(text)
    parts = urlsplit(text)
    opener = _OPENERS.get(parts.scheme.lower())
    if opener is None:
        raise _refused(f"{parts.scheme}:// is unknown", f"{parts.scheme}://…")
    return opener(parts, dict(parse_qsl(parts.query, keep_blank_values=True)))


def _local(parts: SplitResult, options: dict[str, str]) -> Store:
    if parts.netloc not in ("", "localhost"):
        raise _refused(f"a folder on the host {parts.netloc!r} is out of reach", parts.geturl())
    if not parts.path:
        raise _refused("it names no folder", parts.geturl())
    fsync = options.pop("fsync", "true")
    if fsync not in ("true", "false"):
        raise _refused("fsync is neither 'true' nor 'false'", parts.geturl())
    _refuse_rest(options, parts)
    return LocalStore(unquote(parts.path), fsync=fsync == "true")


def _memory(parts: SplitResult, options: dict[str, str]) -> Store:
    _refuse_rest(options, parts)
    name = parts.netloc + parts.path
    if not name:
        return MemoryStore()
    with _named_lock:
        return _named.setdefault(name, MemoryStore(name))


def _objects(parts: SplitResult, options: dict[str, str]) -> Store:
    if "@" in parts.netloc:
        raise InvalidArgument(
            "it holds credentials",
            subject=f"address s3://…@{parts.netloc.rpartition('@')[2]}",
            hint="Leave them out: environment, profile or role have them, or ObjectStore(credentials=…).",
        )
    endpoint, region, addressing = (options.pop(key, None) for key in ("endpoint", "region", "addressing"))
    _refuse_rest(options, parts)
    return ObjectStore(
        parts.netloc,
        unquote(parts.path).strip("/"),
        endpoint=endpoint,
        region=region,
        addressing=addressing,
    )


_OPENERS: dict[str, Callable[[SplitResult, dict[str, str]], Store]] = {
    "file": _local,
    "memory": _memory,
    "s3": _objects,
}
_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def _refuse_rest(options: dict[str, str], parts: SplitResult) -> None:
    for key in options:
        raise _refused(f"{key!r} is not an option of {parts.scheme}://", f"{parts.scheme}://{parts.netloc}")


def _refused(what: str, text: str) -> InvalidArgument:
    return InvalidArgument(
        what,
        subject=f"address {text!r}",
        hint="Give a folder, file:///folder, memory://name, or s3://bucket/prefix?endpoint=….",
    )
