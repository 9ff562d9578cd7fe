"""`Source`: where the changes of a message come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
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
    _json: str | None = field(default=None, init=False, repr=False, compare=False)

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
        """`to_dict` as text, spelled once and kept: one source stands in many messages.

        >>> Source("shop", "default", "orders", version="1").to_json()
        '{"version":"1","connector":"penstock","name":"shop","db":"default","table":"orders"}'
        """
        if self._json is None:
            try:
                text = orjson.dumps(self.to_dict()).decode()
            except TypeError as error:
                raise InvalidArgument(
                    f"{self} has no form in JSON: {error}",
                    subject="Source",
                    hint="Names are whole Unicode text, and a sequence is text or an integer of 64 bits.",
                ) from None
            object.__setattr__(self, "_json", text)
            return text
        return self._json


@cache
def _own_version() -> str:
    import penstock  # at the call: the package is still being built while this module is imported

    return str(penstock.__version__)
