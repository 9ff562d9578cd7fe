"""From what the steps of a tick registered to the manifest that commits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from penstock.spark import Registration
from penstock.spine import Edit, Slice, edited
from penstock.views.manifest import ChangeFile, Manifest, ViewState

__all__ = ["files_of", "fold_name", "following", "view_name"]


def view_name(number: int) -> str:
    """What the steps that write a view's changes are called."""
    return f"view-{number:08x}"


def fold_name(number: int) -> str:
    """What the steps that fold a view's changes into its content are called."""
    return f"fold-{number:08x}"


def following(
    before: Manifest,
    *,
    driver: str,
    committed: int,
    frontier: Mapping[str, int],
    nodes: Iterable[str],
    views: Mapping[str, str],
    registered: Iterable[Registration] = (),
    rows_in: int = 0,
) -> Manifest:
    """The next manifest: spines edited, views' new files named, content folded where that was done.

    ``nodes`` are the fingerprints whose state is to be there from now on, ``views`` the views and the numbers
    of their collections (``name#id``). What is in neither is dropped.
    """
    by_node: dict[str, dict[str, list[Edit]]] = {}
    files: dict[str, list[tuple[int, ChangeFile]]] = {}
    for it in registered:
        for name, edit in it.edits.items():
            by_node.setdefault(it.what, {}).setdefault(name, []).append(edit)
        if "file" in it.told:
            files.setdefault(it.what, []).append((it.part, _file(it.told)))
    states: dict[str, dict[str, tuple[Slice, ...]]] = {}
    for node in nodes:
        there = before.states.get(node, {})
        edits = by_node.get(node, {})
        states[node] = {
            name: edited(there.get(name, ()), edits.get(name, ())) for name in sorted({*there, *edits})
        }
    after: dict[str, ViewState] = {}
    events = 0
    for name, collection in views.items():
        number = int(collection.rpartition("#")[2])
        there_view = before.views.get(name)
        if there_view is None or there_view.collection != collection:
            there_view = ViewState(collection, folded=before.last_lsn)
        new = tuple(file for _, file in sorted(files.get(view_name(number), ()), key=lambda it: it[0]))
        events += sum(file.events for file in new)
        loose = there_view.loose + sum(file.rows for file in new)
        after[name] = replace(there_view, files=new, loose=loose)
        folds = by_node.get(fold_name(number))
        if folds is not None or any(it.what == fold_name(number) for it in registered):
            content = edited(there_view.content, (folds or {}).get("content", ()))
            after[name] = replace(
                after[name], content=content, folded=before.last_lsn, loose=loose - there_view.loose
            )
    return Manifest(
        before.tick + 1,
        before.term,
        driver,
        max(committed, before.committed),
        dict(frontier),
        before.last_lsn + 1,
        events,
        states,
        after,
        rows_in,
    )


def files_of(manifest: Manifest) -> set[str]:
    """The run files that the manifest needs."""
    spines = (slices for state in manifest.states.values() for slices in state.values())
    contents = (view.content for view in manifest.views.values())
    return {it.file for slices in (*spines, *contents) for it in slices}


def _file(told: Mapping[str, object]) -> ChangeFile:
    frames = told["frames"]
    assert isinstance(frames, list)
    return ChangeFile(str(told["file"]), int(str(told["bytes"])), tuple(tuple(it) for it in frames))
