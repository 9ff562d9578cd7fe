"""What is not maintained yet, or never can be, is named, with its place and the way out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadSql, NotFound, PenstockError, ReservedName, SchemaMismatch, Unsupported
from penstock.plan import Select
from penstock.sql import plan_of
from tests.sql.catalog import Tables
from tests.sql.engine import Engine

UNSUPPORTED = [
    ("SELECT rand() AS r FROM orders", r"rand\(\) gives another answer", 8),
    ("SELECT id FROM orders WHERE randn(3) > 0", r"randn\(\)", 29),
    ("SELECT UUID() AS u FROM orders", r"uuid\(\)", 8),
    ("SELECT shuffle(tags) AS s FROM visits", r"shuffle\(\)", 8),
    ("SELECT monotonically_increasing_id() AS m FROM orders", "monotonically_increasing_id", 8),
    ("SELECT spark_partition_id() AS m FROM orders", "spark_partition_id", 8),
    ("SELECT input_file_name() AS m FROM orders", "input_file_name", 8),
    ("SELECT sum(rand()) AS r FROM orders", r"rand\(\)", 12),
    ("SELECT current_timestamp() AS t FROM orders", "current_timestamp", 8),
    ("SELECT id FROM orders WHERE day = current_date", "current_date", None),
    ("SELECT now() AS n FROM orders", r"now\(\)", 8),
    ("SELECT unix_timestamp() AS n FROM orders", r"unix_timestamp\(\)", 8),
    ("SELECT id FROM orders WHERE day = DATE 'today'", "literal 'today'", None),
    ("SELECT id FROM orders WHERE day = CAST(' Now ' AS DATE)", "literal ' Now '", None),
    ("SELECT current_user() AS u FROM orders", "current_user", None),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON o.id = c.id", "LEFT OUTER JOIN", 37),
    ("SELECT o.id FROM orders o RIGHT OUTER JOIN customers c ON o.id = c.id", "RIGHT OUTER JOIN", None),
    ("SELECT o.id FROM orders o FULL JOIN customers c ON o.id = c.id", "FULL OUTER JOIN", None),
    ("SELECT o.id FROM orders o LEFT SEMI JOIN customers c ON o.id = c.id", "LEFT SEMI JOIN", None),
    ("SELECT o.id FROM orders o ANTI JOIN customers c ON o.id = c.id", "ANTI JOIN", None),
    ("SELECT id FROM orders WHERE id IN (SELECT id FROM customers)", "query inside an expression", None),
    ("SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM customers)", "query inside an expression", None),
    ("SELECT id, (SELECT max(id) FROM customers) AS m FROM orders", "query inside an expression", None),
    ("SELECT row_number() OVER (ORDER BY id) AS n FROM orders", "OVER", None),
    ("SELECT sum(amount) OVER (PARTITION BY customer) AS n FROM orders", "OVER", None),
    ("SELECT id FROM orders ORDER BY id", "ORDER BY", None),
    ("SELECT id FROM orders LIMIT 3", "LIMIT", None),
    ("SELECT id FROM orders LIMIT 3 OFFSET 2", "LIMIT|OFFSET", None),
    ("SELECT id FROM orders UNION ALL SELECT id FROM customers LIMIT 3", "LIMIT", None),
    ("SELECT id FROM (SELECT id FROM orders LIMIT 2)", "LIMIT", None),
    ("SELECT id FROM orders EXCEPT SELECT id FROM customers", "EXCEPT", None),
    ("SELECT id FROM orders INTERSECT ALL SELECT id FROM customers", "INTERSECT", None),
    ("SELECT customer, count(*) AS n FROM orders GROUP BY ROLLUP (customer)", "ROLLUP", None),
    ("SELECT customer, count(*) AS n FROM orders GROUP BY customer WITH CUBE", "CUBE", None),
    ("SELECT customer FROM orders GROUP BY GROUPING SETS ((customer), ())", "GROUPING SETS", None),
    ("SELECT id, t FROM visits LATERAL VIEW explode(tags) x AS t", "LATERAL VIEW", None),
    ("SELECT explode(tags) AS t FROM visits", r"explode\(\)", 8),
    ("SELECT id FROM visits, explode(tags)", "FROM", None),
    ("SELECT * FROM range(10)", "FROM", None),
    ("SELECT * FROM orders PIVOT (sum(amount) FOR customer IN (1, 2))", "PIVOT", None),
    ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", None),
    ("SELECT id FROM orders VERSION AS OF 3", "version", None),
    ("SELECT /*+ BROADCAST(orders) */ id FROM orders", "hint", None),
    (
        "WITH RECURSIVE t AS (SELECT id FROM orders UNION ALL SELECT id FROM t) SELECT * FROM t",
        "RECURSIVE",
        None,
    ),
    ("SELECT 1 AS one", "without FROM", 1),
    ("VALUES (1), (2)", "constants", None),
    ("SELECT * FROM (VALUES (1), (2)) AS t (a)", "VALUES|constants", None),
    ("SELECT collect_list(id) AS l FROM orders", r"collect_list\(\)", 8),
    ("SELECT customer, percentile(amount, 0.5) AS p FROM orders GROUP BY customer", "percentile", None),
    ("SELECT first(note) AS f FROM orders", r"first\(\)", 8),
    ("SELECT max_by(id, amount) AS f FROM orders", "max_by", None),
    ("SELECT stddev(amount) AS f FROM orders", "stddev", None),
    (
        "SELECT window(at, '1 hour') AS w, count(*) AS n FROM orders GROUP BY window(at, '1 hour')",
        "window",
        None,
    ),
    ("SELECT count(DISTINCT *) AS n FROM orders", "star", None),
    ("SELECT count_if(DISTINCT paid) AS n FROM orders", "DISTINCT", None),
    ("SELECT id FROM orders QUALIFY row_number() OVER (ORDER BY id) = 1", "QUALIFY", None),
    ("SELECT id FROM orders WHERE id = ?", "parameter", None),
    ("SELECT id FROM orders WHERE id = :id", "parameter", None),
    ("SELECT id FROM orders CLUSTER BY id", "CLUSTER BY", None),
    ("SELECT struct(*) AS s FROM orders", r"star", None),
    (
        "SELECT arrays_zip(a.tags, b.tags) AS z FROM visits a JOIN visits b ON a.id = b.id",
        "arrays_zip",
        None,
    ),
]

WRONG = [
    ("SELECT nme FROM customers", NotFound, "'nme' here. Did you mean 'name'", 8),
    ("SELECT c.nme FROM customers c", NotFound, "'nme' in 'c'. Did you mean 'name'", 8),
    ("SELECT x.name FROM customers c", NotFound, "no table or column 'x'", 8),
    ("SELECT * FROM custmers", NotFound, "'custmers'. Did you mean 'customers'", 15),
    ("SELECT * FROM shop.customers", NotFound, "no database 'shop'", None),
    ("SELECT x.* FROM customers c", NotFound, "no table 'x'", None),
    ("SELECT * EXCEPT (nme) FROM customers", NotFound, "'nme' to leave out", None),
    ("SELECT id FROM orders WHERE\n  total > 1", NotFound, "'total'", None),
    ("SELECT quantity AS q FROM orders WHERE q > 1", NotFound, "'q'", 40),
    ("SELECT id FROM orders, customers", BadSql, "'id' could be a column of orders or of customers", 8),
    ("SELECT * FROM orders a, customers a", BadSql, "two tables are called 'a'", None),
    ("SELECT a FROM (SELECT id AS a, note AS A FROM orders)", BadSql, "'a' could be a column", 8),
    ("SELECT * FROM orders o JOIN customers c ON o.id = c.id", BadSql, "two columns .* 'id'", None),
    ("SELECT id, note AS ID FROM orders", BadSql, "two columns .* 'ID'", None),
    ("SELECT id, upper(note) FROM orders", BadSql, "column 2 of the view has no name", None),
    ("SELECT count(*) FROM orders", BadSql, "column 1 of the view has no name", None),
    ("SELECT note, count(*) AS n FROM orders", BadSql, "note is neither grouped", 8),
    ("SELECT note, count(*) AS n FROM orders GROUP BY customer", BadSql, "note is neither grouped", 8),
    ("SELECT *, count(*) AS n FROM orders GROUP BY id", BadSql, "customer is neither grouped", None),
    ("SELECT customer FROM orders GROUP BY customer HAVING amount > 1", BadSql, "amount is neither", 54),
    ("SELECT quantity + 1 AS q, count(*) AS n FROM orders GROUP BY quantity + 2", BadSql, "neither", 8),
    ("SELECT id FROM orders WHERE count(*) > 1", BadSql, r"aggregate count\(\)", 29),
    ("SELECT sum(max(amount)) AS s FROM orders", BadSql, r"aggregate max\(\)", 12),
    ("SELECT o.id FROM orders o JOIN customers c ON sum(o.id) = 1", BadSql, r"aggregate sum\(\)", None),
    ("SELECT count(*) AS n FROM orders GROUP BY 2", BadSql, "GROUP BY 2", 43),
    ("SELECT count(*) AS n FROM orders GROUP BY 1", BadSql, "aggregate in it", 43),
    ("SELECT count(*) AS n FROM orders GROUP BY n", BadSql, "aggregate in it", 43),
    ("SELECT sum(id, amount) AS n FROM orders", BadSql, "reads one column", 8),
    ("SELECT count() AS n FROM orders", BadSql, "no argument", 8),
    (
        "SELECT id FROM orders UNION ALL SELECT id, name FROM customers",
        BadSql,
        "1 columns, the other 2",
        None,
    ),
    ("SELECT * FROM (SELECT id FROM orders) AS t (a, b)", BadSql, "2 names", None),
    ("WITH t (a, b) AS (SELECT id FROM orders) SELECT a FROM t", BadSql, "2 names", None),
    ("WITH t AS (SELECT id FROM orders), T AS (SELECT 1) SELECT * FROM t", BadSql, "two common table", None),
    ("SELECT a FROM orders JOIN customers USING (nme)", BadSql, "'nme'", None),
    ("SELECT o.note FROM orders o JOIN items i USING (id)", BadSql, "'id'", None),
    ("SELECT id FROM orders o JOIN customers c ON o.id = t.id JOIN transfers t", NotFound, "'t'", None),
    ("SELECT id AS _id FROM orders", ReservedName, "_id", None),
    ("SELECT id, FROM", BadSql, "", None),
    ("", BadSql, "nothing", 1),
    ("SELECT id FROM orders; SELECT id FROM orders", BadSql, "one query", None),
    ("DROP TABLE orders", BadSql, "query is missing", None),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize(("sql", "told", "column"), UNSUPPORTED, ids=lambda it: str(it)[:60])
def test_what_is_not_maintained_is_named(sql: str, told: str, column: int | None, engine: Engine) -> None:
    with pytest.raises(Unsupported, match=told) as caught:
        plan_of(sql, Tables(), engine.types)
    assert column is None or caught.value.subject == f"line 1, column {column}"
    assert caught.value.hint.endswith((".", "?"))


@pytest.mark.parametrize(("sql", "error", "told", "column"), WRONG, ids=lambda it: str(it)[:60])
def test_what_is_wrong_is_told_with_its_place(
    sql: str, error: type[PenstockError], told: str, column: int | None, engine: Engine
) -> None:
    with pytest.raises(error, match=told or "line") as caught:
        plan_of(sql, Tables(), engine.types)
    assert type(caught.value) is error
    assert column is None or caught.value.subject == f"line 1, column {column}"
    assert caught.value.hint


def test_a_view_must_not_read_itself(engine: Engine) -> None:
    for sql in (
        "SELECT * FROM Totals",
        "SELECT o.id FROM orders o JOIN (SELECT id FROM totals) t USING (id)",
    ):
        with pytest.raises(BadSql, match="reads itself"):
            plan_of(sql, Tables(), engine.types, view="totals")
    hidden = "WITH totals AS (SELECT id FROM orders) SELECT * FROM totals"
    assert plan_of(hidden, Tables(), engine.types, view="totals").reads == ("orders",)


def test_types_that_have_nothing_in_common_are_named() -> None:
    def refuse(node: Select, below: pa.Schema) -> pa.Schema:
        raise SchemaMismatch("no", subject="engine", hint="None.")

    with pytest.raises(SchemaMismatch, match="column 2 of UNION: STRING and DOUBLE"):
        plan_of("SELECT id, note FROM orders UNION SELECT id, credit FROM customers", Tables(), refuse)
    with pytest.raises(SchemaMismatch, match=r"note = tags: STRING and ARRAY<STRING>"):
        plan_of("SELECT o.id FROM orders o JOIN visits v ON o.note = v.tags", Tables(), refuse)


def test_a_nested_query_that_is_too_deep_is_an_error_of_ours(engine: Engine) -> None:
    deep = "SELECT id FROM orders"
    for _ in range(400):
        deep = f"SELECT id FROM ({deep})"
    with pytest.raises(BadSql, match="too deeply"):
        plan_of(deep, Tables(), engine.types)


def test_a_long_query_is_no_deep_one(engine: Engine) -> None:
    wide = " UNION ALL ".join(f"SELECT id + {number} AS id FROM orders" for number in range(300))
    assert len(plan_of(wide, Tables(), engine.types).node.inputs) == 300
