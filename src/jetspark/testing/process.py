"""A server in its own process, as the test process sees it; and the supervisor that starts it."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from jetspark.errors import Error

# A busy machine may take seconds; nothing legitimate takes longer.
START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 20.0
# Of the server's log, in errors.
LOG_SHOWN: Final = 2000


class ServerFailed(Error):
    """The server of the test kit did not start, or ended on its own; the text has its log."""


class SupervisorProcess:
    """The process that starts servers and removes ``folder`` when this process ends."""

    def __init__(self, folder: Path, kind: str) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self.log: Path = folder / "server.log"
        with self.log.open("ab") as log, theirs:
            # Its own session: Ctrl-C in a terminal is for the test process only.
            self._process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "jetspark.testing.supervisor",
                    str(theirs.fileno()),
                    str(folder),
                    kind,
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def start(self, request: dict[str, Any]) -> "ServerProcess":
        """Start a server."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                line = json.dumps(request).encode()
                socket.send_fds(self._socket, [line], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise ServerFailed(f"the test server cannot be started: {self.tail()}") from error
        reader, writer = await asyncio.open_connection(sock=ours)
        process = ServerProcess(self, reader, writer)
        try:
            process.started = await process.read(0, START_TIMEOUT)
        except BaseException:
            writer.close()
            raise
        return process

    def tail(self) -> str:
        """Return the end of the log."""
        try:
            text = self.log.read_text(errors="replace")[-LOG_SHOWN:].strip()
        except OSError:
            text = ""
        return text or "its log is empty"

    def close(self) -> None:
        """End it, and with it every server; the folder is removed."""
        # A forked process of the test may have the socket open, too.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
            return
        self._process.kill()
        self._process.wait()


class ServerProcess:
    """One run of a server."""

    def __init__(
        self,
        supervisor: SupervisorProcess,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._supervisor = supervisor
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()
        self._asked = 0
        # What it said when it had started.
        self.started: dict[str, Any] = {}

    async def read(self, number: int, timeout: float) -> dict[str, Any]:
        """Return its answer to a request."""
        answer: dict[str, Any] = {"number": -1}
        try:
            async with asyncio.timeout(timeout):
                # The test that sent an earlier one may have been cancelled.
                while answer["number"] != number:
                    line = await self._reader.readline()
                    if not line:
                        raise ServerFailed(f"the test server has ended: {self._supervisor.tail()}")
                    answer = json.loads(line)
        except TimeoutError:
            raise ServerFailed(
                f"the test server did not answer in {timeout:g} s: {self._supervisor.tail()}"
            ) from None
        if "error" in answer:
            raise ServerFailed(f"the test server refused: {answer['error']}")
        return answer

    async def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request and return the answer."""
        async with self._lock:
            self._asked += 1
            number = self._asked
            self._writer.write(json.dumps({**request, "number": number}).encode() + b"\n")
            return await self.read(number, timeout)

    def signal(self, number: int) -> None:
        """Send a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.started["pid"], number)

    async def end(self, number: int) -> None:
        """End it by a signal, and wait for that."""
        self.signal(number)
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._ended()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self._ended()
        self._writer.close()

    async def _ended(self) -> None:
        """Wait until it has closed its socket: its process is ending."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.readline():
                pass
