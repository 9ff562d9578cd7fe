"""Instants, dates, times and intervals as ISO-8601 text, both ways.

Arrow prints and reads the years 0 to 9999 fast; what lies outside, and the rare semantic types, is done one
distinct value at a time in Python, exactly. Years outside four digits carry a sign, as Java prints them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.buffers import elements, with_nulls
from penstock.changes.debezium.misfit import Misfit, shown

__all__ = ["INFINITY", "MINUS_INFINITY", "instants_text", "intervals_text", "parse", "parse_instants"]

Int64s = npt.NDArray[np.int64]

INFINITY = 9223372036825200000
"""PostgreSQL's timestamp 'infinity' on Debezium's wire; a timestamp[us] column keeps it as it is."""

MINUS_INFINITY = -9223372036832400000
"""The same for '-infinity'."""

TEXT = pa.large_string()
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY = 86_400
_YEAR_0, _YEAR_10000 = -62_167_219_200, 253_402_300_800  # seconds since 1970


def instants_text(array: pa.Array) -> pa.Array:
    """Instants as Debezium's ZonedTimestamp: UTC, a ``Z``, and all digits of the unit.

    >>> instants_text(pa.array([1704164645678901, None], pa.timestamp("us", "UTC"))).to_pylist()
    ['2024-01-02T03:04:05.678901Z', None]
    >>> instants_text(pa.array([9223372036825200000], pa.timestamp("us", "UTC"))).to_pylist()
    ['+294247-01-10T04:00:25.200000Z']
    """
    unit = array.type.unit
    values, scale = elements(array, np.int64), PER_SECOND[unit]
    far = (
        (values < _YEAR_0 * scale) | (values >= _YEAR_10000 * scale)
        if unit != "ns"
        else np.zeros(0, np.bool_)
    )
    naive = array.view(pa.int64()).cast(pa.timestamp(unit))
    if far.any():
        naive = pc.if_else(pa.array(far), pa.scalar(0, pa.timestamp(unit)), naive)
    text = pc.binary_replace_slice(naive.cast(TEXT), start=10, stop=11, replacement="T")
    text = pc.binary_join_element_wise(text, pa.scalar("Z", TEXT), pa.scalar("", TEXT))
    if not far.any():
        return text
    distinct, number = np.unique(values[far], return_inverse=True)
    spelled = pa.array([spell_instant(int(value), unit) for value in distinct], TEXT)
    return pc.if_else(
        array.is_valid(), pc.replace_with_mask(text, pa.array(far), spelled.take(pa.array(number))), None
    )


def spell_instant(value: int, unit: str) -> str:
    """One instant, of any year."""
    seconds, fraction = divmod(value, PER_SECOND[unit])
    days, second = divmod(seconds, _DAY)
    year, month, day = _civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    digits = f".{fraction:0{DIGITS[unit]}}" if DIGITS[unit] else ""
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{sign}{abs(year):04}-{month:02}-{day:02}T{clock}{digits}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970, by the Gregorian calendar without end in both directions."""
    era, day_of_era = divmod(days + 719_468, 146_097)  # eras begin on 1 March of a year divisible by 400
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    """The day since 1970 of a date; the inverse of `_civil`. ValueError where there is no such date."""
    if not (1 <= month <= 12 and day >= 1):
        raise ValueError
    era, of_era = divmod(year - (month <= 2), 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468
    if _civil(days) != (year, month, day):
        raise ValueError
    return days


_DATE = r"(?P<year>[+-]?[0-9]{4,12})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
_ZONE = r"(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_INSTANT = re.compile(f"{_DATE}[T ]{_CLOCK}{_ZONE}")
_LOCAL = re.compile(f"{_DATE}[T ]{_CLOCK}(?P<zone>Z)?")
_TIME = re.compile(f"{_CLOCK}(?P<zone>Z|[+-]00(?::?00)?)?")
_DAY_ONLY = re.compile(f"{_DATE}Z?")
_INTERVAL = re.compile(
    r"P(?=.)(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)D)?"
    r"(?:T(?=.)(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?)([0-9]+)(?:\.([0-9]{1,9}))?S)?)?"
)


def _clock(found: re.Match[str], unit: str) -> int:
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    nanos, rest = divmod(int((found["fraction"] or "0").ljust(9, "0")), 10 ** (9 - DIGITS[unit]))
    if rest:
        raise ValueError
    value: int = (hour * 3600 + minute * 60 + second) * PER_SECOND[unit] + nanos
    return value


def _instant(text: str, unit: str, form: re.Pattern[str] = _INSTANT) -> int:
    found = form.fullmatch(text)
    if found is None:
        raise ValueError
    days = _days(int(found["year"]), int(found["month"]), int(found["day"]))
    value = days * _DAY * PER_SECOND[unit] + _clock(found, unit)
    zone = (found["zone"] or "Z").replace(":", "")
    if zone != "Z":
        hour, minute = int(zone[1:3]), int(zone[3:] or 0)
        if hour > 23 or minute > 59:
            raise ValueError
        minutes = hour * 60 + minute
        value -= (-minutes if zone[0] == "-" else minutes) * 60 * PER_SECOND[unit]
    if not -(2**63) <= value < 2**63 and unit == "us" and value in (INFINITY * 1000, MINUS_INFINITY * 1000):
        # Debezium takes infinity for milliseconds when it spells an instant, for microseconds when it counts.
        value //= 1000
    return value


def _interval(text: str, _: str) -> tuple[int, int, int]:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    sign, seconds, fraction = found.groups()[5:]
    last = int(seconds or 0) * 10**9 + int((fraction or "0").ljust(9, "0"))
    nanos = (hours * 3600 + minutes * 60) * 10**9 + (-last if sign else last)
    if max(abs(years * 12 + months), abs(days)) >= 2**31 or abs(nanos) >= 2**63:
        raise ValueError
    return years * 12 + months, days, nanos


def _date(text: str, _: str) -> int:
    found = _DAY_ONLY.fullmatch(text)
    if found is None:
        raise ValueError
    return _days(int(found["year"]), int(found["month"]), int(found["day"]))


def _time(text: str, unit: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError
    return _clock(found, unit)


def _local(text: str, unit: str) -> int:
    return _instant(text, unit, _LOCAL)


def parse_instants(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text with a zone as timestamps with a zone.

    >>> texts = pa.array(["2024-01-02T03:04:05Z", None])
    >>> parse_instants(texts, pa.timestamp("s", "UTC")).cast("int64").to_pylist()
    [1704164645, None]
    """
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return _parse(texts, _instant, kind, "an instant such as 2024-01-02T03:04:05.678901Z")


def parse(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as dates, times of day, timestamps without a zone, or intervals: whatever ``kind`` is.

    >>> parse(pa.array(["P1Y2M3DT4H5M6.78S"]), pa.month_day_nano_interval()).to_pylist()
    [MonthDayNano(months=14, days=3, nanoseconds=14706780000000)]
    """
    if pa.types.is_date32(kind):
        return _parse(texts, _date, kind, "a date such as 2024-01-02")
    if pa.types.is_time(kind):
        return _parse(texts, _time, kind, "a time of day in UTC such as 03:04:05.678901Z")
    if pa.types.is_timestamp(kind):
        return _parse(texts, _local, kind, "a timestamp such as 2024-01-02T03:04:05.678901")
    return _parse(texts, _interval, kind, "an interval such as P1Y2M3DT4H5M6.78S")


def _parse(texts: pa.Array, one: Callable[[str, str], object], kind: pa.DataType, what: str) -> pa.Array:
    """Parse each distinct text once."""
    coded = texts.dictionary_encode()
    unit, values = getattr(kind, "unit", "s"), []
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            value = one(text, unit)
            if isinstance(value, int) and not -(2 ** (kind.bit_width - 1)) <= value < 2 ** (
                kind.bit_width - 1
            ):
                raise ValueError
        except ValueError:
            at = int(pc.index(coded.indices, number).as_py())
            hint = f"It must be {what}, and fit {kind}; give the column another type in schema=."
            raise Misfit(at, f"{shown(text)} is not {what}", hint) from None
        values.append(value)
    if pa.types.is_interval(kind):
        return pa.array(values, kind).take(coded.indices)
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, storage).take(coded.indices).view(kind)


def intervals_text(array: pa.Array) -> pa.Array:
    """Intervals as Debezium's Interval, every part with its own sign.

    >>> intervals_text(pa.array([(-14, 3, -500_000_000)], pa.month_day_nano_interval())).to_pylist()
    ['P-1Y-2M3DT-0H-0M-0.500000000S']
    """
    layout = np.dtype([("months", np.int32), ("days", np.int32), ("nanos", np.int64)])
    parts = elements(array, layout)
    months = parts["months"].astype(np.int64)
    years = np.sign(months) * (abs(months) // 12)
    negative = parts["nanos"] < 0
    nanos = np.where(negative, ~parts["nanos"], parts["nanos"]).astype(np.uint64) + negative.astype(np.uint64)
    seconds, fraction = nanos // 10**9, nanos % 10**9

    def spelled(values: npt.NDArray[np.integer]) -> pa.Array:
        return pa.array(values).cast(TEXT)

    sign = pa.array(np.where(negative, "-", ""), TEXT)
    pieces = [
        "P",
        spelled(years),
        "Y",
        spelled(months - 12 * years),
        "M",
        spelled(parts["days"].copy()),
        "DT",
    ]
    pieces += [sign, spelled(seconds // 3600), "H", sign, spelled(seconds // 60 % 60), "M"]
    pieces += [sign, spelled(seconds % 60), ".", pc.utf8_lpad(spelled(fraction), 9, padding="0"), "S", ""]
    joined = pc.binary_join_element_wise(*[pa.scalar(p, TEXT) if isinstance(p, str) else p for p in pieces])
    return with_nulls(joined, array)
