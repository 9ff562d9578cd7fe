"""`Manifest`: what a tick left, in one small file whose creation commits it.

``manifest/<tick>.json`` names the frontier, the slices of every spine and the files of every view's changes
with their LSNs. The sequence of manifests is the pipeline's log: there is no second bookkeeping. A manifest
is never changed; who creates the next one first goes on, and everybody else is fenced off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from penstock.errors import DamagedBytes, PenstockError, Unsupported
from penstock.log.format import crc32c
from penstock.spine import Slice

__all__ = ["FORMAT", "ChangeFile", "Manifest", "ViewState", "manifest_name"]

FORMAT = 1
_HEAD = b'{"crc32c": "%08x", "manifest": '


def manifest_name(folder: str, tick: int) -> str:
    """Names sort as ticks do."""
    return f"{folder}/manifest/{tick:020d}.json"


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of a view's changes, and what its frames are: offset, bytes, CRC, events, rows, flags."""

    name: str
    bytes: int
    frames: tuple[tuple[int, int, int, int, int, int], ...]

    @property
    def events(self) -> int:
        return sum(frame[3] for frame in self.frames)

    @property
    def rows(self) -> int:
        return sum(frame[4] for frame in self.frames)


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view as of a tick: its changes in this tick, and its content."""

    collection: str
    """The name and number of its collection in the catalog: ``name#id``."""
    files: tuple[ChangeFile, ...] = ()
    content: tuple[Slice, ...] = ()
    """Runs that hold the content as of the LSN ``folded``; changes after it come on top."""
    folded: int = 0
    loose: int = 0
    """Rows of changes after ``folded``: what reading the content has to add up."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed tick."""

    tick: int
    term: int
    """Raised by each driver that takes over."""
    driver: str
    """A name of its own for whoever made it: so one that lost the answer learns whether it won."""
    committed: int
    """Microseconds since 1970."""
    frontier: Mapping[str, int]
    """For each input log the LSN up to which everything is accounted for."""
    first_lsn: int
    """The LSN of the first event of this tick, or of the next one to come if it has none."""
    events: int
    states: Mapping[str, Mapping[str, tuple[Slice, ...]]] = field(default_factory=dict)
    """The slices of each spine, by node and name."""
    views: Mapping[str, ViewState] = field(default_factory=dict)
    rows_in: int = 0

    @property
    def last_lsn(self) -> int:
        return self.first_lsn + self.events - 1

    def encode(self) -> bytes:
        body = {
            "format": FORMAT,
            "tick": self.tick,
            "term": self.term,
            "driver": self.driver,
            "committed": self.committed,
            "frontier": dict(self.frontier),
            "first_lsn": self.first_lsn,
            "events": self.events,
            "rows_in": self.rows_in,
            "states": {
                node: {name: [it.to_json() for it in slices] for name, slices in spines.items()}
                for node, spines in self.states.items()
            },
            "views": {name: _view_told(view) for name, view in self.views.items()},
        }
        text = orjson.dumps(body)
        return _HEAD % crc32c(text) + text + b"}\n"

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """The manifest in these bytes, or `DamagedBytes`: any changed byte is noticed."""
        head = len(_HEAD % 0)
        text = data[head:-2]
        try:
            if data[:head] != _HEAD % crc32c(text) or data[-2:] != b"}\n":
                raise _damaged(where, "it does not match its checksum")
            told = orjson.loads(text)
            if told["format"] != FORMAT:
                raise Unsupported(
                    f"the manifest is of format {told['format']}, and this Penstock reads format {FORMAT}",
                    subject=where,
                    hint="Open the database with a newer Penstock.",
                )
            return cls(
                told["tick"],
                told["term"],
                told["driver"],
                told["committed"],
                told["frontier"],
                told["first_lsn"],
                told["events"],
                {
                    node: {name: tuple(map(Slice.from_json, slices)) for name, slices in spines.items()}
                    for node, spines in told["states"].items()
                },
                {name: _view(view) for name, view in told["views"].items()},
                told["rows_in"],
            )
        except PenstockError:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise _damaged(where, f"the JSON cannot be read ({error})") from error


def _view_told(view: ViewState) -> dict[str, Any]:
    return {
        "collection": view.collection,
        "files": [[it.name, it.bytes, it.frames] for it in view.files],
        "content": [it.to_json() for it in view.content],
        "folded": view.folded,
        "loose": view.loose,
    }


def _view(told: Mapping[str, Any]) -> ViewState:
    files = tuple(
        ChangeFile(name, size, tuple((*map(int, frame),) for frame in frames))  # type: ignore[misc]
        for name, size, frames in told["files"]
    )
    content = tuple(map(Slice.from_json, told["content"]))
    return ViewState(told["collection"], files, content, told["folded"], told["loose"])


def _damaged(where: str, what: str) -> DamagedBytes:
    return DamagedBytes(
        what,
        subject=where,
        hint="The disk or a program changed what was written. Restore the file, or create the views anew.",
    )
