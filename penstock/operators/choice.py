"""`operator_of`: which operator runs a node."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import InvalidArgument
from penstock.operators.aggregate import AggregateOperator
from penstock.operators.distinct import DistinctOperator
from penstock.operators.join import JoinOperator
from penstock.operators.keyed import KeyedOperator
from penstock.operators.operator import Operator, Stateful
from penstock.plan import Aggregate, Distinct, Join, Keyed

__all__ = ["operator_of"]


def operator_of(node: Stateful, below: Sequence[pa.Schema], *, partial: bool = False) -> Operator:
    """The operator of a node whose inputs have the columns ``below``.

    ``partial`` is for an `Aggregate` whose changes are added up before the step, as `partial_sql` tells.

    >>> from penstock.plan import Scan
    >>> sorted(operator_of(Distinct(Scan("main", "t")), [pa.schema([("x", pa.int64())])]).layouts)
    ['counts']
    """
    match node:
        case Aggregate():
            return AggregateOperator(node, below, partial)
        case Join():
            return JoinOperator(node, below)
        case Keyed():
            return KeyedOperator(node, below)
        case Distinct():
            return DistinctOperator(node, below)
    raise InvalidArgument(
        f"a {type(node).__name__} keeps no state",
        subject="operator_of",
        hint="Give a Keyed, a Join, an Aggregate or a Distinct; the engine runs the others itself.",
    )
