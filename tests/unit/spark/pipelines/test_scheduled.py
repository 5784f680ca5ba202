"""`jetspark pipeline run --every` and `--schedule`: when runs are due, and what they leave."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml")

from jetspark.cli.main import main
from jetspark.cli.pipeline.scheduled import Repeated, timetable_of
from jetspark.spark.pipelines.project import PipelineRefused
from jetspark.spark.pipelines.template import write_project

SECOND = 1_000_000_000
NOON = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()) * SECOND


class Day:
    """A clock that moves when something waits or runs, until it is evening."""

    def __init__(self, durations: list[int], codes: list[int] | None = None) -> None:
        self.now = NOON
        self.began: list[int] = []
        self.said: list[str] = []
        self._durations = durations
        self._codes = codes or [0] * len(durations)

    def run(self) -> int:
        self.began.append((self.now - NOON) // SECOND)
        self.now += self._durations[len(self.began) - 1] * SECOND
        return self._codes[len(self.began) - 1]

    def wait_until(self, due: int) -> bool:
        self.now = max(self.now, due)
        return len(self.began) < len(self._durations)

    def play(self, every: str | None, schedule: str | None) -> Repeated:
        repeated = Repeated(
            timetable_of(every, schedule),
            self.run,
            self.said.append,
            clock=lambda: self.now,
            wait_until=self.wait_until,
        )
        repeated.go()
        return repeated


def test_the_first_run_of_an_interval_is_now_and_times_missed_by_a_long_run_are_left_out() -> None:
    day = Day([10, 130, 10])

    day.play("60s", None)

    assert day.began == [0, 60, 240]


def test_runs_start_at_the_times_of_a_cron_expression() -> None:
    day = Day([10, 4000, 10])

    day.play(None, "0 30 * * * *")

    assert day.began == [1800, 5400, 12600]
    assert day.said[0] == "The next run is at 2026-11-18 12:30:00Z."


def test_a_run_that_fails_is_reported_and_the_next_one_is_due_as_usual() -> None:
    day = Day([1, 1], [1, 0])

    repeated = day.play("60s", None)

    assert day.began == [0, 60]
    assert day.said[0] == "Run 1 failed with exit code 1 after 1.0 s."
    assert repeated.code == 0


@pytest.mark.parametrize(
    ("every", "schedule", "said"),
    [
        ("10m", "@daily", "--every and --schedule exclude each other"),
        ("soon", None, "--every 'soon'"),
        ("10ms", None, "is shorter than 1 s: use --continuous"),
        (None, "0 30 3 * *", "expected 6 fields, got 5; expected second, minute"),
        (None, "0 0 0 31 2 *", "does not match any time"),
    ],
)
def test_a_wrong_time_is_named(every: str | None, schedule: str | None, said: str) -> None:
    with pytest.raises(PipelineRefused, match=said):
        timetable_of(every, schedule)


def test_a_continuous_run_has_no_schedule(tmp_path: Path) -> None:
    root = write_project("shop", tmp_path)

    done = CliRunner().invoke(
        main, ["pipeline", "run", "--project", str(root), "--continuous", "--every", "1m"]
    )

    assert done.exit_code == 2
    assert "--every is not for --continuous" in done.output


def test_a_run_that_a_signal_ends_has_no_code_and_leaves_that_of_the_one_before() -> None:
    codes: list[int | None] = [1, None]
    said: list[str] = []
    repeated = Repeated(
        timetable_of("60s", None),
        lambda: codes.pop(0),
        said.append,
        clock=lambda: NOON,
        wait_until=lambda _due: True,
    )

    repeated.go()

    assert (repeated.code, repeated.runs) == (1, 1)
    assert not any("143" in line for line in said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--full-refresh-all", "--refresh", "orders"], "--full-refresh-all excludes --refresh"),
        (["--conf", "memory=1g"], "--conf 'memory=1g' is not spark.NAME=VALUE"),
        (["--conf", "spark.jetspark.servers=a"], "is set by the option --server"),
        (["--project", "/nowhere"], "/nowhere does not exist"),
    ],
)
def test_a_mistake_is_said_when_the_command_starts_not_by_the_first_run(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    root = write_project("shop", tmp_path)

    done = CliRunner().invoke(
        main, ["pipeline", "run", "--project", str(root), "--schedule", "@yearly", *arguments]
    )

    assert (done.exit_code, done.stdout) == (1, "")
    assert said in done.stderr
