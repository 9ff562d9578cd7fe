"""A tick runner without a JVM: expressions by DuckDB, hashes by NumPy, steps called one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from penstock.changes import xxhash64
from penstock.changes.names import LSN, OP, WEIGHT
from penstock.operators import Operator, operator_of
from penstock.plan import (
    Aggregate,
    Distinct,
    Join,
    Keyed,
    Node,
    Scan,
    Select,
    Union,
    in_order,
    inputs,
    plain_columns,
    schemas_of,
)
from penstock.spine import HASH, Edit, Runs, ShardState, Slice, edited, shard_of, shard_range
from penstock.store.memory import MemoryStore
from tests.operators.model import Content, plain
from tests.operators.partials_model import partial_inputs_of

__all__ = ["DuckSelect", "Hashing", "LocalPipeline", "content_of"]

Hashing = Callable[[Sequence[pa.Array], int], np.ndarray]
_META = (WEIGHT, OP, LSN)


class DuckSelect:
    """Runs a `Select` by DuckDB, for expressions that mean there what they mean in Spark."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._schemas: dict[tuple[Node, pa.Schema], pa.Schema] = {}

    def types(self, node: Select, below: pa.Schema) -> pa.Schema:
        """The columns that it makes."""
        if (node, below) not in self._schemas:
            self._schemas[node, below] = self._run(node, below.empty_table(), ()).schema
        return self._schemas[node, below]

    def run(self, node: Select, below: pa.RecordBatch) -> pa.RecordBatch:
        """What it makes of changes."""
        made = self._run(node, pa.table(below), (WEIGHT,)).combine_chunks()
        return made.to_batches()[0] if len(made) else _nothing(made.schema)

    def _run(self, node: Select, rows: pa.Table, more: Iterable[str]) -> pa.Table:
        plain_only = plain_columns(node)
        if node.where is None and len(plain_only) == len(node.columns):  # as often: no need of an engine
            return rows.select([*plain_only.values(), *more]).rename_columns([*plain_only, *more])
        columns = [f'({it.sql}) AS "{it.name}"' for it in node.columns]
        where = "" if node.where is None else f" WHERE {node.where}"
        self._connection.register("rows_below", rows)
        sql = f"SELECT {', '.join([*columns, *more])} FROM rows_below{where}"
        return self._connection.sql(sql).to_arrow_table()


class LocalPipeline:
    """Plans kept up to date tick by tick, as Penstock's driver does it: the same steps, shards and edits."""

    def __init__(
        self,
        roots: Sequence[Node],
        collections: Mapping[tuple[str, str], pa.Schema],
        select: DuckSelect,
        hashing: Hashing = xxhash64,
    ) -> None:
        self.order = in_order(roots)
        self.schemas = schemas_of(roots, collections, select.types)
        self.contents: dict[Node, Content] = {it: Counter() for it in self.order}
        self._select, self._hashing = select, hashing
        self._store = MemoryStore()
        self._runs = Runs(self._store)
        self._slices: dict[Node, dict[str, tuple[Slice, ...]]] = {}
        self._operators: dict[tuple[Node, bool], Operator] = {}
        self._names = (f"{i}/" for i in itertools.count())

    def tick(
        self, events: Mapping[tuple[str, str], pa.RecordBatch], shards: int = 1, partial: bool = False
    ) -> dict[Node, pa.RecordBatch]:
        """One tick: the changes of every node. ``events`` have `_op`, `_lsn` and `_weight`."""
        said: dict[Node, pa.RecordBatch] = {}
        for node in self.order:
            below = [said[it] for it in inputs(node)]
            match node:
                case Scan(log, collection):
                    made = events[log, collection]
                case Select():
                    made = self._select.run(node, below[0])
                case Union():
                    names = [*self.schemas[node].names, WEIGHT]
                    parts = [_changes_only(it).columns for it in below]
                    made = pa.concat_batches([pa.record_batch(it, names=names) for it in parts])
                case Keyed() | Join() | Aggregate() | Distinct():
                    made = self._step(node, below, shards, partial and isinstance(node, Aggregate))
            said[node] = made
            rows = _changes_only(made)
            self.contents[node] = _plus(self.contents[node], content_of(rows))
        return said

    def _step(
        self, node: Node, below: Sequence[pa.RecordBatch], shards: int, partial: bool
    ) -> pa.RecordBatch:
        operator = self._operator(node, partial)
        if partial:
            came = partial_inputs_of(node, operator, below[0])
        else:
            came = dict(zip(operator.inputs, below, strict=True))
        hashed = {name: self._with_hash(rows, operator.keys[name]) for name, rows in came.items()}
        is_new = node not in self._slices
        slices = self._slices.setdefault(node, dict.fromkeys(operator.layouts, ()))
        edits: dict[str, list[Edit]] = {it: [] for it in operator.layouts}
        said = []
        for shard in range(shards):
            mine = {
                name: rows.filter(pa.array(shard_of(rows[HASH].to_numpy(), shards) == shard))
                for name, rows in hashed.items()
            }
            if not is_new and not any(it.num_rows for it in mine.values()):
                continue
            state = ShardState(
                self._store,
                self._runs,
                operator.layouts,
                slices,
                *shard_range(shard, shards),
                next(self._names),
                is_new,
            )
            # Two batches each, as any number may come.
            halves = {
                name: [rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)]
                for name, rows in mine.items()
            }
            for batch in operator.step(halves, state):
                assert batch.schema == operator.output
                said.append(batch)
            for name, edit in state.finish().items():
                edits[name].append(edit)
        self._slices[node] = {name: edited(there, edits[name]) for name, there in slices.items()}
        return pa.concat_batches(said) if said else _nothing(operator.output)

    def _operator(self, node: Node, partial: bool) -> Operator:
        if (node, partial) not in self._operators:
            below = [self.schemas[it] for it in inputs(node)]
            self._operators[node, partial] = operator_of(node, below, partial=partial)
        return self._operators[node, partial]

    def _with_hash(self, rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
        hashes = self._hashing([rows[it] for it in key], rows.num_rows) if key else np.full(rows.num_rows, 42)
        return rows.append_column(HASH, pa.array(hashes))


def content_of(changes: pa.RecordBatch) -> Content:
    """What a batch of changes adds up to."""
    content: Content = Counter()
    columns = [[plain(value) for value in column.to_pylist()] for column in changes.columns[:-1]]
    for *row, weight in zip(*columns, changes[WEIGHT].to_pylist(), strict=True):
        content[tuple(row)] += weight
    return content


def _plus(content: Content, more: Content) -> Content:
    for row, weight in more.items():
        content[row] += weight
        if not content[row]:
            del content[row]
    return content


def _changes_only(rows: pa.RecordBatch) -> pa.RecordBatch:
    names = [it for it in rows.schema.names if it not in _META]
    return rows.select([*names, WEIGHT])


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], it.type) for it in schema], schema=schema)
