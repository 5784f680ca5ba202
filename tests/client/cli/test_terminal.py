"""What people see: tables at 80 and 120 columns, without a terminal, questions, pages, colours."""

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
REPORT = ("consumer", "report", "SNAPSHOT_ORDERS")
REPORT_80 = """\
              Consumer report for SNAPSHOT_ORDERS with 1 consumers
┌──────────┬──────┬──────────┬──────┬─────────┬───────────┬────────────┬───────┐
│          │      │ Ack      │ Ack  │     Ack │           │            │   Ack │
│ Consumer │ Mode │ Policy   │ Wait │ Pending │ Redelive… │ Unprocess… │ Floor │
├──────────┼──────┼──────────┼──────┼─────────┼───────────┼────────────┼───────┤
│ worker   │ Pull │ Explicit │ 30s  │       1 │         0 │    2 / 66% │     0 │
└──────────┴──────┴──────────┴──────┴─────────┴───────────┴────────────┴───────┘
"""
REPORT_120 = """\
                       Consumer report for SNAPSHOT_ORDERS with 1 consumers
┌──────────┬──────┬────────────┬──────────┬─────────────┬─────────────┬─────────────┬───────────┐
│ Consumer │ Mode │ Ack Policy │ Ack Wait │ Ack Pending │ Redelivered │ Unprocessed │ Ack Floor │
├──────────┼──────┼────────────┼──────────┼─────────────┼─────────────┼─────────────┼───────────┤
│ worker   │ Pull │ Explicit   │ 30s      │           1 │           0 │     2 / 66% │         0 │
└──────────┴──────┴────────────┴──────────┴─────────────┴─────────────┴─────────────┴───────────┘
"""
REPORT_PLAIN = """\
Consumer  Mode  Ack Policy  Ack Wait  Ack Pending  Redelivered  Unprocessed  Ack Floor  Leader
worker    Pull  Explicit    30s                 1            0      2 / 66%          0
"""
VIEW = """\
[1] Subject: snapshot.orders.0 Received: YYYY-MM-DD hh:mm:ss

order 0

[2] Subject: snapshot.orders.1 Received: YYYY-MM-DD hh:mm:ss

order 1

"""


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "words",
    [LS, REPORT, ("consumer", "ls", "SNAPSHOT_ORDERS"), ("stream", "subjects", "SNAPSHOT_ORDERS")],
    ids=" ".join,
)
def test_tables_fit_the_terminal(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, width: int, words: tuple[str, ...]
) -> None:
    plain = cli.ok(*words)
    on_terminal(monkeypatch, width)
    drawn = cli.ok(*words)

    assert max(map(len, drawn.splitlines())) <= width
    assert "│" in drawn
    assert "│" not in plain
    first = plain.splitlines()[1].split()[0]
    assert first in drawn or "…" in drawn


@pytest.mark.usefixtures("shop")
def test_a_report_looks_like_this(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.ok(*REPORT) == REPORT_PLAIN
    on_terminal(monkeypatch, 80)
    assert cli.ok(*REPORT) == REPORT_80
    on_terminal(monkeypatch, 120)
    assert cli.ok(*REPORT) == REPORT_120


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
