"""`jetspark pub`, `sub`, `req` and `reply` on our server and on nats-server."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine, Process
from tests.support.servers import ServerProcess

from jetspark import sync
from jetspark.errors import NoResponders


@pytest.fixture
def client(server: ServerProcess) -> Iterator[sync.Client]:
    with sync.connect(server.url) as connected:
        yield connected


@pytest.fixture
def stored(client: sync.Client, name: str) -> str:
    """A stream with three messages."""
    jetstream = client.jetstream()
    jetstream.create_stream(name, subjects=[f"{name}.>"], allow_direct=True, allow_atomic=True)
    for count in range(3):
        jetstream.publish(f"{name}.{count}", b"m%d" % count)
    return name


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[list[object]]:
    """Run something on a thread; the list has its result when the block has ended."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    try:
        yield results
    finally:
        thread.join(30)
    assert not thread.is_alive()


def test_core_messages_are_published(cli: CommandLine, client: sync.Client, name: str) -> None:
    with client.subscribe(f"{name}.>") as inbox:
        client.flush()
        said = cli.said("pub", f"{name}.a", "hello", "-H", "A:1", "-H", "A: 2", "--reply", "back")
        cli.ok("pub", f"{name}.{{{{Count}}}}", "x{{Count}}", "--count", "2")
        cli.ok("pub", name + ".in", stdin=b"\x00\xff")
        cli.ok("pub", name + ".lines", "--send-on", "newline", stdin="one\ntwo\r\nthree")
        cli.ok("pub", name + ".plain", "{{Count}}", "--no-templates")
        got = [inbox.next(timeout=5) for _ in range(8)]

    assert said == f'Published 5 bytes to "{name}.a"\n'
    assert got[0].headers.items() == [("A", "1"), ("A", "2")]
    assert got[0].reply == "back"
    assert [(one.subject, one.data) for one in got[1:3]] == [
        (f"{name}.1", b"x1"),
        (f"{name}.2", b"x2"),
    ]
    assert [one.data for one in got[3:]] == [b"\x00\xff", b"one", b"two", b"three", b"{{Count}}"]


def test_templates_are_natsclis(cli: CommandLine, client: sync.Client, name: str) -> None:
    body = "{{Random 3 3}} {{ Random(2,2) }} {{ID}} {{Unix}} {{.Count}} {{other}} {{TimeStamp}}"
    with client.subscribe(name) as inbox:
        client.flush()
        cli.ok("pub", name, body, "-H", "N:{{Count}}")
        message = inbox.next(timeout=5)

    assert re.fullmatch(
        rb"\w{3} \w{2} \w{22} \d{10} 1 \{\{other\}\} \d{4}-\d\d-\d\dT[\d:]+[+-]\d\d:\d\d",
        message.data,
    )
    assert message.headers["N"] == "1"


def test_stored_messages_are_acknowledged(cli: CommandLine, stored: str) -> None:
    said = cli.said("pub", f"{stored}.new", "one", "--jetstream")
    ack = cli.json("pub", f"{stored}.new", "two", "-J", "-H", f"Nats-Msg-Id:{stored}")
    again = cli.json("pub", f"{stored}.new", "two", "-J", "-H", f"Nats-Msg-Id:{stored}")
    many = cli.ndjson("pub", f"{stored}.new", "n{{Count}}", "-J", "--count", "30")

    assert said == f"Stored in Stream: {stored} Sequence: 4\n"
    assert ack == {
        "subject": f"{stored}.new", "bytes": 3, "stream": stored, "seq": 5, "duplicate": False,
    }  # fmt: skip
    assert again["duplicate"] is True
    assert [one["seq"] for one in many] == list(range(6, 36))
    assert "Stored 25 messages" in cli.said("pub", f"{stored}.new", "x", "-J", "--count", "25")
    assert cli.said("pub", f"{stored}.new", "x", "-J", "--quiet") == ""
    assert cli.fails(1, "pub", "no.stream.here", "x", "-J", "--timeout", "1s")


