"""Debezium's JSON, one value at a time in plain Python: the slow statement of what `encode` must write.

Values are *raw*: dates, times, timestamps and durations are the integers that Arrow keeps for them, because
Python's own types end with the year 9999. `build` makes arrays of raw values, `raw` takes them apart again.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from penstock.changes.debezium import Source

__all__ = ["build", "envelope", "raw", "row_json", "spell"]

EXACT = Context(prec=80)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _counted(kind: pa.DataType) -> pa.DataType | None:
    """The integer type inside a temporal type."""
    if pa.types.is_interval(kind) or not pa.types.is_temporal(kind):
        return None
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def build(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """An array of raw values."""
    mask = pa.array([value is None for value in values], pa.bool_())
    counted = _counted(kind)
    if counted is not None:
        return pa.array(values, counted).view(kind)
    if pa.types.is_dictionary(kind):
        return build(kind.value_type, values).dictionary_encode().cast(kind)
    if pa.types.is_struct(kind):
        parts = [build(field.type, [value and value[field.name] for value in values]) for field in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        flat = [item for value in values for item in (value or [None] * kind.list_size)]
        return pa.FixedSizeListArray.from_arrays(build(kind.value_type, flat), type=kind, mask=mask)
    if pa.types.is_nested(kind):
        lengths = [len(value or ()) for value in values]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        flat = [item for value in values for item in (value or ())]
        if pa.types.is_map(kind):
            keys, items = (
                build(kind.key_type, [k for k, _ in flat]),
                build(kind.item_type, [v for _, v in flat]),
            )
            return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=mask)
        if pa.types.is_large_list(kind):
            inner = build(kind.value_type, flat)
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), inner, type=kind, mask=mask)
        inner = build(kind.value_type, flat)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=kind, mask=mask)
    return pa.array(values, kind)


def raw(array: pa.Array) -> list[Any]:
    """The raw values of an array, floats by their digits, so that NaN and −0.0 can be compared."""
    return [_digits(value) for value in array.cast(_raw_type(array.type)).to_pylist()]


def _raw_type(kind: pa.DataType) -> pa.DataType:
    counted = _counted(kind)
    if counted is not None:
        return counted
    if pa.types.is_dictionary(kind):
        return _raw_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_raw_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_raw_type(key.type)), item.with_type(_raw_type(item.type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_raw_type(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_raw_type(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_raw_type(kind.value_type)))
    return kind


def _digits(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: _digits(part) for name, part in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "nanoseconds"):
        return [_digits(part) for part in value]
    return value


def spell(kind: pa.DataType, value: Any, decimals: str = "precise") -> Any:
    """The JSON value, as a Python object, of one raw value."""
    t = pa.types
    if value is None or t.is_null(kind):
        return None
    if t.is_dictionary(kind):
        return spell(kind.value_type, value, decimals)
    if t.is_floating(kind):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return float(str(np.float32(value))) if kind.bit_width == 32 else value
    if t.is_decimal(kind) or kind == pa.uint64():
        return _decimal(Decimal(value), 0 if kind == pa.uint64() else kind.scale, decimals)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if t.is_interval(kind):
        return _interval(*value)
    if t.is_timestamp(kind) and kind.tz is not None:
        return _instant(value, kind.unit)
    if t.is_date64(kind):
        return value // 86_400_000
    if kind in (pa.time32("s"), pa.timestamp("s"), pa.duration("ms")):
        return value * 1000
    if kind == pa.duration("s"):
        return value * 1_000_000
    if t.is_struct(kind):
        return {field.name: spell(field.type, value[field.name], decimals) for field in kind}
    if t.is_map(kind):
        pairs = [[spell(kind.key_type, k, decimals), spell(kind.item_type, v, decimals)] for k, v in value]
        text = t.is_string(kind.key_type) or t.is_large_string(kind.key_type)
        text = text or (t.is_decimal(kind.key_type) and decimals == "string")
        return dict(pairs) if text else pairs
    if t.is_nested(kind):
        return [spell(kind.value_type, item, decimals) for item in value]
    return value


def _decimal(value: Decimal, scale: int, decimals: str) -> Any:
    if decimals == "string":
        return str(value)
    if decimals == "double":
        return float(value)
    unscaled = int(value.scaleb(scale, EXACT))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()


def _instant(value: int, unit: str) -> str:
    seconds, fraction = divmod(value, PER_SECOND[unit])
    year, rest = 0, seconds
    if not -62_135_596_800 <= seconds < 253_402_300_800:
        # Python's years are 1 to 9999; the calendar repeats every 400 years.
        cycle = 400 * 365 + 97
        cycles = (seconds - 946_684_800) // (cycle * 86_400)
        year, rest = 400 * cycles, seconds - cycles * cycle * 86_400
    when = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=rest)
    year += when.year
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    digits = f".{str(fraction).zfill(len(str(PER_SECOND[unit])) - 1)}" if unit != "s" else ""
    return f"{sign}{str(abs(year)).zfill(4)}-{when:%m-%dT%H:%M:%S}{digits}Z"


def _interval(months: int, days: int, nanos: int) -> str:
    years, left = divmod(abs(months), 12)
    sign, minus = ("-" if months < 0 else ""), ("-" if nanos < 0 else "")
    seconds, fraction = divmod(abs(nanos), 10**9)
    year_month = f"{sign if years else ''}{years}Y{sign if left else ''}{left}M"
    clock = f"{minus}{seconds // 3600}H{minus}{seconds // 60 % 60}M{minus}{seconds % 60}.{fraction:09}S"
    return f"P{year_month}{days}DT{clock}"


def row_json(schema: pa.Schema, row: dict[str, Any], decimals: str = "precise") -> dict[str, Any]:
    return {field.name: spell(field.type, row[field.name], decimals) for field in schema}


def envelope(
    op: str, before: Any, after: Any, source: Source, ts: int | None, lsn: int | None, now: int
) -> bytes:
    """A whole message: ``ts`` in microseconds, ``now`` in nanoseconds."""
    micros = now // 1000 if ts is None else ts
    sequence = source.sequence if lsn is None else f'[null,"{lsn}"]'
    return orjson.dumps(
        {
            "before": before,
            "after": after,
            "source": {
                "version": source.version,
                "connector": source.connector,
                "name": source.name,
                "ts_ms": micros // 1000,
                "snapshot": "true" if op == "r" else "false",
                "db": source.db,
                "sequence": None if sequence is None else str(sequence),
                "ts_us": micros,
                "ts_ns": now if ts is None else ts * 1000,
                "schema": source.schema,
                "table": source.table,
                "txId": None,
                "lsn": lsn,
            },
            "transaction": None,
            "op": op,
            "ts_ms": now // 10**6,
            "ts_us": now // 1000,
            "ts_ns": now,
        }
    )
