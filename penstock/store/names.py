"""What a blob may be called.

A name is a relative path of segments joined by ``/`` that means the same on every file system and in
every object store. Two names that differ only in case, or a name below another one (``a`` and ``a/b``),
are for the caller to avoid: some stores tell them apart and some cannot.
"""

from __future__ import annotations

import re
import unicodedata

from penstock.errors import InvalidArgument

__all__ = ["MAX_NAME", "MAX_SEGMENT", "check_name", "check_prefix", "is_name"]

MAX_SEGMENT = 255  # bytes: what file systems take
MAX_NAME = 900  # bytes: an object key has 1024, and a store's own prefix goes before the name

_PLAIN = re.compile(
    r"[A-Za-z0-9_=+@,~-][A-Za-z0-9_=+@,~.-]{0,99}(?:/[A-Za-z0-9_=+@,~-][A-Za-z0-9_=+@,~.-]{0,99}){0,7}"
)


def is_name(text: str) -> bool:
    """Whether a blob may be called so.

    >>> [is_name(text) for text in ("manifest/7", "größe.arrow", "../x", "/x", "a//b", "a/.b", "a\\\\b", "")]
    [True, True, False, False, False, False, False, False]
    """
    return _fault(text) is None


def check_name(name: str) -> str:
    """The name itself, or `InvalidArgument` that tells what is wrong with it."""
    fault = _fault(name)
    if fault is None:
        return name
    raise InvalidArgument(
        fault,
        subject=f"blob name {_shown(name)}",
        hint="Give a relative path such as 'manifest/7': segments joined by '/', none beginning with a dot.",
    )


def check_prefix(prefix: str) -> str:
    """The prefix itself, or `InvalidArgument`: the empty string, or the beginning of a name.

    >>> [check_prefix(text) for text in ("", "manifest/", "manifest/0")]
    ['', 'manifest/', 'manifest/0']
    """
    if isinstance(prefix, str) and (not prefix or is_name(prefix.removesuffix("/"))):
        return prefix
    check_name(prefix)
    return prefix


def _fault(name: str) -> str | None:
    if not isinstance(name, str):
        return f"a name is a str, not {type(name).__name__}"
    if _PLAIN.fullmatch(name):
        return None
    if not name:
        return "it is empty"
    for character in name:
        if character == "\\" or unicodedata.category(character) in ("Cc", "Cs"):
            return f"it holds the character U+{ord(character):04X}"
    if not unicodedata.is_normalized("NFC", name):
        return "it is not in Unicode's composed form (NFC), which some file systems change"
    if len(name.encode()) > MAX_NAME:
        return f"it has {len(name.encode())} bytes, more than {MAX_NAME}"
    for segment in name.split("/"):
        if not segment:
            return "it has an empty segment ('/' at an end, or two in a row)"
        if segment.startswith("."):
            return f"the segment {segment!r} begins with a dot"
        if len(segment.encode()) > MAX_SEGMENT:
            return f"a segment has {len(segment.encode())} bytes, more than {MAX_SEGMENT}"
    return None


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 80 else f"{text[:77]}..."
