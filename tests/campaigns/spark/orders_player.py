"""Plays a sequence of steps on Spark, and compares every result with that over a Parquet copy.

Both sides run the same transformations in the same session. Ours keeps its DataFrames, views and
caches for the whole sequence; the other side is made again for each comparison, from files that
hold the rows the world says each read must have.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.campaigns.spark.orders_helpers import Helpers, Watched, merger, newest_of
from tests.campaigns.spark.orders_steps import (
    Act,
    AnyStep,
    ChangeKeys,
    ChangeObjects,
    Checkpoint,
    Delete,
    Derive,
    Expect,
    Flow,
    Load,
    LookUp,
    Merge,
    Operation,
    Persist,
    Publish,
    Purge,
    Recreate,
    Refresh,
    Resume,
    Route,
    Schedule,
    Tables,
    Write,
)
from tests.campaigns.spark.orders_world import (
    MERGED,
    OTHER,
    STORE,
    TARGET,
    Due,
    Message,
    Planned,
    Refused,
    Row,
    World,
    columns_of,
    is_open,
    loads_of,
)

import jetspark.spark

FLOW_S: Final = 240
# Errors with which a read refuses what it cannot return any more.
REFUSALS: Final = ("DataLoss", "StreamRecreated", "PlanningFailed", "MinLastSequence")
_HEADER_MAP: Final = pa.map_(pa.string(), pa.list_(pa.string()))
_TYPES: Final = {
    "seq": ("bigint", pa.int64()),
    "revision": ("bigint", pa.int64()),
    "timestamp_ns": ("bigint", pa.int64()),
    "length": ("bigint", pa.int64()),
    "size": ("int", pa.int32()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "modificationTime": ("timestamp", pa.timestamp("us", "UTC")),
    "data": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "previous_value": ("binary", pa.binary()),
    "previous_revision": ("bigint", pa.int64()),
    "content": ("binary", pa.binary()),
}


class Wrong(Exception):
    """A result that is not what the Parquet copy gives."""

    step = 0
    """The number of the step in its sequence."""


@dataclass
class Counts:
    """What was done."""

    sequences: int = 0
    steps: int = 0
    actions: int = 0
    comparisons: int = 0
    rows: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.sequences} sequences, {self.steps} steps, {self.actions} actions, "
            f"{self.comparisons} comparisons, {self.rows} rows compared, "
            f"{self.refused} reads of removed rows refused, wrong: 0"
        )


@dataclass
class Relation:
    """A loaded read; Spark plans it once, with the first query that needs it."""

    load: Load
    ours: DataFrame
    planned: Planned | None = None
    unsettled: bool = False
    """A query used it, but Spark may have found that it can do without."""
    cached: bool = False


@dataclass
class Frame:
    """A DataFrame of ours, and how to make the same over Parquet."""

    ours: DataFrame
    relations: frozenset[str]
    copy: Callable[[], DataFrame]
    partial: bool = False
    """A query over it may leave out reads whose rows cannot matter."""


@dataclass
class Query:
    """A streaming query between its runs."""

    step: Flow
    load: Load
    after: dict[str, int]
    """For each stream the last sequence that was read."""
    generation: dict[str, int]
    rows: list[Row] = field(default_factory=list)
    runs: int = 0


class Player:
    """One sequence on one session."""

    def __init__(
        self, spark: SparkSession, world: World, folder: Path, counts: Counts, *, connect: bool
    ) -> None:
        self._spark = spark
        self._world = world
        self._folder = folder
        self._counts = counts
        # A Connect server analyses a plan for each action: when a read is planned is not defined.
        self._connect = connect
        self._relations: dict[str, Relation] = {}
        self._frames: dict[str, Frame] = {}
        self._views: set[str] = set()
        self._queries: dict[str, Query] = {}
        self._files = 0
        self._static = False
        """A static side is copied: buckets and stores are read as they are in each micro-batch."""

    def play(self, steps: Sequence[AnyStep]) -> None:
        """Play all steps; raises ``Wrong`` at the first result that differs."""
        self._world.reset()
        try:
            for number, step in enumerate(steps):
                try:
                    self._play(step)
                except Wrong as wrong:
                    wrong.step = number
                    raise
                self._counts.steps += 1
        finally:
            self._clean()

    def _clean(self) -> None:
        for query in self._spark.streams.active:
            query.stop()
        self._spark.catalog.clearCache()
        for view in self._views:
            self._spark.catalog.dropTempView(view)

    def _play(self, step: AnyStep) -> None:
        match step:
            case Publish():
                self._before_change(step.stream)
                self._world.publish(step.stream, step.seed, step.count)
            case Delete():
                self._before_change(step.stream, shrinks=True)
                self._world.delete(step.stream, step.sequences)
            case Purge():
                self._before_change(step.stream, shrinks=True)
                self._world.purge(step.stream, step.below)
            case Recreate():
                self._before_change(step.stream, shrinks=True)
                self._world.recreate(step.stream, step.seed, step.count)
            case ChangeKeys():
                self._before_change(step.bucket)
                self._world.change_keys(step.bucket, step.seed, step.count)
            case ChangeObjects():
                self._before_change(step.store, shrinks=True)
                self._world.change_objects(step.seed, step.count)
            case Load():
                self._load(step)
            case Derive():
                self._derive(step)
            case Act():
                self._act(step)
            case Persist():
                self._persist(step)
            case Checkpoint():
                self._checkpoint(step)
            case Refresh():
                self._refresh(step)
            case Write():
                self._write(step)
            case Flow():
                self._queries.pop(step.flow, None)
                self._flow(step)
            case Resume():
                self._resume(step)
            case LookUp() | Expect() | Merge() | Tables() | Route() | Schedule():
                self._use(step)

    # DataFrames.

    def _load(self, step: Load) -> None:
        options = {name: self._world.resolve(text) for name, text in step.options.items()}
        options |= {"servers": self._world.url, **named(step)}
        schema = ", ".join(f"{name} {_ddl(step, name)}" for name in step.columns)
        if step.sql:
            listed = ", ".join(f"{name} '{text}'" for name, text in options.items())
            columns = f"({schema}) " if schema else ""
            self._spark.sql(
                f"CREATE OR REPLACE TEMPORARY VIEW {step.frame} {columns}"
                f"USING {step.format} OPTIONS ({listed})"
            )
            self._views.add(step.frame)
            ours = self._spark.table(step.frame)
        else:
            reader = self._spark.read.format(step.format).options(**options)
            ours = (reader.schema(schema) if schema else reader).load()
        self._relations[step.frame] = Relation(step, ours)
        self._frames[step.frame] = self._read(step.frame)

    def _read(self, relation: str) -> Frame:
        ours = self._relations[relation].ours
        return Frame(ours, frozenset({relation}), lambda: self._copy_of(relation))

    def _copy_of(self, relation: str) -> DataFrame:
        return self._parquet(self._relations[relation].load, self._due(relation).rows)

    def _parquet(self, load: Load, rows: Sequence[Row]) -> DataFrame:
        """Write rows to a file and return the DataFrame of it."""
        names = columns_of(load)
        kinds = [_arrow(load, name) for name in names]
        arrays = [
            pa.array([row[name] for row in rows], kind)
            for name, kind in zip(names, kinds, strict=True)
        ]
        path = self._new_path()
        pq.write_table(pa.table(dict(zip(names, arrays, strict=True))), path)
        schema = ", ".join(f"{name} {_ddl(load, name)}" for name in names)
        return self._spark.read.schema(schema).parquet(str(path))

    def _derive(self, step: Derive) -> None:
        if any(name not in self._frames for name in step.inputs):
            return
        inputs = [self._frames[name] for name in step.inputs]
        operation = self._resolved(step.operation)
        views: list[str] = []
        if step.style == "view":
            views = [self._view(name) for name in step.inputs]
        ours = transform(self._spark, operation, [one.ours for one in inputs], step.style, views)
        relations = frozenset[str]().union(*(one.relations for one in inputs))
        copies = [one.copy for one in inputs]
        self._frames[step.frame] = Frame(
            ours,
            relations,
            lambda: transform(self._spark, operation, [copy() for copy in copies], step.style),
            partial=len(inputs) > 1 or operation.kind == "never" or any(i.partial for i in inputs),
        )

    def _resolved(self, operation: Operation) -> Operation:
        return Operation(
            kind=operation.kind,
            text=tuple(self._world.resolve(text) for text in operation.text),
            keys=operation.keys,
            count=operation.count,
        )

    def _view(self, name: str) -> str:
        view = f"view_{name}"
        if view not in self._views:
            self._frames[name].ours.createOrReplaceTempView(view)
            self._views.add(view)
        return view

    def _persist(self, step: Persist) -> None:
        frame = self._frames.get(step.frame)
        if frame is None:
            return
        if step.on:
            for name in frame.relations:
                self._relations[name].cached = True
            # Building the plan of the cache may ask the reads for their partitions.
            if self._expect(frame) is None:
                frame.ours.persist()
        else:
            frame.ours.unpersist(blocking=True)

    def _checkpoint(self, step: Checkpoint) -> None:
        origin = self._frames.get(step.origin)
        if origin is None:
            return
        refusal = self._expect(origin)
        if refusal is not None:
            return
        path = self._new_path()
        copied = origin.copy()
        copied.write.parquet(str(path))
        schema = copied.schema
        ours = origin.ours.checkpoint() if step.reliable else origin.ours.localCheckpoint()
        self._counts.actions += 1
        self._frames[step.frame] = Frame(
            ours, frozenset(), lambda: self._spark.read.schema(schema).parquet(str(path))
        )

    def _refresh(self, step: Refresh) -> None:
        origin = self._frames.get(step.origin)
        refresh = getattr(jetspark.spark, "refresh", None)
        if origin is None or refresh is None or self._connect:
            return
        if not origin.relations or any(self._relations[n].cached for n in origin.relations):
            return
        ours = refresh(origin.ours)
        # What else was made of these reads keeps the plan it was collected with, or not.
        self._frames = {
            name: frame
            for name, frame in self._frames.items()
            if not frame.relations & origin.relations
        }
        for name in origin.relations:
            self._relations[name].planned = None
            self._relations[name].unsettled = False
        self._frames[step.frame] = Frame(
            ours, origin.relations, origin.copy, partial=origin.partial
        )

    # Comparisons.

    def _before_change(self, source: str, *, shrinks: bool = False) -> None:
        """Make sure which reads of a source have been planned, before it changes."""
        for name, relation in list(self._relations.items()):
            if source not in relation.load.source.split(","):
                continue
            if self._connect or (relation.cached and (shrinks or is_open(relation.load))):
                # What a cache holds of rows that have changed is Spark's business, not ours.
                self._forget(name)
            elif relation.unsettled:
                self._compare(self._read(name), ("count",))
                relation.unsettled = False

    def _forget(self, relation: str) -> None:
        del self._relations[relation]
        self._frames = {
            name: frame for name, frame in self._frames.items() if relation not in frame.relations
        }

    def _due(self, relation: str) -> Due:
        known = self._relations[relation]
        if known.planned is None:
            known.planned = self._world.plan(known.load)
        known.unsettled = True
        planned = known.planned
        if self._static and known.load.format != "jetstream":
            planned = self._world.plan(known.load)
        return self._world.due(known.load, planned)

    def _expect(self, frame: Frame) -> str | None:
        """Return None when the rows are due; else whether a refusal "may" or "must" come."""
        expected: str | None = None
        for name in sorted(frame.relations):
            try:
                due = self._due(name)
            except Refused:
                return "may" if frame.partial else "must"
            if due.must_refuse and not frame.partial:
                expected = "must"
            elif due.may_refuse or due.must_refuse:
                expected = expected or ("loss" if due.must_refuse else "may")
        return expected

    def _act(self, step: Act) -> None:
        frames = [self._frames[name] for name in step.frames if name in self._frames]
        if len(frames) < len(step.frames):
            return
        if len(frames) == 1:
            self._compare(frames[0], step.actions)
            return
        pairs = list(zip(frames, step.actions, strict=True))
        if any(self._expect(frame) for frame in frames):
            for frame, action in pairs:
                self._compare(frame, (action,))
            return
        dues = [self._run(frame.copy(), _for_copy(action)) for frame, action in pairs]
        found: list[Any] = [None] * len(pairs)

        def run(number: int) -> None:
            frame, action = pairs[number]
            try:
                found[number] = self._run(frame.ours, action)
            except Exception as error:  # noqa: BLE001 - compared below
                found[number] = error

        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(pairs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (frame, action), got, due in zip(pairs, found, dues, strict=True):
            if isinstance(got, Exception):
                raise Wrong(f"{action} failed: {_brief(got)}\n{self._explain(frame)}")
            self._judge(frame, action, got, due)

    def _compare(self, frame: Frame, actions: Sequence[str]) -> None:
        for action in actions:
            expected = self._expect(frame)
            if expected in {"must", "loss"} or self._world_refuses(frame):
                self._refused(frame, action, must=expected == "must")
                continue
            due = self._run(frame.copy(), _for_copy(action))
            try:
                got = self._run(frame.ours, action)
            except Exception as error:
                if expected and any(word in str(error) for word in REFUSALS):
                    self._counts.refused += 1
                    continue
                raise Wrong(f"{action} failed: {_brief(error)}\n{self._explain(frame)}") from error
            self._judge(frame, action, got, due)

    def _world_refuses(self, frame: Frame) -> bool:
        for name in frame.relations:
            try:
                self._due(name)
            except Refused:
                return True
        return False

    def _refused(self, frame: Frame, action: str, *, must: bool) -> None:
        """Rows were deleted: an error must come, unless the action may do without them."""
        must = must and action in {"collect", "count", "local", "arrow", "parquet"}
        try:
            got = self._run(frame.ours, action)
        except Exception as error:
            if not any(word in str(error) for word in REFUSALS):
                raise Wrong(f"{action} failed: {_brief(error)}\n{self._explain(frame)}") from error
            self._counts.refused += 1
            return
        if must:
            raise Wrong(
                f"{action} returned {_shown(got)} although rows it was planned for are gone\n"
                f"{self._explain(frame)}"
            )

    def _run(self, frame: DataFrame, action: str) -> Any:
        self._counts.actions += 1
        return run_action(frame, action, self._new_path)

    def _judge(self, frame: Frame, action: str, got: Any, due: Any) -> None:
        self._counts.comparisons += 1
        self._counts.rows += sum(due.values()) if isinstance(due, Counter) else 1
        if action.startswith("take"):
            # Any of the rows will do, but not others, and not fewer.
            wanted = min(int(action.partition(":")[2]), sum(due.values()))
            if sum(got.values()) == wanted and not got - due:
                return
        elif got == due:
            return
        text = f"{action}: {_difference(got, due)}"
        raise Wrong(f"{text}\n{self._explain(frame)}")

    def _explain(self, frame: Frame) -> str:
        return "\n".join(
            f"  read {name}: {self._relations[name].load}" for name in sorted(frame.relations)
        )

    # Writes.

    def _write(self, step: Write) -> None:
        frame = self._frames.get(step.frame)
        if frame is None:
            return
        self._before_change(step.target, shrinks=step.format == "nats_object")
        frame = self._frames.get(step.frame)
        if frame is None or self._expect(frame) or self._world_refuses(frame):
            return
        due = _counted(project(frame.copy(), step).collect())
        named = "stream" if step.format == "jetstream" else "bucket"
        options = {"servers": self._world.url, named: step.target, **step.options}
        writer = project(frame.ours, step).write.format(step.format).options(**options)
        try:
            writer.mode("append").save()
        except Exception as error:
            raise Wrong(f"write failed: {_brief(error)}\n{self._explain(frame)}") from error
        self._counts.actions += 1
        if step.format == "nats_object":
            before = dict(self._world.objects)
            self._world.absorb_objects()
            got = Counter(
                (path, self._world.objects[path].content)
                for path, _content in due
                if path in self._world.objects
            )
            others = {
                path: facts
                for path, facts in before.items()
                if self._world.objects.get(path) != facts and path not in {one[0] for one in due}
            }
            if others:
                raise Wrong(f"write changed other objects: {sorted(others)}")
        else:
            got = Counter(_written(step, message) for message in self._world.absorb(step.target))
        self._judge(frame, f"write to {step.format}", got, Counter(_as_stored(due)))

    # Functions of jetspark.spark.

    def _use(self, step: AnyStep) -> None:
        """Call a function and compare its results with a model, or with the Parquet copy."""
        helpers = Helpers(self._spark, self._world, self._folder)
        match step:
            case Merge():
                self._before_change(step.bucket)
                results = helpers.merge(step)
            case Tables():
                results = helpers.tables(step)
            case Schedule():
                results = helpers.schedule(step)
            case LookUp() | Expect() | Route():
                if isinstance(step, Route):
                    for target in (TARGET, OTHER):
                        self._before_change(target)
                frame = self._frames.get(step.frame)
                if frame is None or self._expect(frame) or self._world_refuses(frame):
                    return
                sources = {self._relations[name].load.source for name in frame.relations}
                if isinstance(step, Route) and sources & {TARGET, OTHER}:
                    return
                try:
                    results = helpers.over_frame(step, frame.ours, frame.copy())
                except Wrong:
                    raise
                except Exception as error:
                    raise Wrong(
                        f"{step} failed: {_brief(error)}\n{self._explain(frame)}"
                    ) from error
            case _:
                return
        for what, got, due in results:
            self._counts.actions += 1
            self._counts.comparisons += 1
            self._counts.rows += sum(due.values()) if isinstance(due, Counter) else 1
            if got != due:
                raise Wrong(f"{what}: {_difference(got, due)}\n  {step}")

    # Streaming queries.

    def _flow(self, step: Flow) -> None:
        if step.static and step.static not in self._frames:
            return
        self._before_flow(step)
        load = Load(frame=step.flow, format=step.format, source=step.source, options=step.options)
        parts = parts_of(load)
        query = Query(
            step,
            load,
            {part.source: self._world.flow_start(part) for part in parts},
            {part.source: self._world.logs[part.source].generation for part in parts},
        )
        self._queries[step.flow] = query
        self._run_query(query, step.options)

    def _resume(self, step: Resume) -> None:
        query = self._queries.get(step.flow)
        if query is None:
            return
        self._before_flow(query.step)
        self._run_query(query, query.step.options | step.options)

    def _before_flow(self, step: Flow) -> None:
        if step.sink in {"jetstream", "routed"}:
            for target in (TARGET, OTHER):
                self._before_change(target)

    def _run_query(self, query: Query, options: Mapping[str, str]) -> None:
        step, world = query.step, self._world
        static = self._frames.get(step.static, None)
        if static is not None and not self._ready(static):
            del self._queries[step.flow]
            return
        # What is missing between the last run and the oldest message that is left.
        parts = parts_of(query.load)
        may = any(self._may_refuse(query, part.source) for part in parts)
        resolved = {name: world.resolve(text) for name, text in options.items()}
        rows: list[Row] = []
        last: dict[str, int] = {}
        for part in parts:
            found, last[part.source] = world.flow_rows(part, query.after[part.source])
            rows += [world.row(part, message) for message in found]
        frame = self._stream(query, resolved, static.ours if static else None)
        try:
            self._start(query, frame)
        except Exception as error:
            if may and any(word in str(error) for word in REFUSALS):
                self._counts.refused += 1
                del self._queries[step.flow]
                return
            raise Wrong(f"streaming query failed: {_brief(error)}\n  {step}") from error
        self._counts.actions += 1
        if may:
            # The documented exceptions (earliest, no loss that matters) are other tests' subject.
            del self._queries[step.flow]
            return
        query.rows += rows
        query.after = last
        query.runs += 1
        self._check_consumer(query)
        copied = self._parquet(query.load, query.rows)
        beside = self._copy_static(static) if static else None
        truth = self._finished(query, copied, beside, batch=True)
        got, due = self._result(query, frame), _counted(truth.collect())
        if step.sink in {"jetstream", "routed"}:
            due = Counter((*names, _bytes(data)) for *names, data in due.elements())
        elif step.sink == "merge":
            due = newest_of(step.flow, due)
        self._counts.comparisons += 1
        self._counts.rows += sum(due.values())
        if got != due:
            raise Wrong(
                f"run {query.runs} of a streaming query: {_difference(got, due)}\n  {step}"
            )

    def _may_refuse(self, query: Query, source: str) -> bool:
        """Whether unread messages are missing at the head of a stream, or all of them."""
        log, after = self._world.logs[source], query.after[source]
        if log.generation != query.generation[source]:
            return True
        unread = [m for m in log.messages.values() if m.seq > after]
        lost = any(m.seq < log.first and m.seq not in log.stored for m in unread)
        return lost or log.first > after + 1

    def _check_consumer(self, query: Query) -> None:
        """Compare the consumer of ``progressConsumer`` with what was read."""
        name = query.step.options.get("progressConsumer")
        if name is None:
            return
        for part in parts_of(query.load):
            at, pending = self._world.shown(part.source, name)
            left, _ = self._world.flow_rows(part, at)
            self._counts.comparisons += 1
            if at > query.after[part.source] or pending != len(left):
                raise Wrong(
                    f"consumer {name} of {part.source} shows {at} and {pending} left, but "
                    f"{query.after[part.source]} is committed and {len(left)} are left"
                )

    def _ready(self, static: Frame) -> bool:
        """Whether the rows of a static side are defined: none was deleted, none is cached."""
        self._static = True
        try:
            if self._expect(static) or self._world_refuses(static):
                return False
        finally:
            self._static = False
        return not any(self._relations[name].cached for name in static.relations)

    def _copy_static(self, static: Frame) -> DataFrame:
        self._static = True
        try:
            return static.copy()
        finally:
            self._static = False

    def _stream(
        self, query: Query, options: Mapping[str, str], static: DataFrame | None
    ) -> DataFrame:
        step = query.step
        given = {"servers": self._world.url, **named(step), **options}
        frame = self._spark.readStream.format(step.format).options(**given).load()
        return self._finished(query, frame, static, batch=False)

    def _finished(
        self, query: Query, frame: DataFrame, static: DataFrame | None, *, batch: bool
    ) -> DataFrame:
        """Put the operations and the ending of a query on a DataFrame."""
        step, spark = query.step, self._spark
        for operation in step.operations:
            given = [frame, frame if static is None else static]
            binary = operation.kind in {"join", "union"}
            frame = transform(
                spark, self._resolved(operation), given if binary else given[:1], "api"
            )
        match step.ending:
            case "distinct":
                return frame.select(*step.keys).dropDuplicates()
            case "count":
                return frame.groupBy(*step.keys).agg(f.count("*").alias("n"))
            case "window":
                return _windows(frame, batch=batch)
            case _:
                return frame

    def _start(self, query: Query, frame: DataFrame) -> None:
        """Run a query to the end of what is available."""
        step = query.step
        if not step.watched:
            self._run_to_end(query, frame)
            return
        watched = Watched(self._spark, self._world, step.flow)
        try:
            running = self._run_to_end(query, frame)
        except BaseException:
            watched.close()
            raise
        problem = watched.problem(running)
        self._counts.comparisons += 1
        if problem:
            raise Wrong(f"{problem}: {step}")

    def _run_to_end(self, query: Query, frame: DataFrame) -> Any:
        step = query.step
        base = self._folder / f"{step.flow}-{id(query)}"
        writer = frame.writeStream.option("checkpointLocation", str(base / "checkpoint"))
        complete = step.ending == "count"
        writer = writer.outputMode("complete" if complete else "append")
        out = str(base / "out")
        match step.sink:
            case "memory":
                writer = writer.format("memory").queryName(f"{step.flow}_{id(query)}")
            case "foreach":
                writer = writer.foreachBatch(batch_writer(out, complete=complete))
            case "jetstream":
                writer = writer.format("jetstream").option("servers", self._world.url)
                writer = writer.option("stream", TARGET)
            case "routed":
                writer = writer.format("jetstream").option("servers", self._world.url)
                writer = writer.option("streams", f"{TARGET},{OTHER}")
            case "once" if self._connect:
                # Without access to files: as a function of the user's own.
                writer = writer.foreachBatch(batch_writer(out, complete=False))
            case "once":
                table = jetspark.spark.file_table(out)
                once = jetspark.spark.exactly_once(str(base), table, servers=self._world.url)
                writer = writer.foreachBatch(once)
            case "merge":
                writer = writer.foreachBatch(merger(self._world.url, step.flow))
            case _:
                writer = writer.format("parquet").option("path", out)
        running = writer.trigger(availableNow=True).start()
        ended = running.awaitTermination(FLOW_S)
        if not ended:
            running.stop()
            raise Wrong(f"streaming query did not end in {FLOW_S} s: {step}")
        return running

    def _result(self, query: Query, frame: DataFrame) -> "Counter[Any]":
        step, spark = query.step, self._spark
        base = self._folder / f"{step.flow}-{id(query)}"
        if step.sink == "memory":
            return _counted(spark.table(f"{step.flow}_{id(query)}").collect())
        if step.sink in {"jetstream", "routed"}:
            found: Counter[Any] = Counter()
            for target in (TARGET, OTHER) if step.sink == "routed" else (TARGET,):
                self._world.absorb(target)
                for one in self._world.logs[target].messages.values():
                    if one.subject.startswith(f"{target}.{step.flow}."):
                        stream = (target,) if step.sink == "routed" else ()
                        found[*stream, one.subject, one.data] += 1
            return found
        if step.sink == "merge":
            prefix = f"{step.flow}."
            values = self._world.contents(MERGED)
            return Counter({pair: 1 for pair in values.items() if pair[0].startswith(prefix)})
        if not list(base.glob("out/**/*.parquet")):
            return Counter()
        reader = spark.read.schema(frame.schema)
        if step.sink in {"foreach", "once"}:
            # Not as one table, whose folders would become a column.
            found_folders = sorted((base / "out").iterdir())
            folders = [str(path) for path in found_folders if not path.name.startswith(("_", "."))]
            return _counted(reader.parquet(*folders).collect())
        return _counted(reader.parquet(str(base / "out")).collect())

    def _new_path(self) -> Path:
        self._files += 1
        return self._folder / f"file{self._files}.parquet"


def named(step: Load | Flow) -> dict[str, str]:
    """Return the option that names what is read."""
    if step.format != "jetstream":
        return {"bucket": step.source}
    if step.pattern:
        return {"streamPattern": step.source.replace(",", "|")}
    return {"streams" if "," in step.source else "stream": step.source}


def parts_of(load: Load) -> list[Load]:
    """Return the read of each stream of a streaming query."""
    return loads_of(load) if load.format == "jetstream" else [load]


def batch_writer(out: str, *, complete: bool) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that uses its DataFrame several times."""

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        before = batch.count()
        some = batch.limit(1).count()
        folder = "all" if complete else f"batch{number}"
        batch.write.mode("overwrite").parquet(f"{out}/{folder}")
        after = batch.count()
        batch.unpersist()
        again = batch.count()
        if not before == after == again or some != min(1, before):
            raise AssertionError(f"one batch counted {before}, {after}, {again}, {some}")

    return write


