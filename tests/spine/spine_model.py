"""What a spine means, as dictionaries: the slow, plain statement of it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.changes.rows import canonical
from penstock.spine import HASH, Layout
from tests.arrow_strategies import types, values
from tests.row_model import identity

__all__ = [
    "EDGES",
    "ORDERED",
    "Content",
    "History",
    "batch_of",
    "content_of",
    "histories",
    "key_batch",
    "layouts",
    "spark_order",
]

FEW = (0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
EDGES = (0, 1, 2, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64)
ORDERED = (
    pa.int64(),
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.float32(),
    pa.string(),
    pa.binary(2),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
)

Row = tuple[Any, ...]


@dataclass
class History:
    """A layout, keys and values that rows are made of, and the hash of each key."""

    layout: Layout
    keys: list[Row]
    rests: list[Row]
    few_hashes: bool

    def hash_of(self, key: Row) -> int:
        told = zlib.crc32(repr(self.identity(key, self.layout.key)).encode())
        return FEW[told % len(FEW)] if self.few_hashes else told * 0x9E3779B97F4A7C15 % 2**64

    def identity(self, row: Row, names: Sequence[str]) -> Row:
        kinds = [self.layout.schema.field(name).type for name in names]
        return tuple(identity(value, kind) for value, kind in zip(row, kinds, strict=True))

    @property
    def rest(self) -> tuple[str, ...]:
        """The columns that are no key: of sums those added up, of a bag data."""
        return tuple(name for name in self.layout.schema.names if name not in self.layout.key)


@dataclass
class Content:
    """Row (or key) → weight (or sums), with the hash in front."""

    history: History
    counts: dict[Row, np.ndarray] = field(default_factory=dict)

    def add(self, rows: Iterable[tuple[Row, Row, int]]) -> None:
        """(key, rest, weight); of sums, rest times weight is added."""
        it = self.history
        for key, rest, weight in rows:
            told = (it.hash_of(key), *it.identity(key, it.layout.key))
            if it.layout.is_bag:
                told, by = (*told, *it.identity(rest, it.rest)), np.array([weight], object)
            else:
                by = np.array(rest, object) * weight
            self.counts[told] = self.counts.get(told, 0) + by
            if not self.counts[told].any():
                del self.counts[told]

    def within(self, begin: int, end: int) -> dict[Row, tuple[int, ...]]:
        return {row: tuple(by.tolist()) for row, by in self.counts.items() if begin <= row[0] < end}

    def sums(self, keys: Sequence[Row]) -> list[Row]:
        it = self.history
        none = np.zeros(len(it.layout.summed), object)
        return [
            tuple(self.counts.get((it.hash_of(key), *it.identity(key, it.layout.key)), none).tolist())
            for key in keys
        ]

    def matches(self, key: Row) -> dict[Row, tuple[int, ...]]:
        it = self.history
        told = (it.hash_of(key), *it.identity(key, it.layout.key))
        return {row: tuple(by.tolist()) for row, by in self.counts.items() if row[: len(told)] == told}

    def extreme(self, key: Row, greatest: bool) -> Any:
        """The identity of the least or greatest live value, in Spark's order."""
        it = self.history
        at = 1 + len(it.layout.key) + it.rest.index(str(it.layout.order))
        weights: Counter[Any] = Counter()
        for row, (weight,) in self.matches(key).items():
            weights[row[at]] += weight
        alive = [value for value, weight in weights.items() if weight > 0]
        if not alive:
            return None
        kind = it.layout.schema.field(str(it.layout.order)).type
        return (max if greatest else min)(alive, key=lambda value: spark_order(value, kind))


def spark_order(value: Any, kind: pa.DataType) -> Any:
    """Of an identity: NaN is greater than all, and texts compare byte by byte."""
    if pa.types.is_floating(kind):
        return (value == "NaN", 0.0 if value == "NaN" else value)
    return value.encode() if isinstance(value, str) else value


