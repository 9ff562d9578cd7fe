"""One value at a time: which are taken for which type, as what, and why the others are not.

This is the plain statement of the rules. The fast casts beside it must agree with it wherever they answer.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

__all__ = ["Clock", "Moment", "No", "array_of", "is_missing", "plain"]

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: naive times are UTC
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.UTC)
_NUMPY_UNITS = {"W": 7 * DAY, "D": DAY, "h": 3600 * 10**9, "m": 60 * 10**9, **NANOS}


class No(Exception):
    """The value is not taken; the text goes on after "is not taken as <type>, "."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of an Arrow column, as exact and as far as Arrow has it."""

    nanos: int
    zoned: bool

    def __repr__(self) -> str:
        micros, rest = divmod(self.nanos, 1000)
        try:
            text = str(_EPOCH + dt.timedelta(microseconds=micros))
        except OverflowError:
            return f"{self.nanos} ns since 1970"
        return text + (f"+{rest}ns" if rest else "") + ("Z" if self.zoned else "")


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day of an Arrow column."""

    nanos: int

    def __repr__(self) -> str:
        return f"{self.nanos} ns after midnight"


def is_missing(value: Any) -> bool:
    """Whether a value stands for NULL: None, and what pandas and NumPy have for it, but no NaN."""
    if value is None:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NaTType", "NAType")  # pandas.NaT and pandas.NA, without pandas


def plain(value: Any, kind: pa.DataType) -> Any:
    """The value as `array_of` takes it for a flat type, or `No`."""
    return _taker(kind)(_bare(value), kind)


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of what `plain` gave, and of None."""
    t = pa.types
    if t.is_timestamp(kind) or t.is_time64(kind) or t.is_date64(kind) or t.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    if t.is_date32(kind) or t.is_time32(kind):
        return pa.array(values, pa.int32()).view(kind)
    return pa.array(values, kind)


def _bare(value: Any) -> Any:
    """The value without what NumPy, Arrow or an enumeration put around it."""
    if isinstance(value, Enum):
        return _bare(value.value)
    if isinstance(value, pa.Scalar):
        return _bare(value.as_py())
    if isinstance(value, np.bool_ | np.integer) and not isinstance(value, np.timedelta64):
        return value.item()
    return value


def _taker(kind: pa.DataType) -> Callable[[Any, pa.DataType], Any]:
    for is_kind, taker in _TAKERS:
        if is_kind(kind):
            return taker
    return _nothing


def _nothing(value: Any, kind: pa.DataType) -> Any:
    raise No("for which nothing but NULL is taken")


# -- truth and numbers ------------------------------------------------------------------------------


def _boolean(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, bool):
        return value
    raise No("which takes True and False")


def _integer(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, float | np.floating | Decimal):
        if _exact(value).adjusted() > 40:  # before an integer of a million digits is made
            raise No("whose range it leaves")
        whole = int(value)
        if whole != value:
            raise No("for it is not a whole number")
        value = whole
    if not isinstance(value, int) or isinstance(value, bool):
        raise No("which takes whole numbers")
    signed = pa.types.is_signed_integer(kind)
    low = -(1 << (kind.bit_width - 1)) if signed else 0
    if not low <= value < low + (1 << kind.bit_width):
        raise No("whose range it leaves")
    return value


def _floating(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, float | np.floating):
        number = float(value)
        widest: Any = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        with np.errstate(over="ignore"):
            if np.isfinite(number) and not np.isfinite(widest(number)):
                raise No("whose range it leaves")
        return number
    if isinstance(value, int) and not isinstance(value, bool):
        number = _nearest(value)
        if number != value or (kind.bit_width < 64 and int(_narrow(number, kind)) != value):
            raise No("which cannot hold it exactly")
        return number
    if isinstance(value, Decimal):
        number = _nearest(_exact(value))
        if Decimal(repr(number)) != value:
            raise No("which cannot hold it exactly")
        return _floating(number, kind)
    raise No("which takes numbers")