def transform(
    spark: SparkSession,
    operation: Operation,
    frames: Sequence[DataFrame],
    style: str,
    views: Sequence[str] = (),
) -> DataFrame:
    """Apply an operation by the DataFrame API, or by SQL over DataFrames or views."""
    if style == "api":
        made = _by_api(operation, frames)
        if made is not None:
            return made
    text = _as_sql(operation)
    if views:
        return spark.sql(text.format(*views))
    names = ("left_side", "right_side")[: len(frames)]
    asked = text.format(*("{" + name + "}" for name in names))
    given: dict[str, Any] = dict(zip(names, frames, strict=True))
    return spark.sql(asked, **given)


def _by_api(operation: Operation, frames: Sequence[DataFrame]) -> DataFrame | None:
    first, text, keys = frames[0], operation.text, operation.keys
    match operation.kind:
        case "where" | "never":
            return first.where(text[0])
        case "select":
            return first.selectExpr(*text)
        case "group":
            return first.groupBy(*keys).agg(*(f.expr(one) for one in text))
        case "distinct":
            return first.distinct()
        case "top":
            return first.orderBy(*keys).limit(operation.count)
        case "repartition":
            return first.repartition(operation.count, *keys)
        case "coalesce":
            return first.coalesce(operation.count)
        case "python":
            return first.mapInArrow(_same_batches, first.schema)
        case "union" | "intersect" | "except":
            left, right = first.select(*text), frames[1].selectExpr(*keys)
            if operation.kind == "union":
                return left.unionByName(right)
            if operation.kind == "intersect":
                return left.intersectAll(right)
            return left.exceptAll(right)
        case "join":
            how, condition, *outputs = text
            joined = first.alias("l").join(frames[1].alias("r"), f.expr(condition), how)
            return joined.selectExpr(*outputs)
        case _:
            return None


