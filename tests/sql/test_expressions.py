"""Expressions come into a plan in the user's own words, whatever sqlglot would have made of them."""

from __future__ import annotations

import pytest

from penstock.plan import Select
from penstock.sql import plan_of
from penstock.sql.expression import (
    conjoined,
    conjuncts,
    enclosed,
    equality,
    plain_column,
    reads,
    same_words,
    substituted,
)
from penstock.sql.names import quoted
from tests.sql.catalog import Tables
from tests.sql.engine import Engine

EXPRESSIONS = r"""
abs(quantity)
acos(quantity) + atan2(quantity, 2)
add_months(day, 1)
aggregate(array(1, 2), 0, (acc, x) -> acc + x, acc -> acc * quantity)
amount BETWEEN 1 AND 2
amount DIV 2
amount / 2
amount::STRING
array(quantity, 1)[0]
array(quantity)
array_contains(array(1, 2), quantity)
arrays_zip(array(1), array(quantity))
binary(note)
boolean(note)
char(quantity)
date(at)
decimal(quantity)
double(quantity) + float(quantity)
int(note) * smallint(note) - tinyint(note)
string(quantity)
struct(quantity, note).col1
timestamp(note)
array_join(array(note, 'x'), ',', 'none')
array_sort(array(quantity, 1), (l, r) -> CASE WHEN l < r THEN -1 WHEN l > r THEN 1 ELSE 0 END)
ascii(note)
base64(CAST(note AS BINARY))
bigint(quantity)
bin(quantity)
bit_count(quantity)
bround(amount, 1)
btrim(note)
CASE WHEN paid THEN 1 ELSE 0 END
CASE note WHEN 'a' THEN 1 WHEN 'b' THEN 2 END
CAST(amount AS DECIMAL(10, 1))
CAST(note AS MAP<STRING, ARRAY<INT>>)
ceil(amount)
char_length(note)
coalesce(note, 'none', '')
concat_ws('-', note, note)
conv(note, 10, 16)
crc32(note)
date_add(day, 3)
date_add(DAY, 3, day)
date_format(at, 'yyyy-MM-dd HH:mm')
date_part('YEAR', day)
date_sub(day, quantity)
date_trunc('MONTH', at)
DATE '2024-01-01' + quantity
datediff(day, DATE'2024-01-01')
day - INTERVAL 3 DAYS
day + INTERVAL '1-2' YEAR TO MONTH
dayofweek(day)
decode(note, 'a', 1, 'b', 2, 0)
element_at(array(1, 2), quantity)
elt(1, note, 'b')
encode(note, 'UTF-8')
exists(array(1, 2), x -> x = quantity)
extract(WEEK FROM day)
filter(array(1, 2, quantity), x -> x > 1 AND x < customer)
floor(amount)
format_number(amount, 2)
format_string('%s-%d', note, quantity)
from_json(note, 'a INT, b STRUCT<c: STRING>').a
from_unixtime(quantity, 'yyyy')
get_json_object(note, '$.a[0].b')
greatest(quantity, customer, 3)
hash(note, quantity)
hex(quantity)
if(paid, 'yes', 'no')
ifnull(note, 'x')
initcap(note)
instr(note, 'a')
isnan(CAST(amount AS DOUBLE))
json_array_length(note)
last_day(day)
least(quantity, 1Y, 2S, 3L)
left(note, 2)
length(note)
levenshtein(note, 'gift')
locate('a', note, 2)
lower(note)
lpad(note, 5, '*')
ltrim(note)
make_date(2024, quantity, 1)
map('a', quantity)['a']
map_filter(map(note, quantity), (k, v) -> v > 1)
map_from_arrays(array(note), array(quantity))
mask(note, lowerChar => 'q', digitChar => 'd')
md5(note)
mod(quantity, 3)
months_between(day, DATE '2024-01-01')
named_struct('a', quantity, 'b', note).b
nanvl(CAST(amount AS DOUBLE), 0D)
next_day(day, 'MO')
nullif(quantity, 0)
nvl(note, 'x')
nvl2(note, 'a', 'b')
octet_length(note)
overlay(note PLACING '_' FROM 2)
parse_url(note, 'HOST')
pmod(quantity, 3)
position('a' IN note)
pow(quantity, 2)
quantity % 3
quantity & 1 | 2 ^ 4
quantity << 2
quantity <=> NULL
quantity == 1
quantity != 1
quantity <> 1
quantity IN (1, 2, NULL)
quantity NOT IN (1, 2)
quantity IS DISTINCT FROM 1
regexp_extract(note, '(\\d+)', 1)
regexp_replace(note, 'a+', 'b')
repeat(note, 2)
replace(note, 'a')
round(amount, -1)
sha2(note, 256)
sign(amount)
sort_array(array(quantity), false)
space(2) || note
split(note, '[ab]', -1)
substr(note, 2, 3)
substring(note FROM 2 FOR 1)
TIMESTAMP '2024-01-01 00:00:00' < at
timestampadd(MINUTE, quantity, at)
to_date(note, 'yyyy/MM/dd')
to_timestamp(note)
transform(array(1, 2), (x, i) -> x + i * quantity)
translate(note, 'ab', 'cd')
trim(BOTH 'x' FROM note)
trunc(day, 'MM')
try_cast(note AS INT)
try_divide(quantity, 0)
typeof(note)
unbase64(note)
unhex('00')
unix_timestamp(at, 'yyyy')
upper(note) LIKE 'A\_%' ESCAPE '/'
note LIKE ANY ('a%', 'b%')
note NOT LIKE ALL ('a%', 'b%')
note RLIKE '^a' OR note ILIKE 'B%'
note = "double quoted"
note = 'it\'s' 'two'
note = r'raw \d'
X'1F' = CAST(note AS BINARY)
xxhash64(note, 1.5BD, 2.5F, 1e3)
year(day)
zip_with(array(1), array(quantity), (a, b) -> a + b)
-quantity
+quantity
~quantity
!paid
NOT paid IS NULL
paid IS NOT TRUE
""".strip().splitlines()