def _nearest(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        raise No("whose range it leaves") from None


def _narrow(number: float, kind: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        narrow = np.float32(number) if kind.bit_width == 32 else np.float16(number)
    if not np.isfinite(narrow):
        raise No("whose range it leaves")
    return float(narrow)


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?\Z")


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, str):
        if len(value) > 10_000 or not _DECIMAL.match(value):
            raise No("for it is not written as a number")
        number = Decimal(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() > 256:  # an int of many digits is slow to make a decimal of
            raise No("whose range it leaves")
        number = Decimal(value)
    elif isinstance(value, float | np.floating | Decimal):
        number = _exact(value)
    else:
        raise No("which takes numbers, and texts that are written as one")
    try:
        scaled = _AT_SCALE.quantize(number, Decimal((0, (1,), -kind.scale)))
    except Inexact:
        raise No(f"for it has more than {kind.scale} digits after the point") from None
    except (InvalidOperation, Overflow):
        raise No("whose range it leaves") from None
    if scaled.is_zero():
        return abs(scaled)
    if scaled.adjusted() + kind.scale >= kind.precision:
        raise No("whose range it leaves")
    return scaled


_AT_SCALE = Context(prec=90, Emax=999_999_999, Emin=-999_999_999, traps=[Inexact, InvalidOperation, Overflow])


def _exact(value: float | np.floating[Any] | Decimal) -> Decimal:
    """The number; of a float, the one with the fewest digits that is nearest to no other float."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    if not number.is_finite():
        raise No("which has no NaN and no infinity")
    return number


# -- texts and bytes --------------------------------------------------------------------------------


def _text(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise No("which takes texts: write it as one")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise No("for half a surrogate pair is in it, which UTF-8 cannot write") from None
    return str(value)


def _binary(value: Any, kind: pa.DataType) -> bytes:
    if isinstance(value, UUID):
        found = value.bytes
    elif isinstance(value, bytes | bytearray | memoryview):
        found = bytes(value)
    else:
        raise No("which takes bytes: encode a text")
    if pa.types.is_fixed_size_binary(kind) and len(found) != kind.byte_width:
        raise No(f"for it has {len(found)} bytes and not {kind.byte_width}")
    return found


# -- times ------------------------------------------------------------------------------------------

_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,30}))?)?"
_ZONE = r"(Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
_DATE = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
_DATE_ONLY = re.compile(_DATE + r"\Z")
_TIME_ONLY = re.compile(_TIME + r"\Z")
_DATE_TIME = re.compile(_DATE + r"[T ]" + _TIME + _ZONE + r"\Z")


def _timestamp(value: Any, kind: pa.DataType) -> int:
    nanos, zoned = _moment(value)
    if zoned and kind.tz is None:
        raise No("which has no time zone and would forget the one given")
    return _in_unit(nanos, kind.unit)


def _moment(value: Any) -> tuple[int, bool]:
    """Nanoseconds since 1970 in UTC, and whether a zone was given."""
    if isinstance(value, Moment):
        return value.nanos, value.zoned
    if isinstance(value, np.datetime64):
        return _numpy_nanos(value), False
    if isinstance(value, dt.datetime):
        zoned = value.utcoffset() is not None
        since = value - _EPOCH_UTC if zoned else value.replace(tzinfo=None) - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
        return micros * 1000 + int(getattr(value, "nanosecond", 0)), zoned  # pandas.Timestamp has them
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH.toordinal()) * DAY, False
    if isinstance(value, str):
        return _moment_of_text(value)
    raise No("which takes times, and texts like 2024-01-31T12:00:00Z")


def _moment_of_text(text: str) -> tuple[int, bool]:
    date = _DATE_ONLY.match(text)
    if date:
        return _days(*date.groups()) * DAY, False
    found = _DATE_TIME.match(text)
    if found is None:
        raise No("for it is not written like 2024-01-31T12:00:00Z")
    *parts, zone = found.groups()
    nanos = _days(*parts[:3]) * DAY + _time_of_day(*parts[3:])
    return nanos - _offset(zone), zone is not None


def _days(year: str, month: str, day: str) -> int:
    try:
        return dt.date(int(year), int(month), int(day)).toordinal() - _EPOCH.toordinal()
    except ValueError:
        raise No("for there is no such day") from None


def _time_of_day(hours: str, minutes: str, seconds: str | None, fraction: str | None) -> int:
    h, m, s = int(hours), int(minutes), int(seconds or 0)
    if h > 23 or m > 59 or s > 59:
        raise No("for there is no such time of day")
    digits = (fraction or "").ljust(9, "0")
    if digits[9:].strip("0"):
        raise No("which is not as fine as that")
    return ((h * 60 + m) * 60 + s) * 10**9 + int(digits[:9])


def _offset(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        raise No("for there is no such time zone")
    nanos = (hours * 60 + minutes) * 60 * 10**9
    return -nanos if zone[0] == "-" else nanos


def _in_unit(nanos: int, unit: str) -> int:
    count, rest = divmod(nanos, NANOS[unit])
    if rest:
        raise No("which is not as fine as that")
    if not -(2**63) <= count < 2**63:
        raise No("whose range it leaves")
    return count


def _date(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, str):
        found = _DATE_ONLY.match(value)
        if found is None:
            raise No("for it is not written like 2024-01-31")
        days = _days(*found.groups())
    elif isinstance(value, dt.date | np.datetime64 | Moment):  # a datetime is a date, too
        days, rest = divmod(_moment(value)[0], DAY)
        if rest:
            raise No("which would forget the time of day (in UTC)")
    else:
        raise No("which takes dates, and texts like 2024-01-31")
    if pa.types.is_date64(kind):
        return days * 86_400_000
    if not -(2**31) <= days < 2**31:
        raise No("whose range it leaves")
    return days


def _time(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, Clock):
        return _in_unit(value.nanos, kind.unit)
    if isinstance(value, str):
        found = _TIME_ONLY.match(value)
        if found is None:
            raise No("for it is not written like 12:00:00")
        return _in_unit(_time_of_day(*found.groups()), kind.unit)
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise No("which has no time zone and would forget the one given")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _in_unit(seconds * 10**9 + value.microsecond * 1000, kind.unit)
    raise No("which takes times of day, and texts like 12:00:00")


def _duration(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, np.timedelta64):
        return _in_unit(_numpy_nanos(value), kind.unit)
    if isinstance(value, dt.timedelta):
        micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        return _in_unit(micros * 1000 + int(getattr(value, "nanoseconds", 0)), kind.unit)
    raise No("which takes durations (timedelta)")


def _numpy_nanos(value: np.datetime64 | np.timedelta64) -> int:
    unit, count = np.datetime_data(value.dtype)
    if unit not in _NUMPY_UNITS:
        raise No(f"for NumPy's unit {unit!r} is not one of {', '.join(_NUMPY_UNITS)}")
    return int(value.astype(np.int64)) * count * _NUMPY_UNITS[unit]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind)
    )


_TAKERS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]] = [
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (_is_text, _text),
    (_is_bytes, _binary),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
]