_JOINS: Final = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "full": "FULL JOIN",
    "left_semi": "LEFT SEMI JOIN",
    "left_anti": "LEFT ANTI JOIN",
}


def _as_sql(operation: Operation) -> str:
    text, keys = operation.text, operation.keys
    match operation.kind:
        case "where" | "never":
            return f"SELECT * FROM {{0}} WHERE {text[0]}"
        case "select":
            return f"SELECT {', '.join(text)} FROM {{0}}"
        case "group":
            by = f" GROUP BY {', '.join(keys)}" if keys else ""
            return f"SELECT {', '.join((*keys, *text))} FROM {{0}}{by}"
        case "distinct":
            return "SELECT DISTINCT * FROM {0}"
        case "top":
            return f"SELECT * FROM {{0}} ORDER BY {', '.join(keys)} LIMIT {operation.count}"
        case "repartition":
            return f"SELECT /*+ REPARTITION({operation.count}) */ * FROM {{0}}"
        case "coalesce":
            return f"SELECT /*+ COALESCE({operation.count}) */ * FROM {{0}}"
        case "union" | "intersect" | "except":
            word = operation.kind.upper()
            left, right = ", ".join(text), ", ".join(keys)
            return f"SELECT {left} FROM {{0}} {word} ALL SELECT {right} FROM {{1}}"
        case "join":
            how, condition, *outputs = text
            return f"SELECT {', '.join(outputs)} FROM {{0}} l {_JOINS[how]} {{1}} r ON {condition}"
        case "query":
            return text[0]
        case _:
            return "SELECT * FROM {0}"


