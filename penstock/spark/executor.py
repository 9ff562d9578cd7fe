"""Running one tick's plan as one Spark job.

    Δ → expressions → hash (→ partial aggregation) → shards → step → … → the views' changes, written

Expressions and partial sums are Spark's own code; state is touched in Python only, a whole shard at a time.
The job moves no result to the driver: its outcome is the registrations of its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.changes.names import LSN, OP, WEIGHT
from penstock.log.meta import Collection
from penstock.operators import Operator, operator_of
from penstock.plan import Aggregate, Distinct, Join, Keyed, Node, Scan, Select, Union, inputs, is_stateful
from penstock.plan.key import plain_columns
from penstock.spark.failures import failure, raised_by_spark
from penstock.spark.guarded import Guarded, error_told
from penstock.spark.output import TOLD, Output, Renamed, Told
from penstock.spark.partials import hash_sql, partial_frames
from penstock.spark.program import Program, Sharded
from penstock.spark.registration import Registration, registrations
from penstock.spark.sources import Source
from penstock.spark.step import INPUT, Place, Stage, Step
from penstock.spark.types import in_zone, quoted, selected, spark_schema, sql_type, time_zone_of
from penstock.spine import HASH, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Executor", "Job", "Upkeep", "ViewChanges"]

_READ_BY_ALL = 16
"""Up to so many shards, each task reads all of the change itself; for more, a shuffle is cheaper."""


@dataclass(frozen=True)
class ViewChanges:
    """A view whose changes are to be written: its plan, and the collection they are of."""

    node: Node
    collection: Collection


@dataclass(frozen=True)
class Job:
    """All that one tick needs."""

    place: Place
    views: Mapping[str, ViewChanges]
    schemas: Mapping[Node, pa.Schema]
    sources: Mapping[Node, Source]
    """The rows of leaves, and of nodes that are not to be computed because their content is known."""
    states: Mapping[str, Mapping[str, tuple[Slice, ...]]]
    """The slices of each spine, by fingerprint and name, as the last manifest has them."""
    kept: frozenset[str]
    """Fingerprints of the nodes whose new state is to be kept."""
    shards: int = 1
    partial: frozenset[str] = frozenset()
    """Fingerprints of the aggregates that Spark is to pre-aggregate."""
    also: Sequence[Upkeep] = field(default=())


@dataclass(frozen=True)
class Upkeep:
    """Other work of a tick, in so many parts: each part is a task and is told its number."""

    stage: Stage
    parts: int


class Executor:
    """Runs jobs on one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def parallelism(self) -> int:
        """How many tasks run at once, as Spark has it."""
        told = self.spark.conf.get("spark.sql.shuffle.partitions")
        try:
            return max(int(self.spark.sparkContext.defaultParallelism), 1)
        except Exception:  # Spark Connect has no context
            return max(int(told or 2), 1)

    def run(self, job: Job) -> list[Registration]:
        """Run it and return what its steps registered. An error leaves nothing that anybody sees."""
        frames = _Frames(self.spark, job)
        program = frames.program()
        if program is not None:
            for _ in program.run():  # a tick without work for Spark costs no job
                pass
            return registrations(job.place.scratch, job.place.steps)
        try:
            ends = frames.ends()
            if ends:
                reduce(lambda a, b: a.union(b), ends).toArrow()
        except raised_by_spark() as error:
            told = error_told(error, job.place)
            plans = {name: view.node for name, view in job.views.items()}
            raise told if told is not None else failure(error, plans) from error
        finally:
            frames.release()
        return registrations(job.place.scratch, job.place.steps)


