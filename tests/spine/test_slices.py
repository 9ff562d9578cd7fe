from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, MalformedMessage
from penstock.spine import END, Edit, Slice, edited

EDGES = (0, 1, 5, 6, 2**63, 2**64 - 1, END)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int]:
    begin, end = sorted(draw(st.lists(st.sampled_from(EDGES), min_size=2, max_size=2, unique=True)))
    return begin, end


def slices() -> st.SearchStrategy[Slice]:
    return st.builds(
        lambda file, span: Slice(file, 100, 4000, *span), st.sampled_from(["a", "b/c", "größe"]), ranges()
    )


def hashes_of(slices: tuple[Slice, ...]) -> set[tuple[str, int]]:
    """Which elementary pieces of which files there are."""
    return {
        (it.file, begin) for it in slices for begin, end in pairwise(EDGES) if it.cut(begin, end) is not None
    }


@given(st.lists(st.tuples(st.booleans(), slices()), max_size=12))
def test_edits_are_sums_and_differences_of_sets_of_ranges(steps: list[tuple[bool, Slice]]) -> None:
    there: tuple[Slice, ...] = ()
    for adds, it in steps:
        mine, had = hashes_of((it,)), hashes_of(there)
        edit = Edit((it,), ()) if adds else Edit((), (it,))
        if mine & had if adds else mine - had:
            with pytest.raises(InvalidArgument, match="part of the spine"):
                edited(there, [edit])
            continue
        there = edited(there, [edit])
        assert hashes_of(there) == (had | mine if adds else had - mine)
        assert list(there) == sorted(there, key=lambda it: (it.begin, it.end, it.file))
        for one in there:  # ranges of a file that meet are one entry
            assert not any(one.file == other.file and one.end == other.begin for other in there)


@given(st.permutations(range(8)))
def test_the_order_of_shards_edits_means_nothing(order: list[int]) -> None:
    whole = Slice("old", 100, 4000)
    edges = [END // 8 * i for i in range(9)]
    edits = [
        Edit(
            (Slice(f"new{i}", 10, 400, edges[i], edges[i + 1]),),
            () if i % 3 == 0 else (Slice("old", 100, 4000, edges[i], edges[i + 1]),),
        )
        for i in range(8)
    ]
    assert edited([whole], [edits[i] for i in order]) == edited([whole], edits)


def test_a_file_that_was_dropped_in_one_edit_can_come_back_in_another() -> None:
    whole = Slice("a", 1, 9)
    assert edited([whole], [Edit((), (whole,)), Edit((whole,), ())]) == (whole,)
    with pytest.raises(InvalidArgument, match="dropped"):
        edited([whole], [Edit((), (whole,)), Edit((), (whole,))])


@given(slices())
def test_a_slice_survives_json(it: Slice) -> None:
    assert Slice.from_json(orjson.loads(orjson.dumps(it.to_json()))) == it


@given(st.lists(slices(), max_size=3), st.lists(slices(), max_size=3))
def test_an_edit_survives_json(added: list[Slice], dropped: list[Slice]) -> None:
    edit = Edit(tuple(added), tuple(dropped))
    assert Edit.from_json(orjson.loads(orjson.dumps(edit.to_json()))) == edit


GOOD = Slice("runs/1", 3, 900, 5, 2**63).to_json()


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "slice",
        {},
        {**GOOD, "more": 1},
        {key: value for key, value in GOOD.items() if key != "end"},
        {**GOOD, "file": "../escape"},
        {**GOOD, "file": 7},
        {**GOOD, "file": ""},
        {**GOOD, "rows": -1},
        {**GOOD, "rows": True},
        {**GOOD, "rows": 1.0},
        {**GOOD, "rows": "3"},
        {**GOOD, "bytes": 2**63},
        {**GOOD, "begin": 5},
        {**GOOD, "begin": "-5"},
        {**GOOD, "begin": "0x5"},
        {**GOOD, "begin": "5 "},
        {**GOOD, "begin": ""},
        {**GOOD, "begin": "1" * 18},
        {**GOOD, "begin": "F"},
        {**GOOD, "end": "5"},
        {**GOOD, "end": "10000000000000001"},
    ],
)
def test_what_is_no_slice_is_malformed(told: Any) -> None:
    with pytest.raises(MalformedMessage, match="no slice"):
        Slice.from_json(told)
    with pytest.raises(MalformedMessage, match="no slice"):
        Edit.from_json({"added": [], "dropped": [told]})


@pytest.mark.parametrize(
    "told", [None, {}, {"added": []}, {"added": [], "dropped": {}}, {"added": 1, "dropped": []}]
)
def test_what_is_no_edit_is_malformed(told: Any) -> None:
    with pytest.raises(MalformedMessage, match="no edit"):
        Edit.from_json(told)


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (5, 5), (6, 5), (0, END + 1)])
def test_a_slice_has_a_range(begin: int, end: int) -> None:
    with pytest.raises(InvalidArgument, match="no range of hashes"):
        Slice("a", 1, 1, begin, end)
