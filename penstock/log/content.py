"""The content of a collection: the rows that are there as of an LSN, told from the log alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np
import pyarrow as pa

from penstock.errors import CursorExpired, InvalidArgument
from penstock.log.changes import Changes
from penstock.log.content_rows import Int64s
from penstock.log.content_state import Bag, ByKey, State
from penstock.log.interface import ReadableLog
from penstock.lsn import check_lsn

__all__ = ["Content", "content"]

_STEP_ROWS = 1 << 22
_STEP_BYTES = 256 << 20


def content(log: ReadableLog, collection: str, upto: int | None = None) -> pa.Table:
    """The rows of a collection as of an LSN (default: now). See `Content`, which also moves forward.

    >>> import tempfile
    >>> from penstock.log import Log
    >>> with Log.create(tempfile.mkdtemp()) as log:
    ...     schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    ...     users = log.add_collection("users", schema, key=["id"])
    ...     lsns = log.append("users", pa.table({"id": [1, 2, 1], "name": ["ada", "bob", "Ada"]}))
    ...     (content(log, "users", 2).to_pylist(), content(log, "users").to_pylist())
    ([{'id': 1, 'name': 'ada'}, {'id': 2, 'name': 'bob'}],
     [{'id': 2, 'name': 'bob'}, {'id': 1, 'name': 'Ada'}])
    """
    return Content(log, collection).advance(upto).table()


class Content:
    """The rows of one collection as of an LSN, which moves forward.

    Law: with a key, the last event of each key says what its row is: an insert or a new side sets it, a
    delete removes it, an old side counts only where the update gave its row another key. Without a key, a row
    is there as often as its weights add up to. A refresh replaces all. Rows are equal as
    `penstock.changes.rows` says. What is taken away and was not there (``owed``) shows nowhere; a later copy
    of it is used up by it.

    Moving costs in proportion to the changes, whatever the number of rows, but for what `Rows` says. What
    `table` gave is never changed, and any number of threads may ask for it while one moves forward.
    When moving fails, the content stays where it was.
    """

    def __init__(self, log: ReadableLog, collection: str) -> None:
        self.collection = log.collection(collection)
        self._log = log
        self._lock = threading.Lock()
        self._now: tuple[int, State] = (0, self._empty())

    def __repr__(self) -> str:
        lsn, state = self._now
        return f"Content({self.collection.name!r}, {state.rows.copies} rows, LSN {lsn})"

    def __len__(self) -> int:
        """How many rows are there."""
        return self._now[1].rows.copies

    @property
    def lsn(self) -> int:
        """Up to where the log is accounted for."""
        return self._now[0]

    @property
    def owed(self) -> int:
        """How many copies were taken away that were not there. Not 0: the log does not tell all that came."""
        return self._now[1].owed

    def table(self) -> pa.Table:
        """The rows, in no promised order. Made once for each LSN, and mostly of parts of the one before."""
        return self._now[1].rows.table()

    def advance(self, upto: int | None = None) -> Self:
        """Go on to an LSN (default: the end of the log), and no further than the log goes.

        An LSN amid a transaction shows what of it lies up to there: `ReadableLog.boundary` tells its end.
        Raises `CursorExpired` when changes are no longer kept, unless a later refresh makes them needless.
        """
        with self._lock:
            lsn, state = self._now
            end = self._log.current_lsn
            upto = end if upto is None else min(check_lsn(upto, self._log.name), end)
            if upto < lsn:
                raise InvalidArgument(
                    f"the content is as of LSN {lsn} already, after {upto}",
                    subject=f"collection {self.collection.name!r}",
                    hint="Read it anew from the beginning: Content(log, name).advance(upto).",
                )
            if upto > lsn:
                self._now = (upto, self._applied(state, self._changes(lsn, upto)))
        return self

    def _empty(self) -> State:
        return ByKey(self.collection) if self.collection.key else Bag(self.collection)

    def _changes(self, since: int, upto: int) -> Iterable[Changes]:
        try:
            return self._log.read(self.collection.name, since, upto)
        except CursorExpired:
            kept = self._since_refresh(upto)
            if kept is None:
                raise
            return kept

    def _since_refresh(self, upto: int) -> Iterator[Changes] | None:
        """The changes from the first refresh that is kept, if there is one: what was before is not needed."""
        before = self._log.oldest_lsn - 1
        if before >= upto:
            return None
        for changes in self._log.read(self.collection.name, before, upto):
            if changes.is_refresh:
                return iter(self._log.read(self.collection.name, changes.first_lsn - 1, upto))
        return None

    def _applied(self, state: State, changes: Iterable[Changes]) -> State:
        """In steps of many changes: each costs a little whatever its size."""
        step: list[tuple[pa.RecordBatch, Int64s]] = []
        rows = size = 0
        for some in changes:
            if some.is_refresh:
                state, step, rows, size = self._empty(), [], 0, 0
            data = pa.RecordBatch.from_arrays(some.data.columns, schema=self.collection.schema)
            step.append((data, state.told_by(some)))
            rows += data.num_rows
            size += data.nbytes
            if rows >= _STEP_ROWS or size >= _STEP_BYTES:
                state, step, rows, size = _apply(state, step), [], 0, 0
        return _apply(state, step)


def _apply(state: State, step: list[tuple[pa.RecordBatch, Int64s]]) -> State:
    step = [it for it in step if len(it[1])]
    if not step:
        return state
    batches = [batch for batch, _ in step]
    told = np.concatenate([numbers for _, numbers in step])
    return state.applied(batches[0] if len(batches) == 1 else pa.concat_batches(batches), told)
