"""Random queries of Spark SQL over the tables of `tests.sql.catalog`: the nodes, composed at random.

Every query is right for Spark with its defaults (ANSI), and depends on no order and on no clock. Doubles are
multiples of a quarter, so every engine adds them up to the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["random_query"]

_BASES: dict[str, list[tuple[str, str]]] = {
    "orders": [
        ("id", "int"),
        ("customer", "int"),
        ("amount", "decimal"),
        ("quantity", "int"),
        ("day", "date"),
        ("note", "text"),
        ("paid", "flag"),
    ],
    "customers": [("id", "int"), ("name", "text"), ("city", "text"), ("credit", "double"), ("vip", "flag")],
    "items": [
        ("order_id", "int"),
        ("product", "text"),
        ("price", "decimal"),
        ("pieces", "int"),
        ("rebate", "double"),
    ],
    "transfers": [("id", "int"), ("source", "int"), ("target", "int"), ("cents", "int")],
}


@dataclass(frozen=True)
class _Query:
    sql: str
    columns: tuple[tuple[str, str], ...]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self._names = 0

    def query(self, depth: int) -> _Query:
        if depth == 0:
            return self._base()
        makers = [
            self._where,
            self._select,
            self._join,
            self._group,
            self._group,
            self._distinct,
            self._union,
        ]
        return self.draw.choice(makers)(depth - 1)

    def _name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def _base(self) -> _Query:
        table = self.draw.choice(sorted(_BASES))
        some = self.draw.sample(_BASES[table], self.draw.randint(2, len(_BASES[table])))
        named = [(self._name(), old, kind) for old, kind in some]
        told = ", ".join(f"{old} AS {new}" for new, old, _ in named)
        return _Query(f"SELECT {told} FROM {table}", tuple((new, kind) for new, _, kind in named))

    def _where(self, depth: int) -> _Query:
        below = self.query(depth)
        return _Query(f"SELECT * FROM ({below.sql}) WHERE {self._condition(below)}", below.columns)

    def _select(self, depth: int) -> _Query:
        below = self.query(depth)
        made, columns = [], []
        for _ in range(self.draw.randint(1, 4)):
            sql, kind = self._expression(*self.draw.choice(below.columns))
            name = self._name()
            made.append(f"{sql} AS {name}")
            columns.append((name, kind))
        return _Query(f"SELECT {', '.join(made)} FROM ({below.sql})", tuple(columns))

    def _join(self, depth: int) -> _Query:
        left, right = self.query(depth), self.query(0 if depth > 1 else depth)
        pairs = [(a, b) for a, kind in left.columns for b, other in right.columns if kind == other]
        if not pairs:
            return left
        on = " AND ".join(
            f"a.{a} {self.draw.choice(['=', '=', '<=>'])} b.{b}"
            for a, b in self.draw.sample(pairs, min(len(pairs), self.draw.randint(1, 2)))
        )
        both = (*left.columns, *right.columns)
        some = sorted(self.draw.sample(both, min(len(both), 5)))
        names = ", ".join(name for name, _ in some)
        return _Query(f"SELECT {names} FROM ({left.sql}) a JOIN ({right.sql}) b ON {on}", tuple(some))

    def _group(self, depth: int) -> _Query:
        below = self.query(depth)
        keys = self.draw.sample(below.columns, self.draw.randint(0, min(2, len(below.columns))))
        calls, columns = [], list(keys)
        for _ in range(self.draw.randint(1, 3)):
            where = f" FILTER (WHERE {self._condition(below)})" if self.draw.random() < 0.2 else ""
            sql, kind = self._call(*self.draw.choice(below.columns), where)
            name = self._name()
            calls.append(f"{sql} AS {name}")
            columns.append((name, kind))
        names = ", ".join(name for name, _ in keys)
        by = f" GROUP BY {names}" if keys else ""
        having = " HAVING count(*) > 1" if self.draw.random() < 0.2 else ""
        told = ", ".join([*(name for name, _ in keys), *calls])
        return _Query(f"SELECT {told} FROM ({below.sql}){by}{having}", tuple(columns))

    def _distinct(self, depth: int) -> _Query:
        below = self.query(depth)
        some = self.draw.sample(below.columns, self.draw.randint(1, min(3, len(below.columns))))
        return _Query(
            f"SELECT DISTINCT {', '.join(name for name, _ in some)} FROM ({below.sql})", tuple(some)
        )

    def _union(self, depth: int) -> _Query:
        left, right = self.query(depth), self.query(0)
        mine = self.draw.sample(left.columns, self.draw.randint(1, min(3, len(left.columns))))
        pairs = []
        for name, kind in mine:
            fitting = [other for other, its in right.columns if its == kind]
            pairs.append(self.draw.choice(fitting) if fitting else f"CAST(NULL AS {_TYPES[kind]})")
        word = self.draw.choice(["UNION ALL", "UNION ALL", "UNION"])
        names = ", ".join(name for name, _ in mine)
        sql = f"SELECT {names} FROM ({left.sql}) {word} SELECT {', '.join(pairs)} FROM ({right.sql})"
        return _Query(sql, tuple(mine))

    def _condition(self, below: _Query) -> str:
        name, kind = self.draw.choice(below.columns)
        told = {
            "int": [f"{name} > 2", f"{name} % 2 = 0", f"{name} IS NULL OR {name} < 9"],
            "decimal": [f"{name} > 2.5", f"NOT ({name} < 0)"],
            "double": [f"{name} > 0.5", f"{name} IS NOT NULL"],
            "text": [f"{name} LIKE '%e%'", f"lower({name}) <> 'gift'", f"{name} IS NULL"],
            "flag": [name, f"NOT {name}", f"{name} IS NULL"],
            "date": [f"{name} > DATE '2024-01-05'", f"{name} IS NOT NULL"],
        }
        return self.draw.choice(told[kind])

    def _expression(self, name: str, kind: str) -> tuple[str, str]:
        told = {
            "int": [
                (name, "int"),
                (f"{name} % 3", "int"),
                (f"{name} > 1", "flag"),
                (f"coalesce({name}, 0)", "int"),
            ],
            "decimal": [(name, "decimal"), (f"-{name}", "decimal"), (f"{name} > 1", "flag")],
            "double": [(name, "double"), (f"{name} * 2", "double")],
            "text": [(name, "text"), (f"upper({name})", "text"), (f"length({name})", "int")],
            "flag": [(name, "flag"), (f"NOT {name}", "flag"), (f"CASE WHEN {name} THEN 1 ELSE 0 END", "int")],
            "date": [(name, "date"), (f"date_add({name}, 1)", "date"), (f"month({name})", "int")],
        }
        return self.draw.choice(told[kind])

    def _call(self, name: str, kind: str, where: str) -> tuple[str, str]:
        calls = [("count(*)", "int"), (f"count({name})", "int"), (f"count(DISTINCT {name})", "int")]
        if kind == "flag":
            sql, kind = self.draw.choice(
                [*calls, (f"bool_and({name})", "flag"), (f"bool_or({name})", "flag")]
            )
            return sql + where, kind
        calls += [(f"min({name})", kind), (f"max({name})", kind)]
        if kind in ("int", "double"):
            calls += [(f"sum({name})", kind), (f"avg({name})", "ratio")]
        if kind == "decimal":
            calls += [(f"sum({name})", "ratio")]
        sql, kind = self.draw.choice(calls)
        # What is no multiple of a quarter, or very wide, is told but not computed with.
        return (f"CAST({sql}{where} AS STRING)", "text") if kind == "ratio" else (sql + where, kind)


_TYPES = {
    "int": "BIGINT",
    "decimal": "DECIMAL(12, 2)",
    "double": "DOUBLE",
    "text": "STRING",
    "flag": "BOOLEAN",
    "date": "DATE",
}


def random_query(seed: int) -> str:
    """One query."""
    maker = _Maker(seed)
    return maker.query(maker.draw.randint(1, 3)).sql
