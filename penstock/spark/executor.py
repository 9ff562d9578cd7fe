"""Running one tick's plan as one Spark job.

    Δ → expressions → hash (→ partial aggregation) → shards → step → … → the views' changes, written

Expressions and partial sums are Spark's own code; state is touched in Python only, a whole shard at a time.
The job moves no result to the driver: its outcome is the registrations of its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.changes.names import LSN, OP, WEIGHT
from penstock.errors import EngineFailed, PenstockError
from penstock.log.meta import Collection
from penstock.operators import Operator, operator_of
from penstock.plan import Aggregate, Distinct, Join, Keyed, Node, Scan, Select, Union, inputs, is_stateful
from penstock.plan.key import plain_columns
from penstock.spark.output import TOLD, Output, Renamed
from penstock.spark.partials import hash_sql, partial_frames
from penstock.spark.registration import Registration, registrations
from penstock.spark.sources import Source
from penstock.spark.step import INPUT, Batches, Place, Stage, Step, chained, errors_told
from penstock.spark.types import in_zone, quoted, selected, spark_schema, sql_type, time_zone_of
from penstock.spine import HASH, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Executor", "Job", "ViewChanges"]


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
        from pyspark.errors import PySparkException

        frames = _Frames(self.spark, job)
        try:
            ends = frames.ends()
            if ends:
                reduce(lambda a, b: a.union(b), ends).toArrow()
        except PySparkException as error:
            told = next(iter(errors_told(job.place.scratch, job.place.steps)), None)
            raise told if told is not None else engine_error(error) from error
        finally:
            frames.release()
        return registrations(job.place.scratch, job.place.steps)


def engine_error(error: Exception) -> PenstockError:
    """What Spark gave up on, in our words and its own first lines."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return EngineFailed(
        "Spark gave the job up: " + " ".join(lines[:3]),
        subject="Spark",
        hint="Nothing was committed. See Spark's log; then refresh again.",
    )