def _same_batches(batches: Any) -> Any:
    yield from batches


def run_action(frame: DataFrame, action: str, new_path: Callable[[], Path]) -> Any:
    """Run an action and return what can be compared."""
    name, _, number = action.partition(":")
    match name:
        case "count":
            return frame.count()
        case "empty":
            return frame.isEmpty()
        case "local":
            return _counted(frame.toLocalIterator())
        case "arrow":
            return _from_arrow(frame.toArrow())
        case "take":
            return _counted(frame.take(int(number)))
        case "parquet":
            path = str(new_path())
            frame.write.parquet(path)
            return _counted(frame.sparkSession.read.schema(frame.schema).parquet(path).collect())
        case "explain":
            frame._explain_string() if hasattr(frame, "_explain_string") else None  # type: ignore[operator]
            return None
        case _:
            return _counted(frame.collect())


def _for_copy(action: str) -> str:
    return "collect" if action.startswith("take") else action


def project(frame: DataFrame, step: Write) -> DataFrame:
    """What a write stores: of a bucket or a store one row for each name."""
    chosen = frame.selectExpr(*step.columns)
    if step.format == "jetstream":
        return chosen
    name, content = ("key", "value") if step.format == "nats_kv" else ("path", "content")
    return chosen.groupBy(name).agg(f.max(content).alias(content))


