"""Questions about buckets and object stores on a terminal."""

from collections.abc import Callable, Iterator

import pytest
from tests.support.command_line import CommandLine, on_terminal
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
