"""Which columns tell the rows of a node apart, where the plan itself says so."""

from __future__ import annotations

from penstock.plan.node import Aggregate, Distinct, Join, Keyed, Named, Node, Scan, Select, Union

__all__ = ["key_of", "plain_columns"]


def key_of(node: Node) -> tuple[str, ...] | None:
    """Columns of which no two rows of the node agree on all; None where the plan does not tell.

    An aggregate without keys has the empty key: there is one row.

    >>> from penstock.plan import Call, Function
    >>> totals = Aggregate(Scan("main", "orders"), ("customer",), (Call("n", Function.COUNT),))
    >>> key_of(Select(totals, (Named("who", "customer"), Named("n", "n + 1")), "n > 3"))
    ('who',)
    >>> key_of(Select(totals, (Named("n", "n"),))) is None
    True
    """
    match node:
        case Keyed(key=key) | Aggregate(keys=key):
            return key
        case Select(input=below):
            return _renamed(key_of(below), plain_columns(node))
        case Join(left=left, right=right):
            mine, theirs = key_of(left), key_of(right)
            return None if mine is None or theirs is None else (*mine, *theirs)
        case Union(inputs=(only,)):
            return key_of(only)
        case Scan() | Union() | Distinct():
            return None


def plain_columns(node: Select) -> dict[str, str]:
    """The expressions that are but a name, by the column they make: such may be columns of the input."""
    told = ((it.name, _plain(it)) for it in node.columns)
    return {name: plain for name, plain in told if plain is not None}


def _plain(it: Named) -> str | None:
    if it.sql.isidentifier():
        return it.sql
    if len(it.sql) > 2 and it.sql[0] == it.sql[-1] == "`" and "`" not in it.sql[1:-1].replace("``", ""):
        return it.sql[1:-1].replace("``", "`")
    return None


def _renamed(key: tuple[str, ...] | None, columns: dict[str, str]) -> tuple[str, ...] | None:
    if key is None:
        return None
    by_old = {old: new for new, old in reversed(columns.items())}
    return tuple(by_old[name] for name in key) if by_old.keys() >= set(key) else None
