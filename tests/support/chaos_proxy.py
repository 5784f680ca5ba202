"""A TCP proxy that misbehaves on demand: latency, tiny writes, resets, black holes.

It runs in the test's own loop. What it does to a connection it does to both directions.
"""

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self, cast


class ChaosProxy:
    """Forwards connections to one server; a test changes its temper while it runs."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self.latency = 0.0  # seconds that every chunk is held back
        self.write_size = 0  # bytes per write; 0 writes chunks as they come
        self.refusing = False  # new connections are reset at once
        self._denial = b""  # what new connections receive after the server's INFO
        self.connections = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Reset every connection: what is in flight is lost."""
        for pair in list(self._pairs):
            pair.reset()

    def black_hole(self) -> None:
        """Swallow everything on the present connections, for ever, without closing them."""
        for pair in self._pairs:
            pair.swallowing = True

    def deny(self, text: str) -> None:
        """Tell every client ``-ERR`` and close, also those that come."""
        self._denial = f"-ERR '{text}'\r\n".encode()
        for pair in self._pairs:
            pair.writers[0].write(self._denial)
            pair.writers[0].close()

    def calm(self) -> None:
        """Behave for new connections."""
        self.latency, self.write_size, self.refusing = 0.0, 0, False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=5)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        here = cast("asyncio.Task[None]", asyncio.current_task())
        self._handlers.add(here)
        pair = _Pair(writer)
        self._pairs.add(pair)
        try:
            if self.refusing:
                return
            upstream, back = await asyncio.open_connection(*self._target)
            pair.writers.append(back)
            if self._denial:
                writer.write(await upstream.readline() + self._denial)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
                return
            pumps = [
                asyncio.ensure_future(self._pump(pair, reader, back)),
                asyncio.ensure_future(self._pump(pair, upstream, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            pair.reset()
            self._pairs.discard(pair)
            self._handlers.discard(here)

    async def _pump(
        self, pair: "_Pair", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.latency:
                    await asyncio.sleep(self.latency)
                if pair.swallowing:
                    continue
                size = self.write_size or len(data)
                for start in range(0, len(data), size):
                    writer.write(data[start : start + size])
                    await writer.drain()
                    if self.write_size:
                        await asyncio.sleep(0)


class _Pair:
    """The two sockets of one forwarded connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.swallowing = False

    def reset(self) -> None:
        for writer in self.writers:
            raw = writer.get_extra_info("socket")
            if raw is not None and raw.fileno() >= 0:
                # Lingering for no time sends RST instead of FIN.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
