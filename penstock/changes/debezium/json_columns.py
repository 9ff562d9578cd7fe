"""An Arrow column as a column of JSON texts, without visiting its rows in Python.

Law: ``orjson.loads(column_text(a)[i])`` is what Debezium's JSON holds for ``a[i]``; NULL stays NULL here and
is written ``null`` where texts are joined.
Cost: a few passes of Arrow and NumPy over the column's leaves. Nested columns are written from the inside
out: a list is its items' texts joined, a struct its fields' texts between constant names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changes.debezium import base64, times
from penstock.changes.debezium.buffers import elements, slices, with_nulls
from penstock.changes.debezium.types import Decimals, connect_type, is_bytes, is_text, is_zoned
from penstock.changes.nested import is_list
from penstock.errors import ArithmeticOverflow, InvalidArgument

__all__ = ["column_text", "join", "object_pieces", "quoted"]

Int64s = npt.NDArray[np.int64]

TEXT = pa.large_string()  # a batch of messages may hold more than 2³¹ bytes


def join(pieces: list[str | pa.Array], length: int) -> pa.Array:
    """Row by row, the pieces one after the other; a NULL is written ``null``.

    >>> join(['{"a":', pa.array(["1", None], TEXT), "}"], 2).to_pylist()
    ['{"a":1}', '{"a":null}']
    """
    merged: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if all(isinstance(piece, str) for piece in merged):
        return pa.repeat(pa.scalar("".join(merged), TEXT), length)
    scalars = [_scalar(piece) if isinstance(piece, str) else piece for piece in merged]
    return pc.binary_join_element_wise(
        *scalars, _scalar(""), null_handling="replace", null_replacement="null"
    )


def _scalar(text: str) -> pa.Scalar:
    """Not kept as constants: the first scalar that is made loads pandas, which takes a while."""
    return pa.scalar(text, TEXT)


def object_pieces(names: list[str], texts: list[pa.Array]) -> list[str | pa.Array]:
    """The pieces of a JSON object with these members, for `join`."""
    pieces: list[str | pa.Array] = ["{"]
    for number, (name, text) in enumerate(zip(names, texts, strict=True)):
        pieces += ["," if number else "", quoted(name), ":", text]
    return [*pieces, "}"]


def quoted(text: str) -> str:
    """One string as JSON."""
    return orjson.dumps(text).decode()


def column_text(array: pa.Array, decimals: Decimals = "precise") -> pa.Array:
    """The JSON text of each value, as Debezium writes values of this type.

    >>> column_text(pa.array([1.5, float("nan"), 2.0, None])).to_pylist()
    ['1.5', '"NaN"', '2.0', None]
    >>> column_text(pa.array([[1, None], []])).to_pylist()
    ['[1,null]', '[]']
    """
    array = _plain(array)
    kind = array.type
    if is_text(kind):
        return _in_quotes(_escaped(array.cast(TEXT)))
    if is_bytes(kind):
        return _in_quotes(base64.text(array))
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_decimal(kind) or kind == pa.uint64():
        return _decimals(array, decimals)
    if is_zoned(kind):
        return _in_quotes(times.instants_text(array))
    if pa.types.is_interval(kind):
        return _in_quotes(times.intervals_text(array))
    if pa.types.is_temporal(kind):
        return _counted(array)
    if pa.types.is_struct(kind):
        return _structs(array, decimals)
    if pa.types.is_map(kind):
        return _maps(array, decimals)
    if is_list(kind):
        items = pc.list_flatten(array)
        return _listed(array, pc.list_value_length(array), column_text(items, decimals), "[]")
    return array.cast(TEXT)  # booleans, integers, and the type that has only NULL


def _plain(array: pa.Array) -> pa.Array:
    """The same values, not encoded as a dictionary, as runs or as an extension."""
    while True:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def _in_quotes(texts: pa.Array) -> pa.Array:
    quote = _scalar('"')
    return pc.binary_join_element_wise(quote, texts, quote, _scalar(""))


_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def _escaped(texts: pa.Array) -> pa.Array:
    """The texts with what JSON does not allow in a string escaped. Most columns have nothing to escape.

    The bytes that need it are found in one pass over the whole column; each of them that occurs (one or two,
    as a rule) is then replaced by Arrow, in those rows only that have any.
    """
    data, offsets = slices(texts)
    data = data[offsets[0] : offsets[-1]]
    special = (data < 0x20) | (data == 0x22) | (data == 0x5C)
    places = np.flatnonzero(special)
    if not len(places):
        return texts
    rows = np.zeros(len(texts), np.bool_)
    rows[np.searchsorted(offsets, places + offsets[0], side="right") - 1] = True
    some = texts.filter(pa.array(rows))
    present = np.flatnonzero(np.bincount(data[places], minlength=128))
    for byte in sorted(
        present.tolist(), reverse=True
    ):  # the backslash first, or it would meet those just written
        escape = _SHORT.get(byte, f"\\u{byte:04x}")
        some = pc.replace_substring(some, pattern=chr(byte), replacement=escape)
    return some if rows.all() else pc.replace_with_mask(texts, pa.array(rows), some)


def _floats(array: pa.Array) -> pa.Array:
    """Shortest digits that read back as the same float and are never an integer's; NaN as a string."""
    if array.type == pa.float16():
        array = array.cast(pa.float32())
    form = np.float32 if array.type == pa.float32() else np.float64
    values = elements(array, form)
    text = array.cast(TEXT)
    with np.errstate(invalid="ignore"):
        whole = values == np.trunc(values)
    if whole.any():  # Arrow prints these as 1e+20 or, up to a size of its choosing, as digits only
        whole &= ~pc.fill_null(pc.match_substring(text, "e"), False).to_numpy(zero_copy_only=False)
        suffix = pa.array(["", ".0"], TEXT).take(pa.array(whole.astype(np.int8)))
        text = pc.binary_join_element_wise(text, suffix, _scalar(""))
    if not np.isfinite(values).all():
        # An infinity is whole too, and has the suffix: it is overwritten here.
        for chosen, name in (
            (np.isnan(values), "NaN"),
            (values == np.inf, "Infinity"),
            (values == -np.inf, "-Infinity"),
        ):
            text = pc.if_else(pc.and_(pa.array(chosen), array.is_valid()), pa.scalar(f'"{name}"', TEXT), text)
    return text


