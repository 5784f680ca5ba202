"""Runs a project as continuous streaming queries: starts, monitors, restarts and stops them.

Flows use the checkpoints and tables of Spark's own runner, so that both may run a project
alternately, but never at the same time. A flow that fails is restarted from its checkpoint, which
replays the interrupted micro-batch; the sinks store it once (docs/spark.md).
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException, PySparkException

from jetspark.spark.pipelines.errors import is_refusal, mistakes_named, one_line
from jetspark.spark.pipelines.file_tables import full_name, newest_number
from jetspark.spark.pipelines.graph import FlowPlan, Graph, Kind, Target, read_graph
from jetspark.spark.pipelines.progress import (
    Event,
    FlowFailed,
    FlowStarted,
    RunStopped,
    ViewFailed,
    ViewRefreshed,
    progress_of,
)
from jetspark.spark.pipelines.project import PipelineRefused, Project
from jetspark.spark.pipelines.selection import EVERYTHING, Selection
from jetspark.spark.pipelines.tables import ensure_table, refresh, remove_table, use_database
from jetspark.spark.starting import wait_for_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RESTART_FIRST_S: Final = 1.0
RESTART_LONGEST_S: Final = 60.0


@dataclass(frozen=True)
class ContinuousOptions:
    """The options of a continuous run."""

    trigger: str = "0 seconds"
    """The trigger interval of micro-batches; by default, the next starts when one has ended."""
    refresh_seconds: float = 30.0
    """The interval at which materialized views are computed."""
    restarts: int = 5
    """How often a failing flow is restarted without progress in between."""
    keep_going: bool = False
    """Whether the other flows continue when one has failed too often."""
    selection: Selection = EVERYTHING
    """The tables, views and sinks of this run."""


@dataclass
class _Running:
    """A flow that runs, or will be restarted."""

    plan: FlowPlan
    target: Target
    query: "StreamingQuery | None" = None
    seen: str = ""
    """The time of the last report that was passed on."""
    failures: int = 0
    restart_at: float = 0.0
    given_up: str = ""
    """Why it is not restarted any more; empty while it runs, or will be restarted."""

    def started(self, query: "StreamingQuery") -> None:
        """Note its query."""
        self.query = query

    def unseen(self, query: "StreamingQuery") -> Iterator[dict[str, Any]]:
        """Return the reports of its query that were not passed on; rows in one are progress."""
        for report in _reports(query, self.seen):
            self.seen = str(report["timestamp"])
            if report.get("numInputRows"):
                self.failures = 0
            yield report

    def ended(self) -> None:
        """Note that its query is no longer active."""
        self.query = None

    def failed(self, error: str, *, restarts: int, hopeless: bool) -> float | None:
        """Note a failure; return after how many seconds it is restarted, None if it is not."""
        self.failures += 1
        if hopeless or self.failures > restarts:
            how = f"after {self.failures} failures without progress in between"
            if hopeless:
                how = "before it read a row"
            self.given_up = f"flow {self.plan.name!r} was stopped {how}: {error}"
            return None
        wait = min(RESTART_FIRST_S * 2.0 ** (self.failures - 1), RESTART_LONGEST_S)
        self.restart_at = time.monotonic() + wait
        return wait


class ContinuousRun:
    """The flows of one project in one Spark session."""

    def __init__(
        self,
        spark: "SparkSession",
        project: Project,
        options: ContinuousOptions,
        report: Callable[[Event], None],
    ) -> None:
        self._spark = spark
        self._project = project
        self._options = options
        self._report = report
        self._flows: list[_Running] = []
        self._views: list[tuple[Target, FlowPlan]] = []
        """Materialized views, and the temporary views that they may read."""
        self._refresher = _Refresher(spark)
        self._refresh_at = 0.0

    @property
    def given_up(self) -> str:
        """The flows that failed too often, and why. Empty if none did."""
        return "; ".join(one.given_up for one in self._flows if one.given_up)

    @property
    def is_over(self) -> bool:
        """Whether the run should end: a flow was given up, with ``keep_going`` all of them."""
        given_up = [bool(one.given_up) for one in self._flows]
        return all(given_up) if self._options.keep_going else any(given_up)

    def start(self) -> None:
        """Load the project, create its tables, start every flow; raises its errors."""
        use_database(self._spark, self._project)
        selection = self._options.selection
        with mistakes_named(self._project.root):
            graph = read_graph(self._spark, self._project, selection.continues)
            selection.check(graph.targets)
            for flow in graph.flows:
                if selection.empties(flow.target):
                    _empty(self._spark, self._project, graph.targets[flow.target], flow)
            _make_targets(self._spark, self._project, graph)
        for flow in graph.flows:
            target = graph.targets[flow.target]
            if target.kind is not Kind.TEMPORARY and not selection.includes(target.name):
                continue
            if target.kind in {Kind.VIEW, Kind.TEMPORARY}:
                self._views.append((target, flow))
            else:
                self._flows.append(_Running(flow, target))
        if not self._flows:
            raise PipelineRefused(
                "no flow writes to a streaming table or a sink"
                f"{' of --refresh and --full-refresh' if selection else ''}: nothing to run"
            )
        for running in self._flows:
            self._start(running)
            if running.query is not None:
                wait_for_source(running.query)

    def step(self) -> None:
        """Pass on events, restart failed flows, compute views when they are due."""
        for running in self._flows:
            self._follow(running)
        if self._views and self._refresher.idle and time.monotonic() >= self._refresh_at:
            self._refresh_at = time.monotonic() + self._options.refresh_seconds
            self._refresher.start(self._views)
        for event in self._refresher.news():
            self._report(event)

    def stop(self, *, patience_s: float) -> None:
        """Stop every flow, after its micro-batch if that ends within ``patience_s``."""
        deadline = time.monotonic() + patience_s
        begun = {id(one): _last_epoch(one.query) for one in self._flows}
        for running in self._flows:
            query = running.query
            if query is None:
                continue
            while query.isActive and time.monotonic() < deadline:
                if not query.status["isTriggerActive"] or (
                    _last_epoch(query) != begun[id(running)]
                ):
                    break
                time.sleep(0.02)
            self._follow(running, stopping=True)
            try:
                query.stop()
            except PySparkException as error:
                self._report(FlowFailed(flow=running.plan.name, error=one_line(error)))
        # A view whose computation is interrupted is empty until the next run.
        self._refresher.wait(max(0.0, deadline - time.monotonic()))
        for event in self._refresher.news():
            self._report(event)
        self._report(RunStopped(flows=len(self._flows)))

    def _start(self, running: _Running) -> None:
        plan, target = running.plan, running.target
        # A query keeps the settings of its session at the start.
        before = {name: self._spark.conf.get(name, None) for name in plan.settings}
        for name, value in plan.settings.items():
            self._spark.conf.set(name, value)
        try:
            writer = (
                _streaming(plan)
                .writeStream.queryName(plan.name)
                .outputMode("append")
                .option("checkpointLocation", checkpoint_of(self._project, target, plan.name))
                .trigger(processingTime=self._options.trigger)
            )
            if target.kind is Kind.SINK:
                query = writer.format(target.format).options(**target.options).start()
            else:
                query = writer.format(target.format).toTable(target.name)
        finally:
            for name, setting in before.items():
                if setting is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, setting)
        running.started(query)
        self._report(FlowStarted(flow=plan.name, target=target.name, query=str(query.id)))

    def _follow(self, running: _Running, *, stopping: bool = False) -> None:
        query = running.query
        if query is None:
            if not (stopping or running.given_up) and time.monotonic() >= running.restart_at:
                self._restart(running)
            return
        for report in running.unseen(query):
            self._report(progress_of(running.plan.name, report))
        if not query.isActive and not stopping:
            error = query.exception()
            running.ended()
            text = one_line(error) if error is not None else "it was stopped"
            self._failed(running, text, hopeless=not running.seen and is_refusal(error))

    def _restart(self, running: _Running) -> None:
        try:
            with mistakes_named(self._project.root):
                self._start(running)
        except (PySparkException, PipelineRefused) as error:
            self._failed(running, one_line(error), hopeless=False)

    def _failed(self, running: _Running, error: str, *, hopeless: bool) -> None:
        """Restart it later, unless it was refused before it made progress."""
        wait = running.failed(error, restarts=self._options.restarts, hopeless=hopeless)
        self._report(FlowFailed(flow=running.plan.name, error=error, restart_seconds=wait))


class _Refresher:
    """Computes views in a thread, so that flows are monitored and signals handled meanwhile."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._thread: threading.Thread | None = None
        self._news: queue.SimpleQueue[Event] = queue.SimpleQueue()

    @property
    def idle(self) -> bool:
        """Whether no computation is running."""
        return self._thread is None or not self._thread.is_alive()

    def start(self, views: list[tuple[Target, FlowPlan]]) -> None:
        """Compute ``views``, one after the other."""
        # A daemon: a run that ends does not wait forever.
        self._thread = threading.Thread(target=self._refresh, args=(list(views),), daemon=True)
        self._thread.start()

    def wait(self, patience_s: float) -> None:
        """Wait until no computation is running, at most this long."""
        if self._thread is not None:
            self._thread.join(patience_s)

    def news(self) -> Iterator[Event]:
        """Yield the events since the last call."""
        while not self._news.empty():
            yield self._news.get()

    def _refresh(self, views: list[tuple[Target, FlowPlan]]) -> None:
        for target, plan in views:
            begun = time.monotonic()
            try:
                rows = plan.query()
                if target.kind is Kind.TEMPORARY:
                    # It caches the files that it reads, which change after a refresh.
                    if not rows.isStreaming:
                        rows.createOrReplaceTempView(target.name)
                    continue
                refresh(self._spark, target, rows)
            except Exception as error:  # noqa: BLE001 - reported and retried; also when stopped
                self._news.put(ViewFailed(view=target.name, error=one_line(error)))
                continue
            self._news.put(ViewRefreshed(view=target.name, seconds=time.monotonic() - begun))


