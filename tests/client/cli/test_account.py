"""`jetspark account info` and `rtt` on our server and on nats-server."""

from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess


def test_the_account_is_shown_with_its_usage(cli: CommandLine, name: str) -> None:
    cli.ok("stream", "add", name, "--subjects", name)

    shown = cli.ok("account", "info")
    found = cli.json("account", "info")

    for text in ("Account: $G", "Maximum Payload: 1 MiB", "Expires: never", "API Level: "):
        assert text in shown
    assert found["jetstream"]["streams"] >= 1
    assert found["user"]["account"] == "$G"
    assert found["rtt"] > 0


def test_an_account_without_jetstream_is_shown_too(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    for kind in ("nats-server", "jetspark"):
        running = server_process(kind, tmp_path / kind)
        cli = CommandLine(running.url)

        assert "JetStream is not enabled" in cli.ok("account", "info")
        assert cli.json("account", "info")["jetstream"] is None


def test_round_trips_are_measured_for_each_server(cli: CommandLine, server: ServerProcess) -> None:
    [one] = cli.json("rtt", "3")
    shown = cli.ok("rtt", "1")
    broken = cli.run("rtt", "1", "--server", f"{server.url},nats://127.0.0.1:1", "--ndjson")

    assert one["url"] == server.url
    assert 0 < one["rtt"] < 60 * 10**9
    assert shown.startswith(f"{server.url}:\n\n")
    assert broken.exit_code == 1
    assert broken.stdout.count("\n") == 1
    assert "nats://127.0.0.1:1: " in broken.stderr


def test_all_streams_are_backed_up_and_restored(
    tmp_path: Path, server_process: Callable[..., ServerProcess]
) -> None:
    for kind in ("nats-server", "jetspark"):
        first = CommandLine(server_process(kind, tmp_path / kind / "one", "-js").url)
        second = CommandLine(server_process(kind, tmp_path / kind / "two", "-js").url)
        folder = tmp_path / kind / "backup"
        assert "nothing to back up" in first.fails(1, "account", "backup", folder)
        first.ok("stream", "add", "ORDERS", "--subjects", "orders.>", "--max-age", "7d")
        first.ok("pub", "orders.new", "--count", "3", "--jetstream", "body {{Count}}")
        first.ok("consumer", "add", "ORDERS", "worker")
        first.ok("kv", "add", "SETTINGS")
        first.ok("kv", "put", "SETTINGS", "color", "blue")

        made = first.json("account", "backup", folder)
        again = first.fails(1, "account", "backup", folder)
        restored = second.json("account", "restore", folder)
        twice = second.fails(1, "account", "restore", folder)
        none = second.fails(1, "account", "restore", tmp_path)

        assert [(one["stream"], one["messages"]) for one in made] == [
            ("KV_SETTINGS", 1), ("ORDERS", 3),
        ]  # fmt: skip
        assert "has KV_SETTINGS, ORDERS already" in again
        assert [(one["stream"], one["consumers"]) for one in restored] == [
            ("KV_SETTINGS", 0), ("ORDERS", 1),
        ]  # fmt: skip
        assert "nothing was restored: KV_SETTINGS, ORDERS" in twice
        assert "has no backups of streams" in none
        assert second.ok("kv", "get", "SETTINGS", "color", "--raw") == "blue"
        assert second.json("stream", "info", "ORDERS")["config"]["max_age"] == 7 * 86_400 * 10**9
        assert second.ok("stream", "get", "ORDERS", "3").endswith("body 3\n")


def test_a_stream_that_cannot_be_backed_up_does_not_keep_the_others_from_it(
    tmp_path: Path, nats_server: Callable[[str], ServerProcess]
) -> None:
    server = nats_server(
        """jetstream: enabled
        authorization { users [{ user: u, password: p, permissions: { publish: { deny: [
            "$JS.API.STREAM.SNAPSHOT.CLOSED", "$JS.API.STREAM.SNAPSHOT.MEMORY" ] } } }] }"""
    )
    cli = CommandLine(server.url.replace("//", "//u:p@"))
    cli.ok("stream", "add", "FILE", "--subjects", "file")
    cli.ok("stream", "add", "MEMORY", "--subjects", "memory", "--storage", "memory")

    warned = cli.run("account", "backup", tmp_path / "one", "--force")
    strict = cli.run("account", "backup", tmp_path / "two", "--critical-warnings")
    cli.ok("stream", "add", "CLOSED", "--subjects", "closed")
    failed = cli.run("account", "backup", tmp_path / "three")

    assert (warned.exit_code, strict.exit_code, failed.exit_code) == (0, 1, 1)
    assert "Warning: MEMORY, stored in memory, was not backed up" in warned.stderr
    assert "1 of 2 streams were backed up" in warned.stderr
    assert "Error: the backup of CLOSED failed" in failed.stderr
    for folder in ("one", "two", "three"):
        assert [one.name for one in (tmp_path / folder).glob("*/backup.json")] == ["backup.json"]
        assert (tmp_path / folder / "FILE" / "backup.json").exists()
