"""Keyed: the last event of a key says what its row is."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes import Op, xxhash64
from penstock.operators import operator_of
from penstock.plan import Keyed, Scan
from tests.operators.one_step import Stepper, content, one_for_all

COLUMNS = pa.schema([("k", pa.string()), ("x", pa.float64()), ("m", pa.map_(pa.string(), pa.int64()))])


def keyed() -> Stepper:
    return Stepper(operator_of(Keyed(Scan("main", "t"), ("k",)), [COLUMNS]))


def put(k: str | None, x: float | None, lsn: int, op: Op = Op.UPDATE_AFTER, m: Any = None) -> dict[str, Any]:
    return {"k": k, "x": x, "m": m, "_lsn": lsn, "_op": int(op)}


def row(k: str | None, x: float | None, weight: int, m: Any = None) -> dict[str, Any]:
    return {"k": k, "x": x, "m": m, "_weight": weight}


def test_an_update_takes_the_old_row_back() -> None:
    it = keyed()
    assert it.tick(events=[put("a", 1.0, 1, Op.INSERT)]) == [row("a", 1.0, 1)]
    assert it.tick(events=[put("a", 2.0, 2)]) == [row("a", 1.0, -1), row("a", 2.0, 1)]
    assert it.tick(events=[put("a", None, 3, Op.DELETE)]) == [row("a", 2.0, -1)]
    assert it.kept("rows") == []


def test_of_several_events_of_a_key_the_highest_lsn_wins_and_then_the_later_row() -> None:
    it = keyed()
    events = [put("a", 3.0, 3), put("a", 1.0, 1), put("b", 1.0, 2), put("b", 2.0, 2)]
    assert content(it.tick(events=events)) == content([row("a", 3.0, 1), row("b", 2.0, 1)])


def test_an_event_that_comes_again_changes_nothing() -> None:
    it = keyed()
    events = [put("a", 1.0, 1, m=[("x", 1), ("y", 2)]), put("b", math.nan, 2), put(None, -0.0, 3)]
    assert len(it.tick(events=events)) == 3
    again = [put("a", 1.0, 1, m=[("y", 2), ("x", 1)]), put("b", -math.nan, 2), put(None, 0.0, 3)]
    assert it.tick(events=again) == []


def test_the_deletion_of_a_key_that_is_not_there_is_nothing() -> None:
    it = keyed()
    assert it.tick(events=[put("a", 1.0, 1, Op.DELETE)]) == []
    assert it.tick(events=[put("a", 1.0, 2), put("a", 1.0, 3, Op.DELETE)]) == []
    assert it.tick(events=[put("a", 1.0, 4, Op.DELETE), put("a", 5.0, 5)]) == [row("a", 5.0, 1)]


def test_the_old_row_that_an_update_tells_is_not_taken_for_the_new_one() -> None:
    it = keyed()
    it.tick(events=[put("a", 1.0, 1)])
    told = [put("a", 1.0, 2, Op.UPDATE_BEFORE), put("a", 2.0, 2), put("b", 9.0, 3, Op.UPDATE_BEFORE)]
    assert it.tick(events=told) == [row("a", 1.0, -1), row("a", 2.0, 1)]


def test_what_goes_out_is_canonical() -> None:
    (said,) = keyed().tick(events=[put("a", -0.0, 1)])
    assert math.copysign(1, said["x"]) == 1


@pytest.mark.parametrize("one_hash", [False, True])
@settings(deadline=None)
@given(
    ticks=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 2.0, None]), st.booleans())),
        max_size=8,
    )
)
def test_content_is_the_last_row_of_each_key(
    one_hash: bool, ticks: list[list[tuple[str, Any, bool]]]
) -> None:
    it = Stepper(keyed().operator, one_for_all if one_hash else xxhash64)
    rows: dict[str, Any] = {}
    said: list[dict[str, Any]] = []
    lsn = 0
    for tick in ticks:
        events = []
        for key, value, is_deleted in tick:
            lsn += 1
            events.append(put(key, value, lsn, Op.DELETE if is_deleted else Op.INSERT))
            rows.pop(key, None)
            if not is_deleted:
                rows[key] = value
        said += it.tick(events=events)
        assert content(said) == content([row(key, value, 1) for key, value in rows.items()])
