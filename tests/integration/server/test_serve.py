"""`jetspark serve` as people and tools start it."""

from __future__ import annotations

import functools
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.campaigns.kills import Kills
from tests.support.served import Served


@pytest.fixture
def serve(serve: Callable[..., Served]) -> Callable[..., Served]:
    """Start the command, which is what these tests are about."""
    return functools.partial(serve, command=True)


async def test_acknowledged_messages_survive_sigkill(tmp_path: Path) -> None:
    """An acknowledgement means on disk; SIGKILL at any time is safe."""
    campaign = Kills(tmp_path / "store", seed=1)
    for _ in range(3):
        await campaign.live()

    assert len(campaign.acked) >= 3


async def test_a_kill_loses_nothing_whatever_the_durability_was(tmp_path: Path) -> None:
    """Each life has another level, some streams have their own, and no sequence is reused."""
    campaign = Kills(tmp_path / "store", seed=3, streams=3, changes_levels=True)
    for _ in range(4):
        await campaign.live()

    assert len(campaign.acked) >= 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(serve: Callable[..., Served], number: int) -> None:
    served = serve()

    assert served.stop(number) == 0
    assert "Server Exiting" in served.lines[-1]


def test_its_log_reads_like_the_one_of_nats_server(serve: Callable[..., Served]) -> None:
    """Tools that start a server read its stderr."""
    served = serve()

    pattern = r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] .*\n"
    assert all(re.fullmatch(pattern, line) for line in served.lines), served.lines


def test_a_port_in_use_is_a_fatal_line_and_exit_code_1(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    first = serve()
    port = first.url.rpartition(":")[2]

    second = serve("-p", port, "-sd", str(tmp_path / "other"))

    assert second.wait() == 1
    assert f"[FTL] cannot listen for clients on 127.0.0.1:{port}: " in second.lines[-1]


@pytest.mark.parametrize("flags", [[], ["-sd", "data"]], ids=["nothing", "-sd alone"])
def test_without_js_there_are_no_streams_and_the_log_says_how_to_have_them(
    tmp_path: Path, flags: list[str]
) -> None:
    """As on nats-server: a folder alone does not switch JetStream on."""
    command = [sys.executable, "-m", "jetspark", "serve", "-a", "127.0.0.1", "-p", "-1"]
    folder = tmp_path / "data"
    flags = [str(folder) if flag == "data" else flag for flag in flags]
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        log = ""
        while "Server is ready" not in log:
            log += process.stderr.readline()
        found = re.search(r"client connections on (\S+):(\d+)", log)
        assert found is not None
        with socket.create_connection((found[1], int(found[2])), 20) as peer:
            info = json.loads(peer.makefile("rb").readline().removeprefix(b"INFO "))
    finally:
        process.kill()
        process.communicate()

    assert not info.get("jetstream", False)
    assert "[INF]   JetStream is off" in log
    assert "start with -js" in log
    assert (str(folder) in log) == bool(flags)
    assert not folder.exists()


@pytest.mark.parametrize("flag", ["-P", "-l"])
def test_a_file_that_cannot_be_written_is_a_fatal_line_and_exit_code_1(
    serve: Callable[..., Served], tmp_path: Path, flag: str
) -> None:
    served = serve("-p", "-1", flag, str(tmp_path / "nowhere" / "file"))

    assert served.wait() == 1
    assert "[FTL] cannot write the" in served.lines[-1]
    assert "nowhere/file: No such file or directory" in served.lines[-1]
    assert not any("Traceback" in line for line in served.lines)


def test_a_reload_with_a_log_that_cannot_be_written_changes_nothing(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text("port: -1")
    served = serve("-c", str(config))
    config.write_text(f'port: -1, log_file: "{tmp_path}/nowhere/log"')

    served.process.send_signal(signal.SIGHUP)
    assert served.process.stderr is not None
    trapped, refused = served.process.stderr.readline(), served.process.stderr.readline()

    assert "Trapped" in trapped
    assert "Failed to reload server configuration: cannot write the log" in refused
    assert served.stop() == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--porrt", "4222"], "flag provided but not defined: -porrt"),
        (["-p", "abc"], 'invalid value "abc" for flag -p'),
        (["-p"], "flag needs an argument: -p"),
        (["now"], 'unrecognized command: "now"'),
        (["--signal", "wave=1"], 'unknown signal "wave"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_line_that_cannot_be_read_ends_with_2_and_says_why_on_stderr(
    flags: list[str], words: str
) -> None:
    command = [sys.executable, "-m", "jetspark", "serve", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(words)
    assert done.stderr.endswith("Run 'jetspark serve --help' for the flags.\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-c", "nowhere.conf"], "nowhere.conf: cannot read the configuration"),
        (["-js", "-sd", "/dev/null"], "it is a file, expected a folder"),
        (["--jetspark", "commit_delay=292y"], "commit_delay"),
        (["--jetspark", "commit_delay=1h"], "expected 0s to 10s, got 1h0m0s"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_keeps_a_server_from_starting_ends_with_1_and_a_fatal_line(
    flags: list[str], words: str
) -> None:
    command = [sys.executable, "-m", "jetspark", "serve", "-a", "127.0.0.1", "-p", "-1", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert "[FTL]" in done.stderr.splitlines()[-1]
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("users: [ { nkey: UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK } ]", "nkey"),
        ('users: [ { user: a, password: "$2a$11$short" } ]', 'user "a": '),
        ('token: "$2a$11$short"', "token: "),
    ],
    ids=["nkey", "password", "token"],
)
def test_a_file_whose_users_are_refused_at_the_start_does_not_pass_the_test(
    tmp_path: Path, block: str, reason: str
) -> None:
    """``-t`` before a deployment says what the start would say."""
    file = tmp_path / "server.conf"
    file.write_text(f"port: -1\nauthorization {{ {block} }}\n")
    command = [sys.executable, "-m", "jetspark", "serve", "-c", str(file), "-t"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert f"[FTL] {file}: {reason}" in done.stderr
