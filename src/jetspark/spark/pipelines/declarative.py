"""Runs a project with Spark's own pipeline runner: until it has caught up, or a dry run.

Does what ``spark-pipelines`` does, in this process: it saves a JVM, and errors are exceptions. The
runner needs a Connect session; pip's Spark starts one automatically.
"""

import io
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jetspark.spark.pipelines.errors import mistakes_named, one_line, one_line_of
from jetspark.spark.pipelines.file_tables import FileTables, short_name, sql_targets
from jetspark.spark.pipelines.project import PipelineRefused, Project, check_packages
from jetspark.spark.pipelines.selection import EVERYTHING, Selection
from jetspark.spark.pipelines.settings import prepare_workers
from jetspark.spark.session import jvm_has_ended, session

if TYPE_CHECKING:
    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.output import Output

# A message of the runner. That of a failure has the error after it, with plans and stacks.
_MESSAGE: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (?P<text>.*?)(?:\nError: (?P<error>.*))?", re.DOTALL
)


def run_declarative(
    project: Project,
    settings: Mapping[str, str],
    *,
    master: str,
    say: Callable[[str], None],
    started: Callable[[], None] = lambda: None,
    dry: bool = False,
    selection: Selection = EVERYTHING,
) -> None:
    """Run the project once; ``say`` gets a line for each event of the runner.

    ``started`` is called when Spark has started: Spark replaces the SIGINT handler at its start.
    """
    check_packages()
    prepare_workers(os.environ)
    from pyspark.pipelines import cli

    messages = Messages(say)
    with _same_environment(), redirect_stdout(messages), _watched(project, settings, selection):
        _start_session(project, settings, master)
        started()
        # It also stops the session, whatever happens.
        with mistakes_named(project.root), messages.causes_named():
            cli.run(
                spec_path=project.spec,
                full_refresh=list(selection.full_refresh),
                full_refresh_all=selection.full_refresh_all,
                refresh=list(selection.refresh),
                dry=dry,
            )


@contextmanager
def _same_environment() -> Iterator[None]:
    """Restore what makes pyspark a Connect client: a later session may be a classic one."""
    names = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _watched(
    project: Project, settings: Mapping[str, str], selection: Selection
) -> Iterator[None]:
    """Check what the runner registers, and let our settings override the spec's.

    Names in ``selection`` that the project does not define are refused, and so are sinks.
    """
    from pyspark.pipelines import cli
    from pyspark.pipelines.spark_connect_graph_element_registry import (
        SparkConnectGraphElementRegistry,
    )

    runner: Any = cli
    tables = FileTables(project, selection.continues)
    targets: list[str] = []

    class Registry(SparkConnectGraphElementRegistry):
        def register_output(self, output: "Output") -> None:
            from pyspark.pipelines.output import Sink, StreamingTable, Table

            if isinstance(output, Sink):
                selection.check_sink(output.name)
            if isinstance(output, Table):
                targets.append(short_name(project, output.name))
            if isinstance(output, StreamingTable):
                tables.add_table(output.name, output.format)
            super().register_output(output)

        def register_flow(self, flow: "Flow") -> None:
            tables.add_flow(flow.name, flow.target)
            super().register_flow(flow)

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            tables.add_sql(sql_text)
            targets.extend(short_name(project, name) for name in sql_targets(sql_text))
            super().register_sql(sql_text, file_path)

    def load(path: Path) -> Any:
        spec = load_before(path)
        chosen = {name: settings.get(name, value) for name, value in spec.configuration.items()}
        # Not dataclasses.replace: a spec changes its patterns when it is created, and only once.
        object.__setattr__(spec, "configuration", chosen)
        return spec

    def start(*arguments: Any, **named: Any) -> Any:
        # Everything is registered now. The runner ignores a name that it does not know.
        selection.check(targets)
        return start_before(*arguments, **named)

    # The runner has no arguments for these.
    load_before, start_before = runner.load_pipeline_spec, runner.start_run
    runner.SparkConnectGraphElementRegistry, runner.load_pipeline_spec = Registry, load
    runner.start_run = start
    try:
        yield
    finally:
        runner.SparkConnectGraphElementRegistry = SparkConnectGraphElementRegistry
        runner.load_pipeline_spec, runner.start_run = load_before, start_before


def _start_session(project: Project, settings: Mapping[str, str], master: str) -> None:
    """Start the Connect session for the runner."""
    from pyspark.sql.connect.session import SparkSession

    from jetspark.spark.pipelines.tables import use_database

    if master.startswith("sc://"):
        SparkSession.builder.remote(master).config(map=dict(settings)).getOrCreate()
        os.environ["SPARK_REMOTE"] = master
        return
    # As Spark does for a local Connect session, but on a free port: Spark's is fixed, so that a
    # second run on the same machine would fail.
    os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", str(uuid.uuid4()))
    local = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    }
    config = {**local, **settings}
    classic = session(project.name, master=master, config=config, log_level=None)
    use_database(classic, project)
    jvm = classic._jvm  # noqa: SLF001
    assert jvm is not None
    # The Scala companion object, which py4j finds under this name only.
    companion = getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(companion, "MODULE$").localPort()
    os.environ["SPARK_LOCAL_REMOTE"] = os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # With this host name it needs no TLS, even with a token.
    SparkSession.builder.remote(f"sc://localhost:{port}").getOrCreate()


class Messages(io.TextIOBase):
    """Receives the lines that the runner prints, without timestamps; keeps why flows failed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        self._causes: dict[str, str] = {}
        """By what was said of a failure: its error."""

    def write(self, text: str) -> int:
        """Take a part of what is printed."""
        self._rest += text
        # One call of print is one message, of however many lines.
        if self._rest.endswith("\n"):
            message, self._rest = self._rest.rstrip("\n"), ""
            self._take(message)
        return len(text)

    def _take(self, message: str) -> None:
        found = _MESSAGE.fullmatch(message)
        if found is None:
            return
        said = " ".join(found["text"].split())
        self._say(said)
        cause = one_line_of(found["error"] or "")
        if cause:
            self._say(cause)
            self._causes[said.rstrip(".")] = cause

    @contextmanager
    def causes_named(self) -> Iterator[None]:
        """Let the error of a run say why: Spark's own only points at the messages before it."""
        from pyspark.errors import PySparkException

        try:
            yield
        except PySparkException as error:
            text = one_line(error)
            why = [f"{said}: {cause}" for said, cause in self._causes.items() if cause not in text]
            if not why or jvm_has_ended():
                raise
            raise PipelineRefused("; ".join(why)) from error
