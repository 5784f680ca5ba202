"""A server whose turns are measured: how much CPU time each callback of its loop took.

CPU time of the loop's own thread, so that a busy machine changes little. The garbage collector is
off meanwhile: what it does is not work of a turn.
"""

import asyncio
import gc
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from jetspark import COMPILED
from jetspark.server.server import Server

# Ten, and room for a slower or busy machine, whose caches are shared.
LONGEST_MS = 40 if COMPILED else 150


class TurnProbe:
    """Runs a server in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        # The transports of plain asyncio copy all that waits now and then: 64 MB take too long.
        settings: str = "max_pending: 8MB\n",
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._longest = 0
        self._total = 0
        self._what = ""
        self.server: Server
        self.loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            if threading.current_thread() is not self._thread:
                run(handle)
                return
            began = time.thread_time_ns()
            run(handle)
            took = time.thread_time_ns() - began
            self._total += took
            if took > self._longest:
                self._longest = took
                self._what = repr(handle)

        monkeypatch.setattr(asyncio.Handle, "_run", measured)

    def __enter__(self) -> Self:
        gc.disable()
        self._thread.start()
        assert self._started.wait(30)
        self.longest_ms()  # the start is none of it
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        gc.enable()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        config = self._folder / "server.conf"
        config.write_text(self._settings)
        self.server = Server(
            config=config, store_dir=self._folder / "store", port=-1, jetstream=True
        )
        async with self.server:
            self._started.set()
            await self._stop.wait()

    def longest_ms(self) -> float:
        """The longest turn since the last time this was asked, in ms of CPU time."""
        return self.spent_ms()[0]

    def spent_ms(self) -> tuple[float, float]:
        """The longest turn and all turns since the last time, in ms of CPU time."""
        for _ in range(2):  # the turn that sent an answer is over, and what it put off
            done = threading.Event()
            self.loop.call_soon_threadsafe(done.set)
            done.wait(30)
        longest, self._longest = self._longest, 0
        total, self._total = self._total, 0
        return longest / 1e6, total / 1e6

    def check(self, limit: float = LONGEST_MS) -> float:
        """Fail when a turn since the last check was too long; how long the longest was."""
        what = self._what
        longest = self.longest_ms()
        assert longest < limit, f"a turn took {longest:.0f} ms of CPU time: {what}"
        return longest

    @contextmanager
    def client(self, **options: bool | int | str) -> "Iterator[Wire]":
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
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._socket.sendall(data)

    def until(self, end: bytes) -> bytes:
        """Read up to these bytes; what came before them."""
        searched = 0
        while (at := self._buffer.find(end, searched)) < 0:
            searched = max(0, len(self._buffer) - len(end))
            self._receive()
        found = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return found

    def read(self, size: int) -> bytes:
        """Read so many bytes."""
        while len(self._buffer) < size:
            self._receive()
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def _receive(self) -> None:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError(bytes(self._buffer[-200:]))
        self._buffer += data

    def settle(self) -> None:
        """Wait until the server has done everything that was sent before."""
        self.send(b"PING\r\n")
        self.until(b"PONG\r\n")

    def say_farewell(self) -> None:
        """End a TLS session, and read until the server has ended it as well."""
        assert isinstance(self._socket, ssl.SSLSocket)
        self._socket.unwrap()

    def request(self, subject: bytes, body: bytes) -> bytes:
        """Ask something of `$JS.API`; the answer's payload."""
        self.send(
            b"SUB _answer 9999999\r\nUNSUB 9999999 1\r\nPUB $JS.API.%b _answer %d\r\n%b\r\n"
            % (subject, len(body), body)
        )
        self.until(b"MSG _answer 9999999 ")
        size = int(self.until(b"\r\n"))
        return self.read(size + 2)[:-2]
