from __future__ import annotations

import subprocess
import sys
from types import ModuleType

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
NOT_AT_IMPORT = ["pyspark", "duckdb", "sqlglot", "pandas", "pyarrow", "numpy", "typer", "rich"]


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


@pytest.mark.parametrize("room", ["changes", "log", "store"])
def test_rooms_below_the_engines_load_none_and_no_client(room: str) -> None:
    assert loaded_by(f"import penstock.{room}").isdisjoint(["pyspark", "duckdb", "sqlglot", "botocore"])
