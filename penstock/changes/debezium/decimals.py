"""Decimals from the wire: unscaled bytes, text, and numeric columns that keep one scale per value.

Arrow's own reading of decimal text wraps long digits around in silence (and faults on far exponents), so text
is read here, by Python's integers, one distinct value at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium.buffers import slices, with_nulls
from penstock.changes.debezium.misfit import Misfit, of_field, shown
from penstock.changes.debezium.scalars import Types, Values, binary, check, texts, unsigned
from penstock.changes.debezium.types import ConnectType, arrow_type

__all__ = ["decimals", "from_text", "variable_decimals"]

_HINT = "Give the column a decimal type with more digits, or the type string, in schema=."
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,5}))?")
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MAX_SCALE = 20_000  # PostgreSQL's numeric stops at 16,383 digits after the point


def decimals(values: Values, types: Types, kind: ConnectType, target: pa.DataType) -> pa.Array:
    """Connect's Decimal: base64 of the unscaled value. Plain integers are understood for uint64."""
    if target == pa.uint64() and int in types:
        return unsigned(values, types)
    encoded = texts(values, types, "the base64 text of a decimal")
    unscaled = binary(encoded)
    if pa.types.is_large_binary(target) or pa.types.is_binary(target):
        return unscaled
    return _from_bytes(unscaled, arrow_type(kind))


def _from_bytes(unscaled: pa.Array, kind: pa.DataType) -> pa.Array:
    data, offsets = slices(unscaled)
    width, lengths = kind.bit_width // 8, np.diff(offsets)
    valid = unscaled.is_valid().to_numpy(zero_copy_only=False)
    _refuse(valid & (lengths == 0), unscaled, "no bytes are no number", "Check what wrote the message.")
    _refuse(valid & (lengths > width), unscaled, f"a number of so many bytes does not fit {kind}", _HINT)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(offsets[0], offsets[-1]) - offsets[:-1][row] + (width - lengths[row])
    sign = np.zeros(len(lengths), np.uint8)
    some = lengths > 0
    sign[some] = np.where(data[offsets[:-1][some]] >= 128, 255, 0)
    big = np.repeat(sign, width).reshape(-1, width)
    big[row, place] = data[offsets[0] : offsets[-1]]
    little = np.ascontiguousarray(big[:, ::-1])
    _refuse(
        valid & ~_fits(little, kind.precision),
        unscaled,
        f"the number has more digits than {kind} holds",
        _HINT,
    )
    return with_nulls(pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(little)]), unscaled)


def _refuse(bad: npt.NDArray[np.bool_], values: pa.Array, what: str, hint: str) -> None:
    if bad.any():
        at = int(bad.argmax())
        raise Misfit(at, f"{shown(values[at].as_py())}: {what}", hint)


def _fits(little: npt.NDArray[np.uint8], precision: int) -> npt.NDArray[np.bool_]:
    """Whether −10ᵖ < v < 10ᵖ, for two's complement integers of any width, word by word."""
    words = little.view(np.int64)
    bound = 10**precision
    return _less(words, bound) & ~_less(words, -bound + 1)


def _less(words: npt.NDArray[np.int64], bound: int) -> npt.NDArray[np.bool_]:
    count = words.shape[1]
    limits = np.frombuffer(bound.to_bytes(8 * count, "little", signed=True), np.int64)
    less: npt.NDArray[np.bool_] = words[:, -1] < limits[-1]
    same = words[:, -1] == limits[-1]
    for number in range(count - 2, -1, -1):  # below the topmost word there is no sign
        word, limit = words[:, number].view(np.uint64), limits[number].view(np.uint64)
        less |= same & (word < limit)
        same &= word == limit
    return less


def from_text(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimal text, such as ``-1.50`` or ``15e-1``, as decimals: exactly, or not at all.

    >>> from_text(pa.array(["1.5", "15e-1", None]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('1.50'), Decimal('1.50'), None]
    """
    coded = array.dictionary_encode()
    width, bound, words = kind.bit_width // 8, 10**kind.precision, []
    for number, text in enumerate(coded.dictionary.to_pylist()):
        unscaled = _unscaled(text, kind.scale)
        if unscaled is None or abs(unscaled) >= bound:
            at = int(pc.index(coded.indices, number).as_py())
            what = (
                f"{shown(text)} is not a number" if unscaled is None else f"{shown(text)} does not fit {kind}"
            )
            raise Misfit(at, what, _HINT)
        words.append(unscaled.to_bytes(width, "little", signed=True))
    distinct = pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(b"".join(words))])
    return distinct.take(coded.indices)


def _unscaled(text: str, scale: int) -> int | None:
    """The number times 10^scale, an integer: None for what is no number, too big for what is no integer."""
    found = _NUMBER.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return None
    digits = (found[2] + (found[3] or "")).lstrip("0")
    if not digits:
        return 0
    shift = int(found[4] or 0) - len(found[3] or "") + scale
    kept = digits.rstrip("0")
    shift += len(digits) - len(kept)
    if shift < 0 or len(kept) + shift > 80:
        return 10**80
    value: int = int(kept) * 10**shift
    return -value if found[1] == "-" else value


def variable_decimals(values: Sequence[Any], types: Types) -> pa.Array:
    """``{"scale": 1, "value": "AJY="}`` as plain decimal text, which holds every number exactly.

    >>> variable_decimals([{"scale": 1, "value": "AJY="}, None], frozenset([dict])).to_pylist()
    ['15.0', None]
    """
    check(values, types, frozenset([dict]), "a decimal with its scale")
    scales = [None if value is None else value.get("scale") for value in values]
    encoded = [None if value is None else value.get("value") for value in values]
    for at, (value, scale) in enumerate(zip(values, scales, strict=True)):
        if value is not None and (
            type(scale) is not int or abs(scale) > _MAX_SCALE or type(value.get("value")) is not str
        ):
            hint = "A number without a fixed scale is an object with an integer scale and a base64 value."
            raise Misfit(at, f"{shown(value)} is not a decimal with its scale", hint)
    with of_field("value"):
        unscaled = binary(pa.array(encoded, pa.large_string()))
        lengths = pc.binary_length(unscaled)
        _refuse(
            pc.fill_null(pc.equal(lengths, 0), False).to_numpy(zero_copy_only=False),
            unscaled,
            "no bytes are no number",
            _HINT,
        )
    return pa.array(
        [
            None if raw is None or scale is None else _plain(int.from_bytes(raw, "big", signed=True), scale)
            for raw, scale in zip(unscaled.to_pylist(), scales, strict=True)
        ],
        pa.large_string(),
    )


def _plain(unscaled: int, scale: int) -> str:
    return format(Decimal(unscaled).scaleb(-scale, _EXACT), "f")
