"""`jetspark server check` on our server and on nats-server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess

from jetspark import sync

OK, WARNING, CRITICAL, UNKNOWN = range(4)
STATUS = {OK: "OK", WARNING: "WARNING", CRITICAL: "CRITICAL", UNKNOWN: "UNKNOWN"}


class Checks:
    """Checks of one server."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli

    def __call__(self, code: int, *words: str) -> str:
        """Run a check that must exit with a code; returns its line."""
        result = self.cli.run("server", "check", *words)
        assert result.exit_code == code, result.output
        assert result.stdout.startswith(STATUS[code])
        assert result.stdout.count("\n") == 1
        return result.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.cli.run("server", "check", *words, "--format", "json").stdout)


@pytest.fixture
def check(cli: CommandLine) -> Checks:
    return Checks(cli)


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def orders(jetstream: sync.JetStream, name: str) -> str:
    jetstream.create_stream(name, subjects=[f"{name}.>"])
    for count in range(3):
        jetstream.publish(f"{name}.{count}", b"ok %d" % count)
    return name


def test_a_connection_is_checked_and_measured(check: Checks) -> None:
    line = check(OK, "connection", "--connect-warn", "1m", "--connect-critical", "2m")
    check(CRITICAL, "conn", "--rtt-critical", "1ns")
    check(WARNING, "conn", "--req-warn", "1ns", "--connect-warn", "1m", "--connect-critical", "2m")

    text, _, measures = line.partition(" | ")
    assert re.fullmatch(
        r"connect_time=[\d.]+s;60.0000;120.0000 rtt=[\d.]+s;0.5000;1.0000 "
        r"request_time=[\d.]+s;0.5000;1.0000\n",
        measures,
    )
    assert text.startswith("OK Connection OK:connected to 127.0.0.1:")


def test_a_server_that_does_not_answer_is_critical() -> None:
    nobody = Checks(CommandLine("nats://127.0.0.1:1"))

    assert "Crit:" in nobody(CRITICAL, "connection")
    assert nobody.json("stream", "--stream", "A")["status"] == "CRITICAL"


def test_wrong_use_is_unknown_to_a_monitor(check: Checks, tmp_path: Path) -> None:
    for words in (
        ("stream",),
        ("nonsense",),
        ("connection", "--rtt-warn", "soon"),
        ("--format", "xml", "connection"),
        ("connection", "--context", "does-not-exist"),
        ("message", "--stream", "A", "--content", "("),
        ("jetstream", "--mem-warn", "90", "--mem-critical", "50"),
        ("connection", "--format", "text", "--outfile", str(tmp_path / "x")),
    ):
        result = check.cli.run("server", "check", *words)
        assert result.exit_code == UNKNOWN, result.output
        assert result.stderr


def test_a_stream_is_checked(check: Checks, jetstream: sync.JetStream, orders: str) -> None:
    stream = ("stream", "--stream", orders)

    assert "OK:0 sources" in check(OK, *stream)
    assert "3 messages" in check(OK, *stream, "--msgs-critical", "1", "--msgs-warn", "2")
    assert "Warn:3 messages" in check(WARNING, *stream, "--msgs-warn", "3")
    assert "Crit:3 messages" in check(CRITICAL, *stream, "--msgs-critical", "3")
    assert "3 subjects" in check(OK, *stream, "--subjects-warn", "4", "--subjects-critical", "5")
    check(CRITICAL, *stream, "--subjects-warn", "2", "--subjects-critical", "3")
    check(WARNING, *stream, "--subjects-warn", "3", "--subjects-critical", "2")
    assert "not clustered" in check(CRITICAL, *stream, "--peer-expect", "3")
    assert "Crit:0 sources" in check(CRITICAL, *stream, "--min-sources", "1")
    assert "not found" in check(CRITICAL, "stream", "--stream", f"{orders}x")
    jetstream.update_stream(orders, metadata={"io.nats.monitor.msgs-critical": "5"})
    check(CRITICAL, *stream)
    check(OK, *stream, "--msgs-critical", "1")
    jetstream.update_stream(orders, metadata={"io.nats.monitor.msgs-critical": "many"})
    assert "io.nats.monitor.msgs-critical" in check(CRITICAL, *stream)


def test_a_mirror_is_checked(check: Checks, jetstream: sync.JetStream, orders: str) -> None:
    jetstream.create_stream(f"{orders}m", mirror=orders)
    mirror = ("stream", "--stream", f"{orders}m")

    found = check.json(*mirror, "--lag-critical", "100")

    assert found["status"] == "OK"
    assert f"mirror of {orders}" in found["ok"]
    jetstream.create_stream(f"{orders}n", mirror=f"{orders}x")
    lost = check.json("stream", "--stream", f"{orders}n", "--seen-critical", "1ms")
    assert lost["status"] == "CRITICAL"


