"""The incremental plan as data: what a view computes, node by node, before anybody runs it.

A plan is a value: equal nodes are one node, computed once and with one state. `penstock.sql` makes plans from
SQL, `penstock.operators` knows the stateful nodes' laws, and `penstock.spark` runs them.
"""

from penstock.plan.key import key_of, plain_columns
from penstock.plan.node import (
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
)
from penstock.plan.order import in_order, inputs, is_stateful
from penstock.plan.schema import SelectTypes, schema_of, schemas_of
from penstock.plan.show import show

__all__ = [
    "Aggregate",
    "Call",
    "Distinct",
    "Function",
    "Join",
    "Keyed",
    "Named",
    "Node",
    "On",
    "Scan",
    "Select",
    "SelectTypes",
    "Union",
    "in_order",
    "inputs",
    "is_stateful",
    "key_of",
    "plain_columns",
    "schema_of",
    "schemas_of",
    "show",
]
