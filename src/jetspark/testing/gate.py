"""The gate: the address that the clients of one test connect to, in front of the server.

It forwards bytes, counts nothing and changes nothing, until a test wants connections to break or
to be slow. It also keeps what clients send, for assertions about published messages.
"""

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# Bytes that wait in one direction before its source is no longer read.
WAITING_MAX: Final = 1 << 20
# A slow line delivers its bytes in pieces of this many seconds each.
PIECE_S: Final = 0.05
PIECE_MIN: Final = 256
BACKLOG: Final = 512
# How long a server may take to accept a connection.
CONNECT_TIMEOUT: Final = 5.0
# How long clients may take to notice that they were disconnected; one whose event loop is not
# running never does.
NOTICE_TIMEOUT: Final = 0.2


class Gate:
    """Forwards connections to a server, whose port ``target`` returns.

    ``record`` gets the number of a connection and what its client sent.
    """

    def __init__(self, target: Callable[[], int], record: Callable[[int, bytes], None]) -> None:
        self._target = target
        self.record: Callable[[int, bytes], None] = record
        # Bound and never listening: it keeps the port while the gate is closed, and connections
        # are refused then, as by a machine whose server has stopped.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._place.bind(("127.0.0.1", 0))
        self.port: int = self._place.getsockname()[1]
        self._listener: asyncio.Server | None = None
        self._listening: socket.socket | None = None
        self._pairs: set[_Pair] = set()
        self._connections = 0
        self._closed = False
        self.latency: float = 0.0
        self.bandwidth: float = 0.0

    def delay(self, latency: float, bandwidth: float) -> None:
        """Delay what passes from now on, in seconds and bytes per second; 0: not at all."""
        self.latency = latency
        self.bandwidth = bandwidth

    async def listen(self) -> None:
        """Accept connections."""
        if self._listener is not None or self._closed:
            return
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", self.port))
        self._listener = await asyncio.get_running_loop().create_server(
            self._accept, sock=listening, backlog=BACKLOG
        )
        self._listening = listening

    def refuse(self) -> None:
        """Accept no more connections; existing ones stay."""
        if self._listener is None or self._listening is None:
            return
        # A forked process of the test may have the socket open, too: it would still listen.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = self._listening = None

    def drop(self) -> int:
        """Abort all connections; return how many there were."""
        dropped = list(self._pairs)
        for pair in dropped:
            pair.abort()
        return len(dropped)

    async def drop_noticed(self) -> int:
        """Drop all connections, and return when their clients have noticed it.

        Otherwise the next call of a test may be written to a connection that no one reads any
        more, and time out.
        """
        dropped = list(self._pairs)
        for pair in dropped:
            pair.hang_up()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_TIMEOUT):
                for pair in dropped:
                    await pair.left.wait()
        for pair in dropped:
            pair.abort()
        return len(dropped)

    def close(self) -> None:
        """Refuse and drop, and give the port back."""
        self._closed = True
        self.refuse()
        self.drop()
        self._place.close()

    def _accept(self) -> asyncio.Protocol:
        self._connections += 1
        pair = _Pair(self, self._connections, self._target())
        self._pairs.add(pair)
        return pair.client

    def ended(self, pair: "_Pair") -> None:
        """Forget a pair of connections that has ended."""
        self._pairs.discard(pair)