def test_a_consumer_is_checked(check: Checks, jetstream: sync.JetStream, orders: str) -> None:
    reader = jetstream.create_consumer(orders, durable="worker")
    words = ("consumer", "--stream", orders, "--consumer", "worker")

    assert "pending=3" in check(OK, *words)
    check(CRITICAL, *words, "--unprocessed-critical", "3")
    check(OK, *words, "--unprocessed-critical", "4", "--outstanding-ack-critical", "-1")
    assert "no ack yet" in check(CRITICAL, *words, "--last-ack-critical", "1h")
    for message in reader.fetch(3, timeout=20):
        message.ack_sync()
    check(OK, *words, "--last-ack-critical", "1h", "--last-delivery-critical", "1h")
    check(CRITICAL, *words, "--last-delivery-critical", "1ns")
    assert "priority groups" in check(CRITICAL, *words, "--pinned")
    assert "not found" in check(CRITICAL, "consumer", "--stream", orders, "--consumer", "none")
    assert "not found" in check(CRITICAL, "consumer", "--stream", "none", "--consumer", "none")


def test_a_message_is_checked(check: Checks, jetstream: sync.JetStream, orders: str) -> None:
    words = ("message", "--stream", orders, "--subject", f"{orders}.1")

    assert "size=4B" in check(OK, *words, "--age-critical", "1h", "--content", "^ok")
    check(WARNING, *words, "--age-warn", "1ns", "--age-critical", "1h")
    check(CRITICAL, *words, "--age-critical", "1ns")
    assert "does not match" in check(CRITICAL, *words, "--content", "^bad")
    assert "no Unix time" in check(CRITICAL, *words, "--body-timestamp")
    jetstream.publish(f"{orders}.1", b"1000\n")
    check(CRITICAL, *words, "--body-timestamp", "--age-critical", "1y")
    assert "no message" in check(CRITICAL, "message", "--stream", orders, "--subject", "none")
    assert "not found" in check(CRITICAL, "message", "--stream", "none")


def test_the_use_of_jetstream_is_checked(check: Checks, orders: str) -> None:
    assert orders
    line = check(OK, "js")

    for name in ("storage_pct=", "streams=", "replicas_ok=", "replicas_fail=0"):
        assert name in line
    assert "replicas_ok" not in check(OK, "jetstream", "--no-replicas")


def test_a_bucket_is_checked(check: Checks, jetstream: sync.JetStream, name: str) -> None:
    bucket = jetstream.create_key_value(name)
    bucket.put("color", b"blue")
    bucket.put("gone", b"x")
    bucket.delete("gone")
    words = ("kv", "--bucket", name)

    assert "key color found" in check(OK, *words, "--key", "color", "--values-critical", "3")
    check(WARNING, *words, "--values-warn", "2", "--values-critical", "3")
    check(CRITICAL, *words, "--values-warn", "5", "--values-critical", "2")
    assert "is deleted" in check(CRITICAL, *words, "--key", "gone")
    assert "not found" in check(CRITICAL, *words, "--key", "never")
    assert "not found" in check(CRITICAL, "kv", "--bucket", f"{name}x")


def test_a_service_is_checked(check: Checks, server: ServerProcess, name: str) -> None:
    words = ("request", "--subject", name, "--payload", "hello")
    assert check(CRITICAL, *words)
    with sync.connect(server.url) as client:
        client.subscribe(name, callback=lambda message: message.respond(b"ok " + message.data))
        client.flush()

        check(OK, *words, "--match-payload", "^ok hello$", "--response-critical", "1m")
        assert "does not match" in check(CRITICAL, *words, "--match-payload", "^no")


def test_results_have_the_form_that_a_monitor_reads(
    check: Checks, orders: str, tmp_path: Path
) -> None:
    file = tmp_path / "stream.prom"
    words = ("stream", "--stream", orders, "--msgs-critical", "3")

    found = check.json(*words)
    metrics = check.cli.ok("server", "check", *words, "--format", "prometheus")
    check.cli.ok("srv", "check", "--format", "prometheus", "--outfile", file, *words)
    table = check.cli.run("server", "check", *words, "--format", "text")
    same = check.cli.run("server", "check", *words, "--json")

    assert (found["status"], found["check_suite"], found["check_name"]) == (
        "CRITICAL", "stream", orders,
    )  # fmt: skip
    assert found["critical"] == ["3 messages"]
    assert found["perf_data"][0] == {
        "name": "messages", "value": 3.0, "warning": 0.0, "critical": 3.0, "unit": "",
    }  # fmt: skip
    assert f'nats_server_check_stream_messages{{item="{orders}"}} 3\n' in metrics
    status = f'nats_server_check_stream_status_code{{item="{orders}",status="CRITICAL"}} 2\n'
    assert status in metrics
    assert file.read_text() == metrics
    assert table.exit_code == CRITICAL
    assert "Critical  3 messages" in table.stdout
    assert (same.exit_code, json.loads(same.stdout)) == (CRITICAL, found)
