"""The log of `jetspark serve`: a file that cannot be written changes nothing (SIGUSR1)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.server_log import restored_log

from jetspark.cli.serve.log import open_log, reopen_log, set_up_log
from jetspark.server.config.command_line import from_command_line
from jetspark.server.config.settings import Settings


@pytest.fixture(autouse=True)
def same_log() -> Iterator[None]:
    with restored_log():
        yield


def settings(log: Path) -> Settings:
    told = from_command_line(("-l", str(log)), {})
    assert isinstance(told, Settings)
    return told


def test_a_log_that_was_moved_away_is_started_again(tmp_path: Path) -> None:
    log, moved = tmp_path / "log", tmp_path / "log.1"
    set_up_log(settings(log), open_log(settings(log)))
    log.rename(moved)
    reopen_log(settings(log))

    assert "File log re-opened" in log.read_text()


def test_a_log_that_cannot_be_started_again_continues_in_the_old_file(tmp_path: Path) -> None:
    log, moved = tmp_path / "log", tmp_path / "log.1"
    set_up_log(settings(log), open_log(settings(log)))
    log.rename(moved)
    log.mkdir()
    reopen_log(settings(log))

    told = moved.read_text()
    assert f"Logging continues in the old file: cannot write the log {log}: Is a directory" in told