class _Pair:
    """The connection of a client, and the one to the server that belongs to it."""

    def __init__(self, gate: Gate, number: int, port: int) -> None:
        self._gate = gate
        self.number = number
        self._port = port
        self.client: _End = _End(
            self._client_ready, self._client_sent, self._client_left, self._client_has_room
        )
        self._server: _End = _End(
            lambda: None, self._server_sent, self._server_left, self._server_has_room
        )
        self._up = _Line(gate, self.client, self._server)
        self._down = _Line(gate, self._server, self.client)
        self._connecting: asyncio.Task[None] | None = None
        self._hung_up = False
        # The client has closed its end.
        self.left: asyncio.Event = asyncio.Event()

    def _client_ready(self) -> None:
        self.client.pause()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await loop.create_connection(lambda: self._server, "127.0.0.1", self._port)
        except OSError:
            self.abort()
        else:
            self.client.resume()

    def _client_sent(self, data: bytes) -> None:
        if self._hung_up:
            return
        self._gate.record(self.number, data)
        self._up.push(data)

    def _server_sent(self, data: bytes) -> None:
        self._down.push(data)

    def _client_has_room(self, room: bool) -> None:
        self._down.target_has_room(room)

    def _server_has_room(self, room: bool) -> None:
        self._up.target_has_room(room)

    def _client_left(self) -> None:
        self.left.set()
        self._up.end()
        self._gate.ended(self)

    def _server_left(self) -> None:
        if not self._hung_up:
            self._down.end()

    def hang_up(self) -> None:
        """Tell the client that nothing follows, and forward nothing."""
        self._hung_up = True
        if self._connecting is not None:
            self._connecting.cancel()
        for line in (self._up, self._down):
            line.discard()
        self._server.abort()
        self.client.hang_up()

    def abort(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self._gate.ended(self)
        for line in (self._up, self._down):
            line.discard()
        for end in (self.client, self._server):
            end.abort()


class _End(asyncio.Protocol):
    """One of the two sockets."""

    def __init__(
        self,
        ready: Callable[[], None],
        sent: Callable[[bytes], None],
        left: Callable[[], None],
        has_room: Callable[[bool], None],
    ) -> None:
        self._ready = ready
        self._sent = sent
        self._left = left
        self._has_room = has_room
        self._transport: asyncio.Transport | None = None
        self._pauses = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport, but behave like one.
        self._transport = transport  # type: ignore[assignment]
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ready()

    def data_received(self, data: bytes) -> None:
        self._sent(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._left()

    def pause_writing(self) -> None:
        self._has_room(False)

    def resume_writing(self) -> None:
        self._has_room(True)

    def pause(self) -> None:
        """Stop reading; calls nest."""
        self._pauses += 1
        if self._pauses == 1 and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """End a pause."""
        self._pauses -= 1
        if self._pauses == 0 and self._transport is not None:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def hang_up(self) -> None:
        """Send the end, and read until the other side has closed, paused or not."""
        if self._transport is not None:
            if self._pauses:
                self._transport.resume_reading()
            self._transport.write_eof()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Line:
    """One direction of a pair: what waits for its time, in order."""

    def __init__(self, gate: Gate, source: _End, target: _End) -> None:
        self._gate = gate
        self._source = source
        self._target = target
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._free_at = 0.0
        self._full = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None

    def push(self, data: bytes) -> None:
        """Forward data now, or when the lag is over."""
        gate = self._gate
        if not self._waiting and not gate.latency and not gate.bandwidth:
            self._target.write(data)
            return
        now = time.monotonic()
        size = len(data)
        if gate.bandwidth:
            size = max(PIECE_MIN, int(gate.bandwidth * PIECE_S))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            if gate.bandwidth:
                self._free_at = max(self._free_at, now) + len(piece) / gate.bandwidth
            due = max(self._free_at, now) + gate.latency
            # The lag may have become shorter: bytes keep their order.
            self._waiting.append((max(due, self._waiting[-1][0] if self._waiting else 0), piece))
        self._waiting_bytes += len(data)
        self._mark_full(self._waiting_bytes > WAITING_MAX)
        self._arm()

    def end(self) -> None:
        """Close the target once it has everything."""
        self._ended = True
        if not self._waiting:
            self._target.close()

    def discard(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None and self._waiting:
            wait = max(0.0, self._waiting[0][0] - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._send_due)

    def _send_due(self) -> None:
        self._timer = None
        # The timer of the loop may be early by its resolution: then it is set once more, because
        # tests measure that nothing is faster than the lag.
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            piece = self._waiting.popleft()[1]
            self._waiting_bytes -= len(piece)
            self._target.write(piece)
        self._mark_full(self._waiting_bytes > WAITING_MAX)
        self._arm()
        if self._ended and not self._waiting:
            self._target.close()

    def _mark_full(self, full: bool) -> None:
        if full != self._full:
            self._full = full
            (self._source.pause if full else self._source.resume)()

    def target_has_room(self, room: bool) -> None:
        """Let the source send on, or stop it."""
        (self._source.resume if room else self._source.pause)()
