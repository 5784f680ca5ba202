"""The server ends with the process that uses it, however that ends; no files are left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.user_project import ONLY_OURS, environment

TEST = """
import time

import report


def test_it(jetspark_server, jetspark_client):
    jetspark_client.jetstream().create_stream("S", subjects=["s"])
    report.say(jetspark_server)
    time.sleep(60)
"""
SAY = """
import pathlib


def say(server):
    pid = server._kit.backend._process.started["pid"]
    supervisor = server._kit._supervisor._process.pid
    pathlib.Path("started.tmp").write_text(f"{pid} {supervisor} {server._kit._folder}")
    pathlib.Path("started.tmp").rename("started")
"""


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("server", ["jetspark", "nats-server"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_and_no_folder_is_left(
    tmp_path: Path, ending: signal.Signals, server: str
) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "report.py").write_text(SAY)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    # A background job has SIGINT ignored, and its children, too.
    reset = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    process = subprocess.Popen(
        [sys.executable, "-c", reset + "runpy.run_module('pytest', run_name='__main__')", "-q",
         *ONLY_OURS, "-p", "no:asyncio", f"--jetspark-server={server}"],
        cwd=tmp_path,
        env=environment(TMPDIR=str(temporary)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    started, supervisor, folder = (tmp_path / "started").read_text().split()
    assert is_running(int(started))

    os.kill(process.pid, ending)
    process.wait(60)

    end = time.monotonic() + 30
    while any(map(is_running, (int(started), int(supervisor)))) or Path(folder).exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert [each.name for each in temporary.iterdir()] == []
