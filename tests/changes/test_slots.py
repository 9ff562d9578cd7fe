from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changes.slots import SlotTable, grown

Int64s = np.ndarray


class OneHash(SlotTable):
    """All keys collide: what must be right for one unlucky pair must be right for all of them."""

    __slots__ = ()

    def _home(self, columns: Sequence[Int64s]) -> Int64s:
        return np.zeros(len(columns[0]), np.int64)


SMALL = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


@pytest.mark.parametrize("kind", [SlotTable, OneHash])
@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_table_numbers_keys_as_a_dictionary_does(kind: type[SlotTable], data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 3))
    table, model = kind(width), dict[tuple[int, ...], int]()
    for rows in data.draw(st.lists(st.lists(st.tuples(*[SMALL] * width), max_size=20), max_size=5)):
        columns = [np.array([row[i] for row in rows], np.int64) for i in range(width)]
        assert table.find(columns).tolist() == [model.get(row, -1) for row in rows]
        slots = table.number(columns).tolist()
        for row, slot in zip(rows, slots, strict=True):
            assert model.setdefault(row, slot) == slot
        assert len(table) == len(model)
        assert sorted(model.values()) == list(range(len(model)))
    for row, slot in model.items():
        assert tuple(int(column[slot]) for column in table.columns) == row


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.booleans()), unique_by=lambda pair: pair[0]))
def test_the_keys_that_are_kept_are_numbered_anew_in_the_same_order(keys: list[tuple[int, bool]]) -> None:
    table = SlotTable(1)
    table.number([np.array([key for key, _ in keys], np.int64)])
    order = table.columns[0].tolist()
    keep = dict(keys)
    kept = table.kept(np.array([keep[key] for key in order], np.bool_))
    left = [key for key in order if keep[key]]
    assert kept.columns[0].tolist() == left
    assert kept.find([np.array(left, np.int64)]).tolist() == list(range(len(left)))
    gone = [key for key in order if not keep[key]]
    assert kept.find([np.array(gone, np.int64)]).tolist() == [-1] * len(gone)
    assert kept.number([np.array([1_000], np.int64)]).tolist() == [len(left)]


def test_a_hundred_thousand_neighbouring_windows_are_told_apart() -> None:
    start = np.arange(100_000) * 60_000_000
    table = SlotTable(2)
    slots = table.number([start, start + 60_000_000])
    assert sorted(slots.tolist()) == list(range(100_000))
    again = np.random.default_rng(1).permutation(100_000)
    assert (table.find([start[again], start[again] + 60_000_000]) == slots[again]).all()
    assert (table.find([start, start + 60_000_001]) == -1).all()


def test_an_array_grows_only_when_it_must_and_then_at_least_twofold() -> None:
    array = np.arange(4)
    assert grown(array, 4) is array
    assert grown(array, 5).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert len(grown(array, 100)) == 100