def _windows(frame: DataFrame, *, batch: bool) -> DataFrame:
    """Count in windows of ten; what has left the watermark's five is final."""
    timed = frame.select(f.timestamp_seconds(f.col("seq")).alias("event"))
    if not batch:
        timed = timed.withWatermark("event", "5 seconds")
    counted = timed.groupBy(f.window("event", "10 seconds")).agg(f.count("*").alias("n"))
    final = counted.select(f.col("window.end").alias("ended"), "n")
    if not batch:
        return final
    newest = timed.agg((f.max("event") - f.expr("INTERVAL 5 SECONDS")).alias("mark"))
    return final.join(newest, f.col("ended") <= f.col("mark")).select("ended", "n")


def _as_stored(rows: "Counter[Any]") -> "Counter[Any]":
    made: Counter[Any] = Counter()
    for (name, content), count in rows.items():
        made[str(name), _bytes(content)] += count
    return made


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value or b"")


def _written(step: Write, message: Message) -> tuple[str, bytes]:
    subject = message.subject
    if step.format == "nats_kv":
        subject = subject.split(".", 2)[2]
    return subject, message.data


def _arrow(load: Load, name: str) -> pa.DataType:
    if name == "headers":
        return pa.binary() if load.options.get("includeHeaders") == "raw" else _HEADER_MAP
    return _TYPES[name][1] if name in _TYPES else pa.string()