def _decimals(array: pa.Array, decimals: Decimals) -> pa.Array:
    if array.type == pa.uint64():
        array = array.cast(pa.decimal128(20, 0))
    if decimals == "double":
        return _floats(array.cast(TEXT).cast(pa.float64()))  # Arrow's direct cast does not round correctly
    if decimals == "string":
        return _in_quotes(array.cast(TEXT))
    return _in_quotes(with_nulls(_unscaled(array), array))


def _unscaled(array: pa.Array) -> pa.Array:
    """Base64 of the fewest big-endian two's complement bytes that hold each unscaled value."""
    if array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    width = array.type.bit_width // 8
    little = elements(array, (np.uint8, width))
    words = little.view(np.int64)
    low = words[:, 0]
    sign = low >> 63
    lengths = 1 + np.searchsorted(2 ** np.arange(7, 63, 8), low ^ sign, side="right")
    big = np.ascontiguousarray(little[:, ::-1])
    wide = (words[:, 1:] != sign[:, None]).any(axis=1)
    if wide.any():
        lengths[wide] = _minimal_lengths(big[wide])
    ends = width * np.arange(1, len(big) + 1)
    return base64.encode(big.reshape(-1), ends - lengths, lengths)


def _minimal_lengths(big: npt.NDArray[np.uint8]) -> Int64s:
    sign = np.where(big[:, 0] >= 128, 255, 0)
    first = (big != sign[:, None]).argmax(axis=1)
    leading = big[np.arange(len(big)), first]
    lengths: Int64s = big.shape[1] - first + ((leading ^ sign) >= 128)
    return lengths


def _counted(array: pa.Array) -> pa.Array:
    """Dates, times of day, timestamps without a zone and durations: the integer their Connect type counts."""
    kind = array.type
    try:
        if pa.types.is_date64(kind):
            array = array.cast(pa.date32())
        elif kind == pa.time32("s"):
            array = array.cast(pa.time32("ms"))
        elif kind == pa.timestamp("s"):
            array = array.cast(pa.timestamp("ms"))
        elif pa.types.is_duration(kind) and kind.unit in ("s", "ms"):
            array = array.cast(pa.duration("us"))
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow(
            f"a value of type {kind} has no form in Debezium's messages: {error}",
            subject="Debezium",
            hint="Give the column a finer unit before it is encoded.",
        ) from None
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).cast(TEXT)


def _structs(array: pa.Array, decimals: Decimals) -> pa.Array:
    names = [part.name for part in array.type]
    texts = [column_text(part, decimals) for part in array.flatten()]
    return with_nulls(join(object_pieces(names, texts), len(array)), array)


def _listed(array: pa.Array, lengths: pa.Array, items: pa.Array, brackets: str) -> pa.Array:
    """The items' texts between brackets, ``lengths`` of them per row."""
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(pc.fill_null(lengths, 0).to_numpy(), out=offsets[1:])
    listed = pa.LargeListArray.from_arrays(pa.array(offsets), pc.fill_null(items, "null"))
    inside = pc.binary_join(listed, pa.scalar(",", TEXT))
    return with_nulls(join([brackets[0], inside, brackets[1]], len(array)), array)


def _maps(array: pa.Array, decimals: Decimals) -> pa.Array:
    """An object where keys are text, else an array of [key, value] pairs: so does Kafka Connect's JSON."""
    keys, items, lengths = _entries(array)
    names, values = column_text(keys, decimals), column_text(items, decimals)
    counts = pa.array(lengths)
    if connect_type(keys.type, decimals=decimals).kind != "string":
        return _listed(array, counts, join(["[", names, ",", values, "]"], len(keys)), "[]")
    _check_distinct(names, lengths)
    return _listed(array, counts, join([names, ":", values], len(keys)), "{}")


def _entries(array: pa.Array) -> tuple[pa.Array, pa.Array, Int64s]:
    """The keys and items of the maps that are not NULL, end to end, and how many each has."""
    if not len(array):
        return array.keys[:0], array.items[:0], np.empty(0, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    start, count = int(offsets[0]), int(lengths.sum())
    if count == offsets[-1] - start:
        return array.keys[start : start + count], array.items[start : start + count], lengths
    place = np.arange(count) + np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths)
    return array.keys.take(pa.array(place)), array.items.take(pa.array(place)), lengths


def _check_distinct(keys: pa.Array, lengths: Int64s) -> None:
    coded = keys.dictionary_encode()
    row = np.repeat(np.arange(len(lengths)), lengths)
    if len(np.unique(row * len(coded.dictionary) + coded.indices.to_numpy())) < len(keys):
        raise InvalidArgument(
            "a map has the same key twice, and a JSON object would keep one of them only",
            subject="Debezium",
            hint="Make the keys of each map distinct.",
        )
