"""Values that PostgreSQL did not send because an update left them as they were (unchanged TOAST).

Debezium puts a placeholder in their stead: a text of its own for text and JSON, the text's base64 for bytes,
a map from the text to itself, and for arrays the text, or its bytes as numbers, in the type of the items.
Whoever takes it for a value writes it into the table; whoever takes it for NULL loses the value.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.changes.debezium.types import DECIMAL, UUID, VARIABLE_DECIMAL, ConnectType

__all__ = ["PLACEHOLDER", "without_placeholders"]

PLACEHOLDER = "__debezium_unavailable_value"

Bools = npt.NDArray[np.bool_]


def without_placeholders(
    values: Sequence[Any], types: frozenset[type], kind: ConnectType | None, placeholder: str
) -> tuple[Sequence[Any], Bools | None]:
    """The column with NULL for each placeholder, and where those were; None if there were none.

    >>> without_placeholders(["a", PLACEHOLDER], frozenset([str]), None, PLACEHOLDER)
    (['a', None], array([False,  True]))
    """
    found: Bools | None = None
    for form in _forms(kind, placeholder):
        if type(form) in types and form in values:
            places = np.fromiter((value == form for value in values), np.bool_, len(values))
            found = places if found is None else found | places
    if found is None:
        return values, None
    return [None if gone else value for value, gone in zip(values, found.tolist(), strict=True)], found


def _forms(kind: ConnectType | None, placeholder: str) -> list[Any]:
    """How the placeholder is spelled in a column of this type; without one, in all that leave no doubt."""
    raw = placeholder.encode()
    forms: list[Any] = [placeholder, {placeholder: placeholder}, [placeholder]]
    if kind is None:
        return [*forms, _base64(raw), *(_items(items, raw) for items in _ITEMS)]
    if kind.kind == "bytes":
        forms.append(_base64(raw))
    if kind.kind == "array" and kind.items is not None:
        forms.append(_items(kind.items, raw))
    return forms


_ITEMS = (ConnectType("bytes"), ConnectType("int64"), ConnectType("string", UUID))
"""Items of lists whose placeholder is too long to be met by chance."""


def _items(kind: ConnectType, raw: bytes) -> list[Any]:
    if kind.name == UUID:
        return [str(uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))]
    if kind.kind == "bytes" and kind.name == DECIMAL:
        return [_base64(bytes([byte])) for byte in raw]
    if kind.kind == "bytes":
        return [_base64(raw)]
    if kind.kind == "boolean":
        return [byte != 0 for byte in raw]
    if kind.name == VARIABLE_DECIMAL:
        return [{"scale": 0, "value": _base64(bytes([byte]))} for byte in raw]
    return list(raw)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
