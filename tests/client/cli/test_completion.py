"""Completion in real shells, on a real server: commands, options, and names that it knows."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess


@pytest.fixture
def server(servers: Callable[[str], ServerProcess]) -> ServerProcess:
    """Names come from the client, which is tested on nats-server elsewhere."""
    return servers("jetspark")


@pytest.fixture
def own(name: str) -> str:
    """A name whose beginning no other test uses either."""
    return f"S{name[::-1]}"


@pytest.fixture
def environment(
    server: ServerProcess, cli: CommandLine, own: str, tmp_path: Path
) -> dict[str, str]:
    """An environment with the command on its path, and a stream on its server."""
    command = tmp_path / "jetspark"
    command.write_text(
        f"#!{sys.executable}\nfrom jetspark.__main__ import main\n\nmain()\n", encoding="utf-8"
    )
    command.chmod(0o755)
    cli.ok("stream", "add", own, "--subjects", own)
    cli.ok("consumer", "add", own, "worker")
    cli.ok("kv", "add", own)
    cli.ok("kv", "put", own, "color", "blue")
    cli.ok("object", "add", own)
    cli.ok("object", "put", own, "--name", "report", stdin="x")
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NATS_URL": server.url, "TERM": "dumb"}


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs the shell {name}")
    return found


def lines(own: str) -> list[tuple[str, str]]:
    """What is typed, and what it is completed to; shells share those about names of the server.

    Each line starts the command, which takes most of the time.
    """
    return [
        ("jetspark strea", "stream"),
        ("jetspark stream inf", "info"),
        ("jetspark stream ls --nam", "--names"),
        (f"jetspark stream info {own[:-12]}", own),
        (f"jetspark consumer next {own} wor", "worker"),
        (f"jetspark kv info {own[:-12]}", own),
        (f"jetspark kv get {own} col", "color"),
        (f"jetspark object info {own[:-12]}", own),
        (f"jetspark object get {own} rep", "report"),
    ]


def test_bash(environment: dict[str, str], own: str) -> None:
    typed = "\n".join(
        f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; COMPREPLY=()\n"
        '_jetspark_completion jetspark; echo "${COMPREPLY[@]}"'
        for line, _ in lines(own)[:5]
    )
    script = f"source <(jetspark completion bash)\n{typed}\n"
    done = subprocess.run(
        [shell("bash"), "--norc", "-c", script], env=environment, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip

    assert done.stdout.splitlines() == [expected for _, expected in lines(own)[:5]]


def test_fish(environment: dict[str, str], own: str, tmp_path: Path) -> None:
    some = [lines(own)[2], *lines(own)[5:]]
    typed = "\n".join(f"complete -C '{line}'" for line, _ in some)
    script = f"jetspark completion fish | source\n{typed}\n"
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", script],
        env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True,
        timeout=120,
    )  # fmt: skip

    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == [expected for _, expected in some]


def test_zsh(environment: dict[str, str], own: str, tmp_path: Path) -> None:
    """Typed on a terminal, with the tab key."""
    found = shell("zsh")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(found, ["zsh", "-f", "-i"], {**environment, "HOME": str(tmp_path)})
    shown = b""

    def wait_for(text: bytes) -> None:
        nonlocal shown
        deadline = time.monotonic() + 60
        while text not in shown:
            ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
            assert ready, shown
            shown += os.read(terminal, 65536)

    try:
        os.write(terminal, b"PS1='READY''> '; autoload -Uz compinit; compinit -u; "
                 b"source <(jetspark completion zsh); echo LOADED''NOW\n")  # fmt: skip
        wait_for(b"LOADEDNOW")
        for line, expected in lines(own)[1:4:2]:
            wait_for(b"READY> ")
            shown = b""
            os.write(terminal, line.encode() + b"\t")
            wait_for(f"{expected} ".encode())
            os.write(terminal, b"\x15\n")  # clear the line: nothing is run
            shown = b""
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_server_that_cannot_be_reached_has_no_names() -> None:
    environment = {
        **os.environ, "NATS_URL": "nats://127.0.0.1:1", "COMP_WORDS": "jetspark stream info A",
        "COMP_CWORD": "3", "_JETSPARK_COMPLETE": "bash_complete",
    }  # fmt: skip
    code = "import sys; sys.argv = ['jetspark']; from jetspark.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("\n", "")
