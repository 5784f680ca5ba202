"""The graph of a project, loaded for our own streaming queries: tables, views, sinks, flows.

Spark's decorators pass definitions to a registry; Spark's own sends them to a Connect server, this
one keeps them. SQL files are parsed by Spark, so that a project means the same in both.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table
from pyspark.sql.types import StructType

from jetspark.spark.pipelines.file_tables import DEFAULT_FORMAT, FileTables
from jetspark.spark.pipelines.project import PipelineRefused, Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Kind(Enum):
    """The kind of target of a flow."""

    TABLE = auto()
    VIEW = auto()
    TEMPORARY = auto()
    SINK = auto()


@dataclass
class Target:
    """A table, a materialized view, a temporary view or a sink."""

    name: str
    kind: Kind
    format: str = DEFAULT_FORMAT
    options: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    schema: StructType | str | None = None
    comment: str = ""


@dataclass
class FlowPlan:
    """A query and its target."""

    name: str
    target: str
    query: Callable[[], "DataFrame"]
    settings: dict[str, str] = field(default_factory=dict)


@dataclass
class Graph:
    """Everything that the files of a project define."""

    targets: dict[str, Target] = field(default_factory=dict)
    flows: list[FlowPlan] = field(default_factory=list)

    def add_target(self, target: Target) -> None:
        """Add a target; its name must be new."""
        if target.name in self.targets:
            raise PipelineRefused(f"{target.name!r} is defined twice")
        self.targets[target.name] = target

    def check(self, files: FileTables) -> None:
        """Check that every flow has a target and every target a flow, and that none loses rows."""
        names = [flow.name for flow in self.flows]
        for flow in self.flows:
            if flow.target not in self.targets:
                raise PipelineRefused(
                    f"flow {flow.name!r} writes to {flow.target!r}, which is not defined: define "
                    "that table or sink, or correct the name"
                )
            if names.count(flow.name) > 1:
                raise PipelineRefused(f"flow {flow.name!r} is defined twice")
        for name in self.targets.keys() - {flow.target for flow in self.flows}:
            raise PipelineRefused(f"no flow writes to {name!r}: add one, or remove the target")
        for target in self.targets.values():
            if target.kind is Kind.TABLE:
                files.add_table(target.name, target.format)
        for flow in self.flows:
            files.add_flow(flow.name, flow.target)


def read_graph(
    spark: "SparkSession", project: Project, continues: Callable[[str], bool] = lambda _: True
) -> Graph:
    """Load the files of a project; ``continues`` is that of ``FileTables``."""
    graph = Graph()
    registry = _Registry(spark, graph)
    with _inside(project.root), graph_element_registration_context(registry):
        for path in project.sources():
            place = path.relative_to(project.root)
            if path.suffix == ".sql":
                registry.register_sql(path.read_text(encoding="utf-8"), place)
            else:
                _run_file(spark, path)
    graph.check(FileTables(project, continues))
    return graph


def _run_file(spark: "SparkSession", path: Path) -> None:
    # Not added to sys.modules, as in Spark: objects are then pickled by value.
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None, "a .py file has a loader"
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    module.__dict__["spark"] = spark
    with block_session_mutations():
        found.loader.exec_module(module)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class _Registry(GraphElementRegistry):
    """Keeps what Spark's decorators define."""

    def __init__(self, spark: "SparkSession", graph: Graph) -> None:
        self._spark = spark
        self._graph = graph

    def register_output(self, output: Output) -> None:
        """Add a table, view or sink."""
        if isinstance(output, Sink):
            self._graph.add_target(
                Target(output.name, Kind.SINK, output.format, dict(output.options))
            )
        elif isinstance(output, Table):
            if output.cluster_by:
                raise PipelineRefused(
                    f"table {output.name!r} has cluster_by, which continuous runs do not support"
                )
            kind = Kind.VIEW if isinstance(output, MaterializedView) else Kind.TABLE
            assert kind is Kind.VIEW or isinstance(output, StreamingTable)
            self._graph.add_target(
                Target(
                    output.name,
                    kind,
                    output.format or DEFAULT_FORMAT,
                    properties=dict(output.table_properties),
                    partition_by=tuple(output.partition_cols or ()),
                    schema=output.schema,
                    comment=output.comment or "",
                )
            )
        else:
            self._graph.add_target(Target(output.name, Kind.TEMPORARY))

    def register_flow(self, flow: Flow) -> None:
        """Add a flow."""
        self._graph.flows.append(
            FlowPlan(flow.name, flow.target, flow.func, dict(flow.spark_conf))
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Refuse: tables that support merges need a catalog that is not in pip's Spark."""
        raise PipelineRefused(
            f"the flow into {flow.target!r} is an Auto CDC flow, which continuous runs do not "
            "support: run it without --continuous"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Add the statements of a file."""
        jvm, session = self._spark._jvm, self._spark._jsparkSession  # noqa: SLF001
        assert jvm is not None
        context = jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext
        statements = context.splitSqlFileIntoQueries(session, sql_text, str(file_path))
        settings: dict[str, str] = {}
        for at in range(statements.size()):
            text = statements.apply(at).queryOrigin().sqlText().get()
            self._statement(text, settings, file_path)

    def _parse(self, text: str) -> Any:
        return self._spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001

    def _statement(self, text: str, settings: dict[str, str], file: Path) -> None:
        plan = self._parse(text)
        kind = plan.nodeName()
        if kind == "SetCommand" and plan.kv().isDefined():
            pair = plan.kv().get()
            if pair.productElement(1).isDefined():
                settings[pair.productElement(0)] = pair.productElement(1).get()
                return
        if kind in {"CreateMaterializedViewAsSelect", "CreateStreamingTableAsSelect"}:
            name = _identifier(plan.name())
            self._graph.add_target(_sql_table(plan, name, materialized="View" in kind))
            self._add(name, name, lambda: self._parse(text).query(), settings)
        elif kind == "CreateStreamingTable":
            self._graph.add_target(_sql_table(plan, _identifier(plan.name()), materialized=False))
        elif kind == "CreateViewCommand" and plan.viewType().toString() == "LocalTempView":
            name = plan.name().table()
            self._graph.add_target(Target(name, Kind.TEMPORARY))
            self._add(name, name, lambda: self._parse(text).plan(), settings)
        elif kind == "CreateFlowCommand" and plan.flowOperation().nodeName() == (
            "InsertIntoStatement"
        ):
            target = ".".join(_strings(plan.flowOperation().table().multipartIdentifier()))
            name = _identifier(plan.name())
            self._add(name, target, lambda: self._parse(text).flowOperation().query(), settings)
        else:
            raise PipelineRefused(f"{file}: {kind} is not supported in a continuous run")

    def _add(
        self, name: str, target: str, plan: Callable[[], Any], settings: dict[str, str]
    ) -> None:
        """Add a flow; its plan is parsed again each time: Spark modifies analyzed plans."""
        from pyspark.sql import DataFrame

        spark = self._spark

        def query() -> DataFrame:
            jvm = spark._jvm  # noqa: SLF001
            assert jvm is not None
            dataset = jvm.org.apache.spark.sql.classic.Dataset
            return DataFrame(dataset.ofRows(spark._jsparkSession, plan()), spark)  # noqa: SLF001

        self._graph.flows.append(FlowPlan(name, target, query, dict(settings)))


def _sql_table(plan: Any, name: str, *, materialized: bool) -> Target:
    spec = plan.tableSpec()
    columns = plan.columns()
    schema = None
    if columns.size():
        schema = ", ".join(
            f"`{columns.apply(at).name()}` {columns.apply(at).dataType().sql()}"
            for at in range(columns.size())
        )
    partitioning = plan.partitioning()
    parts = [partitioning.apply(at) for at in range(partitioning.size())]
    for part in parts:
        if part.name() != "identity":
            raise PipelineRefused(
                f"table {name!r} is partitioned by {part.toString()}, which continuous runs do "
                "not support: use columns only"
            )
    properties = spec.properties().toSeq()
    pairs = [properties.apply(at) for at in range(properties.size())]
    return Target(
        name,
        Kind.VIEW if materialized else Kind.TABLE,
        spec.provider().get() if spec.provider().isDefined() else DEFAULT_FORMAT,
        properties={str(pair.productElement(0)): str(pair.productElement(1)) for pair in pairs},
        partition_by=tuple(part.describe() for part in parts),
        schema=schema,
        comment=spec.comment().get() if spec.comment().isDefined() else "",
    )


def _identifier(plan: Any) -> str:
    return ".".join(_strings(plan.nameParts()))


def _strings(sequence: Any) -> list[str]:
    return [str(sequence.apply(at)) for at in range(sequence.size())]
