"""Plans are values: what is equal is one node, and every node has a schema."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.errors import InvalidArgument, NotFound, ReservedName, SchemaMismatch, Unsupported
from penstock.plan import (
    Aggregate,
    Call,
    Distinct,
    Function,
    Join,
    Keyed,
    Named,
    Node,
    On,
    Scan,
    Select,
    Union,
    in_order,
    inputs,
    key_of,
    plain_columns,
    schema_of,
    show,
)

ORDERS = Scan("main", "orders")
CUSTOMERS = Scan("main", "customers")
COLLECTIONS = {
    ("main", "orders"): pa.schema(
        [
            ("id", pa.int64()),
            ("customer", pa.string()),
            ("amount", pa.decimal128(12, 2)),
            ("seen", pa.date32()),
        ]
    ),
    ("main", "customers"): pa.schema(
        [("name", pa.string()), ("age", pa.int32()), ("tags", pa.list_(pa.string()))]
    ),
}
COUNT = Call("n", Function.COUNT)


def no_selects(node: Select, below: pa.Schema) -> pa.Schema:
    return pa.schema([below.field(it.sql).with_name(it.name) for it in node.columns])


def schema(node: Node) -> pa.Schema:
    return schema_of(node, COLLECTIONS, no_selects)


def every_kind() -> list[Node]:
    totals = Aggregate(Keyed(ORDERS, ("id",)), ("customer",), (COUNT,))
    named = Select(CUSTOMERS, (Named("who", "name"),), "age > 3")
    return [
        ORDERS,
        Keyed(ORDERS, ("id",)),
        named,
        Union((named, named)),
        Join(totals, named, (On("customer", "who"),)),
        totals,
        Distinct(named),
    ]


def test_equal_words_are_one_node_with_one_fingerprint() -> None:
    for one, other in zip(every_kind(), every_kind(), strict=True):
        assert one is not other or one is ORDERS
        assert one == other
        assert hash(one) == hash(other)
        assert one.fingerprint == other.fingerprint
    assert len({node.fingerprint for node in every_kind()}) == len(every_kind())


@pytest.mark.parametrize(
    "other",
    [
        Aggregate(CUSTOMERS, ("customer",), (COUNT,)),
        Aggregate(ORDERS, (), (COUNT,)),
        Aggregate(ORDERS, ("customer",), (Call("m", Function.COUNT),)),
        Aggregate(ORDERS, ("customer",), (Call("n", Function.COUNT_COLUMN, "id"),)),
        Aggregate(Distinct(ORDERS), ("customer",), (COUNT,)),
    ],
)
def test_a_difference_anywhere_makes_another_node(other: Node) -> None:
    one = Aggregate(ORDERS, ("customer",), (COUNT,))
    assert one != other
    assert one.fingerprint != other.fingerprint


def test_fingerprints_stay_as_they_are_because_state_is_found_by_them() -> None:
    assert [node.fingerprint for node in every_kind()] == GOLDEN


def test_a_plan_travels_to_other_processes() -> None:
    for node in every_kind():
        came = pickle.loads(pickle.dumps(node))
        assert came == node
        assert repr(came) == repr(node)


def test_a_node_that_two_others_read_comes_once_and_before_them() -> None:
    totals = Aggregate(ORDERS, ("customer",), (COUNT,))
    high = Select(totals, (Named("customer", "customer"),), "n > 3")
    pairs = Join(high, Select(totals, (Named("c", "customer"),)), (On("customer", "c"),))
    order = in_order([pairs, totals])
    assert len(order) == 5
    assert all(order.index(child) < order.index(node) for node in order for child in inputs(node))


def test_a_tower_in_which_everything_is_shared_is_walked_once_per_floor() -> None:
    node: Node = Distinct(ORDERS)
    for _ in range(200):
        node = Union((node, node))
    assert len(in_order([node])) == 202


def test_each_node_has_a_schema() -> None:
    functions = [
        Call("n", Function.COUNT),
        Call("days", Function.COUNT_DISTINCT, "seen"),
        Call("total", Function.SUM, "amount"),
        Call("mean", Function.AVG, "amount"),
        Call("first", Function.MIN, "seen"),
        Call("known", Function.COUNT_COLUMN, "id"),
    ]
    assert schema(Aggregate(ORDERS, ("customer",), tuple(functions))).types == [
        pa.string(),
        pa.int64(),
        pa.int64(),
        pa.decimal128(22, 2),
        pa.decimal128(16, 6),
        pa.date32(),
        pa.int64(),
    ]
    joined = Join(ORDERS, CUSTOMERS, (On("customer", "name"),))
    assert schema(joined).names == ["id", "customer", "amount", "seen", "name", "age", "tags"]
    assert schema(Distinct(Keyed(ORDERS, ("id",)))) == COLLECTIONS["main", "orders"]
    both = Union((Select(ORDERS, (Named("c", "customer"),)), Select(CUSTOMERS, (Named("d", "name"),))))
    assert schema(both).names == ["c"]


@pytest.mark.parametrize(
    ("node", "error", "told"),
    [
        (Scan("main", "nothing"), NotFound, "'nothing'"),
        (Keyed(ORDERS, ("nope",)), InvalidArgument, "'nope'"),
        (Aggregate(ORDERS, ("nope",), ()), InvalidArgument, "'nope'"),
        (Aggregate(ORDERS, (), (Call("s", Function.SUM, "nope"),)), InvalidArgument, "'nope'"),
        (Aggregate(ORDERS, (), (Call("s", Function.SUM, "customer"),)), Unsupported, "string"),
        (Aggregate(CUSTOMERS, (), (Call("s", Function.MIN, "tags"),)), Unsupported, "list"),
        (Join(ORDERS, ORDERS, (On("id", "id"),)), InvalidArgument, "both sides"),
        (Join(ORDERS, CUSTOMERS, (On("id", "age"),)), SchemaMismatch, "int64"),
        (Join(ORDERS, CUSTOMERS, (On("id", "nope"),)), InvalidArgument, "'nope'"),
        (Union((ORDERS, CUSTOMERS)), SchemaMismatch, "types"),
    ],
)
def test_what_does_not_fit_is_named(node: Node, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        schema(node)


def test_names_are_checked_when_the_node_is_made() -> None:
    with pytest.raises(ReservedName, match="_weight"):
        Select(ORDERS, (Named("_weight", "1"),))
    with pytest.raises(InvalidArgument, match="two columns 'a'"):
        Select(ORDERS, (Named("a", "1"), Named("a", "2")))
    with pytest.raises(InvalidArgument, match="two columns 'customer'"):
        Aggregate(ORDERS, ("customer",), (Call("customer", Function.COUNT),))
    with pytest.raises(InvalidArgument, match="no input"):
        Union(())
    for wrong in ((Function.COUNT, "id"), (Function.SUM, None)):
        with pytest.raises(InvalidArgument, match="reads no column"):
            Call("x", *wrong)


def test_a_key_is_told_where_the_plan_has_one() -> None:
    keyed = Keyed(ORDERS, ("id",))
    totals = Aggregate(keyed, ("customer", "seen"), (COUNT,))
    other = Select(totals, (Named("c", "customer"), Named("s", "`seen`"), Named("m", "n")))
    assert key_of(ORDERS) is None
    assert key_of(Distinct(keyed)) is None
    assert key_of(keyed) == ("id",)
    assert key_of(Aggregate(keyed, (), (COUNT,))) == ()
    assert key_of(other) == ("c", "s")
    assert key_of(Select(other, (Named("c", "c"), Named("s", "s + 1")))) is None
    assert key_of(Join(keyed, other, (On("customer", "c"),))) == ("id", "c", "s")
    assert key_of(Join(keyed, CUSTOMERS, (On("customer", "name"),))) is None
    assert key_of(Union((keyed,))) == ("id",)
    assert key_of(Union((keyed, keyed))) is None


def test_a_column_that_is_but_a_name_is_plain() -> None:
    columns = (
        Named("a", "x"),
        Named("b", "`y z`"),
        Named("c", "`q``uote`"),
        Named("d", "x + 1"),
        Named("e", "`a` + `b`"),
        Named("f", "'x'"),
    )
    assert plain_columns(Select(ORDERS, columns)) == {"a": "x", "b": "y z", "c": "q`uote"}


def test_a_plan_reads_from_the_top() -> None:
    totals = Aggregate(Keyed(ORDERS, ("id",)), ("customer",), (Call("n", Function.COUNT_COLUMN, "amount"),))
    top = Select(Join(totals, CUSTOMERS, (On("customer", "name", True),)), (Named("m", "n + 1"),), "n > 1")
    assert show(Union((top, Distinct(CUSTOMERS)))).splitlines() == [
        "Union",
        "  Select m = n + 1 where n > 1",
        "    Join on customer <=> name",
        "      Aggregate by customer: n = count(amount)",
        "        Keyed by id",
        "          Scan main.orders",
        "      Scan main.customers",
        "  Distinct",
        "    Scan main.customers",
    ]


GOLDEN = [
    "ce68f47b623a43f8",  # Scan
    "f68f89e4382dbd7b",  # Keyed
    "906fee33506aff24",  # Select
    "cf5c87b290e6e79c",  # Union
    "0bfb7df320d4872d",  # Join
    "1c5c0cc4c72886f4",  # Aggregate
    "b0feaf45a88fe477",  # Distinct
]
