"""`make demo`, small and in the session of the tests: every event is accounted for.

What would be the Spark driver's process are flows in this session; killed means that they are
stopped inside a micro-batch. With drivers of its own, killed by SIGKILL: ``make torture``.
"""

import functools
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

pytest.importorskip("grpc", reason="needs the extra pipelines")
pytest.importorskip("yaml", reason="needs the extra pipelines")

import msgspec
from click.testing import CliRunner
from demo import pipeline
from demo.command import demo
from tests.campaigns.spark.demo import check_output

from jetspark.spark.pipelines.continuous import ContinuousOptions, ContinuousRun
from jetspark.spark.pipelines.project import find_project, load_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jetspark.spark.pipelines.progress import Event

DATABASE = "demo"
# What the demo sets for its own session; all may change while one runs.
SETTINGS = (
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.jetspark.servers",
    "spark.jetspark.ledger",
    "spark.jetspark.demo.batch",
    "spark.jetspark.demo.partitions",
)


class FlowsInSession:
    """In place of `demo.driver.Driver`: the same flows, in a session that runs."""

    def __init__(
        self,
        spark: "SparkSession",
        root: Path,
        server: str,
        _errors: Path,
        events: int,
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        self._take = take
        self.flows: set[str] = set()
        spec = find_project(root)
        text = spec.read_text()
        if "database:" not in text:
            # In a session of its own the warehouse would be here.
            spec.write_text(f"{text}database: {DATABASE}\n")
            place = (root / "warehouse").as_uri()
            spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{place}'")
        project = load_project(spec)
        settings = {
            **project.configuration,
            "spark.jetspark.servers": server,
            "spark.jetspark.ledger": project.resources.ledger,
            "spark.jetspark.demo.batch": str(events // 4),
            "spark.jetspark.demo.partitions": "1",
        }
        for name in SETTINGS:
            spark.conf.set(name, settings[name])
        self._run = ContinuousRun(spark, project, ContinuousOptions(restarts=0), self._pass_on)
        self._run.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def ended(self) -> bool:
        """Whether a flow has failed. The demo asks while it waits: so the flows get on."""
        self._run.step()
        return bool(self._run.given_up)

    def await_flows(self, count: int, show: Callable[[int], None]) -> None:
        """All have started when this is made."""
        assert len(self.flows) == count
        show(count)

    def failure(self) -> Exception:
        return AssertionError(self._run.given_up or "the flows do not get on")

    def kill(self) -> None:
        """Stop inside the micro-batch."""
        self._run.stop(patience_s=0)

    def stop(self) -> int:
        self._run.stop(patience_s=20)
        return 0

    def _pass_on(self, event: "Event") -> None:
        line = json.loads(msgspec.json.encode(event))
        if line["event"] == "started":
            self.flows.add(line["flow"])
        self._take(line)


class LentSession:
    """A session that continues when its user stops it."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Other tests use it."""


@pytest.fixture
def in_session(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the demo run in the session of the tests, and leave nothing of it there."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(pipeline, "Driver", functools.partial(FlowsInSession, spark))
    monkeypatch.setattr("jetspark.spark.session", lambda *_, **__: LentSession(spark))
    yield
    signal.signal(signal.SIGTERM, handler)
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    spark.catalog.setCurrentDatabase("default")
    spark.sql(f"DROP DATABASE IF EXISTS {DATABASE} CASCADE")
    spark.catalog.dropTempView("large_orders")


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("in_session")
def test_the_demo_stops_its_flows_halfway_and_every_event_is_accounted_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra demo")
    output = tmp_path / "out"

    done = CliRunner().invoke(demo, ["--events", "8000", "--output", str(output)])

    assert done.exit_code == 0, done.output
    check_output(output, done.output, events=8000)
