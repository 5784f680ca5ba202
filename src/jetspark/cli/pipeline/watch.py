"""`jetspark pipeline run --continuous`: start the flows, display them, stop them on request."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

import click
import msgspec
from rich.console import Console

from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.pipeline.metrics import Metrics, MetricsServer
from jetspark.cli.pipeline.reports import FlowReports
from jetspark.cli.pipeline.run import options_of, prepared, settings_of
from jetspark.cli.pipeline.screen import Screen
from jetspark.cli.pipeline.signals import ends_on_signals
from jetspark.spark.pipelines.connection import shared_connection
from jetspark.spark.pipelines.progress import Event
from jetspark.spark.pipelines.project import (
    PipelineRefused,
    check_packages,
    find_project,
    load_project,
)
from jetspark.spark.pipelines.selection import select
from jetspark.spark.pipelines.settings import prepare_workers, spark_settings
from jetspark.spark.session import jvm_has_ended, session
from jetspark.units import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often Spark is polled; a micro-batch takes a tenth of a second or more.
STEP_S: Final = 0.25
# A micro-batch that takes longer is interrupted, and run again by the next run.
STOP_PATIENCE_S: Final = 20.0


def run_continuous(
    *,
    place: Path,
    connection: ConnectionSettings,
    master: str,
    confs: tuple[str, ...],
    as_json: bool,
    samples: bool,
    trigger: str,
    refresh_views: str,
    metrics_port: int | None,
    restarts: int,
    keep_going: bool,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    full_refresh_all: bool,
) -> None:
    """Run a project until a signal ends it."""
    if master.startswith("sc://"):
        raise PipelineRefused(
            "--continuous needs its own Spark: --master does not support sc:// here"
        )
    check_packages()
    project = load_project(find_project(place))
    selection = select(project, refresh, full_refresh, everything=full_refresh_all)
    extra = settings_of(confs)
    trigger_s = _seconds("--trigger", trigger)
    refresh_s = _seconds("--refresh-views", refresh_views)
    show = _show(as_json=as_json)
    metrics = Metrics()

    takers: list[Callable[[Event], None]] = [metrics.take, show.take]
    reports: FlowReports | None = None

    def take(event: Event) -> None:
        for one in takers:
            one(event)

    with ExitStack() as stack:
        # Until there are flows to stop gracefully.
        stack.enter_context(ends_on_signals())
        reached = stack.enter_context(
            prepared(project, connection, show.say, samples=samples, given=extra)
        )
        if project.resources.progress:
            jetstream = stack.enter_context(reached.jetstream())
            bucket = jetstream.key_value(project.resources.progress)
            reports = FlowReports(project.name, bucket, show.say)
            takers.append(reports.take)
        if metrics_port is not None:
            page = _metrics_server(metrics, metrics_port)
            stack.callback(page.close)
            show.say(f"Metrics: http://127.0.0.1:{page.port}/metrics.")
        shared = stack.enter_context(shared_connection(options_of(reached)))
        settings = spark_settings(project, {**shared, **extra})
        # It prints every error of the analyser with both stack traces, even expected ones.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        show.say(f"Starting Spark {master}.")
        prepare_workers(os.environ)
        spark = session(project.name, master=master, config=settings, log_level=None)
        stack.enter_context(_stopped_at_the_end(spark))
        stop = _on_signals()
        # Imported here: it needs pyspark[pipelines]; if that is missing, the error is one line.
        from jetspark.spark.pipelines.continuous import ContinuousOptions, ContinuousRun

        options = ContinuousOptions(
            trigger=f"{int(trigger_s * 1000)} milliseconds",
            refresh_seconds=refresh_s,
            restarts=restarts,
            keep_going=keep_going,
            selection=selection,
        )
        run = ContinuousRun(spark, project, options, take)
        run.start()
        with show:
            while not stop.wait(STEP_S) and not run.is_over:
                run.step()
                if reports is not None:
                    reports.look()
            run.stop(patience_s=STOP_PATIENCE_S)
    if run.given_up:
        raise PipelineRefused(run.given_up)


@contextmanager
def _stopped_at_the_end(spark: "SparkSession") -> Iterator[None]:
    """Stop Spark, if it has not ended already."""
    try:
        yield
    finally:
        if not jvm_has_ended():
            spark.stop()


class _JsonLines:
    """Prints events as JSON, one per line."""

    def take(self, event: Event) -> None:
        click.echo(msgspec.json.encode(event))
        sys.stdout.flush()

    def say(self, text: str) -> None:
        click.echo(msgspec.json.encode({"event": "notice", "text": text}))
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""


def _show(*, as_json: bool) -> "_JsonLines | Screen":
    return _JsonLines() if as_json else Screen(Console(highlight=False))


def _seconds(option: str, text: str) -> float:
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise PipelineRefused(f"{option} {text!r}: {error}") from None
    if value < 0:
        raise PipelineRefused(f"{option} {text!r} is negative")
    return value / 1e9


def _metrics_server(metrics: Metrics, port: int) -> MetricsServer:
    try:
        return MetricsServer(metrics, port)
    except OSError as error:
        raise PipelineRefused(f"--metrics-port {port}: {error.strerror}") from error


def _on_signals() -> threading.Event:
    """Return an event that the first signal sets; the second one exits at once."""
    stopping = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stopping.is_set():
            raise SystemExit(128 + number)
        stopping.set()

    # After Spark's: pyspark replaces the SIGINT handler when a session starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stopping
