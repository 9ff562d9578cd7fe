from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock import changes, log, store

SURFACE = {
    "penstock": [
        "ChangeEvent",
        "Database",
        "EventType",
        "Op",
        "PenstockError",
        "ZSet",
        "changes",
        "connect",
        "errors",
    ],
}
ENGINES = ["pyspark", "duckdb", "sqlglot", "pandas", "botocore"]
NOT_AT_IMPORT = [*ENGINES, "pyarrow", "numpy", "orjson", "typer", "rich"]


def test_the_public_names_are_exactly_these_and_all_are_there() -> None:
    assert sorted(penstock.__all__) == SURFACE["penstock"]
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
        assert name in dir(penstock)


@pytest.mark.parametrize("room", [changes, log, store], ids=lambda room: room.__name__)
def test_every_public_name_of_a_room_is_there_and_says_what_it_is(room: ModuleType) -> None:
    assert (room.__doc__ or "").strip()
    for name in room.__all__:
        assert (getattr(room, name).__doc__ or "").strip() or name.endswith("_DTYPE"), name


def members(room: ModuleType) -> Iterator[tuple[str, Any]]:
    """What can be called on, or asked of, the classes of a room, and its functions."""
    for name in room.__all__:
        thing = getattr(room, name)
        if inspect.isfunction(thing):
            yield name, thing
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and isinstance(value, classmethod | staticmethod):
                yield f"{name}.{member}", value.__func__
            elif not member.startswith("_") and isinstance(value, property):
                yield f"{name}.{member}", value.fget
            elif not member.startswith("_") and inspect.isfunction(value):
                yield f"{name}.{member}", value


@pytest.mark.parametrize("room", [changes, changes.debezium], ids=lambda room: room.__name__)
def test_everything_public_tells_what_it_does_and_of_what_types(room: ModuleType) -> None:
    documented = {name for name, member in members(room) if (member.__doc__ or "").strip()}
    for name, member in members(room):
        owner, _, method = name.partition(".")
        inherited = (
            [f"{kind.__name__}.{method}" for kind in getattr(room, owner).__mro__] if method else [name]
        )
        assert documented.intersection(inherited), name
        signature = inspect.signature(member)
        told = [part.annotation for part in signature.parameters.values() if part.name not in ("self", "cls")]
        assert inspect.Signature.empty not in [*told, signature.return_annotation], name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = penstock.nothing


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh interpreter has after this statement."""
    told = subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in told.stdout.split()}


def test_importing_penstock_loads_no_engine_and_no_client() -> None:
    assert loaded_by("import penstock").isdisjoint(NOT_AT_IMPORT)


def test_the_vocabulary_loads_only_what_it_is_made_of() -> None:
    assert loaded_by("import penstock.changes").isdisjoint([*ENGINES, "typer", "rich"])


@pytest.mark.parametrize("room", ["log", "store"])
def test_rooms_below_the_engines_load_none_and_no_client(room: str) -> None:
    assert loaded_by(f"import penstock.{room}").isdisjoint(["pyspark", "duckdb", "sqlglot", "botocore"])
