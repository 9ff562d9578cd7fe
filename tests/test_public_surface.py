from __future__ import annotations

import subprocess
import sys

import pytest

import penstock
from penstock import changes

SURFACE = {
    "penstock": ["ChangeEvent", "EventType", "Op", "PenstockError", "ZSet", "changes", "errors"],
}
NOT_AT_IMPORT = ["pyspark", "duckdb", "sqlglot", "pandas", "pyarrow", "numpy", "typer", "rich"]


def test_the_public_names_are_exactly_these_and_all_are_there() -> None:
    assert sorted(penstock.__all__) == SURFACE["penstock"]
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
        assert name in dir(penstock)


def test_every_public_name_of_changes_is_there_and_says_what_it_is() -> None:
    for name in changes.__all__:
        assert (getattr(changes, name).__doc__ or "").strip() or name.endswith("_DTYPE"), name


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


def test_the_vocabulary_loads_no_engine() -> None:
    assert loaded_by("import penstock.changes").isdisjoint(["pyspark", "duckdb", "sqlglot"])
