"""`jetspark server list`, `info`, `ping`, `report`: the monitoring port, the system account."""

import socket
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from tests.support.command_line import CommandLine, on_terminal
from tests.support.servers import ServerProcess

from jetspark import sync
from jetspark.cli.server import facts, querying, reports
from jetspark.cli.server.querying import Answer
from jetspark.cli.top import screen


class Place(NamedTuple):
    """A server, and how to ask it."""

    cli: CommandLine
    url: str
    words: tuple[str, ...]

    def json(self, *words: str) -> Any:
        return self.cli.json("server", *words, *self.words)

    def ok(self, *words: str) -> str:
        return self.cli.ok("server", *words, *self.words)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


SYSTEM = """
server_name: only
jetstream: {}
accounts {
  $SYS { users: [{user: admin, password: secret}] }
  SHOP { jetstream: enabled, users: [{user: shop, password: secret}] }
}
"""


@pytest.fixture(scope="module", params=["jetspark", "nats-server", "system account"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A server with a stream, a consumer and a connection, asked in each way."""
    folder = tmp_path_factory.mktemp("reports")
    if request.param == "system account":
        config = folder / "server.conf"
        config.write_text(SYSTEM)
        running = ServerProcess("nats-server", folder / "store", "-c", str(config))
        user = {"user": "shop", "password": "secret"}
        words: tuple[str, ...] = ("--user", "admin", "--password", "secret")
    else:
        port = str(free_port())
        running = ServerProcess(request.param, folder, "-js", "-m", port, "-n", "only")
        user, words = {}, ("--monitor", f"127.0.0.1:{port}")
    with sync.connect(running.url, name="worker", **user) as client:  # type: ignore[arg-type]
        jetstream = client.jetstream()
        jetstream.create_stream("ORDERS", subjects=["orders.>"])
        jetstream.publish("orders.new", b"one")
        jetstream.create_consumer("ORDERS", durable="shop")
        yield Place(CommandLine(running.url), running.url, words)
    running.kill()


@pytest.fixture(autouse=True)
def one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the answer of the only server no other comes: the wait for it is short."""
    monkeypatch.setattr(querying, "_STALL", 0.05)


def test_servers_are_listed_and_answer(place: Place) -> None:
    [listed] = place.json("list")
    [answered] = place.json("ping", "1")
    lines = place.ok("ls", "--sort", "mem").splitlines()

    assert (listed["server"], answered["server"]) == ("only", "only")
    assert listed["connections"] >= 1
    assert lines[1].split()[0] == "only"
    missing = place.cli.run("server", "list", "2", *place.words)
    assert missing.exit_code == 1
    assert "1 of 2 servers did not answer" in missing.stderr


def test_one_server_is_described(place: Place) -> None:
    shown = place.ok("info")
    found = place.json("info", "only")

    for text in ("Server information for only (", "API Support Level: ", "Maximum Payload: 1 MiB"):
        assert text in shown
    assert found["server_name"] == "only"
    wrong = place.cli.fails(1, "server", "info", "onli", *place.words)
    assert "did you mean only?" in wrong


def test_connections_are_reported(place: Place) -> None:
    found = place.json("report", "connections", "--sort", "in-msgs")
    lines = place.ok("report", "conns", "--top", "1").splitlines()

    [worker] = [one for one in found if one.get("name") == "worker"]
    assert worker["server"] == "only"
    assert worker["in_msgs"] > 0
    assert len(lines) == 2
    assert place.json("report", "connections", "--account", "NONE") == []


def test_streams_consumers_and_their_use_are_reported(place: Place) -> None:
    [stream] = place.json("report", "streams")
    [consumer] = place.json("report", "consumers", "--stream", "ORDERS")
    [usage] = place.json("report", "jetstream")

    assert (stream["name"], stream["messages"], stream["consumers"]) == ("ORDERS", 1, 1)
    assert (consumer["name"], consumer["pending"], consumer["pull"]) == ("shop", 1, True)
    assert (usage["streams"], usage["consumers"], usage["messages"]) == (1, 1, 1)
    assert place.json("report", "consumers", "--stream", "OTHER") == []
    assert "ORDERS" in place.ok("report", "streams")
    assert "Pull" in place.ok("report", "consumers")
    assert "only" in place.ok("report", "js")


def test_accounts_and_health_are_reported(place: Place) -> None:
    used = [one for one in place.json("report", "accounts") if one["account"] in {"$G", "SHOP"}]
    [health] = place.json("report", "health")

    assert used[0]["conns"] >= 1
    assert used[0]["in_msgs"] > 0
    assert (health["server"], health["status"]) == (health["server"], "ok")
    assert "ok" in place.ok("report", "health")


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        ("server", "list"), ("server", "report", "connections"), ("server", "report", "streams"),
        ("server", "report", "consumers"), ("server", "report", "jetstream"),
        ("server", "report", "accounts"), ("server", "report", "health"), ("top", "-r", "1"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_tables_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int, words: tuple[str, ...]
) -> None:
    """Of servers with long names and numbers; where the answers come from does not matter."""
    number = 123_456_789
    counts = dict.fromkeys(("in_msgs", "out_msgs", "in_bytes", "out_bytes"), number)
    data: dict[str, Any] = {
        **counts, "server_id": "N" * 56, "version": "2.15.1", "host": "10.100.200.300",
        "uptime": "312d23h59m59s", "start": "2026", "mem": number, "cpu": 799.5, "cores": 128,
        "connections": 65_000, "subscriptions": 99_999, "status": "ok",
        "streams": 10_000, "consumers": 99_999, "messages": number, "bytes": number,
        "memory": number, "storage": number, "api": {"total": number, "errors": 99},
    }  # fmt: skip
    connection = {
        **counts, "cid": 99_999, "name": "a worker with a long name", "ip": "10.100.200.300",
        "port": 65_000, "account": "A" * 56, "authorized_user": "U" * 56, "uptime": "312d23h59m",
        "subscriptions": 999, "pending_bytes": 99_999, "lang": "python-jetspark", "version": "1.1",
    }  # fmt: skip
    stream = {
        "name": "ORDERS_OF_THE_SHOP", "config": {"storage": "file"},
        "state": {"messages": number, "bytes": number, "consumer_count": 99, "last_seq": number},
        "consumer_detail": [{"name": "a-consumer-with-a-long-name", "num_pending": number}],
    }  # fmt: skip
    sent = {"msgs": number, "bytes": number}

    def answers(_given: object, _monitor: str, kind: str, _options: object = None) -> list[Answer]:
        found = {
            "varz": data, "jsz": {**data, "account_details": [
                {"name": "SHOP", "stream_detail": [stream]}
            ]},
            "connz": {"connections": [connection]}, "healthz": data,
            "accstatz": {"account_statz": [
                {"acc": "A" * 56, "conns": 9, "sent": sent, "received": sent}
            ]},
        }  # fmt: skip
        return [Answer("nats-server-of-the-east-1", 0.001234, found[kind])]

    for module in (facts, reports, screen):
        monkeypatch.setattr(module, "ask_servers", answers)
    on_terminal(monkeypatch, width)

    drawn = CommandLine().ok(*words)

    assert "│" in drawn
    assert max(map(len, drawn.splitlines())) <= width


def test_a_user_who_may_not_ask_learns_who_may(
    cli: CommandLine, nats_server: Callable[[str], ServerProcess]
) -> None:
    assert "--monitor" in cli.fails(1, "server", "list", "--timeout", "1s")
    secured = CommandLine(nats_server(SYSTEM).url)
    shop = ("--user", "shop", "--password", "secret")
    assert "system account" in secured.fails(1, "server", "info", "--timeout", "1s", *shop)


def test_a_monitoring_port_that_is_none_is_named(cli: CommandLine, server: ServerProcess) -> None:
    nobody = cli.fails(1, "server", "list", "--monitor", "http://127.0.0.1:1")
    wrong = cli.fails(2, "server", "list", "--monitor", f"nats://{server.address}")

    assert "no monitoring port answers" in nobody
    assert "http://127.0.0.1:8222" in wrong


def test_the_account_reports_its_own_connections_and_traffic(place: Place) -> None:
    words = place.words
    if "--user" in words:  # any user may ask about its own account
        words = ("--user", "shop", "--password", "secret")
    cli = place.cli

    found = cli.json("account", "report", "connections", *words)
    [total] = cli.json("account", "report", "statistics", *words)

    assert "worker" in [one["name"] for one in found]
    assert {one.get("account", "$G") for one in found} == {total["acc"]}
    assert total["conns"] >= 2
    assert total["received"]["msgs"] > 0
    only = cli.json("account", "report", "conns", "--subject", "none.of.them", *words)
    assert only == []
    shown = cli.ok("account", "rep", "stats", *words).splitlines()
    assert shown[1].startswith("only ")


def test_a_server_is_checked(place: Place) -> None:
    words = ("server", "check", "server", "--name", "only", *place.words)

    fine = place.cli.json(*words, "--js-required", "--conn-critical", "1000")
    bad = place.cli.run(*words, "--tls-required", "--uptime-critical", "1d", "--mem-warn", "1")
    young = place.cli.run(*words, "--uptime-warn", "1d")
    other = place.cli.run("server", "check", "server", "--name", "other", *place.words)
    wrong = place.cli.run(*words, "--uptime-warn", "1s", "--uptime-critical", "1m")

    assert fine["status"] == "OK"
    assert {"cpu", "mem", "conn", "subs", "uptime"} == {one["name"] for one in fine["perf_data"]}
    assert bad.exit_code == 2
    assert "Crit:TLS is not required" in bad.stdout
    assert "Crit:up " in bad.stdout
    assert "Warn:Memory in bytes " in bad.stdout
    assert (young.exit_code, other.exit_code, wrong.exit_code) == (1, 2, 3)
    assert "no answer of server other" in other.stdout


def test_a_server_alone_has_no_meta_cluster(place: Place) -> None:
    words = ("--expect", "1", "--lag-critical", "1", "--seen-critical", "1s", *place.words)

    result = place.cli.run("server", "check", "meta", *words)

    assert result.exit_code == 2
    assert "not clustered" in result.stdout
