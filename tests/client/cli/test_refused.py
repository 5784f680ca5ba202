"""Users whose permissions do not suffice: one clear error, exit code 1, and no endless waiting."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.certificates import make_certificate
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess

CONFIG = """
jetstream: enabled
authorization { users [
    { user: all, password: p },
    { user: few, password: p, permissions: {
        publish: ["open.>", "$JS.API.INFO"], subscribe: ["open.>", "_INBOX.>"] } },
] }
"""


@pytest.fixture(scope="module", params=["nats-server", "jetspark"])
def limited(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """A server whose user ``few`` may use ``open.>`` only."""
    folder: Path = tmp_path_factory.mktemp("limited")
    config = folder / "server.conf"
    config.write_text(CONFIG)
    server = ServerProcess(request.param, folder / "store", "-c", str(config))
    yield CommandLine(server.url.replace("//", "//few:p@"))
    server.kill()


@pytest.mark.parametrize(
    "words",
    [
        ("pub", "closed.a", "x"),
        ("pub", "closed.a", "x", "--count", "3"),
        ("pub", "closed.a", "x", "--count", "30"),
        ("pub", "closed.a", "x", "--count", "3", "--json"),
        ("sub", "closed.a"),
        ("sub", "open.a", "closed.a", "--json"),
        ("reply", "closed.a", "x"),
        ("events", "--js-advisory"),
        ("bench", "pub", "closed.a", "--msgs", "100", "--no-progress"),
        ("bench", "sub", "closed.a", "--msgs", "100", "--no-progress"),
        ("stream", "ls"),
        ("stream", "export", "S", "-"),
        ("kv", "watch", "B"),
        ("object", "ls"),
    ],
    ids=" ".join,
)
def test_what_the_server_refuses_is_one_error(
    limited: CommandLine, words: tuple[str, ...]
) -> None:
    result = limited.run(*words)

    assert result.exit_code == 1
    errors = [line for line in result.stderr.splitlines() if "Permissions Violation" in line]
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert "the user needs permission for that subject" in errors[0]
    assert "Published" not in result.stderr
    assert "msgs/sec" not in result.stdout
    assert "closed.a" not in result.stdout


def test_what_is_allowed_works(limited: CommandLine) -> None:
    assert limited.said("pub", "open.a", "x") == 'Published 1 bytes to "open.a"\n'


def test_only_a_user_without_a_server_is_advised_to_start_one(
    servers: Callable[[str], ServerProcess], tmp_path: Path
) -> None:
    certificate, key = make_certificate(tmp_path)
    config = tmp_path / "tls.conf"
    config.write_text(f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}')
    secured = ServerProcess("jetspark", tmp_path / "secured", "-c", str(config))
    plain = servers("jetspark")
    free = socket.create_server(("127.0.0.1", 0))
    nobody = free.getsockname()[1]
    free.close()
    try:
        unknown = CommandLine(secured.url).fails(1, "stream", "ls")
        insecure = CommandLine(f"tls://{plain.address}").fails(1, "stream", "ls")
        stopped = CommandLine(f"nats://127.0.0.1:{nobody}").fails(1, "stream", "ls")
        known = CommandLine(secured.url).run("pub", "a", "x", "--tlsca", certificate)
    finally:
        secured.kill()

    assert unknown.endswith("--tlsca FILE names the authority that signed it")
    assert "the server offers no TLS" in insecure
    assert "start a server" in stopped
    assert not any("start a server" in text for text in (unknown, insecure))
    assert known.exit_code == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_files_are_no_error(
    servers: Callable[[str], ServerProcess], name: str, closed: str
) -> None:
    server = servers("jetspark")
    cli = CommandLine(server.url)
    cli.ok("kv", "add", name)
    command = f'exec "$0" -m jetspark kv put {name} key value {closed}'

    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable],
        env={**os.environ, "NATS_URL": server.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert cli.ok("kv", "get", name, "key", "--raw") == "value"


def test_a_name_that_is_no_utf_8_is_shown(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONUTF8": "1"}

    done = subprocess.run(
        [sys.executable, "-m", "jetspark", "context", "validate", b"a\xff"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "a\\udcff" in done.stdout
