"""What is put into the CDC ring: single rows and batches, checked before any lock is taken."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changes.record import ChangeOperation, changed_columns
from penstock.errors import Closed, InvalidArgument
from penstock.lsn import LsnRange

__all__ = ["Batch", "CdcTransaction", "Ids", "Row", "make_batch", "make_kv", "make_row"]

Ids: TypeAlias = Iterable[int]
"""Integers from 0 to 2⁶⁴ − 1: NumPy and Arrow arrays and ranges are taken as a whole, all else one by one."""
_MOST = 2**64 - 1


class Row(NamedTuple):
    """One event to be. ``kv`` is key, before and after of a key-value change."""

    operation: ChangeOperation
    collection: str
    entity_id: int
    kind: str
    changed: tuple[str, ...] | None
    kv: tuple[str, Any, Any] | None


_new_row = partial(tuple.__new__, Row)  # half the cost of calling the class


class Batch(NamedTuple):
    """Events to be that differ in nothing but their entity."""

    operation: ChangeOperation
    collection: str
    kind: str
    ids: npt.NDArray[np.uint64]


def make_row(
    operation: ChangeOperation,
    collection: str,
    entity_id: int,
    kind: str,
    changed: Iterable[str] | None,
    kv: tuple[str, Any, Any] | None = None,
) -> Row:
    """A row of valid fields."""
    _check_names(operation, collection, kind)
    try:
        number = operator.index(entity_id)
    except TypeError:
        number = -1
    if not 0 <= number <= _MOST:
        raise _not_an_id(entity_id)
    if changed is not None:
        if isinstance(changed, str):
            raise _unfit(f"changed_columns is the text {changed!r}", "Give a list of names.")
        changed = tuple(changed)
    return _new_row((operation, collection, number, kind, changed, kv))


def make_kv(
    operation: ChangeOperation, collection: str, key: str, entity_id: int, before: Any, after: Any
) -> Row:
    """A key's change. The columns touched are the fields of two objects, else the one column ``value``.

    >>> def changed(before, after):
    ...     return make_kv(ChangeOperation.UPDATE, "c", "k", 1, before, after).changed
    >>> changed({"a": 1, "b": 2}, {"a": 1, "b": 3}), changed(1, 2), changed(2, 2), changed(None, 2)
    (('b',), ('value',), (), None)
    """
    if not isinstance(key, str):
        raise _unfit(f"the key is {key!r}", "Give text.")
    touched = None
    if before is not None and after is not None:
        if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
            touched = changed_columns({"value": before}, {"value": after})
        else:
            touched = changed_columns(before, after)
    return make_row(operation, collection, entity_id, "kv", touched, (key, before, after))


def make_batch(operation: ChangeOperation, collection: str, kind: str, ids: Ids) -> Batch:
    """A batch of valid fields. Ids are copied, unless they came as an array that cannot be written to."""
    _check_names(operation, collection, kind)
    array = _as_array(ids)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise _unfit(f"the ids are {array.ndim}-dimensional of type {array.dtype}", "Give integers in a row.")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise _not_an_id(int(array.min()))
    own = array.astype(np.uint64, copy=array is ids and array.flags.writeable)
    own.flags.writeable = False
    return Batch(operation, collection, kind, own)


class CdcTransaction:
    """Events that appear in the ring together when the transaction is committed, or never.

    Leaving its ``with`` block commits it; leaving it by an error rolls it back. Nothing takes an LSN or a
    time before the commit. For one thread.
    """

    __slots__ = ("_commit", "_lsns", "_open", "_work")

    def __init__(self, commit: Callable[[Sequence[Row | Batch]], LsnRange]) -> None:
        self._commit = commit
        self._work: list[Row | Batch] = []
        self._open = True
        self._lsns: LsnRange | None = None

    @property
    def lsns(self) -> LsnRange | None:
        """The LSNs of its events once it is committed; None before, and when it was rolled back."""
        return self._lsns

    def emit(
        self,
        operation: ChangeOperation,
        collection: str,
        entity_id: int,
        kind: str,
        changed_columns: Iterable[str] | None = None,
    ) -> None:
        """One event."""
        self._add(make_row(operation, collection, entity_id, kind, changed_columns))

    def emit_with_columns(
        self,
        operation: ChangeOperation,
        collection: str,
        entity_id: int,
        kind: str,
        changed_columns: Iterable[str] | None,
    ) -> None:
        """One event with the columns it touched."""
        self._add(make_row(operation, collection, entity_id, kind, changed_columns))

    def emit_batch(self, operation: ChangeOperation, collection: str, kind: str, ids: Ids) -> None:
        """One event for each id."""
        self._add(make_batch(operation, collection, kind, ids))

    def emit_kv(
        self,
        operation: ChangeOperation,
        collection: str,
        key: str,
        entity_id: int,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """The change of one key."""
        self._add(make_kv(operation, collection, key, entity_id, before, after))

    def commit(self) -> LsnRange:
        """Let all events appear at once, and return their LSNs."""
        self._check_open()
        self._open = False
        self._lsns = self._commit(self._work)
        return self._lsns

    def rollback(self) -> None:
        """Forget all events. Does nothing when the transaction has ended."""
        self._open = False
        self._work = []

    def __enter__(self) -> CdcTransaction:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self._open:
            self.commit()

    def _add(self, work: Row | Batch) -> None:
        self._check_open()
        self._work.append(work)

    def _check_open(self) -> None:
        if not self._open:
            raise Closed(
                "the transaction has ended", subject="CdcBuffer.transaction", hint="Begin another one."
            )


def _check_names(operation: ChangeOperation, collection: str, kind: str) -> None:
    if type(operation) is not ChangeOperation:
        raise _unfit(f"the operation is {operation!r}", "Give a ChangeOperation.")
    if not (isinstance(collection, str) and isinstance(kind, str)):
        raise _unfit(f"the collection is {collection!r} and the kind is {kind!r}", "Give text for both.")


def _as_array(ids: Ids) -> npt.NDArray[Any]:
    if isinstance(ids, range):
        return np.arange(ids.start, ids.stop, ids.step)
    if isinstance(ids, np.ndarray | pa.Array | pa.ChunkedArray):
        return np.asarray(ids)
    listed = list(ids)
    if not all(issubclass(kind, int | np.integer) for kind in set(map(type, listed))):
        raise _unfit("not all of the ids are integers", "Give integers.")
    try:
        return np.array(listed, np.uint64)
    except OverflowError:
        raise _not_an_id(next(number for number in listed if not 0 <= number <= _MOST)) from None


def _not_an_id(value: object) -> InvalidArgument:
    return _unfit(f"the entity id is {value!r}", "Give an integer from 0 to 2⁶⁴ − 1.")


def _unfit(what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(what, subject="CdcBuffer.emit", hint=hint)
