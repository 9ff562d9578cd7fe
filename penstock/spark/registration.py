"""What a step leaves for the driver and for a later attempt at the same step: one blob, created if absent.

The first attempt to finish wins. Its registration names what it did to its spines and holds its output (or
names the blob that does); whoever comes later gives that output again instead of computing anew, so state
and output always agree. Registrations live for one attempt at one tick. They are scratch: a loss of power
takes the driver with it, and the tick is begun anew under another name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from penstock.errors import DamagedBytes, NotFound, PenstockError
from penstock.spine import Edit
from penstock.store import Store, Writer

__all__ = ["Outbox", "Registration", "find", "registrations"]

_EMBEDDED = 1 << 20
"""Output up to this many bytes travels inside the registration."""
_ALIGN = 64


@dataclass(frozen=True, slots=True)
class Registration:
    """One step of one node in one shard (or of one part of a view), finished.

    ``edits`` are by spine; ``told`` is what else the driver needs to know: plain JSON.
    """

    what: str
    part: int
    edits: Mapping[str, Edit] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0
    """Rows of output."""
    elsewhere: str | None = None
    """The blob with the output, where it is too large to travel inside."""

    @property
    def files(self) -> list[str]:
        """What this attempt wrote beside its registration."""
        written = [it.file for edit in self.edits.values() for it in edit.added]
        return list({*written, *filter(None, (self.elsewhere, self.told.get("file")))})

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "part": self.part,
            "edits": {name: edit.to_json() for name, edit in self.edits.items()},
            "told": dict(self.told),
            "rows": self.rows,
            "elsewhere": self.elsewhere,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Registration:
        edits = {name: Edit.from_json(edit) for name, edit in told["edits"].items()}
        return cls(told["what"], told["part"], edits, told["told"], told["rows"], told["elsewhere"])


def name_of(folder: str, what: str, part: int) -> str:
    """Where the registration of this step stands."""
    return f"{folder}.{what}.{part}"


class Outbox:
    """The output of one attempt: gathered in memory while it is small, then in a blob of its own."""

    def __init__(self, store: Store, folder: str, schema: pa.Schema) -> None:
        self._store = store
        self._folder = folder
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._blob: Writer | None = None
        self._stream: Any = None
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        if self._stream is not None:
            self._stream.write_batch(batch)
            return
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > _EMBEDDED:
            self._blob = self._store.writer(f"{self._folder}.output-{uuid.uuid4().hex}")
            self._stream = pa.ipc.new_stream(self._blob, self._schema)
            for waiting in self._batches:
                self._stream.write_batch(waiting)
            self._batches = []

    def register(
        self, what: str, part: int, edits: Mapping[str, Edit], told: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Register this attempt, or find that another one did; then the output that counts.

        Who comes second takes away what it wrote: nobody else knows of it.
        """
        elsewhere = None
        if self._blob is not None:
            self._stream.close()
            self._blob.commit()
            elsewhere = self._blob.name
        mine = Registration(what, part, edits, told, self.rows, elsewhere)
        name = name_of(self._folder, what, part)
        if not self._store.create(name, _encoded(mine, self._schema, self._batches)):
            with suppress(PenstockError):  # what stays is an orphan, and swept up as such
                self._store.delete(*mine.files)
        elif elsewhere is None:
            return iter(self._batches)
        found = find(self._store, self._folder, what, part)
        assert found is not None, "it was there a moment ago"
        return found[1]


def find(
    store: Store, folder: str, what: str, part: int
) -> tuple[Registration, Iterator[pa.RecordBatch]] | None:
    """The registration of this step and its output, where an attempt has finished."""
    name = name_of(folder, what, part)
    try:
        data = store.map(name)
    except NotFound:
        return None
    registration, body = _decoded(data, name)
    if registration.elsewhere is not None:
        body = store.map(registration.elsewhere)
    return registration, iter(pa.ipc.open_stream(body))


def registrations(store: Store, folder: str) -> list[Registration]:
    """All that was registered in this attempt at the tick."""
    others = (f"{folder}.output-", f"{folder}.error-")
    names = [blob.name for blob in store.list(f"{folder}.") if not blob.name.startswith(others)]
    return [_decoded(pa.py_buffer(store.get(name)), name)[0] for name in names]


def _encoded(registration: Registration, schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    head = orjson.dumps(registration.to_json())
    sink = pa.BufferOutputStream()
    sink.write(len(head).to_bytes(8, "little"))
    sink.write(head)
    sink.write(bytes(-(8 + len(head)) % _ALIGN))
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def _decoded(data: pa.Buffer, name: str) -> tuple[Registration, pa.Buffer]:
    try:
        length = int.from_bytes(data[:8].to_pybytes(), "little")
        registration = Registration.from_json(orjson.loads(data[8 : 8 + length].to_pybytes()))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedBytes(
            f"this is no registration of a step ({error})",
            subject=name,
            hint="Refresh again: the tick is then begun anew.",
        ) from error
    start = 8 + length + -(8 + length) % _ALIGN
    return registration, data[start:]