def _ddl(load: Load, name: str) -> str:
    if name == "headers":
        raw = load.options.get("includeHeaders") == "raw"
        return "binary" if raw else "map<string,array<string>>"
    return _TYPES[name][0] if name in _TYPES else "string"


def _counted(rows: Any) -> "Counter[Any]":
    return Counter(_plain(tuple(row)) for row in rows)


def _from_arrow(table: pa.Table) -> "Counter[Any]":
    columns = []
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_map(column.type):
            values = [None if value is None else dict(value) for value in values]
        columns.append(values)
    return Counter(_plain(row) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """A value that can be counted, whichever way it came."""
    if isinstance(value, dict):
        return tuple(sorted((key, _plain(one)) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_plain(one) for one in value)
    return bytes(value) if isinstance(value, bytearray) else value


def _difference(got: Any, due: Any) -> str:
    if isinstance(got, Counter) and isinstance(due, Counter):
        missing, extra = due - got, got - due
        return (
            f"{sum(got.values())} rows instead of {sum(due.values())}: "
            f"{sum(missing.values())} missing {_shown(missing)}, "
            f"{sum(extra.values())} too many {_shown(extra)}"
        )
    return f"{_shown(got)} instead of {_shown(due)}"


def _shown(value: Any) -> str:
    if isinstance(value, Counter):
        return str(list(value.items())[:3])
    return str(value)[:300]


def _brief(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: " + "\n    ".join(lines[:3] + lines[-6:])[:1500]


__all__ = ["STORE", "Counts", "Player", "Wrong"]
