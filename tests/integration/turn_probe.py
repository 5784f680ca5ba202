"""A server whose turns are measured: how much CPU time each callback of its loop took.

CPU time of the loop's own thread, so that a busy machine changes little. The garbage collector is
off meanwhile: what it does is not work of a turn.
"""

import asyncio
import gc
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from jetspark.server.server import Server


class TurnProbe:
    """Runs a server in a thread of its own. ``longest_ms`` is the longest turn since ``reset``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._longest = 0
        self._what = ""
        self.server: Server
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            if threading.current_thread() is not self._thread:
                run(handle)
                return
            began = time.thread_time_ns()
            run(handle)
            took = time.thread_time_ns() - began
            if took > self._longest:
                self._longest = took
                self._what = repr(handle)

        monkeypatch.setattr(asyncio.Handle, "_run", measured)

    def __enter__(self) -> Self:
        gc.disable()
        self._thread.start()
        self._started.wait(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        gc.enable()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = Server(store_dir=self._folder, port=-1)
        async with self.server:
            self._started.set()
            await self._stop.wait()

    def reset(self) -> None:
        """Forget what was measured."""
        self._longest = 0
        self._what = ""

    @property
    def longest_ms(self) -> float:
        """The longest turn, in ms of CPU time."""
        return self._longest / 1e6

    @property
    def what(self) -> str:
        """Which callback that was."""
        return self._what

    @contextmanager
    def client(self, **options: bool) -> "Iterator[Wire]":
        """A client that speaks the protocol by hand, with these options in its CONNECT."""
        with socket.create_connection(("127.0.0.1", self.server.port)) as made:
            wire = Wire(made)
            said = {"verbose": False, "headers": True, **options}
            wire.send(b"CONNECT %b\r\n" % json.dumps(said).encode())
            yield wire


class Wire:
    """One connection: bytes out, bytes in."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(60)
        self._buffer = b""
        self.got = 0

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._socket.sendall(data)

    def until(self, end: bytes) -> bytes:
        """Read up to these bytes; only the last of what came before is kept."""
        while end not in self._buffer:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError(self._buffer[-200:])
            self.got += len(data)
            self._buffer = self._buffer[-(1 << 22) :] + data
        head, _, self._buffer = self._buffer.partition(end)
        return head

    def settle(self) -> None:
        """Wait until the server has done everything that was sent before."""
        self.send(b"PING\r\n")
        self.until(b"PONG\r\n")

    def request(self, subject: bytes, body: bytes) -> bytes:
        """Ask something of `$JS.API`; the answer's payload."""
        self.send(
            b"SUB _answer 9999999\r\nUNSUB 9999999 1\r\nPUB $JS.API.%b _answer %d\r\n%b\r\n"
            % (subject, len(body), body)
        )
        self.until(b"MSG _answer 9999999 ")
        size = int(self.until(b"\r\n"))
        while len(self._buffer) < size + 2:
            self._buffer += self._socket.recv(1 << 20)
        answer, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return answer
