"""`Source`: where the changes of a message come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import orjson

from penstock.errors import InvalidArgument

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """The name of the system, its database and the table or view, as a message's ``source`` tells them.

    ``sequence`` orders messages of one source where they have no LSN. ``schema`` is the namespace between
    database and table, for those who have one.

    >>> Source("shop", "default", "orders", 42).to_dict()["sequence"]
    42
    """

    name: str
    db: str
    table: str
    sequence: int | str | None = None
    schema: str | None = None
    connector: str = "penstock"
    version: str | None = None

    @property
    def prefix(self) -> str:
        """What the names of the message's Connect schemas begin with; also its topic in Kafka.

        >>> Source("shop", "default", "orders").prefix, Source("shop", "d", "orders", schema="inv").prefix
        ('shop.default.orders', 'shop.inv.orders')
        """
        return f"{self.name}.{self.schema or self.db}.{self.table}"

    @property
    def told_version(self) -> str:
        """The version given, else Penstock's own."""
        return _own_version() if self.version is None else self.version

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON has them; those that are not given are left out."""
        told = {
            "version": self.told_version,
            "connector": self.connector,
            "name": self.name,
            "db": self.db,
            "sequence": self.sequence,
            "schema": self.schema,
            "table": self.table,
        }
        return {name: value for name, value in told.items() if value is not None}

    def to_json(self) -> str:
        """`to_dict` as text. All but the sequence is spelled once and kept, for it stands in every message.

        >>> Source("shop", "default", "orders", 42, version="1").to_json()
        '{"version":"1","connector":"penstock","name":"shop","db":"default","sequence":42,"table":"orders"}'
        """
        version = _own_version() if self.version is None else self.version
        before, after = _around_sequence(version, self.connector, self.name, self.db, self.schema, self.table)
        sequence = self.sequence
        if sequence is None:
            return before + after
        return f'{before},"sequence":{sequence if type(sequence) is int else _text(sequence)}{after}'


@lru_cache(maxsize=1024)
def _around_sequence(
    version: str, connector: str, name: str, db: str, schema: str | None, table: str
) -> tuple[str, str]:
    before = (
        f'{{"version":{_text(version)},"connector":{_text(connector)},"name":{_text(name)},"db":{_text(db)}'
    )
    namespace = "" if schema is None else f',"schema":{_text(schema)}'
    return before, f'{namespace},"table":{_text(table)}}}'


def _text(value: object) -> str:
    try:
        if not isinstance(value, str):
            raise TypeError(f"it is a {type(value).__name__}")
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise InvalidArgument(
            f"{value!r} cannot stand in a message: {error}",
            subject="Source",
            hint="Names are whole Unicode text; a sequence is text or an integer.",
        ) from None


@cache
def _own_version() -> str:
    import penstock  # at the call: the package is still being built while this module is imported

    return str(penstock.__version__)
