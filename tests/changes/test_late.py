from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.late import Emission, LateCounters, LateDataRetractions
from penstock.errors import InvalidArgument, SchemaMismatch

MINUTE = (0, 60_000)


class Model:
    """What `LateDataRetractions` does, one window at a time with dictionaries."""

    def __init__(self) -> None:
        self.told: dict[Hashable, Emission] = {}
        self.horizon = -math.inf
        self.counters = LateCounters()

    def check(self, window: Hashable, data: Any, timestamp: int) -> tuple[str, Any]:
        if end_of(window) <= self.horizon:
            self.counters.dropped += 1
            return "dropped", None
        last = self.told.get(window)
        if last is None:
            self.told[window] = Emission(data, timestamp, 1)
            self.counters.first += 1
            return "first", None
        if canonical(last.data) == canonical(data):
            self.counters.unchanged += 1
            return "unchanged", None
        self.told[window] = Emission(data, timestamp, last.version + 1)
        self.counters.corrected += 1
        return "corrected", (last.data, data)

    def cleanup_window(self, window: Hashable) -> bool:
        found = self.told.pop(window, None) is not None
        self.counters.cleaned += found
        return found

    def cleanup_before(self, watermark: int) -> int:
        self.horizon = max(self.horizon, watermark)
        over = [window for window in self.told if end_of(window) <= self.horizon]
        for window in over:
            self.cleanup_window(window)
        return len(over)


def end_of(window: Hashable) -> float:
    span = isinstance(window, tuple) and len(window) >= 2 and all(type(part) is int for part in window[:2])
    return window[1] if span else math.inf  # type: ignore[index]


def canonical(value: Any) -> Any:
    return ("NaN" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value


SPANS = st.tuples(st.integers(0, 3), st.integers(0, 5))
WINDOWS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "spans": (SPANS, pa.struct([("start", pa.int64()), ("end", pa.int64())])),
    "numbers": (st.integers(-2, 2), pa.int64()),
    "words": (st.sampled_from(["a", "b", "ä"]), pa.string()),
    "spans by word": (
        st.tuples(st.integers(0, 1), st.integers(0, 5), st.sampled_from("ab")),
        pa.struct([("start", pa.int64()), ("end", pa.int64()), ("who", pa.string())]),
    ),
}
RESULTS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.binary(): st.sampled_from([b"", b"x", b"y"]),
    pa.int64(): st.one_of(st.none(), st.integers(0, 2)),
    pa.float64(): st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    pa.list_(pa.int64()): st.lists(st.integers(0, 1), max_size=2),
    pa.struct([("n", pa.int64()), ("s", pa.string())]): st.sampled_from(
        [{"n": n, "s": s} for n in (0, 1) for s in (None, "x")]
    ),
}


def test_only_a_result_that_differs_from_the_last_one_takes_something_back() -> None:
    late = LateDataRetractions()
    assert late.check(MINUTE, b"count=5", 1_000) is None
    assert late.check(MINUTE, b"count=7", 2_000) == (b"count=5", b"count=7")
    assert late.check(MINUTE, b"count=7", 3_000) is None
    assert late.emission(MINUTE) == Emission(b"count=7", emit_time=2_000, version=2)
    assert late.check(MINUTE, b"count=5", 4_000) == (b"count=7", b"count=5")
    assert late.counters == LateCounters(first=1, corrected=2, unchanged=1)


@settings(deadline=None, max_examples=250)
@given(st.data())
def test_singly_in_bulk_and_with_dictionaries_all_say_the_same(data: st.DataObject) -> None:
    windows, window_type = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    result_type = data.draw(st.sampled_from(list(RESULTS)))
    bulk, single = LateDataRetractions(data_type=result_type), LateDataRetractions(data_type=result_type)
    model = Model()
    for timestamp in range(data.draw(st.integers(1, 6))):
        match data.draw(st.sampled_from(["check", "check", "check", "window", "before"])):
            case "check":
                rows = data.draw(st.lists(st.tuples(windows, RESULTS[result_type]), max_size=8))
                names = pa.array([window for window, _ in rows], window_type)
                found = bulk.check_many(names, pa.array([row[1] for row in rows], result_type), timestamp)
                said = [model.check(window, result, timestamp) for window, result in rows]
                pairs = [pair for _, pair in said if pair]
                for kind in ("first", "corrected", "unchanged", "dropped"):
                    assert getattr(found, kind).tolist() == [word == kind for word, _ in said]
                assert repr_all(zip(found.old.to_pylist(), found.new.to_pylist(), strict=True)) == repr_all(
                    pairs
                )
                one_by_one = [single.check(window, result, timestamp) for window, result in rows]
                assert repr_all(filter(None, one_by_one)) == repr_all(pairs)
            case "window":
                window = data.draw(windows)
                cleaned = model.cleanup_window(window)
                assert (bulk.cleanup_window(window), single.cleanup_window(window)) == (cleaned, cleaned)
            case "before":
                watermark = data.draw(st.integers(-1, 5))
                count = model.cleanup_before(watermark)
                assert (bulk.cleanup_before(watermark), single.cleanup_before(watermark)) == (count, count)
        assert bulk.counters == single.counters == model.counters
        assert len(bulk) == len(single) == len(model.told)
        for window, emission in model.told.items():
            assert (
                repr_all([bulk.emission(window)])
                == repr_all([single.emission(window)])
                == repr_all([emission])
            )


