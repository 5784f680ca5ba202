"""A quiet client next to hostile ones, in a process of its own: how long its PINGs wait.

What it waits is *server time*: the CPU time that the server's event loop spent between the PING
and the PONG. A busy machine takes the CPU from the server or from this process, so two
measurements are made of each PING and the shorter one counts: the CPU time of the loop's thread,
which is too long if this process got the CPU late, and the time by the clock until the kernel
received the PONG, which is too long if the server got the CPU late.

As a program: ``neighbour.py PORT PID CONNECT [tls]``. A line on its input is answered with the
longest waits since the last one, as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO

_SO_TIMESTAMPNS = 35
_PAUSE_S = 0.001


@dataclass(frozen=True)
class Waits:
    """The longest waits of some PINGs, in milliseconds."""

    server_ms: float
    wall_ms: float
    pings: int


class Neighbour:
    """Starts the program, and asks it."""

    def __init__(
        self, port: int, pid: int, user: str, password: str, *, tls: bool = False
    ) -> None:
        said = json.dumps({"verbose": False, "user": user, "pass": password})
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(port), str(pid), said, "tls" * tls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.waits()

    def waits(self) -> Waits:
        """The waits since the last time; there is at least one."""
        _pipe(self._process.stdin).write("\n")
        _pipe(self._process.stdin).flush()
        line = _pipe(self._process.stdout).readline()
        assert line, "the neighbour lost its connection"
        return Waits(**json.loads(line))

    def close(self) -> None:
        """End it."""
        _pipe(self._process.stdin).close()
        self._process.wait(20)
        _pipe(self._process.stdout).close()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def dial(port: int, *, tls: bool) -> socket.socket:
    """Connect; of a TLS connection the kernel does not know when a PONG arrives."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    if not tls:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        return connection
    while not connection.recv(65536).endswith(b"\r\n"):
        pass
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def main(port: int, pid: int, said: str, *, tls: bool) -> None:
    """Ping until the input ends."""
    connection = dial(port, tls=tls)
    connection.sendall(f"CONNECT {said}\r\nPING\r\n".encode())
    heard = b""
    while b"PONG\r\n" not in heard:
        more = connection.recv(65536)
        if not more:
            sys.exit(heard.decode())
        heard += more
    server_ns = wall_ns = pings = 0
    while True:
        cpu, clock = cpu_ns(pid), time.time_ns()
        connection.sendall(b"PING\r\n")
        heard = b""
        arrived = clock
        while b"PONG\r\n" not in heard:
            more, ancillary = receive(connection)
            if not more:
                sys.exit("closed")
            heard += more
            arrived = time.time_ns()
            for _, kind, data in ancillary:
                if kind == _SO_TIMESTAMPNS:
                    seconds, rest = struct.unpack("qq", data[:16])
                    arrived = seconds * 1_000_000_000 + rest
        if b"PING\r\n" in heard:
            connection.sendall(b"PONG\r\n")
        waited = arrived - clock
        server_ns = max(server_ns, min(waited, cpu_ns(pid) - cpu))
        wall_ns = max(wall_ns, waited)
        pings += 1
        if select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            if not sys.stdin.readline():
                return
            said = json.dumps(
                {"server_ms": server_ns / 1e6, "wall_ms": wall_ns / 1e6, "pings": pings}
            )
            sys.stdout.write(said + "\n")
            sys.stdout.flush()
            server_ns = wall_ns = pings = 0


def receive(connection: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    """Some bytes, and what the kernel says about them."""
    if isinstance(connection, ssl.SSLSocket):
        return connection.recv(65536), []
    more, ancillary, _, _ = connection.recvmsg(65536, 1024)
    return more, ancillary


def cpu_ns(pid: int) -> int:
    """The CPU time of the first thread of a process: of the event loop of ours."""
    with open(f"/proc/{pid}/task/{pid}/schedstat") as file:  # noqa: PTH123 - quick
        return int(file.read().split()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], tls=bool(sys.argv[4]))
