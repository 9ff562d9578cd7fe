"""Queries of Spark SQL over the tables of `tests.sql.catalog`: what a view may say now.

Each is right for Spark with its defaults (ANSI), depends on no order and on no clock, and overflows nowhere;
doubles are sums of quarters, so every engine adds them up to the same. Used wherever a view's content is
compared with the query's own answer.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A query and what to call it."""

    name: str
    sql: str


def _cases(text: str) -> tuple[Case, ...]:
    """Parts `-- name` and the query below it."""
    found = []
    for part in text.split("\n-- ")[1:]:
        name, _, sql = part.partition("\n")
        found.append(Case(name.strip().replace(" ", "-"), sql.strip().rstrip(";")))
    return tuple(found)


QUERIES = _cases("""
-- all columns
SELECT * FROM orders;
-- columns in another order
SELECT note, id, customer AS who FROM orders;
-- all but some columns
SELECT * EXCEPT (note, at) FROM orders;
-- names without case
SELECT O.ID, o.Customer FROM Orders AS o WHERE o.AMOUNT > 0;
-- backquoted names
SELECT `id` AS `order number`, `o`.`amount` AS `a.b`, `note` AS `select` FROM orders `o`;
-- where with three truth values
SELECT id FROM orders WHERE NOT (customer > 2 OR paid);
-- where in and between
SELECT id, amount FROM orders WHERE customer IN (1, 3) AND amount BETWEEN -5 AND 100;
-- where not in with nulls around
SELECT id FROM orders WHERE customer NOT IN (2, 99) OR note IS NULL;
-- where over or
SELECT id FROM orders WHERE (customer = 1 AND paid) OR (customer = 2 AND NOT paid) OR quantity > 5;
-- null safe equality
SELECT id FROM orders WHERE customer <=> NULL OR quantity <=> 7;
-- case and coalesce
SELECT id, CASE WHEN amount > 100 THEN 'large' WHEN amount > 0 THEN 'small' ELSE 'none' END AS size,
  coalesce(note, 'no note') AS note FROM orders;
-- casts
SELECT id, CAST(quantity AS STRING) AS q, CAST(amount AS DOUBLE) AS d, CAST(customer AS BIGINT) AS c
  FROM orders;
-- functions of text
SELECT id, upper(trim(note)) AS shout, length(note) AS n, concat(note, '/', CAST(id AS STRING)) AS both
  FROM orders;
-- functions of time
SELECT id, year(day) AS y, month(day) AS m, date_add(day, 3) AS later, datediff(day, DATE '2024-01-01') AS d,
  date_trunc('HOUR', at) AS hour FROM orders;
-- arithmetic
SELECT id, quantity * 2 + 1 AS a, -quantity AS b, amount * 3 AS c, quantity % 3 AS d, abs(quantity) AS e
  FROM orders;
-- an alias used further right
SELECT id, quantity + 1 AS more, more * 2 AS twice FROM orders;
-- like
SELECT id FROM orders WHERE note LIKE 'g%' OR note LIKE '%,_';
-- arrays maps structs
SELECT id, tags[0] AS first, size(tags) AS n, place.city, place.zip + 1 AS z,
  array_contains(tags, 'web') AS web
FROM visits WHERE size(tags) > 0;
-- struct of a table with an alias
SELECT v.place.city AS city, v.id FROM visits v WHERE v.place.zip > 5000;
-- a struct made
SELECT id, named_struct('who', customer, 'what', note) AS pair FROM orders;
-- a lambda
SELECT id, transform(tags, t -> concat(t, '!')) AS loud FROM visits WHERE id > 2;
-- a lambda over a group
SELECT transform(array(1, 2), key -> key + abs(customer)) AS t, count(*) AS n FROM orders
  GROUP BY abs(customer);
-- comments and odd spaces
SELECT /* one */ id, -- two
   amount FROM orders
 WHERE   quantity>1 /* three */ AND paid;
-- union all
SELECT id, note FROM orders UNION ALL SELECT id, name FROM customers;
-- union all of three with other types
SELECT customer AS k, amount AS v FROM orders UNION ALL SELECT id, price FROM (SELECT order_id AS id, price
  FROM items)
UNION ALL SELECT source, cents FROM transfers;
-- union
SELECT customer FROM orders UNION SELECT target FROM transfers;
-- union distinct then all
(SELECT city FROM customers UNION SELECT note FROM orders) UNION ALL SELECT product FROM items;
-- distinct
SELECT DISTINCT customer, paid FROM orders;
-- distinct of expressions
SELECT DISTINCT lower(note) AS note, quantity > 2 AS many FROM orders;
-- distinct over all columns of a multiset
SELECT DISTINCT * FROM items;
-- inner join
SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id;
-- inner join using
SELECT id, name, cents FROM customers JOIN transfers USING (id);
-- natural join
SELECT * FROM (SELECT id, name FROM customers) NATURAL JOIN (SELECT id, cents FROM transfers);
-- join using all columns
SELECT * FROM (SELECT id, city FROM customers) JOIN (SELECT id, source FROM transfers) USING (id);
-- join with a residual condition
SELECT o.id, c.id AS customer FROM orders o INNER JOIN customers c
  ON o.customer = c.id AND o.amount > c.credit;
-- join on expressions
SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer + 1 = c.id * 1 AND upper(o.note) <> c.city;
-- join on strings
SELECT a.id, b.id AS other FROM customers a JOIN customers b ON upper(a.name) = upper(b.name) AND a.id < b.id;
-- join null safe
SELECT o.id, t.id AS transfer FROM orders o JOIN transfers t
  ON o.customer <=> t.source AND o.quantity <=> t.target;
-- comma join
SELECT o.id, i.product FROM orders o, items i WHERE o.id = i.order_id AND i.pieces > 0;
-- comma join of three tied by the last
SELECT o.id, c.id AS customer, i.product FROM orders o, customers c, items i
WHERE i.order_id = o.id AND c.id = o.customer AND c.vip;
-- three tables none of which ties the first two
SELECT c.name, t.id, o.id AS order FROM customers c, transfers t, orders o
  WHERE o.customer = c.id AND o.id = t.id;
-- four joins
SELECT o.id, c.name, i.product, t.cents FROM orders o JOIN customers c ON o.customer = c.id
JOIN items i ON i.order_id = o.id JOIN transfers t ON t.source = c.id AND t.id = o.id;
-- cross join
SELECT c.id, t.id AS transfer FROM customers c CROSS JOIN transfers t WHERE t.cents > 100;
-- join by inequality only
SELECT c.id, t.id AS transfer FROM customers c JOIN transfers t ON c.id > t.id + 5;
-- self join
SELECT a.id, b.id AS other FROM transfers a JOIN transfers b ON a.target = b.source AND a.id <> b.id;
-- self join on all
SELECT a.id FROM orders a JOIN orders b ON a.id = b.id WHERE a.amount = b.amount;
-- nested joins in brackets
SELECT o.id, c.name, i.product FROM orders o JOIN (customers c JOIN items i ON c.id = i.order_id)
  ON o.customer = c.id;
-- join on a condition of one side
SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id AND c.vip AND o.paid;
-- count of everything
SELECT count(*) AS n FROM orders;
-- count over nothing
SELECT count(*) AS n, sum(amount) AS s, min(day) AS d, avg(quantity) AS a FROM orders WHERE id < 0;
-- all kinds of count
SELECT count(*) AS a, count(1) AS b, count(amount) AS c, count(amount, note) AS d,
  count(DISTINCT customer) AS e, count(DISTINCT customer, paid) AS f, count_if(paid) AS g FROM orders;
-- all kinds of aggregates by key
SELECT customer, sum(amount) AS s, avg(quantity) AS a, min(note) AS lo, max(day) AS hi, count(*) AS n,
  bool_and(paid) AS every_paid, bool_or(paid) AS any_paid FROM orders GROUP BY customer;
-- every and some and any
SELECT city, every(vip) AS e, some(vip) AS s, any(vip) AS a FROM customers GROUP BY city;
-- filter clauses
SELECT customer, count(*) FILTER (WHERE paid) AS paid, sum(quantity) FILTER (WHERE amount > 0) AS q,
  count(DISTINCT note) FILTER (WHERE quantity > 1) AS notes FROM orders GROUP BY customer;
-- sums of doubles
SELECT city, sum(credit) AS s, avg(credit) AS a, max(credit) AS hi FROM customers GROUP BY city;
-- sums of small integers
SELECT product, sum(pieces) AS n, sum(rebate) AS r, avg(pieces) AS a FROM items GROUP BY product;
-- group by several
SELECT customer, paid, count(*) AS n FROM orders GROUP BY customer, paid;
-- group by an expression
SELECT quantity % 3 AS rest, count(*) AS n FROM orders GROUP BY quantity % 3;
-- group by an expression inside another
SELECT (quantity % 3) * 10 + 1 AS k, sum(amount) / 2 AS half FROM orders GROUP BY (quantity % 3);
-- group by a place
SELECT lower(note) AS note, customer, max(amount) AS hi FROM orders GROUP BY 1, 2;
-- group by an alias
SELECT coalesce(customer, 0) AS who, count(*) AS n FROM orders GROUP BY who;
-- group by all
SELECT customer, paid, sum(quantity) AS q FROM orders GROUP BY ALL;
-- group by without aggregates
SELECT customer, paid FROM orders GROUP BY customer, paid;
-- group by a column that is not shown
SELECT count(*) AS n, max(amount) AS hi FROM orders GROUP BY customer;
-- having
SELECT customer, sum(amount) AS total FROM orders GROUP BY customer HAVING sum(amount) > 10 AND count(*) > 3;
-- having by an alias
SELECT customer, sum(quantity) AS total FROM orders GROUP BY customer HAVING total > 8 OR customer IS NULL;
-- having without groups
SELECT sum(amount) AS s FROM orders HAVING count(*) > 5;
-- having on another aggregate
SELECT customer FROM orders GROUP BY customer HAVING max(quantity) - min(quantity) > 3;
-- expressions over aggregates
SELECT customer, sum(amount) * 2 + count(*) AS x, max(quantity) - min(quantity) AS spread,
  CASE WHEN count(amount) = 0 THEN 'none' ELSE 'some' END AS any FROM orders GROUP BY customer;
-- sum distinct
SELECT customer, sum(DISTINCT quantity) AS s, count(DISTINCT quantity) AS n FROM orders GROUP BY customer;
-- sum distinct alone
SELECT sum(DISTINCT quantity) AS s FROM orders;
-- two distinct sums and more
SELECT customer, sum(DISTINCT quantity) AS q, sum(DISTINCT amount) AS a, count(*) AS n,
  avg(DISTINCT quantity) AS m FROM orders GROUP BY customer;
-- min and max distinct
SELECT min(DISTINCT amount) AS lo, max(DISTINCT day) AS hi FROM orders;
-- join and group
SELECT c.city, sum(o.amount) AS total, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY c.city;
-- join and group and have
SELECT c.name, count(DISTINCT i.product) AS products FROM customers c JOIN orders o ON o.customer = c.id
JOIN items i ON i.order_id = o.id WHERE i.pieces > 0 GROUP BY c.name HAVING count(*) >= 2;
-- an aggregate of an aggregate
SELECT max(n) AS most, avg(s) AS mean FROM (SELECT customer, count(*) AS n, sum(quantity) AS s FROM orders
  GROUP BY customer);
-- histogram of counts
SELECT n, count(*) AS customers FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer)
  GROUP BY n;
-- join with an aggregate
SELECT o.id, o.amount, t.total FROM orders o
JOIN (SELECT customer, sum(amount) AS total FROM orders GROUP BY customer) t ON o.customer = t.customer;
-- derived tables in derived tables
SELECT b.id, b.d FROM (SELECT a.id, a.q * 2 AS d FROM (SELECT id, quantity + 1 AS q FROM orders
  WHERE paid) a WHERE q > 1) b
WHERE b.d < 10;
-- derived table with named columns
SELECT t.a, t.b FROM (SELECT customer, count(*) FROM orders GROUP BY customer) AS t (a, b) WHERE t.b > 2;
-- common table expressions
WITH big AS (SELECT * FROM orders WHERE amount > 5), named (k, n) AS (SELECT id, name FROM customers)
SELECT big.id, named.n FROM big JOIN named ON big.customer = named.k;
-- common table expression used twice
WITH t AS (SELECT customer, count(*) AS n, sum(quantity) AS q FROM orders GROUP BY customer)
SELECT a.customer, b.customer AS other, a.n FROM t a JOIN t b ON a.n = b.n AND a.q > b.q;
-- common table expression of another
WITH a AS (SELECT customer, amount FROM orders), b AS (SELECT customer, sum(amount) AS s FROM a
  GROUP BY customer)
SELECT s FROM b WHERE customer > 1;
-- common table expression that hides a table
WITH orders AS (SELECT id, customer FROM orders WHERE id > 20) SELECT count(*) AS n, max(customer) AS c
  FROM orders;
-- condition above a union
SELECT k, count(*) AS n FROM (SELECT customer AS k FROM orders UNION ALL SELECT source FROM transfers)
  WHERE k > 1 GROUP BY k;
-- condition above an aggregate
SELECT * FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) WHERE customer > 1 AND n > 2;
-- condition above distinct
SELECT * FROM (SELECT DISTINCT customer, quantity FROM orders) WHERE quantity > 1;
-- condition above a join
SELECT * FROM (SELECT o.id, o.quantity, c.city FROM orders o JOIN customers c ON o.customer = c.id)
WHERE quantity > 1 AND city = 'Ulm' AND id + length(city) > 4;
-- balance of transfers
SELECT account, sum(cents) AS balance FROM (
  SELECT target AS account, cents FROM transfers UNION ALL SELECT source, -cents FROM transfers)
  GROUP BY account;
-- total through a self join
SELECT sum(credit + debit) AS total FROM (SELECT target AS a, sum(cents) AS credit FROM transfers
  GROUP BY target) c
JOIN (SELECT source AS b, -sum(cents) AS debit FROM transfers GROUP BY source) d ON c.a <=> d.b;
-- sum of products over a join
SELECT o.customer, sum(i.price * i.pieces) AS worth, count(i.price) AS priced FROM orders o JOIN items i
  ON o.id = i.order_id
GROUP BY o.customer;
-- count distinct over a join
SELECT count(DISTINCT o.customer) AS customers, count(DISTINCT i.product) AS products FROM orders o, items i
WHERE o.id = i.order_id;
-- group by a boolean
SELECT amount > 10 AS big, count(*) AS n, sum(quantity) AS q FROM orders GROUP BY amount > 10;
-- group by a date part
SELECT date_trunc('MONTH', at) AS month, day, count(*) AS n FROM orders GROUP BY date_trunc('MONTH', at), day;
-- group by a struct field
SELECT place.city, count(*) AS n FROM visits GROUP BY place.city;
-- minus zero and zero
SELECT credit, count(*) AS n FROM customers GROUP BY credit;
-- distinct count of pairs by group
SELECT paid, count(DISTINCT customer, quantity) AS pairs FROM orders GROUP BY paid;
-- the same table in union and join
SELECT a.id, u.k FROM orders a JOIN (SELECT customer AS k FROM orders UNION SELECT target FROM transfers) u
  ON a.quantity = u.k;
""")
