"""`meta.json`: what a log is, apart from its events. Small, and replaced whole, never edited in place."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from penstock.changes.names import check_user_schema
from penstock.errors import (
    AlreadyExists,
    Fenced,
    InvalidArgument,
    PenstockError,
    Unsupported,
)
from penstock.log.format import VERSION, crc32c, damaged

__all__ = ["META", "Collection", "Meta"]

META = "meta.json"
_MOST_NUMBERS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of rows inside a log: a schema, and the columns that tell rows apart (none: a multiset).

    Frames name it by its ``id``, which is a checksum of the definition: so a frame is never read by
    another collection's schema, not even when `meta.json` was restored from an older copy.
    """

    id: int
    name: str
    schema: pa.Schema
    key: tuple[str, ...] = ()
    layouts: dict[int, pa.Schema] = field(default_factory=dict, init=False, repr=False, compare=False)
    required: tuple[int, ...] = field(init=False, repr=False, compare=False)  # the columns without NULL

    def __post_init__(self) -> None:
        required = tuple(i for i, column in enumerate(self.schema) if not column.nullable)
        object.__setattr__(self, "required", required)

    @classmethod
    def define(cls, name: str, schema: pa.Schema, key: tuple[str, ...]) -> Collection:
        """A checked definition; dictionary columns become columns of their values."""
        subject = f"collection {name!r}"
        if not name or name != name.strip() or len(name) > 200:
            raise InvalidArgument(
                f"{name!r} is not a name",
                subject="collection",
                hint="Give 1 to 200 characters, no blanks around.",
            )
        plain = pa.schema([_plain(column, subject) for column in schema])
        check_user_schema(plain, subject)
        if not plain.names:
            raise InvalidArgument("it has no column", subject=subject, hint="Give at least one column.")
        for column in key:
            if column not in plain.names:
                raise InvalidArgument(
                    f"the key column {column!r} is not a column",
                    subject=subject,
                    hint=f"The columns are {', '.join(plain.names)}.",
                )
        if len(set(key)) != len(key):
            raise InvalidArgument("a key column is named twice", subject=subject, hint="Name each once.")
        return cls(_number(name, plain, key), name, plain, tuple(key))

    def numbered_apart(self, others: Container[int]) -> Collection:
        """The same under the next number that no other collection has."""
        number = self.id
        while number in others:
            number = number % _MOST_NUMBERS + 1
        return self if number == self.id else replace(self, id=number)


def _number(name: str, schema: pa.Schema, key: tuple[str, ...]) -> int:
    definition = orjson.dumps([name, list(key)]) + schema.serialize().to_pybytes()
    return max(crc32c(definition), 1)  # 0 is the number of no collection


def _plain(column: pa.Field, subject: str) -> pa.Field:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.with_type(kind.value_type)
    if _has_dictionary(column.type):
        raise Unsupported(
            f"the column {column.name!r} of type {kind} holds a dictionary inside",
            subject=subject,
            hint="Cast it to the type of its values.",
        )
    return column


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


@dataclass(frozen=True, slots=True)
class Meta:
    """A log's identity, term, collections, and the oldest LSN it still promises to have."""

    log_id: bytes
    created: int  # microseconds since 1970, for people
    term: int = 1
    oldest_lsn: int = 1
    collections: tuple[Collection, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    by_id: dict[int, Collection] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Collection] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {it.id: it for it in self.collections})
        object.__setattr__(self, "_by_name", {it.name: it for it in self.collections})

    def named(self, name: str) -> Collection | None:
        """The collection of this name, if there is one."""
        return self._by_name.get(name)

    def collection(self, name: str, subject: str) -> Collection:
        """The collection of this name, or an error that names those there are."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        known = ", ".join(repr(it.name) for it in self.collections) or "(none yet)"
        raise InvalidArgument(
            f"there is no collection {name!r}", subject=subject, hint=f"The collections are {known}."
        )

    def including(self, wanted: Collection) -> Meta:
        """With this collection; itself where it is there already, with the same schema and key."""
        there = self._by_name.get(wanted.name)
        if there is None:
            return replace(self, collections=(*self.collections, wanted.numbered_apart(self.by_id)))
        if there.schema.equals(wanted.schema) and there.key == wanted.key:
            return self
        raise AlreadyExists(
            "there is a collection of this name with another schema or key",
            subject=f"collection {wanted.name!r}",
            hint="Choose another name.",
        )

    def promoted(self, term: int, subject: str) -> Meta:
        """With a higher term."""
        if isinstance(term, bool) or not isinstance(term, int) or not 0 < term < 2**32:
            raise InvalidArgument(f"{term!r} is not a term", subject=subject, hint="Terms count from 1.")
        if term > self.term:
            return replace(self, term=term)
        raise Fenced(
            f"the term {term} is not above {self.term}",
            subject=subject,
            hint=f"Promote with {self.term + 1} or more.",
        )

    def encode(self) -> bytes:
        body = {
            "format": VERSION,
            "log_id": self.log_id.hex(),
            "created": self.created,
            "term": self.term,
            "oldest_lsn": self.oldest_lsn,
            "collections": [
                {
                    "id": it.id,
                    "name": it.name,
                    "key": list(it.key),
                    "schema": base64.b64encode(it.schema.serialize()).decode(),
                    "columns": [f"{column.name} {column.type}" for column in it.schema],
                }
                for it in self.collections
            ],
            "extra": self.extra,
        }
        text = orjson.dumps(body, option=orjson.OPT_INDENT_2)
        return b'{"crc32c": "%08x", "meta": ' % crc32c(text) + text + b"}\n"

    @classmethod
    def decode(cls, data: bytes, where: str) -> Meta:
        """The meta in these bytes, or `DamagedBytes`: any changed byte is noticed."""
        head = b'{"crc32c": "00000000", "meta": '
        try:
            text = data[len(head) : -2]
            crc = int(data[12:20], 16)
            if (
                data[:12] + b"00000000" + data[20 : len(head)] != head
                or data[-2:] != b"}\n"
                or crc32c(text) != crc
            ):
                raise damaged(where, 0, "it does not match its checksum")
            body = orjson.loads(text)
            if body["format"] != VERSION:
                raise Unsupported(
                    f"the log is of format {body['format']}, and this Penstock reads format {VERSION}",
                    subject=where,
                    hint="Open the log with a newer Penstock.",
                )
            collections = tuple(
                Collection(
                    it["id"],
                    it["name"],
                    pa.ipc.read_schema(pa.py_buffer(base64.b64decode(it["schema"]))),
                    tuple(it["key"]),
                )
                for it in body["collections"]
            )
            return cls(
                bytes.fromhex(body["log_id"]),
                body["created"],
                body["term"],
                body["oldest_lsn"],
                collections,
                body["extra"],
            )
        except PenstockError:
            raise
        except (ValueError, KeyError, TypeError, binascii.Error, pa.ArrowException) as error:
            raise damaged(where, 0, f"the JSON cannot be read ({error})") from error
