"""`jetspark kv` on our server and on nats-server."""

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess

from jetspark import sync


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def bucket(cli: CommandLine, name: str) -> str:
    """A bucket with a history, made by the command line."""
    cli.ok("kv", "add", name, "--history", "5")
    for value in ("red", "blue"):
        cli.ok("kv", "put", name, "color", value)
    cli.ok("kv", "put", name, "size.small", "1")
    return name


def test_every_option_of_add_sets_what_it_says(cli: CommandLine, name: str) -> None:
    made = cli.json(
        "kv", "add", name, "--description", "all of them", "--history", "7", "--ttl", "1h",
        "--marker-ttl", "1m", "--max-value-size", "1K", "--max-bucket-size", "10MB", "--compress",
        "--storage", "file", "--replicas", "1", "--metadata", "team=shop",
        "--republish-source", f"$KV.{name}.>", "--republish-destination", f"again.{name}.>",
    )  # fmt: skip

    config = made["config"]
    assert (config["description"], config["history"], config["ttl"]) == (
        "all of them", 7, 3600 * 10**9,
    )  # fmt: skip
    assert (config["limit_marker_ttl"], config["max_value_size"]) == (60 * 10**9, 1024)
    assert (config["max_bytes"], config["compression"]) == (10 * 2**20, True)
    assert config["metadata"] == {"team": "shop"}
    assert config["republish"]["dest"] == f"again.{name}.>"
    assert cli.json("kv", "info", name)["config"] == config
    shown = cli.ok("kv", "info", name)
    assert "History Kept: 7" in shown
    assert "Maximum Age: 1h0m0s" in shown
    assert shown == cli.ok("kv", "status", name)


def test_buckets_and_keys_are_listed(cli: CommandLine, bucket: str) -> None:
    assert bucket in cli.ok("kv", "ls", "--names").splitlines()
    assert bucket in cli.ok("kv", "ls")
    [listed] = [one for one in cli.ndjson("kv", "ls") if one["bucket"] == bucket]
    assert listed["values"] == 3
    assert cli.ok("kv", "ls", bucket) == "color\nsize.small\n"
    assert cli.json("kv", "keys", bucket, "size.*") == ["size.small"]
    [_, line] = cli.ok("kv", "ls", bucket, "color", "-v", "--display-value").splitlines()
    assert (line.split()[0], line.split()[-1]) == ("color", "blue")
    [row] = cli.json("kv", "keys", bucket, "color", "--verbose")
    assert (row["revision"], "value" in row) == (2, False)


def test_a_value_is_set_read_and_changed(cli: CommandLine, bucket: str) -> None:
    shown = cli.ok("kv", "get", bucket, "color")
    entry = cli.json("kv", "get", bucket, "color")

    assert shown.startswith(f"{bucket} > color revision: 2 created @ ")
    assert "\n\nblue\n" in shown
    assert base64.b64decode(entry.pop("value")) == b"blue"
    entry.pop("time")
    assert entry == {
        "bucket": bucket, "key": "color", "revision": 2, "operation": "PUT", "size": 4,
    }  # fmt: skip
    assert cli.ok("kv", "get", bucket, "color", "--raw") == "blue"
    assert cli.ok("kv", "get", bucket, "color", "--raw", "--revision", "1") == "red"
    assert cli.ok("kv", "put", bucket, "color", "green") == "green\n"
    assert cli.json("kv", "update", bucket, "color", "black", "4")["revision"] == 5
    stale = cli.fails(1, "kv", "update", bucket, "color", "white", "4")
    assert "kv get" in stale
    assert cli.json("kv", "create", bucket, "new", "1", "--ttl", "1h")["revision"] == 6
    assert "kv update" in cli.fails(1, "kv", "create", bucket, "new", "2")


def test_values_of_standard_input_are_exact(cli: CommandLine, bucket: str) -> None:
    data = bytes(range(256)) + b"\n"

    cli.ok("kv", "put", bucket, "bytes", stdin=data)

    assert cli.run("kv", "get", bucket, "bytes", "--raw").stdout_bytes == data


def test_what_does_not_exist_is_answered_with_where_to_look(cli: CommandLine, bucket: str) -> None:
    assert f"did you mean {bucket}" in cli.fails(1, "kv", "get", bucket[:-1], "color")
    assert f"jetspark kv ls {bucket}" in cli.fails(1, "kv", "get", bucket, "none")
    assert "kv history" in cli.fails(1, "kv", "get", bucket, "color", "--revision", "3")
    assert f"jetspark kv ls {bucket}" in cli.fails(1, "kv", "history", bucket, "none")