OTHERS = "(SELECT id AS i, name AS n FROM customers)"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def first(sql: str, engine: Engine) -> str:
    node = plan_of(sql, Tables(), engine.types).node
    assert isinstance(node, Select)
    return node.columns[0].sql


def test_there_are_more_than_a_hundred() -> None:
    assert len(EXPRESSIONS) > 100


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_words_stay_as_they_are(sql: str, engine: Engine) -> None:
    assert first(f"SELECT {sql} AS x FROM orders", engine) == sql
    assert first(f"SELECT {sql} AS x FROM orders JOIN {OTHERS} ON i = id", engine) == sql
    assert first(f"SELECT x FROM (SELECT {sql} AS x, day FROM orders) WHERE day IS NOT NULL", engine) == sql


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_a_text_that_has_itself_put_in_is_itself(sql: str) -> None:
    assert substituted(sql, {name: quoted(name) for name in reads(sql)}) == sql
    assert enclosed(sql) in (sql, f"({sql})")
    assert same_words(sql) == same_words(f"(({sql}))")


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_columns_are_found_and_nothing_else(sql: str) -> None:
    known = {"id", "customer", "amount", "quantity", "day", "at", "note", "paid"}
    assert known.issuperset(reads(sql))
    assert reads(sql) or sql == "unhex('00')"


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_other_columns_take_their_place(sql: str) -> None:
    if "struct" in sql or "arrays_zip" in sql:
        return  # they name fields by columns, and have a test of their own
    new = substituted(sql, {name: f"the_{name}" for name in reads(sql)})
    assert new is not None
    assert sorted(reads(new)) == sorted(f"the_{name}" for name in reads(sql))
    back = substituted(new, {f"the_{name}": name for name in reads(sql)})
    assert back == sql


def test_an_expression_in_place_of_a_column_is_enclosed() -> None:
    assert substituted("a * b", {"a": "c + d", "b": "-1"}) == "(c + d) * (-1)"
    assert substituted("upper(a)", {"a": "b || c"}) == "upper((b || c))"
    assert substituted("a", {"a": "b + 1"}) == "b + 1"
    assert substituted("(a)", {"a": "b"}) == "(b)"
    assert substituted("a.f", {"a": "named_struct('f', b)"}) == "named_struct('f', b).f"


def test_a_field_keeps_the_name_of_the_column_it_came_from() -> None:
    assert (
        substituted("struct(a, s.b, c + 1).a", {"a": "x", "s": "t", "c": "c"})
        == "struct(x AS a, t.b, c + 1).a"
    )
    assert substituted("struct(a, (b))", {"a": "a", "b": "x + 1"}) == "struct(a, (x + 1) AS b)"


def test_what_would_change_its_meaning_is_not_put_in() -> None:
    assert substituted("filter(a, x -> x > b)", {"a": "a", "b": "x"}) is None
    assert substituted("arrays_zip(a, b)", {"a": "a", "b": "c"}) is None
    assert substituted("arrays_zip(a, b)", {"a": "a", "b": "b"}) == "arrays_zip(a, b)"


def test_conditions_come_apart_and_together() -> None:
    sql = "a BETWEEN 1 AND 2 AND (b OR c) AND NOT d AND (e AND (f AND g))"
    parts = ["a BETWEEN 1 AND 2", "b OR c", "NOT d", "e", "f", "g"]
    assert conjuncts(sql) == parts
    assert conjoined(parts) == "a BETWEEN 1 AND 2 AND (b OR c) AND NOT d AND e AND f AND g"
    assert conjuncts(conjoined(parts)) == parts
    assert conjuncts(None) == []
    assert conjoined([]) is None
    assert conjoined(["a OR b"]) == "a OR b"


def test_a_long_chain_of_conditions_is_no_tower() -> None:
    parts = [f"a <> {number}" for number in range(400)]
    assert conjuncts(conjoined(parts)) == parts


@pytest.mark.parametrize(
    ("sql", "sides"),
    [
        ("a = b", ("a", "b", False)),
        ("a == b", ("a", "b", False)),
        ("a <=> b + 1", ("a", "b + 1", True)),
        ("upper(a) = (b OR c)", ("upper(a)", "(b OR c)", False)),
        ("a = b IS NULL", None),
        ("a = b LIKE c", None),
        ("a = b IN (1, 2)", None),
        ("a = NOT b", None),
        ("a = b = c", None),
        ("a = b OR c", None),
        ("NOT a = b", None),
        ("a <> b", None),
    ],
)
def test_an_equality_is_one_only_if_every_engine_reads_it_so(
    sql: str, sides: tuple[str, str, bool] | None
) -> None:
    assert equality(sql) == sides


@pytest.mark.parametrize("name", ["a", "a b", "select", "`", "a`b", "ä", "1a", "a.b", "current_date", "x-y"])
def test_a_quoted_name_is_a_plain_column_again(name: str) -> None:
    assert plain_column(quoted(name)) == name
    assert reads(f"{quoted(name)} + {quoted(name)}.f") == (name, name)


@pytest.mark.parametrize("sql", ["a + 1", "a.b", "(a)", "1", "NULL", "true", "'a'", "f(a)"])
def test_what_is_more_than_a_name_is_no_plain_column(sql: str) -> None:
    assert plain_column(sql) is None
