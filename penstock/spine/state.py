"""`ShardState`: what one step sees of its state in one shard, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pyarrow as pa

from penstock.changes.hashing import unsigned
from penstock.errors import InvalidArgument
from penstock.spine.arrange import arrange, arrange_pieces
from penstock.spine.layout import END, Layout
from penstock.spine.merge import merged
from penstock.spine.policy import Merge, Part, Policy, due, gaps
from penstock.spine.run import Run
from penstock.spine.runs import Runs
from penstock.spine.slices import Edit, Slice, edited
from penstock.spine.spine import Spine
from penstock.store.interface import Store
from penstock.store.memory import MemoryStore

__all__ = ["ShardState"]

_EAGER = Policy()
_MOST_BYTES = 1 << 28  # of added rows that are held as one run


class ShardState:
    """The spines of one operator in the hashes [begin, end), for one step.

    ``slices`` are all of each spine's, of which it takes what lies in the range. Files are named
    ``prefix``, spine, number; so give each attempt of a step a prefix of its own: what an attempt leaves
    that came to nothing belongs to no list of slices and harms nobody.

    >>> layout = Layout(pa.schema([("k", pa.string()), ("n", pa.int64())]), ("k",), "sums")
    >>> state = ShardState.in_memory({"counts": layout})
    >>> state.add("counts", pa.record_batch({"_hash": [7, 7], "k": ["a", "a"], "n": [2, 3]}))
    >>> later = state.after(state.finish(), "1/")
    >>> later.spine("counts").sums(pa.record_batch({"_hash": [7, 8], "k": ["a", "b"]})).to_pylist()
    [{'n': 5}, {'n': 0}]
    """

    def __init__(
        self,
        store: Store,
        runs: Runs,
        layouts: Mapping[str, Layout],
        slices: Mapping[str, Sequence[Slice]],
        begin: int,
        end: int,
        prefix: str,
        is_new: bool,
        *,
        policy: Policy = _EAGER,
    ) -> None:
        self._store, self._runs, self._policy = store, runs, policy
        self._layouts = dict(layouts)
        self._slices = {name: tuple(slices.get(name, ())) for name in layouts}
        self.begin, self.end = begin, end
        self.is_new = is_new
        """Whether there was no committed state of this operator before."""
        self._prefix = prefix
        self._spines: dict[str, Spine] = {}
        self._added: dict[str, list[pa.RecordBatch]] = {name: [] for name in layouts}

    @classmethod
    def in_memory(
        cls, layouts: Mapping[str, Layout], begin: int = 0, end: int = END, *, policy: Policy = _EAGER
    ) -> ShardState:
        """A new state in a store of its own: for tests, and for steps whose state need not last."""
        store = MemoryStore()
        return cls(store, Runs(store), layouts, {}, begin, end, "0/", True, policy=policy)

    def after(self, edits: Mapping[str, Edit], prefix: str) -> ShardState:
        """The state as the next step sees it."""
        slices = {
            name: edited(there, [edits[name]]) if name in edits else there
            for name, there in self._slices.items()
        }
        return ShardState(
            self._store,
            self._runs,
            self._layouts,
            slices,
            self.begin,
            self.end,
            prefix,
            False,
            policy=self._policy,
        )

    @property
    def slices(self) -> dict[str, tuple[Slice, ...]]:
        """The slices of each spine, as they were before the step."""
        return dict(self._slices)

    def spine(self, name: str) -> Spine:
        """The spine as it was before the step, cut to the shard."""
        layout = self._layout(name)
        found = self._spines.get(name)
        if found is None:
            found = Spine.open(layout, self._slices[name], self._runs, self.begin, self.end)
            self._spines[name] = found
        return found

    def add(self, name: str, batch: pa.RecordBatch) -> None:
        """Rows for the spine: ``_hash``, the layout's columns and, for a bag, ``_weight``, in any order."""
        layout = self._layout(name)
        if batch.num_rows:
            rows = arrange(layout, batch)
            if rows.num_rows:
                self._check_range(name, rows)
                self._added[name].append(rows)

    def finish(self) -> dict[str, Edit]:
        """Write what was added, merge what is due, and tell what that did to each spine that it changed.

        Rows of the step that a merge takes in are written once, in the merged file.
        """
        edits = {}
        for name, batches in self._added.items():
            if batches:
                edit = self._finish(name, batches)
                if edit.added or edit.dropped:
                    edits[name] = edit
        return edits

    def _finish(self, name: str, batches: Sequence[pa.RecordBatch]) -> Edit:
        layout = self._layouts[name]
        new = _runs_of(layout, batches)
        if not new:
            return Edit()
        old = self._old(name)
        parts = [*old, *(Part(run, None) for run in new)]
        rows = sum(run.rows for run in new)
        merges = due(self._policy, parts, self._slices[name], self.begin, self.end, rows)
        names = (f"{self._prefix}{name}-{number}" for number in count())
        added = self._written(layout, names, new, merges)
        dropped = [part.slice for merge in merges for part in merge.parts if part.slice is not None]
        return Edit(tuple(added), tuple(dropped))

    def _written(
        self, layout: Layout, names: Iterator[str], new: Sequence[Run], merges: Sequence[Merge]
    ) -> list[Slice]:
        slices = []
        for merge in merges:
            runs = [part.run for part in merge.parts]
            slices += merged(self._store, names, layout, runs, merge.begin, merge.end, self._policy)
        taken = [merge for merge in merges if any(part.slice is None for part in merge.parts)]
        between = gaps(self.begin, self.end, taken)
        left = [cut for begin, end in between for run in new if (cut := run.cut(begin, end)).rows]
        if left:
            for whole in merged(self._store, names, layout, left, self.begin, self.end, self._policy):
                slices += [it for gap in between if (it := whole.cut(*gap)) is not None]
        return slices

    def _old(self, name: str) -> list[Part]:
        layout = self._layouts[name]
        cut = [part for it in self._slices[name] if (part := it.cut(self.begin, self.end)) is not None]
        return [Part(Run(self._runs.open(it.file, layout), it.begin, it.end), it) for it in cut]

    def _check_range(self, name: str, rows: pa.RecordBatch) -> None:
        hashes = unsigned(rows.column(0).to_numpy())
        least, greatest = int(hashes[0]), int(hashes[-1])
        if least < self.begin or greatest >= self.end:
            raise InvalidArgument(
                f"rows have hashes from {least:x} to {greatest:x}, and the shard those in "
                f"[{self.begin:x}, {self.end:x})",
                subject=f"spine {name}",
                hint="Give each shard the rows of its own range.",
            )

    def _layout(self, name: str) -> Layout:
        if name not in self._layouts:
            raise InvalidArgument(
                f"there is no spine {name!r}",
                subject="ShardState",
                hint=f"There are: {', '.join(self._layouts) or 'none'}.",
            )
        return self._layouts[name]


def _runs_of(layout: Layout, batches: Sequence[pa.RecordBatch]) -> list[Run]:
    """Arranged batches as one run; as several where they are too much for one."""
    if sum(batch.nbytes for batch in batches) <= _MOST_BYTES:
        batches = [arrange_pieces(layout, batches)]
    return [Run.in_memory(layout, batch) for batch in batches if batch.num_rows]
