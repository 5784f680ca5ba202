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
