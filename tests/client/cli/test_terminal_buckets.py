"""Buckets, objects and checks as people see them: at 80 and 120 columns, without a terminal."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.command_line import CommandLine, on_terminal, steady
from tests.support.servers import ServerProcess

BUCKET, STORE = "SNAPSHOT_SETTINGS", "SNAPSHOT_FILES"


@pytest.fixture
def server(servers: Callable[[str], ServerProcess]) -> ServerProcess:
    """How it looks does not depend on the server."""
    return servers("jetspark")


@pytest.fixture
def shop(cli: CommandLine) -> Iterator[None]:
    """A bucket and a store with fixed names."""
    about = "Settings of the shop, with everything that anyone ever wanted to be able to change"
    cli.ok("kv", "add", BUCKET, "--history", "5", "--description", about)
    cli.ok("kv", "put", BUCKET, "color", "blue")
    cli.ok("kv", "put", BUCKET, "greeting", "welcome " * 20)
    cli.ok("kv", "del", BUCKET, "color", "--force")
    cli.ok("object", "add", STORE, "--description", about)
    cli.ok("object", "put", STORE, "--name", "reports/2026/final.pdf", stdin="x" * 2048)
    yield
    cli.ok("kv", "rm", BUCKET, "--force")
    cli.ok("object", "rm", STORE, "--force")


HISTORY_80 = """\
              History for SNAPSHOT_SETTINGS > color
┌───────┬──────────┬─────┬─────────────────────┬────────┬───────┐
│ Key   │ Revision │ Op  │ Created             │ Length │ Value │
├───────┼──────────┼─────┼─────────────────────┼────────┼───────┤
│ color │        1 │ PUT │ YYYY-MM-DD hh:mm:ss │    4 B │ blue  │
│ color │        3 │ DEL │ YYYY-MM-DD hh:mm:ss │    0 B │       │
└───────┴──────────┴─────┴─────────────────────┴────────┴───────┘
"""
HISTORY_PLAIN = """\
Key    Revision  Op   Created              Length  Value
color         1  PUT  YYYY-MM-DD hh:mm:ss     4 B  blue
color         3  DEL  YYYY-MM-DD hh:mm:ss     0 B
"""


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        ("kv", "ls"),
        ("kv", "ls", BUCKET, "-v", "--display-value"),
        ("kv", "history", BUCKET, "greeting"),
        ("kv", "snapshot", BUCKET),
        ("object", "ls"),
        ("object", "ls", STORE),
        ("errors", "ls", "batch"),
        ("server", "check", "kv", "--bucket", BUCKET, "--format", "text"),
    ],
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


@pytest.mark.usefixtures("shop")
def test_a_history_looks_like_this(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("kv", "history", BUCKET, "color")

    assert steady(cli.ok(*words)) == HISTORY_PLAIN
    for width in (80, 120):
        on_terminal(monkeypatch, width)
        assert steady(cli.ok(*words)).replace(" \n", "\n") == HISTORY_80


@pytest.mark.usefixtures("shop")
def test_questions_name_what_is_lost_and_no_is_the_default(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, 80)

    bucket = cli.fails(1, "kv", "del", BUCKET, stdin="\n")
    store = cli.fails(1, "object", "del", STORE, stdin="\n")
    kept = cli.fails(1, "object", "seal", STORE, stdin="n\n")

    assert f"Delete bucket {BUCKET} with 3 values? [y/N]" in bucket
    assert f"Delete object store {STORE} with" in store
    assert "nothing was changed" in kept