def checkpoint_of(project: Project, target: Target, flow: str) -> str:
    """Return the newest checkpoint of a flow, where Spark's own runner keeps it."""
    place = _checkpoints_of(project, target, flow)
    # A full refresh creates another one, with the next number.
    return (place / str(newest_number(place) or 0)).as_uri()


def _checkpoints_of(project: Project, target: Target, flow: str) -> Path:
    if target.kind is Kind.SINK:
        return project.checkpoints / target.name / flow
    return project.checkpoints.joinpath(*full_name(project, target.name), flow.rpartition(".")[2])


def _empty(spark: "SparkSession", project: Project, target: Target, flow: FlowPlan) -> None:
    """Let a flow start over: a new checkpoint, an empty table. The rows of a sink stay."""
    if target.kind in {Kind.VIEW, Kind.TEMPORARY}:
        return  # computed as a whole anyway
    place = _checkpoints_of(project, target, flow.name)
    newest = newest_number(place)
    if newest is not None:
        # Before the table: with the old checkpoint, an empty table would stay without the rows
        # that the checkpoint has; with the new one, a table with rows is refused.
        (place / str(newest + 1)).mkdir()
    if target.kind is Kind.TABLE:
        remove_table(spark, project, target)


def _make_targets(spark: "SparkSession", project: Project, graph: Graph) -> None:
    """Create views and tables, first those that others read."""
    waiting = [flow for flow in graph.flows if graph.targets[flow.target].kind is not Kind.SINK]
    while waiting:
        later: list[FlowPlan] = []
        reasons: list[AnalysisException] = []
        for flow in waiting:
            try:
                _make_target(spark, project, graph.targets[flow.target], flow)
            except AnalysisException as error:
                # It may read targets created after it; the next round will tell.
                later.append(flow)
                reasons.append(error)
        if len(later) == len(waiting):
            problems = "; ".join(
                f"flow {flow.name!r}: {one_line(reason)}"
                for flow, reason in zip(later, reasons, strict=True)
            )
            raise PipelineRefused(problems) from reasons[0]
        waiting = later


