"""Random queries over the tables of `tests.sql.catalog`, each of which Spark would run.

It follows types, so that nothing overflows, fails to be cast, or is compared with what it cannot be compared
with.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

TABLES = {
    "orders": {
        "id": "whole",
        "customer": "whole",
        "amount": "decimal",
        "quantity": "whole",
        "day": "date",
        "note": "text",
        "paid": "truth",
    },
    "customers": {
        "id": "whole",
        "name": "text",
        "city": "text",
        "credit": "double",
        "vip": "truth",
        "since": "date",
    },
    "items": {
        "order_id": "whole",
        "product": "text",
        "price": "decimal",
        "pieces": "whole",
        "rebate": "double",
    },
    "transfers": {"id": "whole", "source": "whole", "target": "whole", "cents": "whole"},
}


@dataclass(frozen=True)
class Made:
    """A query, or a table's name, and its columns with their kinds."""

    sql: str
    columns: dict[str, str]
    is_table: bool = False

    @property
    def source(self) -> str:
        return self.sql if self.is_table else f"({self.sql})"


def queries() -> st.SearchStrategy[str]:
    """Queries up to three deep."""
    return _query(2).map(lambda made: made.sql)


@st.composite
def _source(draw: st.DrawFn, depth: int) -> Made:
    if depth <= 0 or draw(st.integers(0, 2)) == 0:
        name = draw(st.sampled_from(sorted(TABLES)))
        return Made(name, TABLES[name], is_table=True)
    return draw(_query(depth - 1))


@st.composite
def _query(draw: st.DrawFn, depth: int) -> Made:
    match draw(st.integers(0, 5)):
        case 0:
            return draw(_union(depth))
        case 1 | 2:
            return draw(_grouped(depth))
        case _:
            return draw(_plain(depth))


@st.composite
def _from(draw: st.DrawFn, depth: int) -> tuple[str, dict[str, str]]:
    """A FROM clause with its WHERE, and the columns that can be named below it."""
    first = draw(_source(depth))
    columns = {f"a.{name}": kind for name, kind in first.columns.items()}
    clause = f"{first.source} a"
    conditions: list[str] = []
    for alias in draw(st.sampled_from(["", "", "b", "bc"])):
        other = draw(_source(depth - 1))
        theirs = {f"{alias}.{name}": kind for name, kind in other.columns.items()}
        pairs = [(x, y) for x, k in columns.items() for y, j in theirs.items() if k == j and k != "truth"]
        if not pairs:
            continue
        on = " AND ".join(
            _equal(draw, *it) for it in draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2))
        )
        if draw(st.booleans()):
            clause += f", {other.source} {alias}"
            conditions.append(on)
        else:
            clause += f" JOIN {other.source} {alias} ON {on}"
        columns |= theirs
    conditions += draw(st.lists(_condition(columns), max_size=2))
    where = f" WHERE {' AND '.join(f'({it})' for it in conditions)}" if conditions else ""
    return f"FROM {clause}{where}", columns


def _equal(draw: st.DrawFn, left: str, right: str) -> str:
    return f"{left} {draw(st.sampled_from(['=', '=', '=', '<=>']))} {right}"


@st.composite
def _plain(draw: st.DrawFn, depth: int) -> Made:
    below, columns = draw(_from(depth))
    made = draw(st.lists(_expression(columns), min_size=1, max_size=4))
    distinct = draw(st.sampled_from(["", "", "", "DISTINCT "]))
    items = ", ".join(f"{sql} AS c{at}" for at, (sql, _) in enumerate(made))
    return Made(f"SELECT {distinct}{items} {below}", {f"c{at}": kind for at, (_, kind) in enumerate(made)})


@st.composite
def _grouped(draw: st.DrawFn, depth: int) -> Made:
    below, columns = draw(_from(depth))
    keys = draw(st.lists(_expression(columns), max_size=2))
    calls = draw(st.lists(_call(columns), min_size=1, max_size=3))
    made = [*keys, *calls]
    items = ", ".join(f"{sql} AS c{at}" for at, (sql, _) in enumerate(made))
    by = [str(at + 1) if draw(st.booleans()) else sql for at, (sql, _) in enumerate(keys)]
    group = f" GROUP BY {', '.join(by)}" if by else ""
    having = draw(
        st.sampled_from(["", "", " HAVING count(*) > 1", " HAVING max(1) IS NOT NULL AND count(*) < 30"])
    )
    return Made(
        f"SELECT {items} {below}{group}{having}", {f"c{at}": kind for at, (_, kind) in enumerate(made)}
    )


