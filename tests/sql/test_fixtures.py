"""Queries and the plans they become, side by side in `fixtures/*.sql`: SQL in, plan out.

After a change of the rules, `python -m tests.sql.test_fixtures` writes the plans anew; read the difference
before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.plan import show
from penstock.sql import plan_of
from tests.sql.catalog import Tables
from tests.sql.engine import Engine

FOLDER = Path(__file__).parent / "fixtures"
ARROW = "--> "


def read(path: Path) -> list[tuple[str, list[str]]]:
    """The queries of a file, which empty lines part, and the plan below each."""
    found = []
    for block in path.read_text().strip().split("\n\n"):
        lines = block.splitlines()
        sql = [line for line in lines if not line.startswith(ARROW)]
        found.append(("\n".join(sql), [line.removeprefix(ARROW) for line in lines if line.startswith(ARROW)]))
    return found


def plan(sql: str, engine: Engine) -> list[str]:
    return show(plan_of(sql.rstrip(";"), Tables(), engine.types).node).splitlines()


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sql")), ids=lambda path: path.stem)
def test_each_query_becomes_the_plan_below_it(path: Path, engine: Engine) -> None:
    cases = read(path)
    assert cases
    for sql, expected in cases:
        assert plan(sql, engine) == expected, sql
        assert engine.plan(plan_of(sql.rstrip(";"), Tables(), engine.types).node) == engine.query(sql)


def rewrite() -> None:
    """Writes the plans of all fixtures anew."""
    engine = Engine()
    for path in FOLDER.glob("*.sql"):
        blocks = []
        for sql, _ in read(path):
            blocks.append("\n".join([sql, *(ARROW + line for line in plan(sql, engine))]))
        path.write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    rewrite()