def _make_target(spark: "SparkSession", project: Project, target: Target, flow: FlowPlan) -> None:
    from pyspark.sql.types import StructType, _parse_datatype_string

    rows = flow.query()
    if target.kind is Kind.TEMPORARY:
        rows.createOrReplaceTempView(target.name)
        return
    if rows.isStreaming == (target.kind is Kind.VIEW):
        wanted, found = ("batch", "streaming") if rows.isStreaming else ("streaming", "batch")
        advice = "use spark.read" if rows.isStreaming else "use spark.readStream"
        raise PipelineRefused(
            f"flow {flow.name!r} into {target.name!r} is a {found} query, but must be a "
            f"{wanted} query: {advice}"
        )
    schema: Any = target.schema or rows.schema
    if isinstance(schema, str):
        schema = _parse_datatype_string(schema)
    assert isinstance(schema, StructType)
    ensure_table(spark, project, target, schema)


def _streaming(plan: FlowPlan) -> "DataFrame":
    rows = plan.query()
    if not rows.isStreaming:
        raise PipelineRefused(
            f"flow {plan.name!r} is a batch query: read with spark.readStream, or STREAM in SQL"
        )
    return rows


def _reports(query: "StreamingQuery", seen: str) -> list[dict[str, Any]]:
    """Return the reports made after ``seen``, oldest first."""
    # As JSON in one call each: pyspark's own objects need a call per number.
    spark_query = query._jsq  # noqa: SLF001
    last = spark_query.lastProgress()
    if last is None or last.timestamp() <= seen:
        return []
    reports = [json.loads(report.json()) for report in spark_query.recentProgress()]
    return [report for report in reports if report["timestamp"] > seen]


def _last_epoch(query: "StreamingQuery | None") -> int | None:
    last = query._jsq.lastProgress() if query is not None else None  # noqa: SLF001
    return int(last.batchId()) if last is not None else None
