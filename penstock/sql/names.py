"""Names of columns: when two are one, how one is written, and how a new one is found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from penstock.changes.names import is_reserved
from penstock.sql.text import SPARK

__all__ = ["Names", "candidates", "folded", "quoted"]


def folded(name: str) -> str:
    """Names are compared without case, as Spark does."""
    return name.lower()


def quoted(name: str) -> str:
    """The name as it stands in an expression: in backquotes where it must.

    >>> quoted("amount"), quoted("two words"), quoted("select"), quoted("a`b")
    ('amount', '`two words`', '`select`', '`a``b`')
    """
    plain = name.isascii() and name.isidentifier() and name.upper() not in _WORDS
    return name if plain else f"`{name.replace('`', '``')}`"


_WORDS = frozenset(SPARK.tokenizer_class.KEYWORDS) | frozenset(
    (
        *(
            "NULL",
            "TRUE",
            "FALSE",
            "CASE",
            "WHEN",
            "THEN",
            "ELSE",
            "END",
            "AND",
            "OR",
            "NOT",
            "IN",
            "IS",
            "LIKE",
        ),
        *(
            "RLIKE",
            "BETWEEN",
            "DISTINCT",
            "EXISTS",
            "ANY",
            "SOME",
            "ALL",
            "CAST",
            "TRY_CAST",
            "EXTRACT",
            "TRIM",
        ),
        *("POSITION", "SUBSTRING", "OVERLAY", "INTERVAL", "DATE", "TIMESTAMP", "STRUCT", "ARRAY", "MAP"),
        *("USER", "CURRENT_USER", "SESSION_USER"),
    )
)
"""Words that sqlglot or Spark might not take for a column's name."""


class Names:
    """Gives out names, no two alike.

    >>> names = Names(["id", "ID_2"])
    >>> names.new("ID"), names.new("total"), names.new("_mine")
    ('ID_3', 'total', 'mine')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {folded(name) for name in taken}

    def new(self, wanted: str) -> str:
        """That name, or that name with a number; never one that is reserved."""
        wanted = wanted.lstrip("_") or "column" if is_reserved(wanted) else wanted
        name, number = wanted, 1
        while folded(name) in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(folded(name))
        return name


def candidates(name: str, there: Iterable[str]) -> str:
    """A hint for a name that is not there: the ones that are like it, or all.

    >>> candidates("custmer", ["id", "customer"])
    "Did you mean 'customer'?"
    >>> candidates("x", ["id", "customer"])
    'There are: customer, id.'
    >>> candidates("x", [])
    'There are none yet.'
    """
    known = sorted(set(there))
    near = difflib.get_close_matches(folded(name), [folded(it) for it in known], n=3, cutoff=0.6)
    if near:
        meant = [it for it in known if folded(it) in near]
        return f"Did you mean {' or '.join(map(repr, meant))}?"
    if not known:
        return "There are none yet."
    return f"There are: {', '.join(known[:20])}{' …' if len(known) > 20 else ''}."
