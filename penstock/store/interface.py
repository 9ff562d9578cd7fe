"""What a store is: blobs by name, and one operation that decides races.

Everything durable stands on these laws, and `penstock.store.conformance` checks a backend against them:

* **Whole.** What can be seen under a name is all the bytes of one `put`, `create` or `commit`, never a part,
  never a mixture; also while it is being replaced, and whenever a writer dies.
* **One winner.** Of any number of `create` and `commit` racing for a name that is free, in any threads,
  processes or machines, exactly one gets True.
* **At once.** When a call has returned, every reader everywhere sees what it did.
* **Durable.** When a call has returned, what it did survives the loss of the process and of power.
  ``create`` returns False only when the blob that was first is as durable as that.
* **Honest.** A `DidNotHappen` leaves things as they were. A `MayHaveHappened` (`OutcomeUnknown`) leaves them
  as they were or as asked: look before you repeat. Reading never changes anything, so its errors are all
  `DidNotHappen`.
* **Dead writers.** One that dies before its call returned leaves things as they were or as asked, and
  perhaps bytes that no reader sees, until `Store.collect_leftovers` removes them.

Laws about durability hold where the store was not opened to do without (``fsync=False``, memory).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

import pyarrow as pa

from penstock.errors import Closed, NotFound
from penstock.store.data import Data, parts_of

__all__ = ["Blob", "Store", "Writer"]


@dataclass(frozen=True, slots=True)
class Blob:
    """What a listing tells of a blob. ``modified`` is by the store's own clock; equality leaves it out."""

    name: str
    size: int
    modified: datetime = field(compare=False)


class Store(ABC):
    """Blobs by name. Thread safe. The laws stand at the head of this module.

    Every method raises `InvalidArgument` for what is no name, `AccessDenied` and `StoreUnavailable` when
    the place refuses, and a method that writes `NoSpace` and `OutcomeUnknown` besides.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """The address that `penstock.store.open_store` opens again. Never holds a secret."""

    @abstractmethod
    def put(self, name: str, data: Data) -> None:
        """Make ``data`` the whole content of the blob, new or not. The last of several wins.

        Whoever dies before this returns leaves the old content or the new, whole. Do not mix it with
        `create` on one name: who replaces a blob takes the name from its winner.
        """

    @abstractmethod
    def create(self, name: str, data: Data) -> bool:
        """Make a new blob and return True, or return False because there is one: then nothing changed.

        Whoever dies before this returns leaves no blob of theirs, or the whole one. After `OutcomeUnknown`
        read the blob to learn who won, so give each racer's data something of its own.
        """

    @abstractmethod
    def writer(self, name: str) -> Writer:
        """Begin a blob too large to hold in memory. It is `create` in steps: `Writer.commit` decides."""

    @abstractmethod
    def get(self, name: str) -> bytes:
        """The whole blob, or `NotFound`."""

    @abstractmethod
    def read(self, name: str, start: int, length: int) -> bytes:
        """The bytes from ``start`` on, ``length`` of them or as many as there are; `NotFound` without a blob.

        So beyond the end is ``b""``, as in a file.
        """

    @abstractmethod
    def map(self, name: str) -> pa.Buffer:
        """The whole blob as an Arrow buffer, or `NotFound`; mapped without copying where the blob is a file.

        The buffer keeps its bytes for as long as it lives, whatever becomes of the blob.
        """

    @abstractmethod
    def stat(self, name: str) -> Blob:
        """Size and age, or `NotFound`."""

    @abstractmethod
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Blob]:
        """The blobs whose name begins with ``prefix`` and sorts after ``after``, by name (by code point).

        Read in pages as you go. A blob that is there from beginning to end of the iteration is in it, once;
        one that comes or goes meanwhile may be in it or not.
        """

    @abstractmethod
    def delete(self, *names: str) -> None:
        """Remove the blobs; those that are not there already are no error."""

    @abstractmethod
    def collect_leftovers(self, older_than: timedelta) -> int:
        """Remove what writers left that died longer ago than this; return how many pieces there were.

        A writer that is alive but slower than this loses its blob, with an error at `Writer.commit`.
        """

    def exists(self, name: str) -> bool:
        """Whether there is a blob of this name."""
        try:
            self.stat(name)
        except NotFound:
            return False
        return True


class Writer(ABC):
    """A blob in the making: `write` as often as you like, then `commit`. Used by one thread at a time.

    As a context manager it abandons what was not committed. It is a sink for Arrow's writers as it is::

        with store.writer("runs/7.arrow") as writer:
            with pa.ipc.new_file(writer, schema) as file:
                file.write_batch(batch)
            won = writer.commit()
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._size = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it was committed or abandoned."""
        return self._closed

    def tell(self) -> int:
        """How many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Move what was written on its way. Nobody sees it before `commit` all the same."""
        self._check_open()

    def write(self, data: Data) -> int:
        """Append the bytes and return how many they are. They may be reused afterwards.

        An error abandons the blob, so that what lacks a piece can never be committed.
        """
        self._check_open()
        try:
            parts = parts_of(data)
            self._append(parts)
        except BaseException:
            self.abandon()
            raise
        size = sum(part.nbytes for part in parts)
        self._size += size
        return size

    def commit(self) -> bool:
        """Create the blob: True, or False because the name was taken. Ends the writer, whatever comes.

        The same law as `Store.create`: True means whole, visible, durable; False leaves nothing of ours.
        """
        self._check_open()
        self._closed = True
        try:
            return self._publish()
        finally:
            self._discard()

    def abandon(self) -> None:
        """End the writer and leave nothing. Does nothing after `commit`, or when called again."""
        if not self._closed:
            self._closed = True
            self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(
                "the writer was committed or abandoned, or a write failed",
                subject=f"writer of {self.name}",
                hint="Ask the store for a new writer.",
            )

    @abstractmethod
    def _append(self, parts: list[memoryview]) -> None:
        """Take in the parts; the caller may reuse their memory afterwards."""

    @abstractmethod
    def _publish(self) -> bool:
        """Create the blob of what was appended."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove what `_append` left, as far as that is possible; never raises a store's error."""