def repr_all(values: Any) -> str:
    """As text, with one zero and one NaN: how rows compare."""
    return repr(list(values)).replace("-0.0", "0.0")


def test_the_forms_share_one_state() -> None:
    late = LateDataRetractions()
    late.check(MINUTE, 5, 1)
    found = late.check_many(np.array([MINUTE, (60_000, 120_000)]), pa.array([7, 1]), 2)
    assert (found.corrected.tolist(), found.old.to_pylist(), found.new.to_pylist()) == (
        [True, False],
        [5],
        [7],
    )
    assert late.check((60_000, 120_000), 2, 3) == (1, 2)
    assert late.check_many(np.array([MINUTE]), pa.array([7]), 4).unchanged.tolist() == [True]


def test_a_window_that_comes_twice_in_a_batch_is_taken_in_order() -> None:
    late = LateDataRetractions()
    found = late.check_many(np.array([1, 1, 2, 1, 1]), pa.array([5, 6, 9, 6, 5]), 3)
    assert found.first.tolist() == [True, False, True, False, False]
    assert found.corrected.tolist() == [False, True, False, False, True]
    assert (found.old.to_pylist(), found.new.to_pylist()) == ([5, 6], [6, 5])
    assert late.emission(1) == Emission(5, 3, 3)


def test_with_retractions_off_nothing_is_said_kept_or_counted() -> None:
    late = LateDataRetractions(enabled=False)
    assert late.check(MINUTE, b"a", 1) is None
    assert late.check(MINUTE, b"b", 2) is None
    found = late.check_many(np.array([MINUTE, MINUTE]), pa.array([b"a", b"b"]), 3)
    assert not (found.first | found.corrected | found.dropped).any()
    assert len(found.old) == len(found.new) == 0
    assert (len(late), late.emission(MINUTE), late.counters) == (0, None, LateCounters())


def test_after_a_window_is_cleaned_its_next_result_looks_like_a_first_one() -> None:
    late = LateDataRetractions()
    late.check(MINUTE, b"a", 1)
    assert late.cleanup_window(MINUTE)
    assert not late.cleanup_window(MINUTE)
    assert late.emission(MINUTE) is None
    assert late.check(MINUTE, b"b", 2) is None
    assert late.emission(MINUTE) == Emission(b"b", 2, 1)
    assert late.counters == LateCounters(first=2, cleaned=1)


def test_what_comes_for_windows_cleaned_by_a_watermark_is_dropped_and_counted() -> None:
    late = LateDataRetractions()
    late.check_many(np.array([(0, 60), (60, 120), (120, 180)]), pa.array([1, 2, 3]), 1)
    assert late.cleanup_before(120) == 2
    found = late.check_many(np.array([(0, 60), (60, 120), (120, 180), (0, 30)]), pa.array([9, 9, 9, 9]), 2)
    assert found.dropped.tolist() == [True, True, False, True]
    assert (found.old.to_pylist(), found.new.to_pylist()) == ([3], [9])
    assert late.check((0, 60), 8, 3) is None
    assert late.counters == LateCounters(first=3, corrected=1, dropped=4, cleaned=2)


def test_the_horizon_never_moves_back() -> None:
    late = LateDataRetractions()
    assert late.horizon is None
    late.cleanup_before(100)
    assert late.cleanup_before(50) == 0
    assert late.horizon == 100
    late.check((0, 80), 1, 0)
    assert late.counters == LateCounters(dropped=1)


def test_windows_without_an_end_outlive_every_watermark() -> None:
    late = LateDataRetractions()
    for window in (5, "five", ("a", 1, 2)):
        late.check(window, b"x", 0)
    assert late.cleanup_before(10**12) == 0
    assert len(late) == 3
    assert late.check("five", b"y", 1) == (b"x", b"y")


