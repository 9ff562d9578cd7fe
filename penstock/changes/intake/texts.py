"""Columns of texts into decimals and times, a column at a time.

Each answers None where it cannot answer for every text; then they are looked at one by one. Texts that it
takes are a part of those that `scalars` takes, with the same result.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["from_texts"]

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_NAIVE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?$"
_ZONED = r"^[0-9-]{10}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_YEAR_1 = -62_135_596_800_000_000  # microseconds; Arrow knows a year 0, and Spark does not


def from_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The texts as numbers or times of this type, or None."""
    t = pa.types
    if t.is_decimal(kind):
        return _decimals(texts, kind)
    if t.is_date32(kind):
        return texts.cast(kind) if _all_match(texts, _DATE) else None
    if t.is_timestamp(kind) and kind.unit == "us":
        return _timestamps(texts, kind)
    return None


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > 38 or not _all_match(texts, _NUMBER):
        return None
    # Arrow does not notice every overflow when it moves the point: the type between has room for all digits.
    wide = pa.decimal128(38, kind.scale) if longest + kind.scale <= 38 else pa.decimal256(76, kind.scale)
    return texts.cast(wide).cast(kind)


def _timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    naive, zoned = pa.timestamp("us"), pa.timestamp("us", "UTC")
    if _all_match(texts, _NAIVE):
        found = texts.cast(naive)
    elif kind.tz is not None and _all_match(texts, _ZONED):
        found = texts.cast(zoned)
    elif kind.tz is not None:
        with_zone = _matches(texts, _ZONED)
        if not pc.all(pc.or_(with_zone, _matches(texts, _NAIVE))).as_py():
            return None
        none: Any = pa.scalar(None, texts.type)
        first = pc.if_else(with_zone, texts, none).cast(zoned).view(pa.int64())
        second = pc.if_else(with_zone, none, texts).cast(naive).view(pa.int64())
        found = pc.coalesce(first, second)
    else:
        return None
    micros = found.view(pa.int64())
    least = pc.min(micros).as_py()
    return micros.view(kind) if least is None or least >= _YEAR_1 else None


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(texts, pattern)


def _all_match(texts: pa.Array, pattern: str) -> bool:
    told = pc.all(_matches(texts, pattern)).as_py()  # NULLs play no part; None when there is nothing else
    return told is not False
