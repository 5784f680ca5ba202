"""A served jetspark that is watched from outside: its log, its memory, its open files."""

from __future__ import annotations

import re
import select
import socket
import threading
from pathlib import Path
from typing import Final

from tests.support.served import Served

TIMEOUT_S: Final = 20.0


class Watched(Served):
    """A `jetspark serve` process whose log is read while it runs."""

    def __init__(self, folder: Path, config: str = "") -> None:
        path = folder / "server.conf"
        path.write_text(config)
        # Its memory is its own: it is no fork.
        super().__init__(folder / "store", "-p", "-1", "-c", str(path), command=True)
        assert self.url, "".join(self.lines)
        self.port = int(self.url.rpartition(":")[2])
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, text: str, count: int = 1) -> str:
        """Wait until the log has ``count`` lines with ``text``, and return the first of them.

        The log is read by a thread: what the server has written may not be in ``lines`` yet.
        """
        with self._said:
            self._said.wait_for(lambda: len(self.said(text)) >= count, TIMEOUT_S)
        found = self.said(text)
        assert len(found) >= count, f"{len(found)} of {count} lines with {text!r} in {TIMEOUT_S} s"
        return found[0]

    def said(self, text: str) -> list[str]:
        """Return the lines of the log that have ``text``."""
        return [line for line in self.lines if text in line]

    def resident_mib(self) -> float:
        """Return the memory of the process that is in RAM."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def open_files(self) -> int:
        """Return how many files and sockets the process has open."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def wait(self) -> int:
        """Wait for the end."""
        self.process.wait(TIMEOUT_S)
        self._reader.join()
        self.process.communicate()
        return self.process.wait()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()


class Peer:
    """A raw client of a `Watched` server. It reads when it is configured to."""

    def __init__(self, server: Watched, *, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.connect(("127.0.0.1", server.port))
        self._file = self._socket.makefile("rb")
        self.info = self.line()

    def send(self, data: bytes) -> None:
        """Send bytes; a server that closed is no error here."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def line(self) -> bytes:
        """Read a line; empty when the server closed."""
        try:
            return self._file.readline()
        except ConnectionResetError:
            return b""

    def rest(self) -> bytes:
        """Read until the server closes."""
        data = bytearray()
        try:
            while chunk := self._file.read1(65536):
                data += chunk
        except ConnectionResetError:
            pass
        return bytes(data)

    def exactly(self, size: int) -> bytes:
        """Read so many bytes."""
        return self._file.read(size)

    def ask(self, data: bytes = b"") -> list[bytes]:
        """Send, and return the lines that come before the answer to a PING."""
        self.send(data + b"PING\r\n")
        lines: list[bytes] = []
        while (line := self.line()) != b"PONG\r\n":
            assert line, f"closed: {lines}"
            if line != b"PING\r\n" and not line.startswith(b"INFO"):
                lines.append(line)
        return lines

    def has_answer(self) -> bool:
        """Say whether there is something to read."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def end_sending(self) -> None:
        """Say that no more comes."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close without a goodbye: the server sees a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close()

    def close(self) -> None:
        """Close."""
        self._file.close()
        self._socket.close()
