"""The rules that better a plan, one per file, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan import Node
from penstock.sql.facts import Facts

__all__ = ["RULES"]

RULES: tuple[Callable[[Node, Facts], Node], ...] = ()
