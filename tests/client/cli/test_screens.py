"""What the reading commands show: without a terminal, at 80 and 120 columns, and as JSON.

The folder ``screens`` has a text for each command, with what differs from run to run masked.
``JETSPARK_WRITE_SCREENS=1 pytest tests/client/cli/test_screens.py`` writes them again: look at the
difference before it is committed.
"""

import json
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import CommandLine, on_terminal
from tests.support.servers import ServerProcess

SCREENS = Path(__file__).with_name("screens")
WIDTHS = (80, 120)
COMMANDS = (
    "stream ls",
    "stream info ORDERS",
    "stream report",
    "stream subjects ORDERS",
    "stream state ORDERS",
    "stream view ORDERS",
    "stream get ORDERS 2",
    "stream find --empty",
    "consumer ls ORDERS",
    "consumer info ORDERS worker",
    "consumer report ORDERS",
    "consumer state ORDERS worker",
    "kv ls",
    "kv ls SETTINGS --verbose --display-value",
    "kv info SETTINGS",
    "kv history SETTINGS color",
    "kv history SETTINGS greeting",
    "kv snapshot SETTINGS",
    "kv keys SETTINGS",
    "kv get SETTINGS greeting",
    "object ls",
    "object ls FILES",
    "object info FILES",
    "object info FILES reports/final.pdf",
    "account info",
    "server check connection",
    "server check stream --stream ORDERS --msgs-critical 1",
    "server check kv --bucket SETTINGS",
    "context ls",
    "context show shop",
    "errors lookup 10059",
    "errors ls batch",
)
MASKED = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "YYYY-MM-DD hh:mm:ss"),
    (r"/\S*(?=/nats/context)", "/CONFIG"),
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"\b[A-Za-z0-9]{22}\b", "<id>"),
)
# Ages are on the right of their columns; 30s is the default of a setting.
AGE = re.compile(r"( {2,})?\b(?!30s\b)\d+(\.\d+)?(ms|µs|s)\b")
# They show the server and the connection: numbers and widths differ from run to run.
LOOSE = ("account info", "server check connection")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """A server with a shop: lists show everything that a server has."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    server = ServerProcess("jetspark", tmp_path / "store", "-js")
    cli = CommandLine(server.url)
    about = "Orders of the shop, with everything that happened to them afterwards"
    orders = ("--subjects", "orders.>", "--max-age", "7d", "--description", about)
    cli.ok("stream", "add", "ORDERS", *orders)
    cli.ok("stream", "add", "RETURNS", "--subjects", "returns.>", "--storage", "memory")
    for number in range(3):
        cli.ok("pub", f"orders.{number % 2}", f"order {number}", "--jetstream", "-H", "N:1")
    cli.ok("consumer", "add", "ORDERS", "worker", "--max-pending", "7")
    cli.ok("consumer", "next", "ORDERS", "worker", "--no-ack")
    about = "Settings of the shop, with everything that anyone ever wanted to be able to change"
    cli.ok("kv", "add", "SETTINGS", "--history", "5", "--description", about)
    for value in ("red", "blue"):
        cli.ok("kv", "put", "SETTINGS", "color", value)
    cli.ok("kv", "put", "SETTINGS", "greeting", "welcome " * 20)
    cli.ok("kv", "del", "SETTINGS", "color", "--force")
    cli.ok("object", "add", "FILES", "--description", about)
    cli.ok("object", "put", "FILES", "--name", "reports/final.pdf", stdin="x" * 2048)
    cli.ok("context", "add", "shop", "--server", "nats://shop:4222", "--description", "The shop")
    cli.ok("context", "add", "test", "--server", "nats://test:4222")
    yield cli
    server.kill()


def masked(text: str, command: str) -> str:
    for pattern, instead in MASKED:
        text = re.sub(pattern, instead, text)
    text = AGE.sub(lambda found: "<age>".rjust(len(found[0]) if found[1] else 0), text)
    if command in LOOSE:
        text = re.sub(r"\d+(\.\d+)?", "N", text)
        text = re.sub(r"  +|──+", "  ", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def fields(value: Any, path: str = "") -> Iterator[str]:
    """The paths of the fields of a document, with their types."""
    match value:
        case dict():
            for name, part in sorted(value.items()):
                yield from fields(part, f"{path}.{name}" if path else name)
        case [first, *_]:
            yield from fields(first, f"{path}[]")
        case _:
            yield f"{path}:{type(value).__name__}".lstrip(":")


def shown(cli: CommandLine, patch: pytest.MonkeyPatch, command: str) -> str:
    """Everything that a command shows, in one text."""
    words = command.split()
    last = masked(cli.ok(*words), command)
    parts = [("without a terminal", last)]
    for width in WIDTHS:
        with patch.context() as terminal:
            on_terminal(terminal, width)
            drawn = cli.ok(*words)
        assert all(len(line) <= width for line in drawn.splitlines() if "│" in line), drawn
        text = masked(drawn, command)
        parts.append((f"{width} columns", "(the same)" if text == last else text))
        last = text
    found = ", ".join(fields(json.loads(cli.ok(*words, "--json"))))
    parts.append(("the fields of --json", textwrap.fill(found, 100, break_on_hyphens=False)))
    return "".join(f"== {title}\n{text}\n" for title, text in parts)


def test_every_reading_command_looks_like_its_screen(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in COMMANDS:
        file = SCREENS / f"{re.sub('[^a-z0-9]+', '-', command.lower())}.txt"
        found = f"$ jetspark {command}\n{shown(cli, monkeypatch, command)}"
        if os.environ.get("JETSPARK_WRITE_SCREENS"):
            SCREENS.mkdir(exist_ok=True)
            file.write_text(found, encoding="utf-8")
        assert found == file.read_text(encoding="utf-8"), command


def test_no_screen_is_left_over() -> None:
    named = {f"{re.sub('[^a-z0-9]+', '-', one.lower())}.txt" for one in COMMANDS}

    assert {file.name for file in SCREENS.iterdir()} == named
