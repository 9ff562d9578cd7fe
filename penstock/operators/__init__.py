"""The stateful nodes' laws: (changes, state) → changes, in NumPy and Arrow, without an engine.

`operator_of` gives the `Operator` of a node: what it wants as input, which spines it keeps, and its step,
which is run once per tick and shard. `partial_sql` tells how Spark may add up an aggregate's changes before.
"""

from penstock.operators.choice import operator_of
from penstock.operators.operator import Operator, Stateful
from penstock.operators.partials import InputSql, partial_sql

__all__ = ["InputSql", "Operator", "Stateful", "operator_of", "partial_sql"]
