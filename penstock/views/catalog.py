"""The catalog: which tables, views and pipelines a database has.

It is a sequence of small files, ``catalog/<version>.json``, each the whole catalog; who creates the next
version first wins, and the loser looks again. So any process may change it, and no change is half done.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from penstock.errors import AlreadyExists, DamagedBytes, InvalidArgument, NotFound, Unsupported
from penstock.log.format import crc32c
from penstock.log.meta import Collection
from penstock.store import Store

__all__ = ["MAIN", "Catalog", "CatalogStore", "Table", "View"]

FORMAT = 1
MAIN = "main"
"""The log, and the pipeline, of everything that says nothing else."""
_HEAD = b'{"crc32c": "%08x", "catalog": '
_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Table:
    """A table that people write: a collection of a log.

    The collection has the table's name, or, where a table of that name was dropped before, one like it.
    """

    name: str
    log: str
    schema: pa.Schema
    collection: Collection
    """Any of its columns may be NULL: a delete tells the key alone."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.collection.key


@dataclass(frozen=True, slots=True)
class View:
    """A view that a pipeline keeps right: its SQL, and the collection its changes are of."""

    name: str
    pipeline: str
    sql: str
    collection: Collection
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    """Names that its columns were given beside the query, if any were."""

    @property
    def schema(self) -> pa.Schema:
        return self.collection.schema


@dataclass(frozen=True, slots=True)
class Catalog:
    """One version. Names are told apart without regard to case, as Spark does."""

    version: int = 0
    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)

    def find(self, name: str) -> Table | View | None:
        wanted = name.casefold()
        return self.tables.get(wanted) or self.views.get(wanted)

    def __getitem__(self, name: str) -> Table | View:
        found = self.find(name)
        if found is None:
            raise missing("table or view", name, [*self.tables, *self.views])
        return found

    def table(self, name: str) -> Table:
        found = self.find(name)
        if isinstance(found, Table):
            return found
        if found is not None:
            raise Unsupported(
                "it is a view, and a view's rows follow from its query",
                subject=f"view {name!r}",
                hint="Change the tables that it reads.",
            )
        raise missing("table", name, list(self.tables))

    def view(self, name: str) -> View:
        found = self.find(name)
        if isinstance(found, View):
            return found
        raise missing("view", name, list(self.views))

    def pipelines(self) -> tuple[str, ...]:
        return tuple(sorted({view.pipeline for view in self.views.values()}))

    def of_pipeline(self, pipeline: str) -> tuple[View, ...]:
        """The views of a pipeline, in the order they were created."""
        return tuple(view for view in self.views.values() if view.pipeline == pipeline)

    def check_free(self, name: str) -> None:
        """Refuse a name that something has."""
        if self.find(name) is not None:
            raise AlreadyExists(
                "there is a table or view of this name",
                subject=repr(name),
                hint="Choose another name, drop the other one, or say IF NOT EXISTS.",
            )

    def including(self, what: Table | View) -> Catalog:
        self.check_free(what.name)
        if isinstance(what, Table):
            return replace(self, tables={**self.tables, what.name.casefold(): what})
        return replace(self, views={**self.views, what.name.casefold(): what})

    def without(self, name: str) -> Catalog:
        wanted = name.casefold()
        return replace(
            self,
            tables={key: it for key, it in self.tables.items() if key != wanted},
            views={key: it for key, it in self.views.items() if key != wanted},
        )

    def encode(self) -> bytes:
        body = {
            "format": FORMAT,
            "version": self.version,
            "tables": [
                {"name": it.name, "log": it.log, **_collection_told(it.collection, it.schema)}
                for it in self.tables.values()
            ],
            "views": [
                {
                    "name": it.name,
                    "pipeline": it.pipeline,
                    "sql": it.sql,
                    "options": dict(it.options),
                    "names": list(it.columns),
                    **_collection_told(it.collection, it.schema),
                }
                for it in self.views.values()
            ],
        }
        text = orjson.dumps(body, option=orjson.OPT_INDENT_2)
        return _HEAD % crc32c(text) + text + b"}\n"

    @classmethod
    def decode(cls, data: bytes, where: str) -> Catalog:
        """The catalog in these bytes, or `DamagedBytes`: any changed byte is noticed."""
        head = len(_HEAD % 0)
        text = data[head:-2]
        if data[:head] != _HEAD % crc32c(text) or data[-2:] != b"}\n":
            raise _damaged(where, "it does not match its checksum")
        try:
            told = orjson.loads(text)
            if told["format"] != FORMAT:
                raise Unsupported(
                    f"the catalog is of format {told['format']}, and this Penstock reads format {FORMAT}",
                    subject=where,
                    hint="Open the database with a newer Penstock.",
                )
            tables = [Table(it["name"], it["log"], _schema(it), _collection(it)) for it in told["tables"]]
            views = [
                View(
                    it["name"],
                    it["pipeline"],
                    it["sql"],
                    _collection(it),
                    it["options"],
                    tuple(it["names"]),
                )
                for it in told["views"]
            ]
        except (ValueError, KeyError, TypeError, binascii.Error, pa.ArrowException) as error:
            raise _damaged(where, f"the JSON cannot be read ({error})") from error
        return cls(
            told["version"],
            {it.name.casefold(): it for it in tables},
            {it.name.casefold(): it for it in views},
        )


class CatalogStore:
    """The catalog of one database: read as it is now, changed one version at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Catalog | None = None

    def read(self) -> Catalog:
        """The newest version."""
        if self._known is None:
            names = [blob.name for blob in self._store.list("catalog/")]
            if not names:
                return Catalog()
            self._known = self._load(names[-1])
        while True:
            try:
                self._known = self._load(_name(self._known.version + 1))
            except NotFound:
                return self._known

    def change(self, change: Callable[[Catalog], Catalog]) -> Catalog:
        """Make the next version. ``change`` may be asked again, when another process came first."""
        for _ in range(_ATTEMPTS):
            before = self.read()
            after = change(before)
            if after is before:
                return before
            after = replace(after, version=before.version + 1)
            if self._store.create(_name(after.version), after.encode()):
                self._known = after
                return after
        raise InvalidArgument(
            f"{_ATTEMPTS} times in a row another process changed the catalog first",
            subject="catalog",
            hint="Try again when less is being created.",
        )

    def _load(self, name: str) -> Catalog:
        return Catalog.decode(self._store.get(name), name)


def missing(what: str, name: str, known: list[str]) -> NotFound:
    return NotFound(
        f"there is no {what} {name!r}",
        subject="catalog",
        hint=f"There are {', '.join(sorted(known))}." if known else "There is none yet: create it first.",
    )


def _name(version: int) -> str:
    return f"catalog/{version:012d}.json"


def _collection_told(collection: Collection, schema: pa.Schema) -> dict[str, Any]:
    return {
        "collection": collection.name,
        "id": collection.id,
        "key": list(collection.key),
        "schema": base64.b64encode(schema.serialize()).decode(),
        "columns": [f"{column.name} {column.type}" for column in schema],
    }


def _schema(told: Mapping[str, Any]) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["schema"])))


def _collection(told: Mapping[str, Any]) -> Collection:
    columns = pa.schema([it.with_nullable(True) for it in _schema(told)])
    return Collection(told["id"], told["collection"], columns, tuple(told["key"]))


def _damaged(where: str, what: str) -> DamagedBytes:
    return DamagedBytes(
        what,
        subject=where,
        hint="The disk or a program changed what was written. Restore the file, or remove it if an older "
        "version of the catalog will do.",
    )
