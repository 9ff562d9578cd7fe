"""Aggregates that can be taken back.

One at a time, for people: `Count`, `CountColumn`, `Sum`, `Avg`, `Min`, `Max` (`scalar`).
Over many groups at once, for the hot path: the same names with ``Grouped`` before them (`grouped`, `sums`,
`extremes`).
Both are states in a commutative group, and both are exact, doubles included (`exact` says how).
"""

from penstock.changes.aggregates.extremes import GroupedMax, GroupedMin
from penstock.changes.aggregates.grouped import GroupedAggregate, GroupedCount, GroupedCountColumn
from penstock.changes.aggregates.scalar import Aggregate, Avg, Count, CountColumn, Max, Min, Sum
from penstock.changes.aggregates.sums import GroupedAvg, GroupedSum

__all__ = [
    "Aggregate",
    "Avg",
    "Count",
    "CountColumn",
    "GroupedAggregate",
    "GroupedAvg",
    "GroupedCount",
    "GroupedCountColumn",
    "GroupedMax",
    "GroupedMin",
    "GroupedSum",
    "Max",
    "Min",
    "Sum",
]
