from __future__ import annotations

import datetime as dt
from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.window_keys import Shape, WindowKeys
from penstock.errors import InvalidArgument

I64 = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
PARTS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): I64,
    pa.uint8(): st.integers(0, 255),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.timestamp("s"): st.datetimes().map(lambda when: when.replace(microsecond=0)),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=2),
    pa.binary(): st.binary(max_size=2),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.float64(): st.sampled_from([0.0, 1.5, float("nan"), float("inf")]),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b"]),
}


def in_bulk(keys: WindowKeys, windows: Any) -> list[tuple[Any, ...]]:
    shape, columns = keys.of_many(windows)
    return [(shape, *row) for row in zip(*[column.tolist() for column in columns], strict=True)]


def singly(keys: WindowKeys, window: Hashable) -> tuple[Any, ...]:
    shape, columns = keys.of_one(window)
    return (shape, *[int(column[0]) for column in columns])


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_window_is_the_same_singly_and_in_bulk(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*[PARTS[kind] for kind in kinds]), max_size=8))
    arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    keys = WindowKeys()
    struct = pa.StructArray.from_arrays(arrays, names=[f"f{i}" for i in range(len(kinds))])
    bulk = in_bulk(keys, struct)
    assert bulk == [singly(keys, row) for row in rows]
    assert in_bulk(keys, struct.slice(1)) == bulk[1:]
    if rows:
        assert in_bulk(keys, pa.chunked_array([struct, struct])) == bulk * 2
    assert in_bulk(keys, arrays[0]) == [singly(keys, row[0]) for row in rows]


@given(st.lists(st.tuples(I64, I64)))
def test_integers_of_numpy_are_windows_too(rows: list[tuple[int, int]]) -> None:
    keys = WindowKeys()
    matrix = np.array(rows, np.int64).reshape(-1, 2)
    assert in_bulk(keys, matrix) == [singly(keys, row) for row in rows]
    assert in_bulk(keys, matrix[:, 1]) == [singly(keys, end) for _, end in rows]
    assert len(keys) == 0


@given(st.lists(st.one_of(st.text(max_size=2), I64, st.tuples(I64), st.tuples(I64, st.text(max_size=1)))))
def test_different_windows_never_have_the_same_key(windows: list[Hashable]) -> None:
    keys = WindowKeys()
    assert len({singly(keys, window) for window in windows}) == len(set(windows))


def test_times_count_as_microseconds() -> None:
    keys = WindowKeys()
    window = (
        dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC).replace(tzinfo=None),
        dt.datetime(1970, 1, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    )
    assert singly(keys, window) == (Shape(True, "ii"), 60_000_000, 120_000_000)
    assert singly(keys, (60_000_000, 120_000_000)) == singly(keys, window)


def test_only_two_leading_integers_are_a_span_with_an_end() -> None:
    keys = WindowKeys()
    windows: dict[Hashable, bool] = {
        (1, 2): True,
        (1, 2, "a"): True,
        ("a", 1, 2): False,
        7: False,
        (7,): False,
    }
    assert {window: keys.of_one(window)[0].has_end for window in windows} == windows


def test_what_was_never_seen_has_a_code_that_nothing_else_has() -> None:
    keys = WindowKeys()
    keys.of_one("known")
    assert keys.of_one("unknown", learn=False)[1][0].tolist() == [-1]
    assert keys.of_one("known", learn=False)[1][0].tolist() == [0]
    assert len(keys) == 1


def test_values_that_are_forgotten_leave_the_others_codes_alone() -> None:
    keys = WindowKeys()
    codes = {word: int(keys.of_one(word)[1][0][0]) for word in "abc"}
    keys.forget_all_but(np.array([codes["b"]]))
    assert len(keys) == 1
    assert int(keys.of_one("b")[1][0][0]) == codes["b"]
    assert int(keys.of_one("a")[1][0][0]) not in codes.values()


@pytest.mark.parametrize("window", [None, (1, None), [1, 2], ({},), 2**63, (0, -(2**63) - 1)], ids=repr)
def test_what_cannot_name_a_window_is_refused(window: Any) -> None:
    with pytest.raises(InvalidArgument):
        WindowKeys().of_one(window)


@pytest.mark.parametrize(
    "windows",
    [
        [(0, 1)],
        np.array([0.5]),
        np.zeros((1, 1, 1), np.int64),
        np.zeros((2, 0), np.int64),
        np.array([2**63], np.uint64),
        pa.array([1, None]),
        pa.array([{"s": 1, "e": None}]),
        pa.array([None, {"s": 1}]),
        pa.array([2**63], pa.uint64()),
        pa.array([[1]]),
        pa.array([1], pa.timestamp("ns")),
    ],
    ids=lambda windows: str(windows)[:20],
)
def test_arrays_that_cannot_name_windows_are_refused(windows: Any) -> None:
    with pytest.raises(InvalidArgument):
        WindowKeys().of_many(windows)
