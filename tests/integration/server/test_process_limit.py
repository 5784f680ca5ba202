"""A server that may start no more threads refuses what needs one and serves everything else."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

SECONDS: Final = 60.0
# A limit of processes does not hold for root. Its own files must be read anyway.
NOBODY: Final = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=+dac_override", "--ambient-caps=+dac_override",
]  # fmt: skip
# Of "secret", with few rounds.
HASH: Final = "$2b$04$IMDfnejxjNOR6g4IvuxpLud2Fhicwxl6m.XGy8R9TNQdGg9gcOUau"

pytestmark = pytest.mark.skipif(
    shutil.which("setpriv") is None
    or shutil.which("prlimit") is None
    or subprocess.run([*NOBODY, "true"], capture_output=True, check=False).returncode != 0,
    reason="needs setpriv and prlimit of util-linux, and the right to become another user",
)


class Limited:
    """A server of a user with a limited number of threads."""

    def __init__(self, folder: Path, threads: int) -> None:
        folder.mkdir()
        folder.chmod(0o777)
        config = folder / "server.conf"
        config.write_text(
            f"""jetstream: {{store_dir: "{folder / "store"}"}}
            authorization {{users: [
                {{user: hashed, password: "{HASH}"}}, {{user: plain, password: plain}}
            ]}}"""
        )
        self._log = folder / "log"
        with self._log.open("w") as log:
            server = [sys.executable, "-m", "jetspark", "serve", "-c", str(config)]
            self.process = subprocess.Popen(
                [*NOBODY, "prlimit", f"--nproc={threads}", *server, "-a", "127.0.0.1", "-p", "-1"],
                stderr=log,
                cwd=folder,
                env={**os.environ, "HOME": str(folder)},
            )
        deadline = time.monotonic() + SECONDS
        while "Server is ready" not in self.log and self.process.poll() is None:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def login(self, user: str, password: str) -> tuple[socket.socket, bytes]:
        found = re.search(r"client connections on \S+:(\d+)", self.log)
        assert found is not None
        made = socket.create_connection(("127.0.0.1", int(found[1])), timeout=SECONDS)
        said = json.dumps({"user": user, "pass": password, "verbose": False})
        made.sendall(f"CONNECT {said}\r\nPING\r\n".encode())
        answer = b""
        while b"PONG\r\n" not in answer and b"-ERR" not in answer:
            answer += made.recv(4096)
        return made, answer


@contextmanager
def limited(folder: Path, threads: int) -> Iterator[Limited]:
    server = Limited(folder, threads)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def ask(client: socket.socket, subject: str, body: bytes = b"") -> bytes:
    head = f"SUB answer 1\r\nUNSUB 1 1\r\nPUB {subject} answer {len(body)}\r\n".encode()
    client.sendall(head + body + b"\r\n")
    answer = b""
    while not answer.endswith(b"}\r\n"):
        answer += client.recv(65536)
    return answer


def test_a_server_without_room_for_threads_refuses_what_needs_one_and_serves_the_rest(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    with limited(tmp_path / "free", 1000) as server:
        needed = server.threads()
    with limited(tmp_path / "none", needed) as server:
        client, answer = server.login("hashed", "secret")
        client.close()
        assert b"-ERR 'Authentication Timeout'" in answer
        assert "A password cannot be checked" in server.log
        assert "ulimit -u" in server.log

        client, answer = server.login("plain", "plain")
        assert b"PONG\r\n" in answer
        created = ask(client, "$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
        assert b'"error"' not in created
        assert b'"seq":1' in ask(client, "s", b"x")
        assert b'"purged":1' in ask(client, "$JS.API.STREAM.PURGE.S")
        assert b'"success":true' in ask(client, "$JS.API.STREAM.DELETE.S")
        client.close()
    with limited(tmp_path / "few", 2) as server:
        assert server.process.wait(SECONDS) == 1
        assert "no thread can be started" in server.log
        assert "Traceback" not in server.log