def test_many_ticks_of_many_windows_agree_with_dictionaries_through_every_clean_up() -> None:
    chance = np.random.default_rng(7)
    late, model = LateDataRetractions(), Model()
    for tick in range(60):
        start = chance.integers(tick * 40, tick * 40 + 400, 300)
        who = chance.integers(0, 3, 300)
        results = chance.integers(0, 3, 300)
        names = pa.StructArray.from_arrays(
            [pa.array(start), pa.array(start + 10), pa.array([f"w{tick // 20}{w}" for w in who.tolist()])],
            names=["start", "end", "who"],
        )
        found = late.check_many(names, pa.array([b"%d" % r for r in results.tolist()]), tick)
        rows = [tuple(row.values()) for row in names.to_pylist()]
        said = [model.check(w, b"%d" % r, tick) for w, r in zip(rows, results.tolist(), strict=True)]
        assert list(zip(found.old.to_pylist(), found.new.to_pylist(), strict=True)) == [
            p for _, p in said if p
        ]
        if tick % 3 == 0:
            assert late.cleanup_before(tick * 40 - 100) == model.cleanup_before(tick * 40 - 100)
        assert (late.counters, len(late)) == (model.counters, len(model.told))
    assert model.counters.cleaned > 3_000
    for window, emission in model.told.items():
        assert late.emission(window) == emission
    # Nothing is kept for windows and words that are long gone.
    assert all(len(group.table) < 4 * len(late) for group in late._groups.values())
    assert all(group.told.length < 3 * len(late) + 1_024 for group in late._groups.values())
    assert len(late._keys) < 9


def test_results_come_back_from_many_chunks_in_the_order_asked_for() -> None:
    late = LateDataRetractions()
    order = np.random.default_rng(3).permutation(5_000)
    for i, piece in enumerate(np.split(order, [2_000, 2_900, 3_400, 3_650, 3_800, 4_990])):
        late.check_many(piece, pa.array([f"{number}" for number in piece.tolist()]), i)
    again = np.arange(5_000)
    found = late.check_many(again, pa.array(["new"] * 5_000), 9)
    assert found.old.to_pylist() == [f"{number}" for number in range(5_000)]


def test_results_of_a_dictionary_type_compare_by_value() -> None:
    late = LateDataRetractions()
    late.check_many(np.array([1, 2]), pa.array(["a", "b"]).dictionary_encode(), 0)
    found = late.check_many(np.array([1, 2]), pa.chunked_array([["b"], ["b"]]), 1)
    assert (found.corrected.tolist(), found.old.to_pylist()) == ([True, False], ["a"])


def test_results_of_another_type_are_refused_and_change_nothing() -> None:
    late = LateDataRetractions()
    late.check(1, 5, 0)
    for wrong in (lambda: late.check(1, "x", 1), lambda: late.check_many(np.array([1]), pa.array([1.5]), 1)):
        with pytest.raises(SchemaMismatch):
            wrong()
    with pytest.raises(SchemaMismatch, match="nothing Arrow can hold"):
        LateDataRetractions().check(1, object(), 1)
    assert late.emission(1) == Emission(5, 0, 1)


def test_results_that_are_null_at_first_take_the_type_of_the_first_that_is_not() -> None:
    late = LateDataRetractions()
    assert late.check("a", None, 1) is None
    assert late.check("a", None, 2) is None
    assert late.check((0, 60), None, 2) is None
    assert late.check("a", 5, 3) == (None, 5)
    assert late.check("a", None, 4) == (5, None)
    assert late.check_many(pa.array(["a", "b"]), pa.nulls(2), 5).first.tolist() == [False, True]
    assert late.check((0, 60), 7, 6) == (None, 7)
    with pytest.raises(SchemaMismatch):
        late.check("a", "five", 7)


def test_wrong_arguments_are_refused() -> None:
    late = LateDataRetractions()
    with pytest.raises(InvalidArgument, match="2 windows and 1 results"):
        late.check_many(np.array([1, 2]), pa.array([1]), 0)
    with pytest.raises(InvalidArgument, match="timestamp"):
        late.check(1, 1, 2**63)
    with pytest.raises(InvalidArgument, match="None"):
        late.check(None, 1, 0)
    assert len(late) == 0


def test_an_empty_batch_says_nothing() -> None:
    late = LateDataRetractions()
    late.cleanup_before(5)
    for _ in range(2):
        found = late.check_many(np.empty((0, 2), np.int64), pa.array([], pa.int64()), 0)
        assert all(len(getattr(found, field.name)) == 0 for field in dataclasses.fields(found))
        late.check((8, 9), 1, 0)