@st.composite
def _union(draw: st.DrawFn, depth: int) -> Made:
    below, columns = draw(_from(depth))
    made = draw(st.lists(_expression(columns), min_size=1, max_size=3))
    items = ", ".join(f"{sql} AS c{at}" for at, (sql, _) in enumerate(made))
    other, theirs = draw(_from(depth - 1))
    same = ", ".join(draw(_of_kind(kind, theirs)) for _, kind in made)
    word = draw(st.sampled_from(["UNION", "UNION ALL"]))
    kinds = {f"c{at}": kind for at, (_, kind) in enumerate(made)}
    return Made(f"SELECT {items} {below} {word} SELECT {same} {other}", kinds)


def _expression(columns: dict[str, str]) -> st.SearchStrategy[tuple[str, str]]:
    kinds = sorted(set(columns.values()))
    return st.sampled_from(kinds).flatmap(lambda kind: _of_kind(kind, columns).map(lambda sql: (sql, kind)))


_LITERALS = {
    "whole": "CAST(3 AS BIGINT)",
    "decimal": "1.25BD",
    "double": "0.5D",
    "text": "'gift'",
    "truth": "true",
    "date": "DATE '2024-01-10'",
}
_OVER = {
    "whole": [
        "{0} + 1",
        "{0} % 7",
        "-{0}",
        "coalesce({0}, 2)",
        "CASE WHEN {0} > 2 THEN {0} ELSE 1 END",
        "abs({0})",
    ],
    "decimal": ["{0} + 1", "coalesce({0}, 0.5BD)", "abs({0})"],
    "double": ["{0} * 2", "coalesce({0}, 1.5D)", "{0} - 0.25D"],
    "text": ["upper({0})", "concat({0}, '-')", "coalesce({0}, 'none')", "substring({0}, 1, 2)", "trim({0})"],
    "truth": ["(NOT {0})", "({0} IS NULL)", "({0} <=> true)"],
    "date": ["date_add({0}, 3)", "coalesce({0}, DATE '2024-02-01')"],
}


def _of_kind(kind: str, columns: dict[str, str]) -> st.SearchStrategy[str]:
    mine = [name for name, its in columns.items() if its == kind]
    if not mine:
        return st.just(_LITERALS[kind])
    column = st.sampled_from(mine)
    return st.one_of(
        column, column, st.tuples(st.sampled_from(_OVER[kind]), column).map(lambda it: it[0].format(it[1]))
    )


def _condition(columns: dict[str, str]) -> st.SearchStrategy[str]:
    def over(kind: str) -> st.SearchStrategy[str]:
        compare = st.sampled_from(["=", "<>", ">", "<=", "<=>"])
        literal = _LITERALS[kind]
        return st.one_of(
            st.tuples(_of_kind(kind, columns), compare).map(lambda it: f"{it[0]} {it[1]} {literal}"),
            _of_kind(kind, columns).map(lambda it: f"{it} IS NOT NULL"),
            _of_kind(kind, columns).map(lambda it: f"{it} IN ({literal}, NULL) OR {it} IS NULL"),
        )

    return st.sampled_from(sorted(set(columns.values()))).flatmap(over)


@st.composite
def _call(draw: st.DrawFn, columns: dict[str, str]) -> tuple[str, str]:
    sql, kind = draw(_expression(columns))
    functions = [("count", "whole"), ("count(DISTINCT", "whole"), ("min", kind), ("max", kind)]
    if kind in ("whole", "decimal", "double"):
        functions += [("sum", kind), ("sum(DISTINCT", kind)]
    if kind == "truth":
        functions += [("bool_and", "truth"), ("some", "truth"), ("count_if", "whole")]
    name, result = draw(st.sampled_from([*functions, ("count(*", "whole")]))
    call = f"{name} {sql})" if name.endswith("DISTINCT") else f"{name})" if "*" in name else f"{name}({sql})"
    condition = draw(st.one_of(st.none(), st.none(), _condition(columns)))
    return call + (f" FILTER (WHERE {condition})" if condition else ""), result
