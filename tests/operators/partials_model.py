"""What Spark is asked to add up before a step (`partial_sql`), done row by row with Python's own numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pyarrow as pa

from penstock.changes.names import WEIGHT
from penstock.operators import Operator
from penstock.operators.arguments import ROWS, Argument, arguments_of
from penstock.operators.values import VALUE
from penstock.plan import Aggregate
from penstock.spine import HASH
from tests.operators.model import plain

__all__ = ["is_plain", "partial_inputs_of", "pieces"]

_LOW = 2**32 - 1


def partial_inputs_of(
    node: Aggregate, operator: Operator, changes: pa.RecordBatch
) -> dict[str, pa.RecordBatch]:
    """The inputs of a step with ``partial``, without ``_hash``."""
    below = changes.schema.remove(changes.schema.get_field_index(WEIGHT))
    arguments = arguments_of(node, below)
    sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    bags: dict[str, Counter[tuple[Any, ...]]] = {it.bag: Counter() for it in arguments}
    rest = []
    for row in changes.to_pylist():
        if not all(is_plain(it, row[it.column]) for it in arguments):
            rest.append(row)
            continue
        key, weight = tuple(plain(row[it]) for it in node.keys), row[WEIGHT]
        sums[key][ROWS] += weight
        for it in arguments:
            value = row[it.column]
            if value is not None:
                sums[key][it.count] += weight
                for name, digit in (pieces(it, value) if it.is_added else {}).items():
                    sums[key][it.limb(name)] += weight * digit
                bags[it.bag][(*key, plain(value))] += weight
    said = {"partials": [dict(zip(node.keys, key, strict=True)) | dict(some) for key, some in sums.items()]}
    for it in arguments:
        names = (*node.keys, VALUE)
        said[it.bag] = [
            dict(zip(names, row, strict=True)) | {WEIGHT: weight}
            for row, weight in bags[it.bag].items()
            if weight
        ]
    said["changes"] = rest
    assert "changes" in operator.inputs or not rest
    return {
        name: _batch(said[name], schema.remove(schema.get_field_index(HASH)))
        for name, schema in operator.inputs.items()
    }


def is_plain(argument: Argument, value: Any) -> bool:
    """Whether rows with this value are added up before."""
    if value is None or not argument.is_added:
        return True
    if argument.is_double:
        return value == 0 or 2.0**-62 <= abs(value) < 2.0**66
    kind = argument.kind
    if pa.types.is_decimal(kind) and kind.precision > 18:
        return kind.scale <= 18 and value.copy_abs() < 10**18  # abs() rounds, in Python too
    return True


def pieces(argument: Argument, value: Any) -> dict[str, int]:
    """The integers that a plain value is made of."""
    if argument.is_double:
        exact = Fraction(value)
        rounded = [round(exact * Fraction(2) ** (1074 - 32 * limb)) for limb in range(30, 37)]
        return {f"limb{30 + i}": rounded[i] - (rounded[i + 1] << 32) for i in range(6)}
    kind = argument.kind
    if pa.types.is_integer(kind):
        return {"limb0": value} if kind.bit_width <= 32 else {"limb0": value & _LOW, "limb1": value >> 32}
    units = int(Fraction(value) * 10**kind.scale)
    if kind.precision <= 18:
        return {"limb0": units & _LOW, "limb1": units >> 32}
    if kind.scale > 18:
        return {}
    whole = math.trunc(value)
    fraction = units - whole * 10**kind.scale
    return {
        "fraction0": fraction & _LOW,
        "fraction1": fraction >> 32,
        "whole0": whole & _LOW,
        "whole1": whole >> 32,
    }


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array([row.get(it.name, None if it.nullable else 0) for row in rows], it.type) for it in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
