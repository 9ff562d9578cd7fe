"""The table of ranges: whatever is split and merged, every hash is covered once at every LSN."""

from __future__ import annotations

import itertools

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, NotFound, Unsupported
from penstock.log.meta import Collection, Meta
from penstock.log.ranges import EVERYTHING, KeyRange, RangeTable

KEYED = Collection(1, "t", pa.schema([("id", pa.int64()), ("v", pa.string())]), ("id",))


def covered(ranges: tuple[KeyRange, ...]) -> bool:
    """Whether these ranges, side by side, are everything."""
    ends = [0, *(it.high for it in ranges)]
    return ends[-1] == EVERYTHING and all(it.low == end for it, end in zip(ranges, ends, strict=False))


@st.composite
def tables(draw: st.DrawFn) -> tuple[RangeTable, list[int]]:
    """A table after random splits and merges, and the LSNs they happened at."""
    table, lsn, lsns = RangeTable("t"), 0, [0]
    for _ in range(draw(st.integers(0, 12))):
        lsn += draw(st.integers(0, 2))
        living = table.living()
        if draw(st.booleans()) and len(living) > 1:
            left = draw(st.integers(0, len(living) - 2))
            pair = draw(st.permutations(living[left : left + 2]))
            table = table.merge(pair[0].id, pair[1].id, lsn)
        else:
            it = draw(st.sampled_from(living))
            if it.high - it.low > 1:
                at = draw(st.one_of(st.none(), st.integers(it.low + 1, it.high - 1), st.just(it.low + 1)))
                table = table.split(it.id, at, lsn)
        lsns.append(lsn)
    return table, lsns


@settings(deadline=None, max_examples=300)
@given(tables())
def test_the_ranges_at_every_cursor_cover_every_hash_once(case: tuple[RangeTable, list[int]]) -> None:
    table, lsns = case
    for cursor in range(max(lsns) + 2):
        assert covered(table.at(cursor)), cursor
    assert covered(table.living())


@settings(deadline=None, max_examples=300)
@given(tables())
def test_children_begin_where_their_parents_end_and_cover_the_same_hashes(
    case: tuple[RangeTable, list[int]],
) -> None:
    table, _ = case
    assert table[1] == KeyRange(1, 0, EVERYTHING, (), 0, table[1].until_lsn)
    for it in table:
        parents = [table[parent] for parent in it.parents]
        assert all(parent.until_lsn == it.from_lsn for parent in parents)
        assert it.until_lsn is None or it.from_lsn <= it.until_lsn
        children = table.children(it.id)
        assert bool(children) == (not it.alive)
        if len(children) == 2:  # a split
            assert (children[0].low, children[0].high, children[1].high) == (it.low, children[1].low, it.high)
        if len(parents) == 2:  # a merge
            assert (parents[0].low, parents[0].high, parents[1].high) == (it.low, parents[1].low, it.high)


@settings(deadline=None, max_examples=100)
@given(tables())
def test_a_table_comes_back_from_the_meta_as_it_was(case: tuple[RangeTable, list[int]]) -> None:
    table, _ = case
    meta = Meta(b"\1" * 16, 0, collections=(KEYED,), extra={"other": 1})
    read = Meta.decode(table.within(meta, KEYED).encode(), "meta")
    assert list(RangeTable.of(read, KEYED)) == list(table)
    assert read.extra["other"] == 1


def test_bounds_stay_within_the_integers_of_json() -> None:
    meta = RangeTable("t").split(1, None, 1).within(Meta(b"\1" * 16, 0, collections=(KEYED,)), KEYED)
    text = orjson.dumps(meta.extra).decode()
    assert str(2**64 - 1) in text
    assert str(2**64) not in text


def test_a_collection_that_was_never_split_is_one_range() -> None:
    table = RangeTable.of(Meta(b"\1" * 16, 0, collections=(KEYED,)), KEYED)
    assert list(table) == [KeyRange(1, 0, 2**64)]
    assert table.at(0) == table.at(10**9) == table.living()


def test_a_split_takes_the_middle_or_the_hash_it_is_given() -> None:
    halves = RangeTable("t").split(1, None, 3).living()
    assert [(it.low, it.high) for it in halves] == [(0, 2**63), (2**63, 2**64)]
    odd = RangeTable("t").split(1, 2**64 - 1, 3).living()
    assert [(it.low, it.high) for it in odd] == [(0, 2**64 - 1), (2**64 - 1, 2**64)]
    assert 7 in odd[0]
    assert 2**64 - 1 in odd[1]


@pytest.mark.parametrize("at", [0, 2**64, -1, 1.5, True, "8"])
def test_a_split_outside_the_range_is_refused(at: int) -> None:
    with pytest.raises(InvalidArgument, match="cannot be split"):
        RangeTable("t").split(1, at, 3)


def test_a_range_of_one_hash_cannot_be_split() -> None:
    table = RangeTable("t").split(1, 1, 3)
    with pytest.raises(InvalidArgument, match="cannot be split"):
        table.split(2, None, 3)


def test_only_neighbours_that_live_are_merged() -> None:
    table = RangeTable("t").split(1, None, 1).split(3, None, 2)  # 2 | 4 | 5
    with pytest.raises(InvalidArgument, match="does not end where"):
        table.merge(2, 5, 3)
    with pytest.raises(InvalidArgument, match="does not end where"):
        table.merge(2, 2, 3)
    with pytest.raises(InvalidArgument, match=r"was retired at LSN 2.*Its children are 4, 5"):
        table.merge(2, 3, 3)
    with pytest.raises(InvalidArgument, match="was retired"):
        table.split(1, None, 3)
    assert table.merge(4, 2, 3).living()[0].parents == (2, 4)


@pytest.mark.parametrize("id_", [0, 2, -1, "1"])
def test_a_range_that_is_not_there_is_not_found(id_: int) -> None:
    with pytest.raises(NotFound, match="no range"):
        RangeTable("t").split(id_, None, 1)


def test_a_range_is_never_retired_before_it_began() -> None:
    table = RangeTable("t").split(1, None, 10)
    earlier = table.split(2, None, 7)  # a copy of the log that has not come to LSN 10 yet
    assert (earlier[2].from_lsn, earlier[2].until_lsn) == (10, 10)
    assert all(covered(earlier.at(cursor)) for cursor in range(12))


def test_a_collection_without_a_key_that_hashes_has_no_ranges() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("u", pa.uint8())])
    meta = Meta(b"\1" * 16, 0)
    with pytest.raises(InvalidArgument, match="has no key"):
        RangeTable.of(meta, Collection(1, "c", schema, ()))
    for key in ("m", "u"):
        with pytest.raises(Unsupported, match="no stable hash"):
            RangeTable.of(meta, Collection(1, "c", schema, (key,)))


@settings(deadline=None, max_examples=100)
@given(tables(), st.integers(0, 2**64 - 1))
def test_every_hash_has_one_line_of_ranges_through_time(
    case: tuple[RangeTable, list[int]], hash_: int
) -> None:
    table, _ = case
    line = [it for it in table if hash_ in it]
    for earlier, later in itertools.pairwise(line):
        assert earlier.id in later.parents
        assert earlier.until_lsn == later.from_lsn
    assert line[0].from_lsn == 0
    assert line[-1].alive
