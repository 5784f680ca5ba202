"""`jetspark stream` on our server and on nats-server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess

from jetspark import sync
from jetspark.cli import graphs


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def orders(cli: CommandLine, jetstream: sync.JetStream, name: str) -> str:
    """A stream with five messages of two subjects, made by the command line."""
    cli.ok("stream", "add", name, "--subjects", f"{name}.>")
    for count in range(5):
        jetstream.publish(f"{name}.{count % 2}", b"m%d" % count, headers={"N": str(count)})
    return name


def test_every_option_of_add_sets_what_it_says(cli: CommandLine, name: str) -> None:
    made = cli.json(
        "stream", "add", name, "--subjects", f"{name}.a,{name}.b", "--subjects", f"{name}.c",
        "--description", "all of them", "--storage", "file", "--retention", "limits",
        "--discard", "new", "--max-age", "1d", "--max-bytes", "10MB", "--max-msgs", "1000",
        "--max-msgs-per-subject", "5", "--max-msg-size", "1K", "--max-consumers", "3",
        "--dupe-window", "30s", "--discard-per-subject", "--deny-delete", "--deny-purge",
        "--allow-batch", "--allow-msg-ttl", "--metadata", "team=shop", "--compression", "s2",
        "--republish-source", f"{name}.a", "--republish-destination", f"again.{name}",
        "--republish-headers", "--first-sequence", "10", "--limit-consumer-inactive", "1h",
        "--limit-consumer-max-pending", "7", "--replicas", "1",
    )  # fmt: skip

    config = made["config"]
    expected = {
        "subjects": [f"{name}.a", f"{name}.b", f"{name}.c"], "description": "all of them",
        "storage": "file", "retention": "limits", "discard": "new", "max_bytes": 10 * 2**20,
        "max_age": 86_400 * 10**9, "max_msgs": 1000, "max_msgs_per_subject": 5,
        "max_msg_size": 1024, "max_consumers": 3, "duplicate_window": 30 * 10**9,
        "discard_new_per_subject": True, "deny_delete": True, "deny_purge": True,
        "allow_atomic": True, "allow_msg_ttl": True, "compression": "s2", "first_seq": 10,
        "allow_direct": True, "num_replicas": 1,
    }  # fmt: skip
    assert {field: config[field] for field in expected} == expected
    assert config["metadata"]["team"] == "shop"
    assert config["republish"]["headers_only"] is True
    assert config["consumer_limits"] == {
        "inactive_threshold": 3600 * 10**9,
        "max_ack_pending": 7,
    }
    assert cli.json("stream", "info", name)["config"] == config


def test_adding_the_same_again_says_that_it_exists(cli: CommandLine, name: str) -> None:
    commands = (
        ("stream", "add", name, "--subjects", name),
        ("consumer", "add", name, "worker"),
        ("kv", "add", name),
        ("object", "add", name),
    )

    for words in commands:
        assert cli.said(*words).splitlines()[0].endswith(" was created")
    for words in commands:
        assert cli.said(*words).endswith(" already exists, with this configuration\n")


@pytest.mark.parametrize("ending", ["json", "yaml"])
def test_a_stream_is_made_from_a_file_and_options_override_it(
    cli: CommandLine, name: str, tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"stream.{ending}"
    if ending == "json":
        file.write_text(json.dumps({"name": name, "subjects": [name], "max_age": "2h"}))
    else:
        file.write_text(f"name: {name}\nsubjects: [{name}]\nmax_age: 2h\nmax_bytes: 1MB\n")

    config = cli.json("stream", "add", "--config", file, "--max-msgs", "9")["config"]

    assert (config["name"], config["subjects"], config["max_msgs"]) == (name, [name], 9)
    assert config["max_age"] == 7200 * 10**9


def test_a_saved_configuration_is_not_applied_and_can_be_read(
    cli: CommandLine, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "saved.json"

    cli.ok("stream", "add", name, "--subjects", name, "--max-age", "1h", "--output", file)
    cli.ok("stream", "add", name, "--subjects", name, "--validate")

    assert name not in cli.ok("stream", "ls", "--names").splitlines()
    assert cli.json("stream", "add", "--config", file)["config"]["max_age"] == 3600 * 10**9
    assert "exists" in cli.fails(1, "stream", "add", name, "--subjects", name, "--output", file)


def test_streams_are_listed_and_reported(cli: CommandLine, orders: str) -> None:
    assert orders in cli.ok("stream", "ls")
    assert cli.ok("stream", "ls", "--names", "--subject", f"{orders}.0") == f"{orders}\n"
    assert cli.json("stream", "ls", "-n", "--subject", f"{orders}.0") == [orders]
    [listed] = cli.ndjson("stream", "ls", "--subject", f"{orders}.0")
    assert listed["state"]["messages"] == 5
    [line] = [one for one in cli.ok("stream", "report").splitlines() if one.startswith(orders)]
    assert line.split()[1:4] == ["File", "0", "5"]
    [row] = cli.json("stream", "report", "--subject", f"{orders}.0")
    assert (row["name"], row["messages"], row["consumers"]) == (orders, 5, 0)


def test_streams_of_buckets_are_shown_on_request(
    cli: CommandLine, jetstream: sync.JetStream, name: str
) -> None:
    jetstream.create_key_value(name)

    assert f"KV_{name}" not in cli.ok("stream", "ls", "--names").splitlines()
    assert f"KV_{name}" in cli.ok("stream", "ls", "--names", "--all").splitlines()


def test_info_shows_configuration_and_state(cli: CommandLine, orders: str) -> None:
    shown = cli.ok("stream", "info", orders)
    state = cli.ok("stream", "info", orders, "--state")

    assert f"Subjects: {orders}.>" in shown
    assert "Maximum Age: unlimited" in shown
    assert "Messages: 5" in shown
    assert "Subjects:" not in state.replace("Number of Subjects:", "")
    assert state == cli.ok("stream", "state", orders)
    assert cli.json("stream", "state", orders)["messages"] == 5


def test_subjects_are_counted(cli: CommandLine, orders: str) -> None:
    counts = {f"{orders}.0": 3, f"{orders}.1": 2}

    assert cli.json("stream", "subjects", orders) == counts
    assert cli.ok("stream", "subjects", orders, "--names", "--sort", "name").split() == [*counts]
    assert cli.json("stream", "subjects", orders, f"{orders}.1") == {f"{orders}.1": 2}
    lines = cli.ok("stream", "subjects", orders, "--reverse").splitlines()
    assert [line.split() for line in lines[1:]] == [[f"{orders}.0", "3"], [f"{orders}.1", "2"]]


def test_an_edit_shows_the_difference_and_changes_nothing_else(
    cli: CommandLine, orders: str
) -> None:
    before = cli.json("stream", "info", orders)["config"]

    dry = cli.run("stream", "edit", orders, "--max-age", "1h", "--max-msgs", "7", "--dry-run")
    refused = cli.fails(2, "stream", "edit", orders, "--max-age", "1h")
    unchanged = cli.json("stream", "info", orders)["config"]
    after = cli.json("stream", "edit", orders, "--max-age", "1h", "--max-msgs", "7", "--force")
    same = cli.said("stream", "edit", orders, "--max-age", "1h", "--force")

    assert dry.exit_code == 1
    assert "+ max_age: 1h0m0s" in dry.stdout
    assert "- max_msgs: -1" in dry.stdout
    assert "--force" in refused
    assert unchanged == before
    assert after["config"] == {**before, "max_age": 3600 * 10**9, "max_msgs": 7}
    assert same == "No difference in configuration\n"


def test_limits_metadata_and_switches_can_be_reset(cli: CommandLine, name: str) -> None:
    cli.ok(
        "stream", "add", name, "--subjects", name, "--max-age", "1h", "--max-msgs", "7",
        "--metadata", "a=1", "--description", "old", "--no-allow-direct",
        "--republish-source", name, "--republish-destination", f"again.{name}",
    )  # fmt: skip
    config = cli.json(
        "stream", "edit", name, "--max-age", "-1", "--max-msgs", "-1", "--metadata", "b=2",
        "--description", "", "--allow-direct", "--no-republish", "--force",
    )["config"]  # fmt: skip

    assert (config["max_age"], config["max_msgs"], config["allow_direct"]) == (0, -1, True)
    assert {key: config["metadata"][key] for key in "ab"} == {"a": "1", "b": "2"}
    assert not config.get("description")
    assert "republish" not in config


def test_a_copy_has_the_configuration_but_no_messages(cli: CommandLine, orders: str) -> None:
    cli.ok("stream", "edit", orders, "--max-age", "1h", "--force")

    made = cli.json("stream", "copy", orders, f"{orders}c", "--subjects", f"c.{orders}")
    overlap = cli.fails(1, "stream", "cp", orders, f"{orders}d")

    assert made["config"]["max_age"] == 3600 * 10**9
    assert made["state"]["messages"] == 0
    assert "overlap" in overlap


def test_one_message_is_shown(cli: CommandLine, orders: str) -> None:
    shown = cli.ok("stream", "get", orders, "2")
    found = cli.json("stream", "get", orders, "--last-for", f"{orders}.0")

    assert shown.startswith(f"Item: {orders}#2 received ")
    assert f"on Subject {orders}.1\n\n  N: 1\n\nm1\n" in shown
    assert cli.ok("stream", "get", orders, "2", "--raw") == "m1\n"
    assert cli.ok("stream", "get", orders, "2", "--raw", "--translate", "tr m n") == "n1\n"
    assert (found["seq"], found["headers"], found["data"]) == (5, {"N": ["4"]}, "bTQ=")
    assert "from 1 to 5" in cli.fails(1, "stream", "get", orders, "9")
    assert "lists its subjects" in cli.fails(1, "stream", "get", orders, "-S", "none")
    assert "--last-for" in cli.fails(2, "stream", "get", orders)


@pytest.mark.parametrize("direct", ["--allow-direct", "--no-allow-direct"])
def test_all_messages_are_printed_and_then_it_ends(
    cli: CommandLine, orders: str, direct: str
) -> None:
    cli.ok("stream", "edit", orders, direct, "--force")

    assert cli.ok("stream", "cat", orders, "--raw") == "m0\nm1\nm2\nm3\nm4\n"
    assert cli.ok("stream", "cat", orders, "--raw", "--id", "2", "--count", "2") == "m1\nm2\n"
    assert cli.ok("stream", "cat", orders, "--raw", "--subject", f"{orders}.1") == "m1\nm3\n"
    assert cli.ok("stream", "cat", orders, "--raw", "--since", "1h").count("m") == 5
    assert cli.ok("stream", "cat", orders, "--raw", "--since", "2000-01-01T00:00:00Z").count("m")
    assert [row["seq"] for row in cli.ndjson("stream", "cat", orders)] == [1, 2, 3, 4, 5]
    assert [row["seq"] for row in cli.json("stream", "cat", orders)] == [1, 2, 3, 4, 5]
    assert cli.json("stream", "info", orders)["state"]["consumer_count"] == 0


def test_what_cat_prints_as_ndjson_can_be_imported(
    cli: CommandLine, orders: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text(cli.ok("stream", "cat", orders, "--ndjson"))
    cli.ok("stream", "purge", orders, "--force")

    cli.ok("stream", "import", orders, file)

    assert cli.ok("stream", "cat", orders, "--raw") == "m0\nm1\nm2\nm3\nm4\n"


def test_without_a_terminal_view_prints_a_page_and_how_to_continue(
    cli: CommandLine, orders: str
) -> None:
    first = cli.run("stream", "view", orders, "2", "--raw")
    last = cli.run("stream", "view", orders, "2", "--raw", "--id", "5")

    assert (first.stdout, last.stdout) == ("m0\nm1\n", "m4\n")
    assert "--id 3" in first.stderr
    assert "end of data" in last.stderr
    assert [row["seq"] for row in cli.json("stream", "view", orders, "3")] == [1, 2, 3]


def test_messages_are_removed_after_a_confirmation(cli: CommandLine, orders: str) -> None:
    refusals = [
        cli.fails(2, "stream", "rmm", orders, "2"),
        cli.fails(2, "stream", "purge", orders),
        cli.fails(2, "stream", "rm", orders),
    ]
    assert all("--force" in text for text in refusals)
    assert cli.json("stream", "state", orders)["messages"] == 5

    cli.ok("stream", "rmm", orders, "2", "-f")
    assert "has no message 2" in cli.fails(1, "stream", "rmm", orders, "2", "-f")
    purged = cli.json("stream", "purge", orders, "--subject", f"{orders}.0", "--keep", "1", "-f")
    assert purged == {"stream": orders, "purged": 2}
    assert cli.ok("stream", "cat", orders, "--raw") == "m3\nm4\n"
    cli.ok("stream", "purge", orders, "--seq", "5", "-f")
    assert cli.ok("stream", "cat", orders, "--raw") == "m4\n"
    assert cli.json("stream", "rm", orders, "-f") == {"stream": orders, "removed": True}
    assert "does not exist" in cli.fails(1, "stream", "info", orders)


def test_a_stream_is_backed_up_and_restored(
    cli: CommandLine, jetstream: sync.JetStream, orders: str, tmp_path: Path
) -> None:
    jetstream.create_consumer(orders, durable="worker")
    folder = tmp_path / "backup"

    made = cli.json("stream", "backup", orders, folder)
    again = cli.fails(1, "stream", "backup", orders, folder)
    exists = cli.fails(1, "stream", "restore", folder)
    cli.ok("stream", "rm", orders, "-f")
    back = cli.json("stream", "restore", folder)

    assert made["messages"] == 5
    assert "already" in again
    assert exists
    assert (back["stream"], back["messages"], back["consumers"]) == (orders, 5, 1)
    assert cli.ok("stream", "cat", orders, "--raw") == "m0\nm1\nm2\nm3\nm4\n"
    assert "not a complete backup" in cli.fails(1, "stream", "restore", tmp_path)


def test_a_sealed_stream_accepts_nothing(cli: CommandLine, orders: str) -> None:
    assert cli.json("stream", "seal", orders, "-f")["config"]["sealed"] is True
    assert cli.fails(1, "stream", "purge", orders, "-f")


def test_a_name_that_does_not_exist_is_answered_with_what_was_meant(
    cli: CommandLine, orders: str
) -> None:
    mistyped = orders[:-1]

    assert f"did you mean {orders}" in cli.fails(1, "stream", "info", mistyped)
    assert "jetspark stream ls" in cli.fails(1, "stream", "cat", "nothing-like-it")


def test_wrong_use_is_answered_with_what_is_expected(cli: CommandLine, orders: str) -> None:
    assert "--subjects" in cli.fails(2, "stream", "add", "A")
    assert f"stream edit {orders}" in cli.fails(1, "stream", "add", orders, "--subjects", "other")
    both = cli.fails(2, "stream", "purge", orders, "--seq", "1", "--keep", "1", "-f")
    assert "exclude each other" in both


def test_options_of_the_connection_may_precede_the_command(
    server: ServerProcess, orders: str
) -> None:
    elsewhere = CommandLine("nats://127.0.0.1:1")

    assert orders in elsewhere.ok("-s", server.url, "stream", "ls")
    assert orders in elsewhere.ok("-s", "127.0.0.1:1", "stream", "ls", "-s", server.url)
    assert "jetspark serve -js" in elsewhere.fails(1, "stream", "ls")


def test_streams_are_found_by_conditions(cli: CommandLine, orders: str) -> None:
    cli.ok("stream", "add", f"{orders}-E", "--subjects", f"{orders}-e", "--description", "empty")
    cli.ok("stream", "add", f"{orders}-M", "--mirror", orders)
    cli.ok("consumer", "add", orders, "worker")

    def found(*words: str) -> list[str]:
        every = cli.json("stream", "find", "--names", *words)
        assert [one["config"]["name"] for one in cli.json("stream", "find", *words)] != [""]
        return [name.removeprefix(orders) for name in every if name.startswith(orders)]

    assert found() == ["", "-E", "-M"]
    assert found("--empty", "--subject", f"{orders}-e") == ["-E"]
    assert found("--subject", f"{orders}.0") == [""]
    assert found("--mirrored") == ["-M"]
    assert found("--mirrored", "--invert") == ["", "-E"]
    assert found("--sourced") == []
    assert found("--consumers", "1") == ["-E", "-M"]
    assert found("--consumers", "1", "--invert") == [""]
    assert found("--replicas", "1") == ["", "-E", "-M"]
    assert found("--created", "1h") == []
    assert "-E" in found("--idle", "1h")
    assert "" not in found("--idle", "1h")
    assert found("--created", "1h", "--invert") == ["", "-E", "-M"]
    assert found("--leader", "none") == []
    assert found("--api-level", "100") == []
    assert "is no expression" in cli.fails(2, "stream", "find", "--cluster", "(")
    assert re.search(f"^{orders}-E +empty ", cli.ok("stream", "query", "--empty"), re.MULTILINE)


def test_gaps_are_the_sequences_without_a_message(
    cli: CommandLine, jetstream: sync.JetStream, orders: str
) -> None:
    assert cli.said("stream", "gaps", orders) == f"No deleted messages in {orders}\n"
    assert cli.json("stream", "gaps", orders) == []
    for count in range(5):
        jetstream.publish(f"{orders}.last", b"%d" % count)
    for seq in (1, 3, 4, 7, 10):
        cli.ok("stream", "rmm", orders, str(seq), "--force")

    assert "--force" in cli.fails(2, "stream", "gaps", orders)
    assert cli.json("stream", "gaps", orders, "--force") == [[3, 4], [7, 7], [10, 10]]
    assert cli.ok("stream", "gaps", orders, "--force").splitlines()[1].split() == ["3", "4"]


def test_a_graph_prints_its_numbers_without_a_terminal(
    cli: CommandLine, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "_INTERVAL", 0.01)
    cli.ok("consumer", "add", orders, "worker")
    cli.ok("consumer", "next", orders, "worker", "--count", "2")

    [stream] = cli.ndjson("stream", "graph", orders, "--count", "1")
    [consumer] = cli.json("consumer", "graph", orders, "worker", "--count", "1")

    assert (stream["messages"], stream["last_seq"]) == (5, 5)
    assert stream["last_seq_per_second"] == 0
    assert (consumer["num_pending"], consumer["delivered"]) == (3, 2)
    assert "a graph needs a terminal" in cli.fails(1, "stream", "graph", orders)


def test_a_single_server_has_no_other_leader(cli: CommandLine, orders: str) -> None:
    cli.ok("consumer", "add", orders, "worker")

    alone = cli.fails(1, "stream", "cluster", "step-down", orders)
    assert f"stream {orders} has a single replica" in alone
    assert "single replica" in cli.fails(1, "consumer", "cluster", "step-down", orders, "worker")
    assert "single replica" in cli.fails(
        1, "stream", "cluster", "peer-remove", orders, "n1", "--force"
    )
    assert "system account" in cli.fails(1, "server", "cluster", "step-down")
    assert "system account" in cli.fails(1, "server", "cluster", "peer-remove", "n1", "--force")
