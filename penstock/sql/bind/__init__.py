"""Names → columns: a query's tree → a first plan, plain and long, which the rules then better.

Each part of SQL has a file: `sources` (FROM), `select` (the rest of a SELECT without aggregates), `grouping` (GROUP BY and
aggregates), `union`; `query` puts them together.
"""
