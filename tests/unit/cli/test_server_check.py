"""Results of checks, and the check that needs no server."""

import base64
import json
import time
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

from jetspark.cli.server.check.result import Result

CLI = CommandLine()


def credentials(folder: Path, claims: object) -> Path:
    encoded = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    file = folder / "user.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\nhead.{encoded}.signature\n------END NATS USER JWT------\n"
    )
    return file


@pytest.mark.parametrize(
    ("left", "options", "code", "text"),
    [
        (3600, (), 0, "OK:expires in "),
        (3600, ("--validity-warn", "2h"), 1, "Warn:expires in"),
        (3600, ("--validity-critical", "2h", "--validity-warn", "3h"), 2, "Crit:expires in"),
        (-60, (), 2, "Crit:expired 1m"),
        (None, (), 2, "Crit:never expires"),
        (None, ("--no-require-expiry",), 0, "OK:never expires"),
    ],
)
def test_credentials_are_checked(
    tmp_path: Path, left: int | None, options: tuple[str, ...], code: int, text: str
) -> None:
    file = credentials(tmp_path, {} if left is None else {"exp": int(time.time()) + left})

    result = CLI.run("server", "check", "credential", "--credential", file, *options)

    assert result.exit_code == code
    assert text in result.stdout


def test_a_file_that_has_no_credentials_is_critical(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("no JWT")
    words = ("server", "check", "credential", "--credential")

    assert CLI.run(*words, other).exit_code == 2
    assert CLI.run(*words, tmp_path / "none").exit_code == 2
    assert CLI.run(*words, credentials(tmp_path, [1])).exit_code == 2


@pytest.mark.parametrize(
    ("value", "warning", "critical", "status"),
    [
        (4, 5, 10, "OK"),
        (5, 5, 10, "WARNING"),
        (10, 5, 10, "CRITICAL"),
        (11, 10, 5, "OK"),
        (10, 10, 5, "WARNING"),
        (5, 10, 5, "CRITICAL"),
        (9, None, 10, "OK"),
        (10, None, 10, "CRITICAL"),
        (10, None, None, "OK"),
        (0, 0, 1, "WARNING"),
    ],
)
def test_less_is_worse_if_the_critical_threshold_is_below_the_other(
    value: float, warning: float | None, critical: float | None, status: str
) -> None:
    result = Result("suite", "name")

    result.compare("text", value, warning=warning, critical=critical, inverts=True)

    assert result.status == status


def test_a_time_is_worse_the_longer_it_is_whatever_the_thresholds() -> None:
    result = Result("suite", "name")

    result.compare("text", 0.3, warning=0.5, critical=0.2)

    assert result.status == "CRITICAL"
