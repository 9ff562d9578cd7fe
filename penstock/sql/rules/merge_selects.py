"""Two `Select`s, one upon the other, are one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.plan import Node, Select
from penstock.sql.expression import conjoined, conjuncts, is_cheap, reads, substituted
from penstock.sql.facts import Facts
from penstock.sql.rules.walk import Shared, bottom_up

__all__ = ["merge_selects"]


def merge_selects(root: Node, facts: Facts) -> Node:
    """Puts the lower one's expressions into the upper one, unless that would compute something twice.

    >>> from penstock.plan import Named
    >>> from penstock.sql.rules.example import FACTS, ORDERS, show
    >>> lower = Select(ORDERS, (Named("k", "upper(customer)"), Named("v", "amount")), "amount > 0")
    >>> show(merge_selects(Select(lower, (Named("k", "k"), Named("w", "v * 2")), "v < 9"), FACTS))
    Select k = upper(customer), w = amount * 2 where amount > 0 AND amount < 9
      orders
    >>> show(merge_selects(Select(lower, (Named("a", "k"), Named("b", "concat(k, k)"))), FACTS))
    Select a = k, b = concat(k, k)
      Select k = upper(customer), v = amount where amount > 0
        orders
    """

    def rewrite(node: Node, shared: Shared) -> Node:
        if not isinstance(node, Select) or not isinstance(node.input, Select):
            return node
        if facts.is_leaf(node.input) or (shared(node.input) and not _is_cheap(node.input)):
            return node
        return _merged(node, node.input) or node

    return bottom_up(root, facts, rewrite)


def _is_cheap(node: Select) -> bool:
    return node.where is None and all(is_cheap(it.sql) for it in node.columns)


def _merged(upper: Select, lower: Select) -> Select | None:
    texts = {it.name: it.sql for it in lower.columns}
    conditions = conjuncts(upper.where)
    said = [*(it.sql for it in upper.columns), *conditions]
    uses = Counter(name for sql in said for name in reads(sql))
    if any(count > 1 and not is_cheap(texts[name]) for name, count in uses.items()):
        return None
    new = [substituted(sql, texts) for sql in said]
    if any(sql is None for sql in new):
        return None
    told = [sql for sql in new if sql is not None]
    columns = tuple(replace(it, sql=sql) for it, sql in zip(upper.columns, told, strict=False))
    where = conjoined([*conjuncts(lower.where), *told[len(columns) :]])
    return Select(lower.input, columns, where)
