"""Plans as wholes: what they share, what they read, and how often the engine is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadSql
from penstock.plan import (
    Distinct,
    Join,
    Keyed,
    Node,
    Scan,
    Select,
    in_order,
    is_stateful,
    schema_of,
)
from penstock.sql import Relation, explain, plan_of
from tests.sql.catalog import TABLES, Tables
from tests.sql.engine import Engine

ENGINE = Engine()
COLLECTIONS = {("main", name): table.schema for name, table in TABLES.items()}
TOTALS = "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"


def plan(sql: str, views: dict[str, Node] | None = None) -> Node:
    relations = {
        name: Relation(node, schema_of(node, COLLECTIONS, ENGINE.types))
        for name, node in (views or {}).items()
    }
    return plan_of(sql, Tables(relations), ENGINE.types).node


def no_engine(node: Select, below: pa.Schema) -> pa.Schema:
    raise AssertionError(f"asked for {node}")


def stateful(node: Node) -> set[Node]:
    return {it for it in in_order([node]) if is_stateful(it)}


def test_a_view_reads_another_as_its_plan_and_leaves_it_alone() -> None:
    totals = plan(TOTALS)
    above = plan("SELECT customer FROM totals WHERE n > 2 AND customer > 1", {"totals": totals})
    assert totals in in_order([above])
    assert stateful(above) == stateful(totals)


def test_a_join_of_views_is_one_plan() -> None:
    views = {"totals": plan(TOTALS), "big": plan("SELECT id, customer FROM orders WHERE amount > 10")}
    above = plan("SELECT b.id, t.total FROM big b JOIN totals t ON b.customer = t.customer", views)
    nodes = in_order([above])
    assert all(view in nodes for view in views.values())
    assert sum(isinstance(it, Keyed) for it in nodes) == 1


def test_a_view_of_another_pipeline_is_a_scan() -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    tables = Tables({"far": Relation(Scan("views/other", "far"), schema)})
    found = plan_of("SELECT id FROM Far WHERE n > 1", tables, ENGINE.types)
    assert found.node == Select(Scan("views/other", "far"), found.node.columns, "n > 1")
    assert found.reads == ("Far",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT sum(amount) AS a FROM orders", "SELECT SUM( o.AMOUNT )*2 AS b FROM Orders AS o"),
        (
            TOTALS,
            "SELECT count(*) AS m, customer AS c, sum(x.amount) AS t FROM orders x GROUP BY c HAVING t > 1",
        ),
        (
            "SELECT upper(note) AS k, count(*) AS n FROM orders GROUP BY 1",
            "SELECT count(*) AS c FROM orders GROUP BY upper(note)",
        ),
        ("SELECT DISTINCT note FROM orders", "SELECT note AS n FROM orders GROUP BY note"),
        (
            "SELECT o.id, c.name FROM orders o JOIN customers c ON o.id = c.id",
            "SELECT name AS who, o.id + 1 AS next FROM orders AS o, customers WHERE o.id = customers.id",
        ),
    ],
)
def test_queries_that_differ_in_names_and_order_share_their_state(one: str, other: str) -> None:
    assert stateful(plan(one)) == stateful(plan(other))


def test_the_engine_is_asked_only_where_types_may_differ() -> None:
    for sql in (
        "SELECT upper(note) AS u, quantity + 1 AS q FROM orders WHERE paid AND amount > 3",
        TOTALS.replace("sum(amount) AS total, ", ""),
        "SELECT o.id, upper(c.name) AS n FROM orders o JOIN customers c ON o.id = c.id WHERE o.note = 'x'",
        "SELECT note FROM orders UNION SELECT name FROM customers",
    ):
        assert plan_of(sql, Tables(), no_engine)
    with pytest.raises(AssertionError, match="asked"):
        plan_of("SELECT id FROM orders UNION ALL SELECT quantity + 1 FROM orders", Tables(), no_engine)


def test_names_given_to_a_view_are_its_columns() -> None:
    found = plan_of(f"{TOTALS}", Tables(), ENGINE.types, columns=("a", "b", "c"))
    assert found.columns == ("a", "b", "c")
    assert schema_of(found.node, COLLECTIONS, ENGINE.types).names == ["a", "b", "c"]
    assert plan_of("SELECT count(*) FROM orders", Tables(), ENGINE.types, columns=("n",)).columns == ("n",)
    with pytest.raises(BadSql, match="3 columns, and 2 names"):
        plan_of(TOTALS, Tables(), ENGINE.types, view="v", columns=("a", "b"))


def test_inner_names_never_meet_users_names() -> None:
    sql = """SELECT a.id AS id_2, b.id AS id, a.id_2 AS key, b.id_2 AS arg,
      count(DISTINCT a.key, a.arg) AS count
    FROM (SELECT id, quantity AS id_2, note AS key, paid AS arg FROM orders) a
    JOIN (SELECT id, source AS id_2, id + 0 AS ID_3 FROM transfers) b ON a.id + 0 = b.id_3 AND a.id_2 = b.id
    GROUP BY a.id, b.id, a.id_2, b.id_2, upper(a.key)"""
    assert ENGINE.plan(plan(sql)) == ENGINE.query(sql)
    for node in in_order([plan(sql)]):
        if isinstance(node, Select):
            names = [it.name.lower() for it in node.columns]
            assert len(set(names)) == len(names)


def test_a_reserved_name_inside_a_query_is_no_trouble() -> None:
    sql = "SELECT _x + 1 AS x FROM (SELECT quantity AS _x, note AS _lsn FROM orders) WHERE _lsn = 'gift'"
    assert ENGINE.plan(plan(sql)) == ENGINE.query(sql)


def test_explain_tells_the_state_and_the_cost_of_each_node() -> None:
    sql = """SELECT c.city, max(o.amount) AS most, count(*) AS n FROM orders o JOIN customers c ON o.id = c.id
    WHERE o.paid GROUP BY c.city"""
    told = explain(plan(sql))
    assert [it.plan for it in told] == [
        "Select city, most = max_amount, n = count",
        "  Aggregate by city: count = count(*), max_amount = max(amount)",
        "    Join on id = id_2",
        "      Select id, amount where paid",
        "        Keyed by id",
        "          Scan main.orders",
        "      Select id_2 = id, city",
        "        Keyed by id",
        "          Scan main.customers",
    ]
    assert [it.state for it in told] == [
        "none",
        "accumulators by group, and values by group and value",
        "rows of each side by join key",
        "none",
        "rows by key",
        "none",
        "none",
        "rows by key",
        "none",
    ]
    assert told[1].cost == "O(Δ log n)"
    assert all(it.law and it.cost for it in told)


def test_explain_counts_what_is_shared_once() -> None:
    sql = (
        "SELECT a.id FROM transfers a JOIN transfers b ON a.target = b.source UNION SELECT id FROM transfers"
    )
    told = explain(plan(sql))
    assert [it.cost for it in told if "Keyed" in it.plan] == ["O(Δ)", "once for both", "once for both"]
    assert sum("Scan" in it.plan for it in told) == 1
    joined = explain(plan("SELECT a.id FROM transfers a CROSS JOIN customers b"))
    assert "all rows of the other side" in joined[1].cost
    kinds = {type(it) for it in in_order([plan(sql)])}
    assert {Distinct, Join, Keyed} < kinds