def test_keys_and_buckets_are_removed_after_a_confirmation(cli: CommandLine, bucket: str) -> None:
    for words in (("del", bucket, "color"), ("purge", bucket, "color"), ("rm", bucket)):
        assert "--force" in cli.fails(2, "kv", *words)
    assert cli.ok("kv", "ls", bucket) == "color\nsize.small\n"

    cli.ok("kv", "del", bucket, "color", "-f")
    operations = [one["operation"] for one in cli.json("kv", "history", bucket, "color")]
    cli.ok("kv", "purge", bucket, "color", "-f")
    after = [one["operation"] for one in cli.json("kv", "history", bucket, "color")]
    none = cli.json("kv", "del", bucket, "none.*", "-f")

    assert (operations, after) == (["PUT", "PUT", "DEL"], ["PURGE"])
    assert none["removed"] is False
    assert cli.ok("kv", "ls", bucket) == "size.small\n"
    compacted = cli.json("kv", "compact", bucket, "--older-than", "0", "-f")
    assert compacted == {"bucket": bucket, "removed": 1}
    assert cli.json("kv", "rm", bucket, "-f") == {"bucket": bucket, "removed": True}
    assert "does not exist" in cli.fails(1, "kv", "info", bucket)


def test_the_past_is_shown_and_restored(cli: CommandLine, bucket: str) -> None:
    cli.ok("kv", "del", bucket, "size.small", "-f")

    before = cli.json("kv", "snapshot", bucket, "--at", "1")
    now = cli.json("kv", "snapshot", bucket)
    reverted = cli.json("kv", "revert", bucket, "color", "1", "-f")

    assert [(one["key"], one["revision"]) for one in before] == [("color", 1)]
    assert [(one["key"], one["revision"]) for one in now] == [("color", 2)]
    assert reverted["revision"] == 5
    assert cli.ok("kv", "get", bucket, "color", "--raw") == "red"
    assert cli.said("kv", "snapshot", bucket, "--at", "2000-01-01T00:00:00Z") == "No keys found\n"
    assert "color" in cli.ok("kv", "snapshot", bucket, "color", "size.>", "--at", "0s")


def test_an_edit_changes_only_what_was_given(cli: CommandLine, bucket: str) -> None:
    before = cli.json("kv", "info", bucket)["config"]

    dry = cli.run("kv", "edit", bucket, "--history", "9", "--ttl", "1h", "--dry-run")
    unchanged = cli.json("kv", "info", bucket)["config"]
    after = cli.json("kv", "edit", bucket, "--history", "9", "--ttl", "1h")["config"]

    assert dry.exit_code == 1
    assert "- history: 5\n  + history: 9\n" in dry.stdout
    assert "+ ttl: 1h0m0s" in dry.stdout
    assert unchanged == before
    assert after == {**before, "history": 9, "ttl": 3600 * 10**9}
    assert cli.said("kv", "edit", bucket, "--history", "9") == "No difference in configuration\n"


def test_a_watch_shows_what_is_and_what_comes(cli: CommandLine, bucket: str) -> None:
    cli.ok("kv", "put", bucket, "text", "a\nb\x1b[2J")

    lines = cli.ok("kv", "watch", bucket, "--count", "3").splitlines()
    history = cli.ndjson("kv", "watch", bucket, "color", "--history", "--count", "2")
    resumed = cli.json("kv", "watch", bucket, "--revision", "3", "--count", "1")

    assert lines[0].endswith(f"PUT {bucket} > color: blue")
    assert lines[2].endswith(f"PUT {bucket} > text: a\\nb\\x1b[2J")
    assert [one["revision"] for one in history] == [1, 2]
    assert [one["key"] for one in resumed] == ["size.small"]
    both = cli.fails(2, "kv", "watch", bucket, "--history", "--updates")
    assert "must not be empty" in cli.fails(2, "kv", "watch", bucket, "")
    assert "exclude each other" in both


def test_a_mirror_is_a_copy_of_another_bucket(cli: CommandLine, bucket: str) -> None:
    made = cli.json("kv", "add", f"{bucket}m", "--mirror", bucket)

    assert made["config"]["mirror"]["name"] == f"KV_{bucket}"
    assert "--mirror" in cli.fails(2, "kv", "add", "A", "--mirror-domain", "hub")