def test_an_atomic_batch_is_stored_together_or_not_at_all(
    cli: CommandLine, client: sync.Client, stored: str
) -> None:
    ack = cli.json("pub", f"{stored}.b", "x{{Count}}", "--atomic", "--count", "3")
    lines = cli.said("pub", f"{stored}.b", "--atomic", "--send-on", "newline", stdin="a\nb\n")
    client.jetstream().stream(stored).update(allow_atomic=False)
    refused = cli.fails(1, "pub", f"{stored}.b", "x", "--atomic", "--count", "2")

    assert (ack["seq"], ack["count"]) == (6, 3)
    assert "2 messages" in lines
    assert "--allow-batch" in refused
    assert client.jetstream().stream(stored).info().state.messages == 8


def test_subjects_are_followed_until_enough_have_arrived(
    cli: CommandLine, client: sync.Client, name: str
) -> None:
    def publish_when_subscribed() -> None:
        while not done.is_set():
            client.publish(f"{name}.a", b"one", headers={"H": "1"}, reply="r")
            client.publish(f"{name}.b", b"two\x1b")
            client.flush()
            done.wait(0.05)

    done = threading.Event()
    with in_background(publish_when_subscribed):
        try:
            shown = cli.ok("sub", f"{name}.a", "--count", "1")
            raw = cli.ok("sub", f"{name}.*", "--count", "2", "--raw", "-I", f"{name}.a")
            subjects = cli.ok("sub", f"{name}.a", "--count", "1", "--subjects-only")
            [row] = cli.ndjson("sub", f"{name}.a", "--count", "1")
            document = cli.json("sub", f"{name}.a", f"{name}.b", "--count", "3")
            grouped = cli.ok("sub", f"{name}.b", "--queue", "g", "--count", "1", "--raw")
        finally:
            done.set()

    assert shown == f'[#1] Received on "{name}.a" with reply "r"\n\n  H: 1\n\none\n\n'
    assert raw == "two\x1b\ntwo\x1b\n"
    assert subjects == f"{name}.a\n"
    assert row == {
        "reply": "r", "subject": f"{name}.a", "headers": {"H": ["1"]},
        "data": base64.b64encode(b"one").decode(),
    }  # fmt: skip
    assert len(document) == 3
    assert grouped == "two\x1b\n"


def test_a_subscription_ends_after_a_time_without_messages(cli: CommandLine, name: str) -> None:
    assert cli.ok("sub", name, "--wait", "50ms") == ""
    assert cli.json("sub", name, "--wait", "50ms") == []
    assert cli.ok("sub", "--inbox", "--wait", "50ms") == ""


def test_stored_messages_are_followed(cli: CommandLine, stored: str) -> None:
    every = ("sub", f"{stored}.>", "--raw")

    assert cli.ok(*every, "--all", "--terminate-at-end") == "m0\nm1\nm2\n"
    assert cli.ok(*every, "--all", "--count", "2") == "m0\nm1\n"
    assert cli.ok(*every, "--last", "--count", "1") == "m2\n"
    assert cli.ok(*every, "--start-sequence", "2", "-T") == "m1\nm2\n"
    assert cli.ok(*every, "--since", "1h", "-T") == "m0\nm1\nm2\n"
    assert cli.ok(*every, "--last-per-subject", "-T") == "m0\nm1\nm2\n"
    assert cli.ok("sub", f"{stored}.none", "--all", "-T") == ""
    assert cli.ok("sub", "--stream", stored, "--raw", "--wait", "100ms") == ""
    shown = cli.ok("sub", f"{stored}.1", "--all", "-T")
    assert shown.startswith(
        f"[#1] Received JetStream message: stream: {stored} seq: 2 / subject: {stored}.1 / time: "
    )
    rows = cli.ndjson("sub", f"{stored}.>", "--all", "-T")
    assert cli.json("consumer", "ls", stored) == []
    assert [(row["stream"], row["seq"]) for row in rows] == [(stored, n) for n in (1, 2, 3)]


def test_a_durable_consumer_continues_where_it_was(cli: CommandLine, stored: str) -> None:
    command = ("sub", "--stream", stored, "--durable", "d", "--all", "--raw")

    assert cli.ok(*command, "--count", "2") == "m0\nm1\n"
    assert cli.ok(*command, "--terminate-at-end") == "m2\n"
    assert cli.ok(*command, "--terminate-at-end") == ""


