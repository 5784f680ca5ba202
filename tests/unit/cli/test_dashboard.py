"""`jetspark dashboard`: what it refuses before it listens."""

import socket

import pytest
from click.testing import CliRunner

from jetspark.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--write"], "--write needs a password for browsers"),
        (["--listen", "0.0.0.0:0"], "could read your messages"),
        (["--listen", "[::]:0"], "could read your messages"),
        (["--listen", "8280x"], "expected HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "expected HOST:PORT"),
        (["--monitor", "ftp://host"], "expected the address of a monitoring port"),
    ],
)
def test_an_option_that_cannot_be_used_says_why(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(main, ["dashboard", "--no-context", *arguments])
    assert done.exit_code == 2
    assert text in done.output.replace("\n", " ")


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        address = f"127.0.0.1:{port}"
        done = CliRunner().invoke(main, ["dashboard", "--no-context", "--listen", address])
    assert done.exit_code == 1
    assert "already in use" in done.output
    assert "Traceback" not in done.output
