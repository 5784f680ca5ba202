"""A client that does nothing special while another one asks for something large.

Every millisecond it sends a PING, and every other millisecond a direct get of one message, and
notes how long each answer takes: the longest is how long that other client made all others wait.
It runs in a process of its own, so that the load generator does not delay it.
"""

import json
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.load import Wire
from bench.servers import Running

INTERVAL_S = 0.001
GET = b"PUB $JS.API.DIRECT.GET.%b _B.1 %d\r\n%b\r\n"


class Bystander:
    """The process, seen from the load generator: ``with`` it, something large is asked for."""

    def __init__(self, server: Running, stream: bytes) -> None:
        arguments = [server.name, server.host, str(server.port), str(server.pid), stream.decode()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.bystander", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],  # where the module is found
        )
        self._said("ready")
        # The longest waits in milliseconds, for PONG and for a message.
        self.ping: float = 0.0
        self.get: float = 0.0

    def _said(self, what: str) -> None:
        assert self._process.stdout is not None
        found = self._process.stdout.readline().strip()
        if found != what:
            raise RuntimeError(f"the bystander said {found!r}")

    def _tell(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        self._tell("start")
        self._said("started")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tell("stop")
        assert self._process.stdout is not None
        self.ping, self.get = json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _longest(wire: Wire, ask: bytes, end: bytes) -> float:
    begun = time.perf_counter()
    wire.send(ask)
    seen = b""
    while end not in seen or not seen.endswith(b"\r\n"):
        seen += wire.receive()
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    """Wait for "start" on the standard input, ask until "stop", print the longest waits."""
    name, host, port, pid, stream = sys.argv[1:]
    wire = Wire(Running(name, host, int(port), int(pid)))
    wire.send(b"SUB _B.1 5\r\n")
    wire.sync()
    body = b'{"seq":1}'
    get = GET % (stream.encode(), len(body), body)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() != "start":
            continue
        print("started", flush=True)
        pings, gets = [0.0], [0.0]
        while not select.select([sys.stdin], [], [], INTERVAL_S)[0]:
            pings.append(_longest(wire, b"PING\r\n", b"PONG\r\n"))
            if len(pings) % 2:
                gets.append(_longest(wire, get, b"MSG _B.1 5"))
        sys.stdin.readline()
        print(json.dumps([max(pings), max(gets)]), flush=True)


if __name__ == "__main__":
    main()
