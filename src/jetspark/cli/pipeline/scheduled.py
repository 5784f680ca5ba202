"""`jetspark pipeline run --every` and `--schedule`: runs at certain times, one after the other.

Each run is a process of its own: Spark's memory is given back between two runs, and a JVM that
dies ends one run, not the schedule.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, Protocol

from jetspark.cli.pipeline.run import LinePrinter, check_run
from jetspark.engine.stream.cron import Cron
from jetspark.spark.pipelines.project import PipelineRefused
from jetspark.units import parse_duration

_SECOND: Final = 1_000_000_000
# A shorter interval is that of a stream: `--continuous` does not start Spark each time.
SHORTEST_S: Final = 1
# How often the end of a run, and signals, are looked for.
_STEP_S: Final = 0.2


class Timetable(Protocol):
    """When runs are due."""

    def first(self, now_ns: int) -> int:
        """Return when the first run is due."""

    def following(self, due_ns: int, now_ns: int) -> int:
        """Return when the next run is due after the one that was due at ``due_ns``."""


@dataclass(frozen=True)
class Interval:
    """Runs at an interval: the first one at once."""

    length_ns: int

    def first(self, now_ns: int) -> int:
        """Return ``now_ns``."""
        return now_ns

    def following(self, due_ns: int, now_ns: int) -> int:
        """Return the next time of the series that has not passed."""
        missed = max(0, now_ns - due_ns - 1) // self.length_ns
        return due_ns + (missed + 1) * self.length_ns


@dataclass(frozen=True)
class CronTimes:
    """Runs at the times of a cron expression."""

    cron: Cron

    def first(self, now_ns: int) -> int:
        """Return the next time."""
        return self.cron.following(now_ns)

    def following(self, due_ns: int, now_ns: int) -> int:
        """Return the next time; those that passed during a run are left out."""
        return self.cron.following(max(due_ns, now_ns))


def timetable_of(every: str | None, schedule: str | None) -> Timetable:
    """Read the options; raises ``PipelineRefused``."""
    if every is not None and schedule is not None:
        raise PipelineRefused("--every and --schedule exclude each other: give one of them")
    if every is not None:
        try:
            length = parse_duration(every)
        except ValueError as error:
            raise PipelineRefused(f"--every {every!r}: {error}") from None
        if length < SHORTEST_S * _SECOND:
            raise PipelineRefused(
                f"--every {every!r} is shorter than {SHORTEST_S} s: use --continuous"
            )
        return Interval(length)
    assert schedule is not None
    try:
        cron = Cron(schedule)
        cron.following(time.time_ns())
    except ValueError as error:
        raise PipelineRefused(
            f"--schedule {schedule!r}: {error}; expected second, minute, hour, day, month and day "
            'of the week, such as "0 30 3 * * *", or @daily'
        ) from None
    return CronTimes(cron)


class Repeated:
    """Runs at the times of a timetable, until it is stopped.

    ``code`` is that of the last run which was not stopped.
    """

    def __init__(
        self,
        timetable: Timetable,
        run: Callable[[], int | None],
        say: Callable[[str], None],
        *,
        clock: Callable[[], int],
        wait_until: Callable[[int], bool],
    ) -> None:
        """``run`` returns an exit code, or None if a signal ended it.

        ``wait_until`` gets a time and returns False if a signal came before it.
        """
        self._timetable = timetable
        self._run = run
        self._say = say
        self._clock = clock
        self._wait_until = wait_until
        self.code: int = 0
        self.runs: int = 0

    def go(self) -> None:
        """Run, wait, run again; ends when ``wait_until`` says so."""
        due = self._timetable.first(self._clock())
        while True:
            if due > self._clock():
                self._say(f"The next run is at {_text(due)}.")
            if not self._wait_until(due):
                return
            begun = self._clock()
            code = self._run()
            if code is None:
                return
            self.code = code
            self.runs += 1
            now = self._clock()
            took = f"{(now - begun) / _SECOND:.1f} s"
            how = "has ended" if self.code == 0 else f"failed with exit code {self.code}"
            self._say(f"Run {self.runs} {how} after {took}.")
            due = self._timetable.following(due, now)


class _Signals:
    """SIGTERM and SIGINT: none interrupts a wait, and each is passed on to the running process."""

    def __init__(self) -> None:
        self.received = 0
        self._taken = 0
        self._passed_on = 0
        self._process: multiprocessing.process.BaseProcess | None = None

    def take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.received = number
        self._taken += 1
        self._pass_on()

    def started(self, process: multiprocessing.process.BaseProcess) -> None:
        """Pass signals on to this process, also one that came while it was started."""
        self._process = process
        self._pass_on()

    def _pass_on(self) -> None:
        process = self._process
        while process is not None and self._passed_on < self._taken and process.is_alive():
            self._passed_on += 1
            assert process.pid is not None, "it was started"
            os.kill(process.pid, self.received)


def run_repeatedly(*, every: str | None, schedule: str | None, run: dict[str, Any]) -> None:
    """Run a project again and again, each time with the arguments ``run`` of ``run_once``."""
    timetable = timetable_of(every, schedule)
    # What is wrong is said now, not at night.
    check_run(**run)
    say = LinePrinter(as_json=run["as_json"])
    with _signals() as signals:
        samples = run["samples"]

        def run_in_child() -> int | None:
            nonlocal samples
            # Not forked: a fork has the threads and connections of its parent's modules.
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=run_child, args=({**run, "samples": samples},))
            process.start()
            signals.started(process)
            while process.is_alive():
                process.join(_STEP_S)
            code = _exit_code(process.exitcode or 0)
            # Once: the duplicate window of a stream may be shorter than the interval.
            samples = samples and code != 0
            return None if signals.received and code == 128 + signals.received else code

        def wait_until(due_ns: int) -> bool:
            while not signals.received and (left := due_ns - time.time_ns()) > 0:
                time.sleep(min(_STEP_S, left / _SECOND))
            return not signals.received

        repeated = Repeated(
            timetable, run_in_child, say, clock=time.time_ns, wait_until=wait_until
        )
        repeated.go()
    say(f"Stopped by {signal.Signals(signals.received).name}; the next run continues from here.")
    if repeated.code:
        sys.exit(repeated.code)


def run_child(run: dict[str, Any]) -> None:
    """One run, in its own process.

    Its process group is its own, too: Ctrl-C in a terminal reaches the whole group of the command,
    which passes it on. Twice the same signal would end the run without cleaning up.
    """
    os.setpgid(0, 0)
    from jetspark.cli.pipeline.command import one_line_errors
    from jetspark.cli.pipeline.run import run_once

    with one_line_errors():
        run_once(**run)


@contextmanager
def _signals() -> Iterator[_Signals]:
    signals = _Signals()
    before = {
        number: signal.signal(number, signals.take) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(code: int) -> int:
    """Return the code as a shell has it: that of a signal is 128 plus its number."""
    return code if code >= 0 else 128 - code


def _text(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