def test_messages_are_dumped_to_files(cli: CommandLine, stored: str, tmp_path: Path) -> None:
    cli.ok("sub", f"{stored}.>", "--all", "-T", "--dump", tmp_path / "out")
    nulls = cli.ok("sub", f"{stored}.>", "--all", "-T", "--dump", "-")

    assert json.loads((tmp_path / "out" / "2.json").read_bytes())["subject"] == f"{stored}.1"
    assert [json.loads(one)["seq"] for one in nulls.split("\0")[:-1]] == [1, 2, 3]


def test_requests_are_answered(cli: CommandLine, client: sync.Client, name: str) -> None:
    with client.subscribe(name, callback=lambda message: message.respond(b"<" + message.data)):
        client.flush()
        result = cli.run("req", name, "hello")
        raw = cli.ok("req", name, "--raw", stdin="in")
        document = cli.json("req", name, "hello")
        several = cli.json("req", name, "x{{Count}}", "--count", "2")
        every = cli.ok("req", name, "x", "--raw", "--replies", "0", "--timeout", "200ms")

    assert (result.stdout, result.exit_code) == ("<hello\n", 0)
    assert f'Sending request on "{name}"\nReceived with rtt' in result.stderr
    assert raw == "<in\n"
    assert base64.b64decode(document["data"]) == b"<hello"
    assert [base64.b64decode(one["data"]) for one in several] == [b"<x1", b"<x2"]
    assert every == "<x\n"
    assert "no responders" in cli.fails(1, "req", f"{name}.none", "x")


def test_a_request_that_is_not_answered_fails(
    cli: CommandLine, client: sync.Client, name: str
) -> None:
    with client.subscribe(name):
        client.flush()
        assert "--timeout" in cli.fails(1, "req", name, "x", "--timeout", "50ms")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("Hello, {{Request}}",), b"Hello, me"),
        (("--echo",), b"me"),
        ((), b"me"),
        (("--command", "printenv NATS_REQUEST_BODY"), b"me\n"),
        (("--command", "echo {{1}}"), b"second\n"),
    ],
)
def test_a_service_answers(
    cli: CommandLine, client: sync.Client, name: str, options: tuple[str, ...], expected: bytes
) -> None:
    def ask() -> bytes:
        while True:
            try:
                return client.request(f"{name}.second", b"me", timeout=20).data
            except NoResponders:
                time.sleep(0.02)

    with in_background(ask) as answers:
        shown = cli.ok("reply", f"{name}.second", *options, "--count", "1")

    assert answers == [expected]
    assert shown == f'[#0] Received on subject "{name}.second":\n\nme\n'


def test_an_output_that_cannot_be_written_is_one_line(server: ServerProcess, stored: str) -> None:
    environment = {**os.environ, "NATS_URL": server.url}
    command = f"{sys.executable} -m jetspark stream cat {stored}"
    full = subprocess.run(
        f"{command} > /dev/full", shell=True, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    closed = subprocess.run(
        ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert full.returncode == 1
    assert full.stderr == "Error: the output cannot be written: No space left on device\n"
    assert (closed.stdout, closed.stderr) == ("141\n", "")


def test_signals_end_commands_with_their_exit_codes(
    server: ServerProcess, client: sync.Client, name: str
) -> None:
    with Process("sub", name, "--raw", url=server.url) as following:
        following.wait_for("Subscribing")
        client.publish(name, b"one")
        client.flush()
        assert following.process.stdout is not None
        assert following.process.stdout.readline() == "one\n"
        assert following.finish(signal.SIGINT) == 0
    with Process("req", name, "--force-stdin", url=server.url, stdin=subprocess.PIPE) as waiting:
        assert waiting.process.stdin is not None
        with client.subscribe(name) as inbox:
            client.flush()
            # The first line was sent: the command is waiting for its answer.
            waiting.process.stdin.close()
            inbox.next(timeout=30)
            assert waiting.finish(signal.SIGTERM) == 143
