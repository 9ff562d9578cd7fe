"""`Envelope`: one change message at a time, for people. Batches go through `encode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from penstock.changes.debezium.json_columns import column_text, join, object_pieces
from penstock.changes.debezium.source import Source
from penstock.changes.debezium.types import Decimals, check_decimals, connect_type
from penstock.errors import InvalidArgument

__all__ = ["Envelope"]

Row = Mapping[str, Any]

_TOP = 2**63
_OPS = {op: f'{{"op":"{op}","ts_ms":' for op in ("c", "u", "d", "r")}


@dataclass(frozen=True, slots=True)
class Envelope:
    """One change: what the row was, what it is, where it happened and when.

    >>> source = Source("shop", "default", "orders", 42, version="1")
    >>> Envelope.insert({"id": 1, "amount": 100}, source, 1706140800000).to_json()[:36]
    '{"op":"c","ts_ms":1706140800000,"sou'
    """

    op: str
    ts_ms: int
    source: Source
    before: Row | None = None
    after: Row | None = None

    @classmethod
    def insert(cls, after: Row, source: Source, ts_ms: int) -> Envelope:
        """A row appeared."""
        return cls("c", ts_ms, source, after=after)

    @classmethod
    def delete(cls, before: Row, source: Source, ts_ms: int) -> Envelope:
        """A row went away."""
        return cls("d", ts_ms, source, before=before)

    @classmethod
    def update(cls, before: Row, after: Row, source: Source, ts_ms: int) -> Envelope:
        """A row changed."""
        return cls("u", ts_ms, source, before=before, after=after)

    @classmethod
    def read(cls, after: Row, source: Source, ts_ms: int) -> Envelope:
        """A row was there when the table was first read."""
        return cls("r", ts_ms, source, after=after)

    def to_json(self, decimals: Decimals = "precise") -> str:
        """The message. A ``before`` or ``after`` that there is not is left out.

        Python values are written as the Arrow values they become, so they mean what `encode` writes. About
        1 µs where all are text, numbers, truth values or None, and some 10 µs per column where they are not.

        >>> from decimal import Decimal
        >>> row = {"balance": Decimal("1.50"), "bin": b"hello"}
        >>> Envelope.insert(row, Source("s", "d", "t", version="1"), 0).to_json()[-45:]
        ',"after":{"balance":"AJY=","bin":"aGVsbG8="}}'
        """
        if decimals != "precise":
            check_decimals(decimals)
        head, ts_ms = _OPS.get(self.op), self.ts_ms
        if head is None or type(ts_ms) is not int or not -_TOP <= ts_ms < _TOP:
            raise self._unfit()
        before, after = self.before, self.after
        images = "" if before is None else f',"before":{_row_json(before, decimals)}'
        if after is not None:
            images += f',"after":{_row_json(after, decimals)}'
        return f'{head}{ts_ms},"source":{self.source.to_json()}{images}}}'

    def _unfit(self) -> InvalidArgument:
        return InvalidArgument(
            f"the op is {self.op!r} and the time {self.ts_ms!r}",
            subject="Envelope",
            hint=f"An op is one of {', '.join(_OPS)}, and a time is an integer of 64 bits.",
        )


def _row_json(row: Row, decimals: Decimals) -> str:
    if _is_plain(row):
        try:
            return orjson.dumps(row if type(row) is dict else dict(row)).decode()
        except TypeError:  # a surrogate: the long way says what is wrong
            pass
    texts = []
    for name, value in row.items():
        _check_name(name)
        try:
            array = pa.array([value])
        except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
            raise InvalidArgument(
                f"the value of {name!r} has no form in Arrow: {error}",
                subject="Envelope",
                hint="Use numbers, text, bytes, dates, decimals, and lists and mappings of them.",
            ) from None
        connect_type(array.type, decimals=decimals)  # refuses what has no form in a message
        texts.append(column_text(array, decimals))
    text: str = join(object_pieces(list(row), texts), 1)[0].as_py()
    return text


def _is_plain(row: Row) -> bool:
    """Whether JSON has but one meaning for each value, so that no way through Arrow is needed."""
    for value in row.values():
        kind = type(value)
        if kind is int:
            if not -_TOP <= value < _TOP:
                return False
        elif kind is float:
            if value - value != 0.0:  # NaN and the infinities
                return False
        elif kind is not str and kind is not bool and value is not None:
            return False
    return True


def _check_name(name: object) -> None:
    if not isinstance(name, str) or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InvalidArgument(
            f"{name!r} is not the name of a column", subject="Envelope", hint="Names are whole Unicode text."
        )
