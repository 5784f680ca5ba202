"""What people do on a terminal: questions, pages, colours; `test_screens.py` has how it looks."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.command_line import CommandLine, on_terminal, run_on_terminal, steady
from tests.support.servers import ServerProcess

from jetspark import sync


@pytest.fixture
def server(servers: Callable[[str], ServerProcess]) -> ServerProcess:
    """How it looks does not depend on the server."""
    return servers("jetspark")


@pytest.fixture
def jetstream(server: ServerProcess) -> Iterator[sync.JetStream]:
    with sync.connect(server.url) as client:
        yield client.jetstream()


@pytest.fixture
def shop(cli: CommandLine, jetstream: sync.JetStream) -> Iterator[None]:
    """A stream with a fixed name, three messages and a consumer."""
    jetstream.create_stream(
        "SNAPSHOT_ORDERS", subjects=["snapshot.orders.>"], max_age=86400, allow_direct=True,
        description="Orders of the shop, with everything that happened to them afterwards",
    )  # fmt: skip
    for count in range(3):
        jetstream.publish(f"snapshot.orders.{count}", b"order %d" % count)
    jetstream.create_consumer("SNAPSHOT_ORDERS", durable="worker", max_ack_pending=7)
    cli.ok("consumer", "next", "SNAPSHOT_ORDERS", "worker", "--no-ack")
    yield
    jetstream.delete_stream("SNAPSHOT_ORDERS")


LS = ("stream", "ls", "--subject", "snapshot.orders.0")
VIEW = """\
[1] Subject: snapshot.orders.0 Received: YYYY-MM-DD hh:mm:ss

order 0

[2] Subject: snapshot.orders.1 Received: YYYY-MM-DD hh:mm:ss

order 1

"""


@pytest.mark.usefixtures("shop")
def test_pages_follow_on_request(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 80)
    view = ("stream", "view", "SNAPSHOT_ORDERS", "2")
    stopped = cli.run(*view, stdin="n\n")
    whole = cli.run(*view, stdin="\n")

    assert steady(stopped.stdout) == VIEW
    assert "order 2" in whole.stdout
    assert whole.stderr.count("Next page? [Y/n]") == 1
    assert whole.stderr.endswith("Reached apparent end of data\n")


@pytest.mark.usefixtures("shop")
def test_a_question_is_asked_and_no_is_the_default(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, 80)

    refused = cli.fails(1, "stream", "rm", "SNAPSHOT_ORDERS", stdin="\n")
    assert "Really remove stream SNAPSHOT_ORDERS with 3 messages and 1 consumers? [y/N]" in refused
    assert "nothing was changed" in refused
    cli.ok("stream", "purge", "SNAPSHOT_ORDERS", stdin="y\n")
    assert cli.json("stream", "state", "SNAPSHOT_ORDERS")["messages"] == 0


def test_what_is_missing_is_asked_for(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on_terminal(monkeypatch, 80)
    cli.ok("stream", "add", stdin=f"{name}\n{name}.a, {name}.b\n")

    assert cli.json("stream", "info", name)["config"]["subjects"] == [f"{name}.a", f"{name}.b"]


@pytest.mark.usefixtures("shop")
def test_on_a_real_terminal(server: ServerProcess) -> None:
    """Width, colours and questions as a terminal has them."""
    code, listed = run_on_terminal(server.url, *LS, columns=80)
    removed, shown = run_on_terminal(
        server.url, "stream", "rmm", "SNAPSHOT_ORDERS", "2", answers=[("[y/N]", "y\n")]
    )

    assert code == removed == 0
    assert max(len(line) for line in listed.splitlines() if "\x1b" not in line) <= 80
    assert "\x1b[1m" in listed
    assert "Message 2 was removed from SNAPSHOT_ORDERS" in shown
