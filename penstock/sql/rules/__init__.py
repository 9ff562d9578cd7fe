"""The rules that better a plan, one per file, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan import Node
from penstock.sql.facts import Facts
from penstock.sql.rules.align_types import align_types
from penstock.sql.rules.drop_plain_selects import drop_plain_selects
from penstock.sql.rules.flatten_unions import flatten_unions
from penstock.sql.rules.merge_selects import merge_selects
from penstock.sql.rules.narrow import narrow
from penstock.sql.rules.order_joins import order_joins
from penstock.sql.rules.push_conditions import push_conditions

__all__ = ["RULES"]

RULES: tuple[Callable[[Node, Facts], Node], ...] = (
    merge_selects,
    order_joins,
    push_conditions,
    flatten_unions,
    merge_selects,  # types are asked per Select: the fewer the better
    align_types,
    merge_selects,
    narrow,
    drop_plain_selects,
)
