"""`ShardState`: what one step sees of its state in one shard, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.spine.arrange import arrange, arrange_pieces
from penstock.spine.layout import END, Layout
from penstock.spine.runs import Runs
from penstock.spine.slices import Edit, Slice, edited
from penstock.spine.spine import Spine
from penstock.spine.write import write_run
from penstock.store.interface import Store
from penstock.store.memory import MemoryStore

__all__ = ["ShardState"]


class ShardState:
    """What one operator's step sees of its state in one shard, and what it leaves."""

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
    ) -> None:
        self._store, self._runs = store, runs
        self._layouts = dict(layouts)
        self._slices = {name: tuple(slices.get(name, ())) for name in layouts}
        self.begin, self.end = begin, end
        self._prefix = prefix
        self.is_new = is_new
        self._added: dict[str, list[pa.RecordBatch]] = {name: [] for name in layouts}

    @classmethod
    def in_memory(cls, layouts: Mapping[str, Layout], begin: int = 0, end: int = END) -> ShardState:
        """A state that is new, in a store of its own."""
        store = MemoryStore()
        return cls(store, Runs(store), layouts, {}, begin, end, "0/", True)

    def after(self, edits: Mapping[str, Edit], prefix: str) -> ShardState:
        """The shard as the next step sees it."""
        slices = {
            name: edited(there, [edits[name]] if name in edits else [])
            for name, there in self._slices.items()
        }
        return ShardState(self._store, self._runs, self._layouts, slices, self.begin, self.end, prefix, False)

    def spine(self, name: str) -> Spine:
        """The spine as it was before the step, cut to the shard."""
        return Spine.open(self._layout(name), self._slices[name], self._runs, self.begin, self.end)

    def add(self, name: str, batch: pa.RecordBatch) -> None:
        """Rows for the spine: ``_hash``, the layout's columns, and ``_weight`` for a bag."""
        if batch.num_rows:
            self._added[name].append(arrange(self._layout(name), batch))

    def finish(self) -> dict[str, Edit]:
        """Write what was added, and merge."""
        edits = {}
        for name, pieces in self._added.items():
            if not pieces:
                continue
            layout = self._layouts[name]
            batch = arrange_pieces(layout, pieces)
            if not batch.num_rows:
                continue
            written = write_run(self._store, f"{self._prefix}{name}-0", layout, batch)
            edits[name] = Edit((replace(written, begin=self.begin, end=self.end),))
        return edits

    def _layout(self, name: str) -> Layout:
        if name not in self._layouts:
            raise InvalidArgument(
                f"there is no spine {name!r}",
                subject="ShardState",
                hint=f"There are {', '.join(self._layouts)}.",
            )
        return self._layouts[name]