class _Frames:
    """The frames of one job, made as they are asked for."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self._zone = time_zone_of(spark)
        self._made: dict[Node, DataFrame] = {}
        self._persisted: list[DataFrame] = []
        self._plain: dict[Node, bool] = {}
        self._written: dict[Node, list[Output]] = {}
        """Views that a node's own tasks write."""
        self._apart: list[tuple[Node, Output]] = []
        """Views that are written by tasks of their own."""
        self._programmed: list[tuple[Node, Output]] = []
        """Views that need nothing of Spark."""
        for view in job.views.values():
            self._place_output(view)
        self._uses = self._count_uses()

    def program(self) -> Program | None:
        """The whole job, where nothing in it is for Spark to compute."""
        if self._written or self._apart or self.job.also or not self._programmed:
            return None
        return self._program(tuple(self._programmed))

    def ends(self) -> list[DataFrame]:
        """Frames that make everything happen, and tell next to nothing."""
        last = (node for node in self._written if not self._uses[node])
        ends = [self._stepped(node, TOLD, gives=False) for node in last]
        for node, output in self._apart:
            ends.append(self._mapped(self.frame(node), output, TOLD))
        if self._programmed:
            ends.append(self._started(self._program(tuple(self._programmed)), TOLD))
        for work in self.job.also:
            numbers = self.spark.range(0, work.parts, 1, work.parts)
            ends.append(self._mapped(numbers, work.stage, TOLD))
        return ends

    def release(self) -> None:
        for frame in self._persisted:
            frame.unpersist()

    # -- who writes what ------------------------------------------------------------------------------

    def _place_output(self, view: ViewChanges) -> None:
        """A stateful node's tasks write the view where nothing is computed between them and it."""
        node, renamed = view.node, None
        if isinstance(node, Select) and self._is_renaming(node):
            plain = plain_columns(node)
            pairs = tuple((it.name, plain[it.name]) for it in node.columns)
            renamed = Renamed(pairs, weighted(self.job.schemas[node]))
            node = node.input
        # A stateful node tells no two changes that cancel out, but for a join; a column left out may.
        told = {old for _, old in renamed.columns} if renamed is not None else None
        whole = told is None or len(told) == len(self.job.schemas[node])
        consolidated = whole and isinstance(node, Keyed | Aggregate | Distinct)
        name = f"view-{view.collection.id:08x}"
        output = Output(name, view.collection, view.collection.key, consolidated, self.job.place, renamed)
        if self._is_plain(node):
            self._programmed.append((node, output))
        elif is_stateful(node) and node not in self.job.sources:
            self._written.setdefault(node, []).append(output)
        else:
            self._apart.append((view.node, replace(output, renamed=None)))

    def _is_renaming(self, node: Select) -> bool:
        plain = plain_columns(node)
        below = self.job.schemas[node.input].names
        return node.where is None and all(plain.get(it.name) in below for it in node.columns)

    def _is_plain(self, node: Node) -> bool:
        """Whether the node, with all below it, needs no Spark: one shard, and no expression."""
        if self.job.shards != 1:
            return False
        if node not in self._plain:
            source = self.job.sources.get(node)
            if source is not None:
                self._plain[node] = True
            elif isinstance(node, Select) and not self._is_renaming(node):
                self._plain[node] = False
            else:
                self._plain[node] = bool(inputs(node)) and all(map(self._is_plain, inputs(node)))
        return self._plain[node]

    def _count_uses(self) -> Counter[Node]:
        """How often each node is read by others; the views that write themselves do not count."""
        uses: Counter[Node] = Counter()
        seen: set[Node] = set()
        waiting = [node for node, _ in self._apart]
        uses.update(waiting)
        waiting += list(self._written)
        while waiting:
            node = waiting.pop()
            if node in seen or node in self.job.sources:
                continue
            seen.add(node)
            uses.update(inputs(node))
            waiting += inputs(node)
        return uses

    # -- what needs no Spark --------------------------------------------------------------------------

    def _program(self, outputs: tuple[tuple[Node, Output], ...], given: Node | None = None) -> Program:
        roots = [node for node, _ in outputs] if given is None else [given]
        nodes: set[Node] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node not in nodes:
                nodes.add(node)
                waiting += inputs(node) if node not in self.job.sources else ()
        sources = {node: self.job.sources[node] for node in nodes if node in self.job.sources}
        return Program(
            {node: self._source_schema(node) for node in nodes},
            {node: tuple(it.pieces) for node, it in sources.items()},
            {
                node: self._step_of(node, False, 1)[1]
                for node in nodes
                if is_stateful(node) and node not in sources
            },
            outputs,
            given,
            TOLD if given is None else in_zone(self._source_schema(given), self._zone),
        )

    def _started(self, program: Program, schema: pa.Schema) -> DataFrame:
        return self._mapped(self.spark.range(0, 1, 1, 1), program, schema)

    # -- frames ---------------------------------------------------------------------------------------

    def frame(self, node: Node) -> DataFrame:
        """The changes of a node: its columns and `_weight` (events: `_op` and `_lsn`)."""
        made = self._made.get(node)
        if made is None:
            made = self._made[node] = self._make(node)
        return made

    def _make(self, node: Node) -> DataFrame:
        if self._is_plain(node):
            return self._started(self._program((), node), self._source_schema(node))
        source = self.job.sources.get(node)
        if source is not None:
            return source.frame(self.spark, self._source_schema(node), self.job.place)
        match node:
            case Select(input=below):
                return selected(self.frame(below), node, WEIGHT)
            case Union():
                return self._united(node)
            case Scan():
                raise AssertionError(f"no source for {node}")
            case _:
                made = self._stepped(node, weighted(self.job.schemas[node]), gives=True)
                if self.job.shards > 1 and self._uses[node] > 1:
                    made = made.persist()
                    self._persisted.append(made)
                return made

    def _united(self, node: Union) -> DataFrame:
        names = [quoted(name) for name in self.job.schemas[node].names]
        parts = []
        for it in node.inputs:
            pairs = zip(self.job.schemas[it].names, names, strict=True)
            parts.append(
                self.frame(it).selectExpr(*(f"{quoted(old)} AS {new}" for old, new in pairs), WEIGHT)
            )
        return reduce(lambda a, b: a.union(b), parts)

    def _mapped(self, frame: DataFrame, stage: Stage, schema: pa.Schema) -> DataFrame:
        return frame.mapInArrow(Guarded(stage, self.job.place), spark_schema(schema))

    def _source_schema(self, node: Node) -> pa.Schema:
        schema = self.job.schemas[node]
        if isinstance(node, Scan) and node in self._keyed_scans():
            return pa.schema([*schema, pa.field(OP, pa.int8()), pa.field(LSN, pa.int64())])
        return weighted(schema)

    def _keyed_scans(self) -> set[Node]:
        return {node.input for node in self.job.schemas if isinstance(node, Keyed)}

    # -- steps ----------------------------------------------------------------------------------------

    def _stepped(self, node: Node, schema: pa.Schema, *, gives: bool) -> DataFrame:
        """A stateful node's rows, shard by shard, through its step; the views it can write are written."""
        assert isinstance(node, Keyed | Join | Aggregate | Distinct)
        if self.job.shards <= _READ_BY_ALL and all(map(self._is_read, inputs(node))):
            return self._read(node, schema, gives=gives)
        partial = node.fingerprint in self.job.partial
        operator, step = self._step_of(node, partial, self.job.shards)
        if partial:
            assert isinstance(node, Aggregate)
            frames = partial_frames(self.frame(node.input), node, step.below[0], operator)
        else:
            frames = {
                name: self._hashed(self.frame(it), operator, name)
                for name, it in zip(operator.inputs, inputs(node), strict=True)
            }
        if step.is_new and not any(operator.keys.values()):
            # The one row of a global aggregate is there also over nothing: the step must run to tell it.
            name = next(iter(frames))
            frames[name] = frames[name].union(self._nothing(operator.inputs[name]))
        outputs = tuple(self._written.get(node, ()))
        stage: Stage = Told(step, outputs, gives) if outputs else step
        return self._mapped(self._sharded(together(frames, operator), step.shards), stage, schema)

    def _is_read(self, node: Node) -> bool:
        """Whether the node is but what tasks read, under other names."""
        source = self.job.sources.get(node)
        if source is not None:
            return True
        if isinstance(node, Select) and not self._is_renaming(node):
            return False
        return isinstance(node, Select | Union) and all(map(self._is_read, inputs(node)))

    def _read(self, node: Node, schema: pa.Schema, *, gives: bool) -> DataFrame:
        """The node's step in tasks that read the sources themselves, each its own shard's rows."""
        operator, step = self._step_of(node, False, self.job.shards)
        made = {name: self._program((), it) for name, it in zip(operator.inputs, inputs(node), strict=True)}
        stage = Sharded(step, tuple(self._written.get(node, ())), gives, made, step.shards)
        numbers = self.spark.range(0, step.shards, 1, step.shards)
        return self._mapped(numbers, stage, schema)

    def _step_of(self, node: Node, partial: bool, shards: int) -> tuple[Operator, Step]:
        assert isinstance(node, Keyed | Join | Aggregate | Distinct)
        below = tuple(self.job.schemas[it] for it in inputs(node))
        operator = operator_of(node, below, partial=partial)
        state = self.job.states.get(node.fingerprint)
        step = Step(
            node,
            below,
            partial,
            shards if any(operator.keys.values()) else 1,
            state or {},
            state is None,
            node.fingerprint in self.job.kept,
            self.job.place,
            in_zone(weighted(self.job.schemas[node]), self._zone),
        )
        return operator, step

    def _nothing(self, schema: pa.Schema) -> DataFrame:
        """One row that says nothing, which steps leave out: it makes Spark start them."""
        columns = []
        for it in (*(it for it in schema if it.name != HASH), schema.field(HASH)):  # as the others have it
            value = {HASH: "42", WEIGHT: "0"}.get(it.name, "NULL" if it.nullable else "0")
            columns.append(f"CAST({value} AS {sql_type(it.type)}) AS {quoted(it.name)}")
        return self.spark.range(1).selectExpr(*columns)

    def _hashed(self, frame: DataFrame, operator: Operator, name: str) -> DataFrame:
        columns = [quoted(it) for it in operator.inputs[name].names if it != HASH]
        return frame.selectExpr(*columns, hash_sql(operator.keys[name]))

    def _sharded(self, frame: DataFrame, shards: int) -> DataFrame:
        if shards == 1:
            return frame.coalesce(1) if self.job.shards == 1 else frame.repartition(1)
        from pyspark.sql import functions as f

        bits = shards.bit_length() - 1
        return frame.repartitionById(shards, f.expr(f"CAST(shiftrightunsigned({HASH}, {64 - bits}) AS INT)"))


def weighted(schema: pa.Schema) -> pa.Schema:
    """The columns and `_weight`."""
    return schema.append(pa.field(WEIGHT, pa.int64()))


def together(frames: Mapping[str, DataFrame], operator: Operator) -> DataFrame:
    """The inputs of one step as one frame: a single one as it is, several with a struct of columns each."""
    if len(frames) == 1:
        (frame,) = frames.values()
        return frame
    parts = []
    kinds = {
        name: [it for it in schema if it.name != HASH]
        for name, schema in operator.inputs.items()
        if name in frames
    }
    for number, (name, frame) in enumerate(frames.items()):
        columns = [f"CAST({number} AS TINYINT) AS {INPUT}", HASH]
        for other, fields in kinds.items():
            if other == name:
                columns.append(f"struct({', '.join(quoted(it.name) for it in fields)}) AS {quoted(other)}")
            else:
                columns.append(f"CAST(NULL AS {sql_type(pa.struct(fields))}) AS {quoted(other)}")
        parts.append(frame.selectExpr(*columns))
    return reduce(lambda a, b: a.union(b), parts)
