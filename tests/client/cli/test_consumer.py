"""`jetspark consumer` on our server and on nats-server."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess

from jetspark import PriorityPolicy, PullGroup, sync


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def orders(jetstream: sync.JetStream, name: str) -> str:
    """A stream with five messages of two subjects."""
    jetstream.create_stream(name, subjects=[f"{name}.>"], allow_direct=True)
    for count in range(5):
        jetstream.publish(f"{name}.{count % 2}", b"m%d" % count, headers={"N": str(count)})
    return name


@pytest.fixture
def worker(cli: CommandLine, orders: str) -> tuple[str, str]:
    cli.ok("consumer", "add", orders, "worker")
    return orders, "worker"


def test_a_consumer_is_durable_and_acknowledged_explicitly(cli: CommandLine, orders: str) -> None:
    config = cli.json("consumer", "add", orders, "worker")["config"]
    other = cli.json("consumer", "add", orders, "--ephemeral", "--ack", "none")["config"]

    assert (config["durable_name"], config["ack_policy"], config["deliver_policy"]) == (
        "worker", "explicit", "all",
    )  # fmt: skip
    assert other.get("durable_name", "") == ""
    assert other["ack_policy"] == "none"
    assert "CONSUMER" in cli.fails(2, "consumer", "add", orders)
    taken = cli.fails(1, "consumer", "add", orders, "worker", "--wait", "7s")
    assert f"consumer edit {orders} worker" in taken


def test_every_option_of_add_sets_what_it_says(cli: CommandLine, orders: str) -> None:
    config = cli.json(
        "consumer", "add", orders, "w", "--filter", f"{orders}.0,{orders}.1", "--description",
        "d", "--wait", "90s", "--max-deliver", "20", "--max-pending", "7", "--backoff", "linear",
        "--backoff-steps", "3", "--backoff-min", "1s", "--backoff-max", "3s", "--headers-only",
        "--sample", "50", "--max-pull-batch", "9", "--max-pull-expire", "30s",
        "--max-pull-bytes", "1MB", "--inactive-threshold", "1h", "--metadata", "a=b", "--deliver",
        "3", "--replay", "original", "--max-waiting", "11", "--memory", "--pause", "1h",
    )["config"]  # fmt: skip
    push = cli.json(
        "consumer", "add", orders, "p", "--target", f"to.{orders}", "--deliver-group", "g",
        "--flow-control", "--heartbeat", "5s", "--bps", "8000", "--filter", f"{orders}.0",
        "--deliver", "1h",
    )["config"]  # fmt: skip
    pinned = cli.json(
        "consumer", "add", orders, "g", "--pinned-groups", "jobs", "--pinned-ttl", "1m"
    )["config"]

    second = 10**9
    expected = {
        "filter_subjects": [f"{orders}.0", f"{orders}.1"], "description": "d", "max_deliver": 20,
        "max_ack_pending": 7, "backoff": [second, 2 * second, 3 * second], "headers_only": True,
        "sample_freq": "50%", "max_batch": 9, "max_expires": 30 * second, "max_bytes": 2**20,
        "inactive_threshold": 3600 * second, "deliver_policy": "by_start_sequence",
        "opt_start_seq": 3, "replay_policy": "original", "max_waiting": 11, "mem_storage": True,
    }  # fmt: skip
    assert {field: config.get(field) for field in expected} == expected
    assert config["metadata"]["a"] == "b"
    assert config["pause_until"]
    assert (push["deliver_subject"], push["deliver_group"]) == (f"to.{orders}", "g")
    assert (push["flow_control"], push["idle_heartbeat"]) == (True, 5 * second)
    assert (push["rate_limit_bps"], push["filter_subject"]) == (8000, f"{orders}.0")
    assert (push["ack_policy"], push["deliver_policy"]) == ("none", "by_start_time")
    assert (pinned["priority_policy"], pinned["priority_groups"]) == ("pinned_client", ["jobs"])
    assert pinned["priority_timeout"] == 60 * second


def test_a_consumer_is_made_from_a_file(cli: CommandLine, orders: str, tmp_path: Path) -> None:
    file = tmp_path / "worker.yaml"
    file.write_text("durable_name: w\nack_policy: all\nack_wait: 1m\nbackoff: [1s, 2s]\n")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("durable: w\n")

    config = cli.json("consumer", "add", orders, "--config", file, "--max-deliver", "9")["config"]

    assert (config["durable_name"], config["ack_policy"], config["max_deliver"]) == ("w", "all", 9)
    assert config["backoff"] == [10**9, 2 * 10**9]
    told = cli.fails(1, "consumer", "add", orders, "--config", wrong)
    assert "did you mean durable_name?" in told


def test_consumers_are_listed_and_reported(cli: CommandLine, worker: tuple[str, str]) -> None:
    stream, name = worker
    cli.ok("consumer", "next", stream, name, "--count", "2", "--no-ack")

    assert cli.ok("consumer", "ls", stream, "--names") == "worker\n"
    assert cli.json("consumer", "ls", stream, "--names") == ["worker"]
    [row] = cli.ndjson("consumer", "ls", stream)
    assert (row["num_pending"], row["num_ack_pending"]) == (3, 2)
    line = cli.ok("consumer", "report", stream).splitlines()[1].split()
    assert line[:8] == ["worker", "Pull", "Explicit", "30s", "2", "0", "3", "/"]
    assert cli.ok("consumer", "ls", stream).splitlines()[1].startswith("worker ")
    shown = cli.ok("consumer", "info", stream, name)
    assert "Outstanding Acks: 2 out of maximum 1,000" in shown
    assert "Unprocessed Messages: 3" in shown
    assert "Ack Wait" not in cli.ok("consumer", "state", stream, name)


def test_messages_are_fetched_and_settled(
    cli: CommandLine, jetstream: sync.JetStream, worker: tuple[str, str]
) -> None:
    first = cli.run("consumer", "next", *worker)
    document = cli.json("consumer", "next", *worker, "--nak")
    again = cli.json("consumer", "next", *worker, "--term")
    several = cli.json("consumer", "next", *worker, "--count", "2", "--wait", "1s")
    raw = cli.ok("consumer", "next", *worker, "--raw")
    none = cli.fails(1, "consumer", "next", *worker, "--wait", "100ms")

    assert first.exit_code == 0
    assert (
        f"subj: {worker[0]}.0 / tries: 1 / cons seq: 1 / str seq: 1 / pending: 4" in first.stdout
    )
    assert first.stdout.endswith("\n  N: 0\n\nm0\n\n")
    assert first.stderr == "Acknowledged message\n"
    assert (document["seq"], again["seq"], again["num_delivered"]) == (2, 2, 2)
    assert [base64.b64decode(one["data"]) for one in several] == [b"m2", b"m3"]
    assert raw == "m4\n"
    assert "consumer explain" in none
    info = jetstream.stream(worker[0]).consumer("worker").info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 5)
    assert "exclude" in cli.fails(2, "consumer", "next", *worker, "--nak", "--term")


def test_a_push_consumer_is_not_fetched_from(cli: CommandLine, orders: str) -> None:
    cli.ok("consumer", "add", orders, "p", "--target", f"to.{orders}")

    assert "jetspark sub" in cli.fails(1, "consumer", "next", orders, "p")


def test_an_edit_shows_the_difference(cli: CommandLine, worker: tuple[str, str]) -> None:
    dry = cli.run("consumer", "edit", *worker, "--wait", "2m", "--dry-run")
    refused = cli.fails(2, "consumer", "edit", *worker, "--wait", "2m")
    after = cli.json("consumer", "edit", *worker, "--wait", "2m", "--max-deliver", "3", "-f")
    same = cli.said("consumer", "edit", *worker, "--wait", "2m", "-f")

    assert dry.exit_code == 1
    assert "- ack_wait: 30s" in dry.stdout
    assert "+ ack_wait: 2m0s" in dry.stdout
    assert "--force" in refused
    assert (after["config"]["ack_wait"], after["config"]["max_deliver"]) == (120 * 10**9, 3)
    assert same == "No difference in configuration\n"


def test_a_copy_has_the_configuration_of_the_other(
    cli: CommandLine, worker: tuple[str, str]
) -> None:
    cli.ok("consumer", "edit", *worker, "--wait", "2m", "-f")

    made = cli.json("consumer", "copy", *worker, "second", "--filter", f"{worker[0]}.0")

    assert made["config"]["ack_wait"] == 120 * 10**9
    assert made["config"]["filter_subject"] == f"{worker[0]}.0"
    assert made["num_pending"] == 3


def test_a_consumer_is_paused_and_resumed(cli: CommandLine, worker: tuple[str, str]) -> None:
    assert cli.json("consumer", "pause", *worker, "1h", "-f")["paused"] is True
    assert "Paused For: " in cli.ok("consumer", "info", *worker)
    assert cli.json("consumer", "explain", *worker)["reason"] == "paused"
    assert cli.json("consumer", "resume", *worker, "-f")["paused"] is False
    assert "is not paused" in cli.said("consumer", "resume", *worker)
    assert "passed" in cli.fails(1, "consumer", "pause", *worker, "2020-01-01T00:00:00Z", "-f")
    assert "1h" in cli.fails(2, "consumer", "pause", *worker, "soon")
    assert "--force" in cli.fails(2, "consumer", "pause", *worker, "1h")


def test_a_reset_delivers_again(cli: CommandLine, worker: tuple[str, str]) -> None:
    cli.ok("consumer", "next", *worker, "--count", "5")

    done = cli.json("consumer", "reset", *worker, "--sequence", "4", "-f")

    assert done["seq"] == 4
    assert (
        cli.ok("consumer", "next", *worker, "--count", "2", "--raw", "--wait", "1s") == "m3\nm4\n"
    )


def test_why_nothing_is_delivered_is_explained(cli: CommandLine, worker: tuple[str, str]) -> None:
    assert cli.ok("consumer", "explain", *worker).startswith("no pull waiting: ")
    assert cli.json("consumer", "explain", *worker, "9")["reason"] == "not_yet"
    cli.ok("consumer", "next", *worker)
    assert cli.json("consumer", "explain", *worker, "1")["reason"] == "acknowledged"


def test_a_consumer_is_removed_after_a_confirmation(
    cli: CommandLine, worker: tuple[str, str]
) -> None:
    assert "--force" in cli.fails(2, "consumer", "rm", *worker)
    cli.ok("consumer", "rm", *worker, "--force")

    assert cli.json("consumer", "ls", worker[0]) == []
    assert "does not exist" in cli.fails(1, "consumer", "info", *worker)
    assert "jetspark consumer ls" in cli.fails(1, "consumer", "rm", *worker)


def test_names_that_were_mistyped_are_suggested(cli: CommandLine, worker: tuple[str, str]) -> None:
    assert "did you mean worker?" in cli.fails(1, "consumer", "info", worker[0], "wroker")
    assert "jetspark stream ls" in cli.fails(1, "consumer", "ls", "nothing-like-it")


def test_consumers_are_found_by_conditions(cli: CommandLine, orders: str) -> None:
    cli.ok("consumer", "add", orders, "pull")
    cli.ok("consumer", "add", orders, "push", "--target", f"to.{orders}", "--filter", "none")

    def found(*words: str) -> list[str]:
        names: list[str] = cli.json("consumer", "find", orders, "--names", *words)
        return names

    assert found() == ["pull", "push"]
    assert found("--pull") == ["pull"]
    assert found("--pull", "--invert") == ["push"]
    assert found("--push") == ["push"]
    assert found("--bound") == []
    assert found("--waiting", "1") == ["pull", "push"]
    assert found("--pending", "1") == ["push"]
    assert found("--pending", "1", "--invert") == ["pull"]
    assert found("--ack-pending", "0") == []
    assert found("--idle", "1h") == ["pull", "push"]
    assert found("--created", "1h") == []
    assert found("--pinned") == []
    assert found("--replicas", "1") == ["pull", "push"]
    assert found("--leader", "none") == []
    assert found("--api-level", "100") == []
    assert cli.ok("consumer", "query", orders, "--push").splitlines()[1].startswith("push ")


def test_a_pinned_client_is_unpinned(
    cli: CommandLine, jetstream: sync.JetStream, orders: str
) -> None:
    jetstream.create_consumer(
        orders, durable="pinned", priority_groups=("g",), priority_timeout=60,
        priority_policy=PriorityPolicy.PINNED_CLIENT,
    )  # fmt: skip
    jetstream.consumer(orders, "pinned").fetch(1, group=PullGroup(name="g"))
    assert cli.json("consumer", "find", orders, "--pinned", "-n") == ["pinned"]

    assert "--force" in cli.fails(2, "consumer", "unpin", orders, "pinned", "g")
    cli.ok("consumer", "unpin", orders, "pinned", "g", "--force")

    assert cli.json("consumer", "find", orders, "--pinned", "-n") == []
    cli.fails(1, "consumer", "unpin", orders, "pinned", "other", "--force")
