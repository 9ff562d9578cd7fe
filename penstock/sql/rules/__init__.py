"""The rules that better a plan, one per file, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan import Node
from penstock.sql.facts import Facts
from penstock.sql.rules.align_keys import align_keys
from penstock.sql.rules.align_unions import align_unions
from penstock.sql.rules.drop_plain_selects import drop_plain_selects
from penstock.sql.rules.flatten_unions import flatten_unions
from penstock.sql.rules.merge_selects import merge_selects
from penstock.sql.rules.narrow import narrow
from penstock.sql.rules.order_joins import order_joins
from penstock.sql.rules.push_conditions import push_conditions
from penstock.sql.rules.sum_numbers import sum_numbers

__all__ = ["RULES"]

RULES: tuple[Callable[[Node, Facts], Node], ...] = (
    merge_selects,
    flatten_unions,
    align_unions,
    order_joins,
    push_conditions,
    merge_selects,  # the engine is asked for types per Select: the fewer the better
    align_keys,
    sum_numbers,
    narrow,
    merge_selects,
    drop_plain_selects,
)
