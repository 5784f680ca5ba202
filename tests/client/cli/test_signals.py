"""Commands that run until they are interrupted, as processes of their own."""

import json
import signal
import sys

import pytest
from tests.support.command_line import CommandLine, Process
from tests.support.servers import ServerProcess


@pytest.fixture
def bucket(cli: CommandLine, name: str) -> str:
    cli.ok("kv", "add", name)
    cli.ok("kv", "put", name, "color", "blue")
    return name


def test_an_interrupted_watch_has_printed_a_whole_document(
    server: ServerProcess, bucket: str
) -> None:
    with Process("kv", "watch", bucket, "--json", url=server.url) as running:
        out = running.process.stdout
        assert out is not None
        first = out.readline() + out.read(1)  # of the first entry

        running.process.send_signal(signal.SIGINT)

        assert [one["key"] for one in json.loads(first + out.read())] == ["color"]
        assert running.process.wait(60) == 0


def test_a_terminated_lock_ends_its_command_and_is_released(
    server: ServerProcess, cli: CommandLine, bucket: str
) -> None:
    code = "import sys, time; print('begun', file=sys.stderr, flush=True); time.sleep(600)"
    command = (sys.executable, "-c", code)
    with Process("kv", "lock", bucket, "nightly", "--", *command, url=server.url) as running:
        running.wait_for("begun")
        assert "nightly" in cli.ok("kv", "ls", bucket)

        ended = running.finish(signal.SIGTERM)

    assert ended == 128 + signal.SIGTERM
    assert cli.ok("kv", "ls", bucket) == "color\n"


def test_a_lock_without_a_command_is_held_until_interrupted(
    server: ServerProcess, cli: CommandLine, bucket: str
) -> None:
    words = ("kv", "lock", bucket, "nightly", "--owner", "me")
    with Process(*words, url=server.url) as running:
        running.wait_for("Holding the lock")
        assert cli.ok("kv", "get", bucket, "nightly", "--raw") == "me"

        ended = running.finish(signal.SIGINT)

    assert ended == 0
    assert cli.ok("kv", "ls", bucket) == "color\n"


def test_an_interrupted_put_does_not_wait_for_its_input(
    server: ServerProcess, cli: CommandLine, name: str
) -> None:
    cli.ok("object", "add", name)
    words = ("object", "put", name, "--name", "x")
    with Process(*words, url=server.url, stdin=-1) as running:
        pipe = running.process.stdin
        assert pipe is not None
        pipe.write("x" * 500_000)  # more than a pipe holds: it is reading
        pipe.flush()

        running.process.send_signal(signal.SIGINT)

        assert running.process.wait(60) == 130
    assert cli.json("object", "ls", name) == []
