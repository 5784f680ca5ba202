"""`jetspark bench` on our server and on nats-server: every message is counted once."""

import json
import signal

import pytest
from tests.support.command_line import CommandLine, Process
from tests.support.servers import ServerProcess


@pytest.mark.parametrize("way", ["sync", "async", "atomic", "fast"])
def test_what_is_stored_can_be_read(cli: CommandLine, name: str, way: str) -> None:
    stream = ("--stream", name)
    run = ("--msgs", "23", "--clients", "2", "--size", "10B")

    stored = cli.json("bench", "js", "pub", way, f"{name}.s", "--create", *stream, *run)
    assert (stored["messages"], len(stored["by_client"])) == (23, 2)
    assert cli.json("stream", "state", name)["messages"] == 23
    if way != "async":
        return
    for reader, count in (
        (("ordered",), 46), (("consume",), 23), (("fetch", "--batch", "5"), 23), (("get",), 46),
        (("fetch", "--acks", "none"), 23),
    ):  # fmt: skip
        found = cli.json("bench", "js", *reader, *stream, *run)
        assert found["messages"] == count, reader
        assert found["messages_per_second"] > 0
    shown = cli.ok("bench", "js", "fetch", *stream, *run)
    assert "JetStream fetch stats: " in shown
    assert "msgs/sec" in shown.splitlines()[-1]


def test_values_are_put_and_got(cli: CommandLine, name: str) -> None:
    run = ("--bucket", name, "--msgs", "12", "--clients", "3")

    assert "bench kv put" in cli.fails(1, "bench", "kv", "get", *run)
    assert cli.json("bench", "kv", "put", *run)["messages"] == 12
    assert cli.json("bench", "kv", "get", *run, "--randomize", "5")["messages"] == 12


def test_what_is_missing_is_said(cli: CommandLine, name: str) -> None:
    stream = ("--stream", name, "--msgs", "5")

    assert "--create" in cli.fails(1, "bench", "js", "pub", "sync", name, *stream)
    cli.ok("bench", "js", "pub", "async", name, "--create", *stream)
    assert "has 5 messages" in cli.fails(1, "bench", "js", "get", "--stream", name, "--msgs", "6")


def test_core_messages_and_requests_are_measured(
    server: ServerProcess, cli: CommandLine, name: str
) -> None:
    with Process("bench", "sub", name, "--msgs", "50", "--json", url=server.url) as receiving:
        receiving.wait_for("Waiting for")
        sent = cli.json("bench", "pub", name, "--msgs", "50", "--clients", "2")
        assert receiving.finish() == 0
    assert sent["messages"] == 50
    assert json.loads(receiving.output)["messages"] == 50
    with Process("bench", "service", "serve", name, url=server.url) as serving:
        serving.wait_for("Answering")
        asked = cli.json("bench", "service", "request", name, "--msgs", "10", "--clients", "2")
        assert serving.finish(signal.SIGINT) == 0
    assert asked["messages"] == 10


def test_no_measurement_harms_what_exists(cli: CommandLine, name: str) -> None:
    """A mistyped --stream or --consumer costs nothing."""
    cli.ok("stream", "add", name, "--subjects", f"{name}.mine", "--max-msgs", "5")
    cli.ok("pub", f"{name}.mine", "mine", "--jetstream")
    cli.ok("consumer", "add", name, "worker")
    cli.ok("consumer", "next", name, "worker", "--ack")
    stream, position = (
        cli.json("stream", "info", name),
        cli.json("consumer", "info", name, "worker"),
    )
    pub = ("bench", "js", "pub", "sync", f"{name}.mine", "--stream", name, "--msgs", "1")
    read = ("--stream", name, "--msgs", "1", "--consumer", "worker")

    other = cli.fails(1, "bench", "js", "pub", "sync", name, "--stream", name, "--create")
    asked = cli.fails(2, *pub, "--purge")
    taken = [cli.fails(1, "bench", "js", one, *read) for one in ("consume", "fetch")]

    after = cli.json("stream", "info", name)
    assert (after["config"], after["state"]) == (stream["config"], stream["state"])
    assert "does not store" in other
    assert "--force" in asked
    assert all("--consumer" in text for text in taken)
    same = cli.json("consumer", "info", name, "worker")
    assert same["delivered"]["stream_seq"] == position["delivered"]["stream_seq"] == 1
    cli.ok(*pub, "--create", "--maxbytes", "10B")
    assert cli.json("stream", "info", name)["config"] == stream["config"]
    cli.ok(*pub, "--purge", "--force")
    assert cli.json("stream", "state", name)["messages"] == 1