class _Frames:
    """The frames of one job, made as they are asked for."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self._zone = time_zone_of(spark)
        self._made: dict[Node, DataFrame] = {}
        self._persisted: list[DataFrame] = []
        self._roots: dict[Node, list[tuple[str, ViewChanges, Renamed | None]]] = {}
        self._apart: list[tuple[str, ViewChanges]] = []
        for name, view in job.views.items():
            told = self._told_by(view.node)
            if told is None:
                self._apart.append((name, view))
            else:
                self._roots.setdefault(told[0], []).append((name, view, told[1]))
        self._uses = self._count_uses()

    def ends(self) -> list[DataFrame]:
        """Frames that make everything happen, and tell next to nothing."""
        last = (node for node in self._roots if not self._uses[node])
        ends = [self._finished(self._step(node), [self._outputs(node)]) for node in last]
        for name, view in self._apart:
            stage = self._output(name, view)
            ends.append(self._finished(self.frame(view.node), [stage]))
        for work in self.job.also:
            numbers = self.spark.range(0, work.parts, 1, work.parts)
            ends.append(numbers.mapInArrow(work.stage, spark_schema(TOLD)))
        return ends

    def release(self) -> None:
        for frame in self._persisted:
            frame.unpersist()

    # -- who writes what ------------------------------------------------------------------------------

    def _told_by(self, node: Node) -> tuple[Node, Renamed | None] | None:
        """The stateful node whose own tasks can write this view, as nothing is computed between them."""
        if node in self.job.sources:
            return None
        if is_stateful(node):
            return node, None
        if isinstance(node, Select) and node.where is None and is_stateful(node.input):
            plain = plain_columns(node)
            below = self.job.schemas[node.input].names
            if node.input not in self.job.sources and all(plain.get(it.name) in below for it in node.columns):
                pairs = tuple((it.name, plain[it.name]) for it in node.columns)
                return node.input, Renamed(pairs, weighted(self.job.schemas[node]))
        return None

    def _count_uses(self) -> Counter[Node]:
        """How often each node is read by others; the views that write themselves do not count."""
        uses: Counter[Node] = Counter()
        seen: set[Node] = set()
        waiting = [view.node for _, view in self._apart]
        uses.update(waiting)
        waiting += list(self._roots)
        while waiting:
            node = waiting.pop()
            if node in seen or node in self.job.sources:
                continue
            seen.add(node)
            uses.update(inputs(node))
            waiting += inputs(node)
        return uses

    def _output(self, name: str, view: ViewChanges, consolidated: bool = False) -> Output:
        return Output(
            f"view-{view.collection.id:08x}",
            view.collection,
            view.collection.key,
            consolidated,
            self.job.place,
        )

    def _outputs(self, node: Node) -> Stage:
        """Writes every view that this node's tasks can write, and ends there."""
        tees = self._tees(node)
        return _Ended(tees)

    def _tees(self, node: Node) -> tuple[Stage, ...]:
        made = []
        for name, view, renamed in self._roots.get(node, ()):
            # A stateful node tells no two changes that cancel out, but for a join; a column left out may.
            told = {old for _, old in renamed.columns} if renamed is not None else None
            whole = told is None or len(told) == len(self.job.schemas[node])
            output = self._output(name, view, whole and not isinstance(node, Join))
            made.append(output if renamed is None else chained(renamed, output))
        return tuple(made)

    # -- frames ---------------------------------------------------------------------------------------

    def frame(self, node: Node) -> DataFrame:
        """The changes of a node: its columns and `_weight` (events: `_op` and `_lsn`)."""
        made = self._made.get(node)
        if made is None:
            made = self._made[node] = self._make(node)
        return made

    def _make(self, node: Node) -> DataFrame:
        source = self.job.sources.get(node)
        if source is not None:
            return source.frame(self.spark, self._source_schema(node))
        match node:
            case Select(input=below):
                return selected(self.frame(below), node, WEIGHT)
            case Union(inputs=below):
                names = [quoted(name) for name in self.job.schemas[node].names]
                parts = [
                    self.frame(it).selectExpr(
                        *(
                            f"{quoted(old)} AS {new}"
                            for old, new in zip(self.job.schemas[it].names, names, strict=True)
                        ),
                        WEIGHT,
                    )
                    for it in below
                ]
                return reduce(lambda a, b: a.union(b), parts)
            case Scan():
                raise AssertionError(f"no source for {node}")
            case _:
                step = self._step(node)
                tees = self._tees(node)
                schema = weighted(self.job.schemas[node])
                stage = chained(step[1], _Teed(tees)) if tees else step[1]
                made = step[0].mapInArrow(stage, spark_schema(schema))
                if self.job.shards > 1 and self._uses[node] > 1:
                    made = made.persist()
                    self._persisted.append(made)
                return made

    def _source_schema(self, node: Node) -> pa.Schema:
        schema = self.job.schemas[node]
        if isinstance(node, Scan) and node in self._keyed_scans():
            return pa.schema([*schema, pa.field(OP, pa.int8()), pa.field(LSN, pa.int64())])
        return weighted(schema)

    def _keyed_scans(self) -> set[Node]:
        return {node.input for node in self.job.schemas if isinstance(node, Keyed)}

    def _finished(self, begun: tuple[DataFrame, Stage] | DataFrame, stages: Iterable[Stage]) -> DataFrame:
        if isinstance(begun, tuple):
            return begun[0].mapInArrow(chained(begun[1], *stages), spark_schema(TOLD))
        return begun.mapInArrow(chained(*stages), spark_schema(TOLD))

    # -- steps ----------------------------------------------------------------------------------------

    def _step(self, node: Node) -> tuple[DataFrame, Stage]:
        """What goes into a stateful node's tasks, shard by shard, and what they do."""
        assert isinstance(node, Keyed | Join | Aggregate | Distinct)
        below = tuple(self.job.schemas[it] for it in inputs(node))
        partial = isinstance(node, Aggregate) and node.fingerprint in self.job.partial
        operator = operator_of(node, below, partial=partial)
        shards = self.job.shards if any(operator.keys.values()) else 1
        if partial:
            assert isinstance(node, Aggregate)
            frames = partial_frames(self.frame(node.input), node, below[0], operator)
        else:
            frames = {
                name: self._hashed(self.frame(it), operator, name)
                for name, it in zip(operator.inputs, inputs(node), strict=True)
            }
        state = self.job.states.get(node.fingerprint)
        step = Step(
            node,
            below,
            partial,
            shards,
            state or {},
            state is None,
            node.fingerprint in self.job.kept,
            self.job.place,
            in_zone(weighted(self.job.schemas[node]), self._zone),
        )
        if not any(operator.keys.values()) and state is None:
            # The one row of a global aggregate is there also over nothing: the step must run to tell it.
            name = next(iter(frames))
            frames[name] = frames[name].union(self._nothing(operator.inputs[name]))
        return self._sharded(together(frames, operator), shards), step

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


@dataclass(frozen=True)
class _Ended:
    """Hands each batch to all stages, and ends: what they tell is all there is."""

    stages: tuple[Stage, ...]

    def __call__(self, batches: Batches) -> Batches:
        yield from _tee(self.stages, list(batches))


@dataclass(frozen=True)
class _Teed:
    """Hands each batch to all stages, and on."""

    stages: tuple[Stage, ...]

    def __call__(self, batches: Batches) -> Batches:
        held = list(batches)
        for _ in _tee(self.stages, held):
            pass
        yield from held


def _tee(stages: tuple[Stage, ...], held: list[pa.RecordBatch]) -> Batches:
    for stage in stages:
        yield from stage(iter(held))


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
