"""Conditions go down to where what they read first is; equalities between two tables become the join."""

from __future__ import annotations

from penstock.plan import Aggregate, Distinct, Join, Named, Node, On, Select, Union
from penstock.sql.expression import conjuncts, equality, plain_column, reads, substituted
from penstock.sql.facts import Facts
from penstock.sql.names import Names, quoted
from penstock.sql.rules.walk import filtered, over, plain

__all__ = ["push_conditions"]


def push_conditions(root: Node, facts: Facts) -> Node:
    """Less flows upwards, and less is kept: a join keeps only rows that its conditions let through.

    Nothing goes into a node that another one reads too: its state stays one for both.

    >>> from penstock.sql.rules.example import CUSTOMERS, FACTS, ORDERS, show
    >>> where = "upper(customer) = name AND amount > 3 AND (amount > since OR city IS NULL)"
    >>> show(push_conditions(Select(Join(ORDERS, CUSTOMERS, ()), (Named("id", "id"),), where), FACTS))
    Select id
      Select id, customer, amount, rank, key, name, city, since where amount > since OR city IS NULL
        Join on key = name
          Select id, customer, amount, rank, key = upper(customer)
            Select id, customer, amount, rank where amount > 3
              orders
          customers
    """
    return _Pusher(facts, facts.parents(root)).into(root, [])


class _Pusher:
    def __init__(self, facts: Facts, parents: dict[Node, int]) -> None:
        self._facts = facts
        self._parents = parents
        self._made: dict[Node, Node] = {}

    def into(self, node: Node, conditions: list[str]) -> Node:
        """The node's rows for which the conditions hold."""
        if self._facts.is_leaf(node):
            return filtered(node, conditions, self._facts)
        if self._parents.get(node, 1) > 1:
            if node not in self._made:
                self._made[node] = self._down(node, [])
            return filtered(self._made[node], conditions, self._facts)
        return self._down(node, conditions)

    def _down(self, node: Node, conditions: list[str]) -> Node:
        match node:
            case Select():
                return self._select(node, conditions)
            case Join():
                return self._join(node, conditions)
            case Aggregate():
                return self._aggregate(node, conditions)
            case Distinct(input=below):
                return Distinct(self.into(below, conditions))
            case Union():
                return self._union(node, conditions)
            case _:
                inputs = [self.into(it, []) for it in self._facts.below(node)]
                return filtered(over(node, inputs), conditions, self._facts)

    def _select(self, node: Select, conditions: list[str]) -> Node:
        texts = {it.name: it.sql for it in node.columns}
        pairs = [(it, substituted(it, texts)) for it in conditions]
        down = [sql for _, sql in pairs if sql is not None]
        kept = [it for it, sql in pairs if sql is None]
        below = self.into(node.input, [*conjuncts(node.where), *down])
        return filtered(Select(below, node.columns), kept, self._facts)

    def _union(self, node: Union, conditions: list[str]) -> Node:
        mine = self._facts.columns(node)
        made, kept = [], []
        for condition in conditions:
            renamed = [self._renamed(condition, mine, it) for it in node.inputs]
            if any(it is None for it in renamed):
                kept.append(condition)
            else:
                made.append([it for it in renamed if it is not None])
        inputs = [self.into(it, [each[at] for each in made]) for at, it in enumerate(node.inputs)]
        return filtered(Union(tuple(inputs)), kept, self._facts)

    def _renamed(self, condition: str, mine: tuple[str, ...], other: Node) -> str | None:
        theirs = self._facts.columns(other)
        return substituted(condition, {a: quoted(b) for a, b in zip(mine, theirs, strict=True)})

    def _aggregate(self, node: Aggregate, conditions: list[str]) -> Node:
        keys = set(node.keys)
        down = [it for it in conditions if reads(it) and keys.issuperset(reads(it))]
        kept = [it for it in conditions if it not in down]
        return filtered(Aggregate(self.into(node.input, down), node.keys, node.calls), kept, self._facts)

    def _join(self, node: Join, conditions: list[str]) -> Node:
        left, right = set(self._facts.columns(node.left)), set(self._facts.columns(node.right))
        names = Names(left | right)
        lefts: list[str] = []
        rights: list[str] = []
        kept: list[str] = []
        on = list(node.on)
        more: tuple[dict[str, str], dict[str, str]] = ({}, {})

        def column(sql: str, side: int) -> str:
            known = plain_column(sql)
            if known is None and sql not in more[side]:
                more[side][sql] = names.new("key")
            return more[side][sql] if known is None else known

        for condition in conditions:
            used = set(reads(condition))
            pair = _pair(condition, left, right)
            if used <= left:
                lefts.append(condition)
            elif used <= right:
                rights.append(condition)
            elif pair is not None:
                on.append(On(column(pair[0], 0), column(pair[1], 1), pair[2]))
            else:
                kept.append(condition)
        made = [
            self._with(self.into(node.left, lefts), more[0]),
            self._with(self.into(node.right, rights), more[1]),
        ]
        return filtered(Join(made[0], made[1], tuple(dict.fromkeys(on))), kept, self._facts)

    def _with(self, node: Node, more: dict[str, str]) -> Node:
        columns = plain(self._facts.columns(node))
        added = tuple(Named(name, sql) for sql, name in more.items())
        return Select(node, (*columns, *added)) if added else node


def _pair(condition: str, left: set[str], right: set[str]) -> tuple[str, str, bool] | None:
    """The sides of an equality, the left table's first, if each reads one table."""
    sides = equality(condition)
    if sides is None:
        return None
    one, other, null_safe = sides
    used = set(reads(one)), set(reads(other))
    if not used[0] or not used[1]:
        return None
    if used[0] <= left and used[1] <= right:
        return one, other, null_safe
    if used[0] <= right and used[1] <= left:
        return other, one, null_safe
    return None