@pytest.mark.parametrize("history", [(), ("--history",)], ids=["values", "history"])
def test_what_export_writes_import_creates(
    cli: CommandLine, bucket: str, tmp_path: Path, history: tuple[str, ...]
) -> None:
    file = tmp_path / "bucket.ndjson"
    copy = f"{bucket}copy"
    cli.ok("kv", "put", bucket, "bytes", stdin=b"\x00\xff")
    cli.ok("kv", "del", bucket, "size.small", "-f")

    made = cli.json("kv", "export", bucket, file, *history)
    exists = cli.fails(1, "kv", "export", bucket, file)
    cli.ok("kv", "import", copy, file, "--create")
    again = cli.json("kv", "import", copy, file)

    assert made["entries"] == (5 if history else 2)
    assert "--force" in exists
    assert again == {"bucket": copy, "written": 0, "unchanged": 3 if history else 2}
    assert cli.json("kv", "info", copy)["config"]["history"] == 5
    assert cli.run("kv", "get", copy, "bytes", "--raw").stdout_bytes == b"\x00\xff"
    values = [one.get("value") for one in cli.json("kv", "history", copy, "color")]
    stored = ["red", "blue"] if history else ["blue"]
    assert values == [base64.b64encode(text.encode()).decode() for text in stored]


def test_an_import_replaces_nothing_without_force(
    cli: CommandLine, bucket: str, tmp_path: Path
) -> None:
    file = tmp_path / "bucket.ndjson"
    cli.ok("kv", "export", bucket, file)
    cli.ok("kv", "put", bucket, "color", "other")
    cli.ok("kv", "del", bucket, "size.small", "-f")

    refused = cli.fails(1, "kv", "import", bucket, file)
    untouched = cli.ok("kv", "ls", bucket)
    forced = cli.json("kv", "import", bucket, file, "--force")

    assert "color" in refused
    assert "--force" in refused
    assert untouched == "color\n"
    assert forced["written"] == 2
    assert cli.ok("kv", "get", bucket, "color", "--raw") == "blue"


def test_a_truncated_file_is_refused_before_anything_is_written(
    cli: CommandLine, bucket: str
) -> None:
    whole = cli.ok("kv", "export", bucket, "-").splitlines()
    target = f"{bucket}copy"
    cut = "\n".join(whole[:2])
    wrong = "\n".join([*whole[:2], '{"key": 5}', *whole[2:]])

    assert "not complete" in cli.fails(1, "kv", "import", target, "-", "--create", stdin=cut)
    assert "line 3" in cli.fails(1, "kv", "import", target, "-", "--create", stdin=wrong)
    assert target not in cli.ok("kv", "ls", "-n").splitlines()
    lines = "\n".join(json.dumps(one) for one in cli.ndjson("kv", "snapshot", bucket))
    assert "kv add" in cli.fails(1, "kv", "import", target, "-", "--create", stdin=lines)
    cli.ok("kv", "add", target)
    cli.ok("kv", "import", target, "-", stdin=lines)
    assert cli.ok("kv", "ls", target) == cli.ok("kv", "ls", bucket)


def test_a_command_runs_while_the_lock_is_held(
    cli: CommandLine, jetstream: sync.JetStream, bucket: str, tmp_path: Path
) -> None:
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['JETSPARK_LOCK_TOKEN'])"
    said = tmp_path / "token"
    command = (sys.executable, "-c", code + "; sys.exit(7)", said)

    done = cli.run("kv", "lock", bucket, "nightly", "--owner", "me", "--json", "--", *command)
    assert done.exit_code == 7
    assert json.loads(done.stdout) == {
        "key": "nightly", "token": 4, "owner": "me", "exit_code": 7,
    }  # fmt: skip
    store = jetstream.key_value(bucket)
    with store.lock("nightly", owner="somebody"):
        held = cli.fails(1, "kv", "lock", bucket, "nightly", "--wait", "0", "--", "true")
        late = cli.fails(1, "kv", "lock", bucket, "nightly", "--wait", "50ms", "--", "true")

    assert said.read_text() == "4"
    assert "held by somebody" in held
    assert "not acquired" in late
    assert not store.exists("nightly")
    missing = cli.fails(1, "kv", "lock", bucket, "nightly", "--", "/no/such/command")
    assert "No such file" in missing
    cli.fails(128 + 15, "kv", "lock", bucket, "nightly", "--", "sh", "-c", "kill $$")
