"""`jetspark top` on our server and on nats-server, from the monitoring port."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine, Process
from tests.support.servers import ServerProcess

from jetspark import sync


@pytest.fixture(params=["jetspark", "nats-server"])
def monitored(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ServerProcess, str]]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    running = ServerProcess(request.param, tmp_path / "store", "-m", port, "-n", "only")
    with sync.connect(running.url, name="worker"):
        yield running, f"http://127.0.0.1:{port}"
    running.kill()


def test_a_server_is_shown_with_its_connections(
    monitored: tuple[ServerProcess, str], tmp_path: Path
) -> None:
    running, monitor = monitored
    cli = CommandLine(running.url)
    file = tmp_path / "top.txt"

    once = cli.ok("top", "--monitor", monitor)
    cli.ok("top", "only", "--monitor", monitor, "--output", file)
    twice = cli.run("top", "--monitor", monitor, "-r", "2", "-d", "10ms", "--ndjson")
    with Process("top", "-r", "1000000", "-d", "10ms", "--monitor", monitor) as endless:
        out = endless.process.stdout
        assert out is not None
        assert out.readline().startswith("only")
        endless.process.send_signal(signal.SIGINT)
        out.read()
        assert endless.process.wait(60) == 0

    assert once.startswith("only  version ")
    assert "worker" in once
    assert "worker" in file.read_text()
    samples = [json.loads(line) for line in twice.stdout.splitlines()]
    assert [one["connections"][0]["name"] for one in samples] == ["worker", "worker"]
    assert "did you mean only?" in cli.fails(1, "top", "onli", "--monitor", monitor)