def batch_of(history: History, rows: Sequence[tuple[Row, Row, int]]) -> pa.RecordBatch:
    """Rows as an operator adds them."""
    schema = history.layout.schema
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for key, rest, weight in rows:
        for name, value in zip(history.layout.key, key, strict=True):
            columns[name].append(value)
        for name, value in zip(history.rest, rest, strict=True):
            columns[name].append(value if history.layout.is_bag else value * weight)
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    names = list(schema.names)
    if history.layout.is_bag:
        arrays.append(pa.array([weight for _, _, weight in rows], pa.int64()))
        names.append("_weight")
    return pa.RecordBatch.from_arrays([*arrays, hashes(history, [row[0] for row in rows])], [*names, HASH])


def key_batch(history: History, keys: Sequence[Row]) -> pa.RecordBatch:
    kinds = [history.layout.schema.field(name).type for name in history.layout.key]
    arrays = [pa.array([key[i] for key in keys], kind) for i, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays([hashes(history, keys), *arrays], [HASH, *history.layout.key])


def hashes(history: History, keys: Sequence[Row]) -> pa.Array:
    return pa.array(np.array([history.hash_of(key) for key in keys], np.uint64).view(np.int64))


@st.composite
def layouts(draw: st.DrawFn, kind: str | None = None, order: bool | None = None) -> Layout:
    kind = kind or draw(st.sampled_from(["sums", "bag"]))
    keys = [pa.field(f"k{i}", draw(types(3))) for i in range(draw(st.integers(0, 2)))]
    if kind == "sums":
        rest = [pa.field(f"n{i}", pa.int64()) for i in range(draw(st.integers(1, 2)))]
        return Layout(pa.schema([*keys, *rest]), tuple(it.name for it in keys), "sums")
    rest = [pa.field(f"c{i}", draw(types(3))) for i in range(draw(st.integers(0, 1)))]
    is_ordered = draw(st.booleans()) if order is None else order
    if is_ordered:
        rest.append(pa.field("v", draw(st.sampled_from(ORDERED))))
    schema = pa.schema(draw(st.permutations([*keys, *rest])))
    return Layout(schema, tuple(it.name for it in keys), "bag", "v" if is_ordered else None)


@st.composite
def histories(draw: st.DrawFn, kind: str | None = None, order: bool | None = None) -> History:
    layout = draw(layouts(kind, order))
    few = draw(st.booleans())

    def some(names: Iterable[str], most: int) -> list[Row]:
        drawn = st.tuples(
            *(values(layout.schema.field(name).type, nullable=name != layout.order) for name in names)
        )
        return draw(st.lists(drawn, min_size=1, max_size=most))

    history = History(layout, some(layout.key, 6), [], few)
    if layout.is_bag:
        history.rests = some(history.rest, 8)
    else:
        history.rests = draw(
            st.lists(st.tuples(*(st.integers(-3, 3) for _ in history.rest)), min_size=1, max_size=4)
        )
    return history


def content_of(history: History, batches: Iterable[pa.RecordBatch]) -> dict[Row, tuple[int, ...]]:
    """What stored batches say, each row of which must be there once and be no zero."""
    layout, found = history.layout, {}
    for batch in batches:
        assert batch.num_rows
        for name in layout.compared:
            column = batch.column(name)
            assert repr(canonical(column).to_pylist()) == repr(column.to_pylist())
        unsigned = batch.column(HASH).to_numpy().view(np.uint64).tolist()
        names = [*layout.key, *history.rest] if layout.is_bag else layout.key
        columns = [batch.column(name).to_pylist() for name in (*names, *layout.summed)]
        for hash_, *values_ in zip(unsigned, *columns, strict=True):
            row, by = values_[: len(names)], tuple(values_[len(names) :])
            key = (hash_, *history.identity(tuple(row), names))
            assert key not in found
            assert any(by)
            found[key] = by
    return found
