"""`jetspark pipeline run --continuous` around its flows (docs/pipelines.md, "Run modes").

The flows are scripted here, so that no Spark is needed; those of Spark are in tests/spark.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("yaml")
pytest.importorskip("grpc")

from jetspark.cli.main import main
from jetspark.cli.pipeline import watch
from jetspark.spark.pipelines import continuous
from jetspark.spark.pipelines.only_run import LOCK_NAME


class Flows:
    """What a run looks like; ``on_step`` is what happens while it continues."""

    on_step: Callable[["Flows"], None]
    stopped: list[float]

    def __init__(self, *_: object) -> None:
        self.given_up = ""
        type(self).stopped = []

    @property
    def is_over(self) -> bool:
        return bool(self.given_up)

    def start(self) -> None:
        """There is nothing to start."""

    def step(self) -> None:
        type(self).on_step(self)

    def stop(self, *, patience_s: float) -> None:
        self.stopped.append(patience_s)


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Flows]]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    spark = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr(watch, "session", lambda *_, **__: spark)
    monkeypatch.setattr(watch, "STEP_S", 0.001)
    monkeypatch.setattr(continuous, "ContinuousRun", Flows)
    yield Flows
    # Whatever happened, the signals are as they were.
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert (
        CliRunner().invoke(main, ["pipeline", "init", "shop", "--in", str(tmp_path)]).exit_code
        == 0
    )
    return tmp_path / "shop"


def run(project: Path, *arguments: str) -> Result:
    common = ("--server", "embedded", "--project", str(project), "--json")
    return CliRunner().invoke(main, ["pipeline", "run", *common, *arguments])


def told(number: int) -> Callable[[Any], None]:
    return lambda _: os.kill(os.getpid(), number)


def test_a_flow_that_is_given_up_is_exit_code_1_and_its_error(
    project: Path, flows: type[Flows]
) -> None:
    def give_up(run: Flows) -> None:
        run.given_up = "flow 'a' was stopped after 6 failures without progress in between: why"

    flows.on_step = give_up
    done = run(project, "--continuous")

    assert done.exit_code == 1
    assert done.stderr == (
        "jetspark: flow 'a' was stopped after 6 failures without progress in between: why\n"
    )
    assert flows.stopped == [watch.STOP_PATIENCE_S]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_flows_end_their_micro_batches(
    project: Path, flows: type[Flows], number: int
) -> None:
    flows.on_step = told(number)
    done = run(project, "--continuous")

    assert (done.exit_code, done.stderr) == (0, "")
    assert flows.stopped == [watch.STOP_PATIENCE_S]


def test_a_second_signal_ends_at_once(
    project: Path, flows: type[Flows], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(run: Flows, *, patience_s: float) -> None:  # noqa: ARG001
        told(signal.SIGTERM)(run)
        raise AssertionError("the signal came to nothing")

    flows.on_step = told(signal.SIGINT)
    monkeypatch.setattr(flows, "stop", stop)

    assert run(project, "--continuous").exit_code == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("arguments", [(), ("--continuous",)])
def test_a_signal_while_spark_starts_is_one_line(
    project: Path,
    flows: type[Flows],  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    arguments: tuple[str, ...],
) -> None:
    def start(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)

    monkeypatch.setattr(watch, "session", start)
    monkeypatch.setattr("jetspark.spark.pipelines.declarative.session", start)
    done = run(project, *arguments)

    name = signal.Signals(number).name
    assert done.exit_code == 128 + number
    assert done.stderr == f"jetspark: stopped by {name}; the next run continues from here\n"
    assert (project / "storage" / LOCK_NAME).read_text() == ""


def test_a_jvm_that_ended_is_one_line(
    project: Path, flows: type[Flows], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])

    def ask(_: Flows) -> None:
        raise ConnectionRefusedError("nobody is there")

    flows.on_step = ask
    monkeypatch.setattr("pyspark.SparkContext._gateway", SimpleNamespace(proc=gone))
    gone.wait()
    done = run(project, "--continuous")

    assert done.exit_code == 1
    assert done.stderr.startswith("jetspark: Spark's JVM has ended: ")


@pytest.mark.parametrize("arguments", [(), ("--continuous",)])
def test_a_jvm_that_ends_while_spark_starts_is_one_line(
    project: Path,
    flows: type[Flows],  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    def start(*_: object, **__: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("pyspark.SparkContext._gateway", SimpleNamespace(proc=gone))
    monkeypatch.setattr(watch, "session", start)
    monkeypatch.setattr("jetspark.spark.pipelines.declarative.session", start)
    done = run(project, *arguments)

    assert done.exit_code == 1
    assert done.stderr.startswith("jetspark: Spark's JVM has ended: ")


def test_a_second_run_of_the_project_is_refused(project: Path, flows: type[Flows]) -> None:
    others: list[Result] = []

    def try_others(flows: Flows) -> None:
        others.extend(run(project, *way) for way in ([], ["--continuous"]))
        told(signal.SIGTERM)(flows)

    flows.on_step = try_others
    done = run(project, "--continuous")

    assert done.exit_code == 0
    for other in others:
        assert other.exit_code == 1
        assert f"shop is already running, as process {os.getpid()}: " in other.stderr
        assert other.stdout == ""
