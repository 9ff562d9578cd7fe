"""What a tick's steps registered becomes the next manifest, in whichever order they did."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spark import Registration
from penstock.spine import END, Edit, Slice
from penstock.views.commit import files_of, fold_name, following, view_name
from penstock.views.manifest import ChangeFile, Manifest

NODES = ["aa", "bb", "cc"]
VIEWS = {"u": "u#1", "v": "v#2", "w": "w#3", "v again": "v again#258"}
UNIT = END // 8


class Model:
    """Content as sets of (file, eighth of the hashes), and the rest as plain numbers."""

    def __init__(self) -> None:
        self.lsn = 0
        self.states: dict[str, dict[str, set[tuple[str, int]]]] = {}
        self.files: dict[str, list[tuple[int, ChangeFile]]] = {}
        self.contents: dict[str, set[tuple[str, int]]] = {}
        self.folded: dict[str, int] = {}


def eighths(slices: Iterable[Slice]) -> set[tuple[str, int]]:
    return {(it.file, i) for it in slices for i in range(it.begin // UNIT, it.end // UNIT)}


@st.composite
def edits(
    draw: st.DrawFn, there: set[tuple[str, int]], name: str, shard: int = 0, shards: int = 1
) -> tuple[Edit, set[tuple[str, int]]]:
    """In the eighths of a shard some of a new file come, some of old ones go; and what is there then."""
    mine = range(8 * shard // shards, 8 * (shard + 1) // shards)
    gone = {it for it in sorted(there) if it[1] in mine and draw(st.booleans())}
    new = {(name, i) for i in draw(st.sets(st.sampled_from(mine), max_size=4))}

    def slices(some: set[tuple[str, int]]) -> tuple[Slice, ...]:
        return tuple(Slice(file, 9, 90, i * UNIT, (i + 1) * UNIT) for file, i in sorted(some))

    return Edit(slices(new), slices(gone)), (there - gone) | new


@settings(max_examples=60)
@given(st.data())
def test_ticks_in_a_row_add_up(data: st.DataObject) -> None:
    manifest, model = Manifest(1, 1, "d", 100, {}, 1, 0), Model()
    for tick in range(2, data.draw(st.integers(3, 6))):
        nodes = data.draw(st.sets(st.sampled_from(NODES)))
        views = {name: VIEWS[name] for name in sorted(data.draw(st.sets(st.sampled_from(list(VIEWS)))))}
        registered: list[Registration] = []
        before_lsn = model.lsn
        model.states = {name: it for name, it in model.states.items() if name in nodes}
        for gone in [name for name in model.files if name not in views]:
            del model.files[gone], model.contents[gone], model.folded[gone]
        for node in sorted(nodes):
            spines = model.states.setdefault(node, {})
            for shard in range(data.draw(st.integers(0, 2))):
                told = {}
                for spine in data.draw(st.sets(st.sampled_from(["sums", "bag0"]))):
                    file = f"{tick}-{node}-{shard}-{spine}"
                    told[spine], spines[spine] = data.draw(edits(spines.get(spine, set()), file, shard, 2))
                registered.append(Registration(node, shard, told))
        expected: dict[str, list[ChangeFile]] = {}
        for name, collection in views.items():
            number = int(collection.rpartition("#")[2])
            if name not in model.files:
                model.files[name], model.contents[name], model.folded[name] = [], set(), before_lsn
            if data.draw(st.integers(0, 3)) == 0:
                edit, content = data.draw(edits(model.contents[name], f"{tick}-{name}-content"))
                registered.append(Registration(fold_name(number), 0, {"content": edit}))
                model.contents[name], model.folded[name] = content, before_lsn
            for part in range(data.draw(st.integers(0, 3))):
                frames = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
                told_frames = [[64 * i, 8, 1, n, 2 * n, 4] for i, n in enumerate(frames)]
                file_told = {"file": f"{tick}-{name}-{part}", "bytes": 999, "frames": told_frames}
                registered.append(Registration(view_name(number), part, {}, file_told))
                file = ChangeFile(file_told["file"], 999, tuple(map(tuple, told_frames)))  # type: ignore[arg-type]
                expected.setdefault(name, []).append(file)
                model.lsn += file.events
                model.files[name].append((model.lsn, file))
        random.Random(tick).shuffle(registered)
        clock = data.draw(st.integers(90, 120))
        after = following(
            manifest,
            driver="d",
            committed=clock,
            frontier={"main": tick},
            nodes=nodes,
            views=views,
            registered=registered,
            rows_in=tick,
        )
        assert (after.tick, after.term, after.frontier) == (tick, 1, {"main": tick})
        assert after.committed == max(clock, manifest.committed)
        assert (after.first_lsn, after.last_lsn) == (before_lsn + 1, model.lsn)
        assert {
            node: {name: eighths(it) for name, it in spines.items() if it}
            for node, spines in after.states.items()
        } == {
            node: {name: it for name, it in model.states.get(node, {}).items() if it}
            for node in sorted(nodes)
        }
        assert list(after.views) == list(views)
        for name, state in after.views.items():
            assert state.files == tuple(expected.get(name, ()))
            assert eighths(state.content) == model.contents[name]
            assert state.folded == model.folded[name]
            loose = sum(file.rows for lsn, file in model.files[name] if lsn > state.folded)
            assert state.loose == loose
        wanted = {file for spines in model.states.values() for it in spines.values() for file, _ in it}
        wanted |= {file for it in model.contents.values() for file, _ in it}
        assert files_of(after) == wanted
        assert Manifest.decode(after.encode(), "here") == after
        manifest = after


def test_a_view_made_anew_begins_with_nothing() -> None:
    before = Manifest(1, 1, "d", 1, {}, 1, 0)
    told = {"file": "a", "bytes": 9, "frames": [[64, 8, 1, 3, 3, 0]]}
    old = following(
        before,
        driver="d",
        committed=1,
        frontier={},
        nodes=[],
        views={"v": "v#1"},
        registered=[Registration(view_name(1), 0, {}, told)],
    )
    new = following(old, driver="d", committed=1, frontier={}, nodes=[], views={"v": "v#2"})
    assert (new.views["v"].files, new.views["v"].content, new.views["v"].loose) == ((), (), 0)
    assert new.views["v"].folded == 3


def test_what_was_registered_for_a_view_that_is_gone_counts_for_nothing() -> None:
    told = {"file": "a", "bytes": 9, "frames": [[64, 8, 1, 3, 3, 0]]}
    after = following(
        Manifest(1, 1, "d", 1, {}, 1, 0),
        driver="d",
        committed=1,
        frontier={},
        nodes=[],
        views={},
        registered=[Registration(view_name(7), 0, {}, told)],
    )
    assert (after.events, after.views) == (0, {})


def test_a_step_that_is_counted_twice_is_refused() -> None:
    """Each (tick, step, shard) is registered once; two would be a defect, and no manifest hides it."""
    edit = Edit((Slice("runs/a", 1, 10),))
    with pytest.raises(InvalidArgument):
        following(
            Manifest(1, 1, "d", 1, {}, 1, 0),
            driver="d",
            committed=1,
            frontier={},
            nodes=["aa"],
            views={},
            registered=[Registration("aa", 0, {"sums": edit}), Registration("aa", 1, {"sums": edit})],
        )
