"""Penstock carries changes from databases to SQL views that are always right, on Spark.

Names load the room they live in when first used, so that ``import penstock`` stays quick.

>>> import penstock as ps
>>> ps.Op.DELETE.weight
-1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import changes as changes
    from penstock import errors as errors
    from penstock.changes import ChangeEvent as ChangeEvent
    from penstock.changes import EventType as EventType
    from penstock.changes import Op as Op
    from penstock.changes import ZSet as ZSet
    from penstock.database import Database as Database
    from penstock.database import connect as connect
    from penstock.errors import PenstockError as PenstockError

__version__ = "0.1.0.dev0"

_ROOMS = ("changes", "errors")
_NAMES = {
    "ChangeEvent": "penstock.changes",
    "Database": "penstock.database",
    "EventType": "penstock.changes",
    "Op": "penstock.changes",
    "PenstockError": "penstock.errors",
    "ZSet": "penstock.changes",
    "connect": "penstock.database",
}

__all__ = [
    "ChangeEvent",
    "Database",
    "EventType",
    "Op",
    "PenstockError",
    "ZSet",
    "changes",
    "connect",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"penstock.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
