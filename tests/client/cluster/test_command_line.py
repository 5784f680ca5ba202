"""The reading commands on a cluster of three nats-servers: replicas, leaders, all servers."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.cluster import Cluster
from tests.support.command_line import CommandLine, on_terminal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"), system_account=True)
    asyncio.run(running.wait_ready())
    yield running
    running.close()


@pytest.fixture(scope="module")
def cli(cluster: Cluster) -> CommandLine:
    """Commands for the cluster, in which a stream, a bucket and a store have three replicas."""
    made = CommandLine(",".join(cluster.urls))
    made.ok("stream", "add", "ORDERS", "--subjects", "orders.>", "--replicas", "3")
    made.ok("pub", "orders.new", "--count", "5", "--jetstream", "body {{Count}}")
    made.ok("consumer", "add", "ORDERS", "worker")
    made.ok("kv", "add", "SETTINGS", "--replicas", "3", "--history", "5")
    made.ok("kv", "put", "SETTINGS", "color", "blue")
    made.ok("object", "add", "FILES", "--replicas", "3")
    made.ok("object", "put", "FILES", "--name", "notes", stdin="text")
    return made


ADMIN = ("--user", "admin", "--password", "secret")


def test_streams_are_shown_with_their_replicas(cli: CommandLine) -> None:
    info = cli.json("stream", "info", "ORDERS")
    leader = info["cluster"]["leader"]
    shown = cli.ok("stream", "info", "ORDERS")
    [reported] = cli.ok("stream", "report").splitlines()[1:]

    assert sorted([leader, *(one["name"] for one in info["cluster"]["replicas"])]) == [
        "n0", "n1", "n2",
    ]  # fmt: skip
    assert f"Leader: {leader}" in shown
    assert shown.count("current, seen ") == 2
    assert f"{leader}*" in reported
    assert shown.count("Replica:") == 1
    assert "Leaders" not in cli.ok("stream", "report", "--leaders")
    assert cli.json("stream", "find", "--leader", leader, "--subject", "orders.x", "-n") == [
        "ORDERS"
    ]
    assert cli.json("stream", "find", "--cluster", "^C1$", "--replicas", "2", "-n") == []


def test_what_is_stored_is_read(cli: CommandLine) -> None:
    assert cli.ok("stream", "cat", "ORDERS", "--raw").splitlines()[-1] == "body 5"
    assert cli.json("stream", "view", "ORDERS", "2")[1]["seq"] == 2
    assert cli.ok("stream", "get", "ORDERS", "--last-for", "orders.new").endswith("body 5\n")
    assert cli.json("stream", "subjects", "ORDERS") == {"orders.new": 5}
    assert cli.json("stream", "state", "ORDERS")["messages"] == 5
    assert [one["config"]["name"] for one in cli.json("stream", "ls")] == ["ORDERS"]
    assert cli.ok("sub", "orders.>", "--all", "--raw", "-T").splitlines()[0] == "body 1"
    assert cli.said("stream", "gaps", "ORDERS") == "No deleted messages in ORDERS\n"


def test_consumers_are_shown_with_their_leader(cli: CommandLine) -> None:
    info = cli.json("consumer", "info", "ORDERS", "worker")

    assert info["cluster"]["leader"] in {"n0", "n1", "n2"}
    assert cli.ok("consumer", "report", "ORDERS").split()[-1] == info["cluster"]["leader"]
    assert cli.json("consumer", "ls", "ORDERS", "--names") == ["worker"]
    assert cli.json("consumer", "state", "ORDERS", "worker")["num_pending"] == 5
    assert cli.json("consumer", "find", "ORDERS", "--pending", "6", "-n") == ["worker"]
    assert "Replica" in cli.ok("consumer", "info", "ORDERS", "worker")
    assert cli.json("consumer", "explain", "ORDERS", "worker")["reason"] == "no_pull_waiting"
    assert cli.ok("consumer", "next", "ORDERS", "worker", "--raw", "--no-ack") == "body 1\n"


def test_buckets_and_objects_are_read(cli: CommandLine) -> None:
    assert cli.ok("kv", "get", "SETTINGS", "color", "--raw") == "blue"
    assert cli.ok("kv", "ls", "SETTINGS") == "color\n"
    assert cli.json("kv", "history", "SETTINGS", "color")[0]["revision"] == 1
    assert "Replicas: 3" in cli.ok("kv", "info", "SETTINGS")
    assert "Leader: " in cli.ok("kv", "info", "SETTINGS")
    assert cli.ok("kv", "ls", "--names") == "SETTINGS\n"
    assert [one["key"] for one in cli.json("kv", "watch", "SETTINGS", "--count", "1")] == ["color"]
    assert [one["revision"] for one in cli.json("kv", "snapshot", "SETTINGS", "--at", "1")] == [1]
    assert cli.json("kv", "snapshot", "SETTINGS")[0]["key"] == "color"
    assert cli.ok("object", "get", "FILES", "notes", "--output", "-") == "text"
    assert cli.json("object", "ls", "FILES")[0]["name"] == "notes"
    assert "Replicas: 3" in cli.ok("object", "info", "FILES")
    assert "Leader: " in cli.ok("object", "info", "FILES")


def test_all_servers_are_reported(cli: CommandLine) -> None:
    assert sorted(one["server"] for one in cli.json("server", "list", "3", *ADMIN)) == [
        "n0", "n1", "n2",
    ]  # fmt: skip
    assert len(cli.json("server", "ping", "3", *ADMIN)) == 3
    assert cli.json("server", "info", "n1", *ADMIN)["server_name"] == "n1"
    assert len(cli.json("server", "report", "health", *ADMIN)) == 3
    assert {one["server"] for one in cli.json("server", "report", "jetstream", *ADMIN)} == {
        "n0", "n1", "n2",
    }  # fmt: skip
    assert cli.json("account", "report", "statistics") != []
    assert len(cli.json("rtt", "1")) == 3
    assert "Connected Cluster: C1" in cli.ok("account", "info")


def test_the_cluster_is_checked(cli: CommandLine) -> None:
    meta = ("server", "check", "meta", "--lag-critical", "100", "--seen-critical", "1m", *ADMIN)
    stream = ("server", "check", "stream", "--stream", "ORDERS", "--peer-lag-critical", "100")

    def current() -> bool:
        # A server that has just joined is current with the next change of streams or consumers.
        cli.ok("consumer", "add", "KV_SETTINGS", "--ephemeral")
        return cli.run(*meta, "--expect", "3").exit_code == 0

    wait_until(current, every=0.2)
    fine = cli.ok(*meta, "--expect", "3")
    fewer = cli.run(*meta, "--expect", "5")

    assert "3 peers led by n" in fine
    assert "peers=3" in fine
    assert fewer.exit_code == 2
    assert "3 peers of expected 5" in fewer.stdout
    assert cli.run("server", "check", "meta", "--expect", "3").exit_code == 3
    assert cli.json(*stream, "--peer-expect", "3")["status"] == "OK"
    assert cli.run(*stream, "--peer-expect", "5").exit_code == 2
    assert "replicas_fail=0" in cli.ok("server", "check", "jetstream")


@pytest.mark.parametrize("width", [80, 120])
def test_tables_of_replicas_fit_the_terminal(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    on_terminal(monkeypatch, width)

    for words in (("stream", "report", "--all"), ("consumer", "report", "ORDERS")):
        lines = cli.ok(*words).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[1].startswith("┌")
