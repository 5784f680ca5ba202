"""A stopped run ends, whatever Spark's tasks do (docs/pipelines.md, "Stop")."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import os, signal, subprocess, time
from jetspark.cli.pipeline import signals

jvm = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(jvm.pid, flush=True)
signals.jvm_process = lambda: jvm
signals._PATIENCE_S = 1
with signals.ends_on_signals():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    finally:
        {stop}
"""


def run(stop: str) -> tuple["subprocess.CompletedProcess[str]", int]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(stop=stop)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, int(done.stdout)


def is_running(pid: int) -> bool:
    """Neither gone nor waiting for someone to hear of its end."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def test_a_spark_that_does_not_stop_is_not_waited_for() -> None:
    done, jvm = run("time.sleep(30)")

    assert done.returncode == 143
    assert done.stderr == "jetspark: stopped by SIGTERM; the next run continues from here\n"
    # A process that was killed ends when the machine comes to it.
    deadline = time.monotonic() + 20
    while is_running(jvm) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(jvm)


def test_a_spark_that_stops_in_time_is_left_alone() -> None:
    done, jvm = run("pass")

    assert done.returncode == 143
    assert done.stderr == "jetspark: stopped by SIGTERM; the next run continues from here\n"
    assert is_running(jvm)
    os.kill(jvm, signal.SIGKILL)
