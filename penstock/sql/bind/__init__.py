"""Names → columns: a query's tree → a first plan, plain and long, which the rules then better.

Each part of SQL has a file: `query` (any query, WITH, UNION), `select` (one SELECT), `sources` (FROM and
JOIN), `items` (the SELECT list), `grouping` (GROUP BY, HAVING) and `calls` (one aggregate). `scope` says what
names mean, and `refusals` what is not maintained yet.
"""
