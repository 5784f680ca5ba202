"""The reading commands on a cluster of three nats-servers: replicas, leaders, all servers."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from click.testing import Result
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

    looks: list[str] = []

    def current() -> bool:
        # A server that has just joined is current with the next change of streams or consumers,
        # or only for another leader; and none is while a change is made.
        if len(looks) % 10 == 0:
            cli.ok("consumer", "add", "KV_SETTINGS", "--ephemeral")
        elif len(looks) % 10 == 5:
            cli.run("server", "cluster", "step-down", *ADMIN)
        looks.append(cli.run(*meta, "--expect", "3").stdout)
        return looks[-1].startswith("OK")

    wait_until(current, every=0.2)
    fine = looks[-1]
    fewer = cli.run(*meta, "--expect", "5")

    assert "3 peers led by n" in fine
    assert "peers=3" in fine
    assert fewer.exit_code == 2
    assert "3 peers of expected 5" in fewer.stdout
    assert cli.run("server", "check", "meta", "--expect", "3").exit_code == 3
    assert cli.json(*stream, "--peer-expect", "3")["status"] == "OK"
    assert cli.run(*stream, "--peer-expect", "5").exit_code == 2
    assert "replicas_fail=0" in cli.ok("server", "check", "jetstream")


@pytest.mark.parametrize("words", [("stream", "ORDERS"), ("consumer", "ORDERS", "worker")])
def test_leaders_step_down(cli: CommandLine, words: tuple[str, ...]) -> None:
    kind, *named = words
    step_down = (kind, "cluster", "step-down", *named, "--timeout", "3s", "--preferred")
    before = cli.json(kind, "info", *named)["cluster"]
    wanted = before["replicas"][0]["name"]
    said: list[str] = []

    def is_led() -> bool:
        # The same one or another may win the election, if the wanted one lagged.
        said.append(cli.run(*step_down, wanted).stderr)
        return bool(cli.json(kind, "info", *named)["cluster"].get("leader") == wanted)

    wait_until(is_led)
    assert f"New leader elected: {wanted}" in said[-1]
    assert f"{wanted} leads {kind}" in cli.fails(1, *step_down, wanted)
    assert "no replica on n7" in cli.fails(1, *step_down, "n7")


def test_the_leader_of_the_cluster_steps_down(cli: CommandLine) -> None:
    step_down = ("server", "cluster", "step-down")
    results: list[Result] = []

    def is_done() -> bool:
        # The same server may win the election.
        results.append(cli.run(*step_down, "--json", *ADMIN))
        return results[-1].exit_code == 0

    wait_until(is_done)
    done = json.loads(results[-1].stdout)

    assert {done["old_leader"], done["leader"]} < {"n0", "n1", "n2"}
    assert done["old_leader"] != done["leader"]
    remove = ("server", "cluster", "peer-remove")
    assert "leads the cluster" in cli.fails(1, *remove, done["leader"], *ADMIN)
    assert "server n7 does not exist" in cli.fails(1, *remove, "n7", *ADMIN)
    assert "--force" in cli.fails(2, *remove, done["old_leader"], *ADMIN)
    assert "system account" in cli.fails(1, *step_down)


def test_another_server_takes_the_place_of_a_removed_replica(cli: CommandLine) -> None:
    cli.ok("stream", "add", "PAIR", "--subjects", "pair", "--replicas", "2")
    cluster = cli.json("stream", "info", "PAIR")["cluster"]
    removed = cluster["replicas"][0]["name"]
    [other] = {"n0", "n1", "n2"} - {cluster["leader"], removed}
    remove = ("stream", "cluster", "peer-remove", "PAIR")

    def names() -> set[str]:
        now = cli.json("stream", "info", "PAIR")["cluster"]
        return {now.get("leader"), *(one["name"] for one in now.get("replicas", ()))}

    try:
        assert "--force" in cli.fails(2, *remove, removed)
        assert "replica n7 does not exist" in cli.fails(1, *remove, "n7", "--force")
        assert cli.json(*remove, removed, "--force") == {"stream": "PAIR", "peer": removed}
        wait_until(lambda: names() == {cluster["leader"], other}, every=0.1)
    finally:
        cli.ok("stream", "rm", "PAIR", "--force")


@pytest.mark.parametrize("width", [80, 120])
def test_tables_of_replicas_fit_the_terminal(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    on_terminal(monkeypatch, width)

    for words in (("stream", "report", "--all"), ("consumer", "report", "ORDERS")):
        lines = cli.ok(*words).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[1].startswith("┌")
