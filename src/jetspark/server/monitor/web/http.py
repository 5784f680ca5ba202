"""The monitoring port: uvicorn in the server's own event loop.

It touches no signal handler, starts no thread, does not change the logging of the process, and
several of these run in one loop.

Clients that send half a request, read nothing or never leave are closed, and do not affect others:
if there are too many connections, the address that has the most makes room for a new one, and
health is answered however many requests run. Requests are read and answered a few per turn of the
loop, one address after the other (``request_queue.py``).
"""

import asyncio
import contextlib
import logging
import select
import socket
import ssl
from collections.abc import Generator
from typing import Any, Final, cast

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from jetspark.server.monitor.web.request_queue import RequestQueue
from jetspark.server.net.crowd import Crowd
from jetspark.server.net.listening import (
    BACKLOG,
    Acceptor,
    network_of,
    open_listener,
    peer_ip,
)
from jetspark.server.pacing import Pacing, current_pacing

log: logging.Logger = logging.getLogger("jetspark.server.monitor")

# While this many requests run, addresses with more than their share of them get 503, except for
# health.
REQUESTS_MAX: Final = 1_000
# Beyond this many connections, the busiest address loses the one that has been idle longest.
CONNECTIONS_MAX: Final = REQUESTS_MAX + 100
# A request must be complete this long after the connection was accepted or the last answer was
# sent, as on nats-server. The same holds for the body, which none of our endpoints reads.
REQUEST_S: Final = 5.0
# A client must read something of an answer in this time.
READING_S: Final = 10.0
SWEEP_S: Final = 1.0
# What is read of requests, and how many of them are answered, in one turn of the loop.
READS_PER_TURN: Final = 16
ANSWERS_PER_TURN: Final = 4
# Input is parsed in pieces: a read has up to 256 KiB, which may be 40,000 headers.
PIECE: Final = 8 * 1024
# The size of the head of a request.
HEAD_MAX: Final = 16 * 1024
_HEALTH: Final = ("/healthz", "/readyz")
_CROWDED: Final = PlainTextResponse(
    f"more than {REQUESTS_MAX} requests are being answered; try again later, or send fewer\n",
    503,
    headers={"connection": "close"},
)
# An open event stream would otherwise delay the end of the server forever.
GRACE_S: Final = 1


class NobodyWaits(BaseException):
    """The client of a request has left: its answer is not finished.

    No ``Exception``: no application handles it.
    """


class MonitorPort:
    """A port that serves an application; `start` and `stop` it in the same loop.

    Applications have ``request.state.stopping``, an ``asyncio.Event``: an event stream should end
    when it is set, so that it is not aborted.
    """

    def __init__(
        self, app: ASGIApp, *, tls: ssl.SSLContext | None = None, grace_s: int = GRACE_S
    ) -> None:
        self._app = app
        self._tls = tls
        self._grace_s = grace_s
        self._stopping = asyncio.Event()
        self._server: _LoopServer | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; any free one for 0 and -1.

        Raises OSError if the address cannot be used, and RuntimeError if it is already listening.
        """
        if self._task is not None:
            raise RuntimeError("the monitoring port is open already")
        return await self.serve(open_listener(host, max(port, 0), BACKLOG))

    async def serve(self, listener: socket.socket) -> int:
        """Accept connections of an open listener, and return its port; RuntimeError as `start`."""
        if self._task is not None:
            raise RuntimeError("the monitoring port is open already")
        bound = int(listener.getsockname()[1])
        self._stopping.clear()
        server = _LoopServer(self._config())
        task = asyncio.create_task(
            server.serve(sockets=[listener]), name=f"jetspark monitoring port {bound}"
        )
        ready = asyncio.create_task(server.ready.wait())
        try:
            await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if task.done():
            listener.close()
            await task
            raise RuntimeError("the monitoring port ended before it listened")
        self._server, self._task = server, task
        return bound

    async def stop(self) -> None:
        """Stop listening and end every request; streams that do not end on their own are aborted.

        Idempotent.
        """
        server, task = self._server, self._task
        self._server = self._task = None
        if server is None or task is None:
            return
        self._stopping.set()
        server.leave()
        await task
        # Requests that uvicorn cancelled at the end of the grace period are still ending.
        leftover = list(server.server_state.tasks)
        for each in leftover:
            each.cancel()
        await asyncio.gather(*leftover, return_exceptions=True)
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    def _config(self) -> uvicorn.Config:
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=self._grace_s,
            h11_max_incomplete_event_size=HEAD_MAX,
        )
        config.load()
        config.ssl = self._tls
        return config

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["stopping"] = self._stopping
        app = self._app
        if self._server is not None and self._server.is_crowded(scope.get("client")):
            path: str = scope.get("path", "")
            app = app if path.endswith(_HEALTH) else _CROWDED
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            # Aborted by `stop`: no traceback for what is intended.
            log.warning("%s did not end with the server and was aborted", scope.get("path"))


class _LoopServer(uvicorn.Server):
    """uvicorn in another loop: no signals, and no polling for the end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._open: Crowd[_Protocol] = Crowd()
        # Those of them that are answering a request, and those without one, the longest idle
        # first.
        self._busy: Crowd[_Protocol] = Crowd()
        self._idle: Crowd[_Protocol] = Crowd()
        self._sweeper: asyncio.TimerHandle | None = None
        self.reads = RequestQueue(READS_PER_TURN)
        self.requests = RequestQueue(ANSWERS_PER_TURN)

    def is_crowded(self, client: tuple[str, int] | None) -> bool:
        """Whether the maximum number of requests run, and this client has its share of them."""
        if len(self._busy) <= REQUESTS_MAX:
            return False
        return self._busy.count(_network(client)) > self._busy.share(REQUESTS_MAX)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; an unfinished TLS handshake has as much time as a request."""
        timeout = REQUEST_S if self.config.ssl is not None else None
        # It has what uvicorn uses of asyncio's server.
        self.servers = [
            cast(
                "asyncio.Server",
                Acceptor(
                    listener,
                    lambda: _Protocol(self, self.config),
                    "monitoring",
                    tls=self.config.ssl,
                    handshake_s=timeout,
                ),
            )
            for listener in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        """Sleep until `leave`."""
        await self.on_tick(0)
        self.ready.set()
        await self._leave.wait()

    def leave(self) -> None:
        """End `serve`."""
        self.should_exit = True
        self._leave.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def joined(self, protocol: "_Protocol") -> None:
        """Add a connection; if there is no room, the busiest address loses one."""
        network = _network(protocol.client)
        self._open.add(protocol, network)
        self._idle.add(protocol, network)
        if len(self._open) > CONNECTIONS_MAX:
            busiest = self._open.busiest()
            surplus = self._idle.oldest(busiest) or self._open.oldest(busiest)
            assert surplus is not None
            self.left(surplus)
            surplus.transport.abort()
        if self._sweeper is None and not self.should_exit:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def left(self, protocol: "_Protocol") -> None:
        """Remove a closed connection."""
        self._open.discard(protocol)
        self._busy.discard(protocol)
        self._idle.discard(protocol)

    def began(self, protocol: "_Protocol") -> None:
        """Note that a request is complete and is being answered."""
        if protocol in self._open:
            self._idle.discard(protocol)
            self._busy.add(protocol, _network(protocol.client))

    def answered(self, protocol: "_Protocol") -> None:
        """Note that a request was answered."""
        if protocol in self._open:
            self._busy.discard(protocol)
            self._idle.add(protocol, _network(protocol.client))

    def answers(self, protocol: "_Protocol") -> bool:
        """Return whether a request of an open connection is being answered."""
        return protocol in self._busy

    def _sweep(self) -> None:
        """Check once a second for clients that take too long, while there are any."""
        self._sweeper = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for protocol in self._open.members():
            if protocol.is_late(now):
                protocol.transport.abort()
        if self._open:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep)


def _network(client: tuple[str, int] | None) -> str:
    return network_of(peer_ip(client[0])) if client is not None else ""


class _Protocol(H11Protocol):
    """HTTP with our logger: uvicorn's own belong to the process, which may use uvicorn itself."""

    def __init__(self, server: _LoopServer, config: uvicorn.Config) -> None:
        super().__init__(config, server.server_state, {})
        self.logger = log
        self.access_log = False
        self._home = server
        # When it was accepted, or last sent a request, or was last answered.
        self._since = self.loop.time()
        # How much was unread when the client last read.
        self._unread = 0
        self._read_at = self._since
        # Input that waits for its turn.
        self._input = b""
        self._held_back = False
        self._serve = self.app
        self.app = self._in_turn

    async def _in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request when it is its turn, if its client still waits."""
        cycle = self.cycle
        urgent = scope["path"].endswith(_HEALTH)
        network, turns = _network(self.client), self._home.requests

        async def wait() -> None:
            await turns.wait(network, self, urgent=urgent, continues=True)
            if cycle.disconnected or self._is_cut():
                raise NobodyWaits

        await turns.wait(network, self, urgent=urgent)
        if cycle.disconnected or self._is_cut():
            return
        current_pacing.set(Pacing(wait))
        with contextlib.suppress(NobodyWaits):
            await self._serve(scope, receive, send)

    def _is_cut(self) -> bool:
        """Return whether the client has left; it is not noticed while further input waits."""
        if not self.transport.is_closing():
            ask = select.poll()
            # POLLHUP and POLLERR: a client that only ended its side may still read.
            ask.register(self.transport.get_extra_info("socket").fileno(), 0)
            if not ask.poll(0):
                return False
        # As in `send_400_response`: uvicorn would report the missing answer.
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.transport.abort()
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once the socket is connected, and TLS is established where it is used."""
        # uvloop's transports are not asyncio.Transport, but behave like one.
        super().connection_made(cast("asyncio.Transport", transport))
        self._home.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once the socket is closed."""
        self._home.left(self)
        super().connection_lost(exc)
        # What waits for its turn is over.
        self._input = b""
        self._home.reads.drop(_network(self.client), self)
        answer = self._home.requests.drop(_network(self.client), self)
        if answer is not None:
            answer()

    def data_received(self, data: bytes) -> None:
        """Parse what was received, when it is this connection's turn."""
        waits = bool(self._input)
        self._input += data
        if not waits:
            self._home.reads.run(_network(self.client), self, self._parse_some)
        self._hold_back()

    def _parse_some(self) -> None:
        """Parse a piece of what was received."""
        if self.transport.is_closing():
            self._input = b""
            return
        piece, self._input = self._input[:PIECE], self._input[PIECE:]
        if self._held_back:
            # The parser may stop reading as well, for reasons of its own.
            self._held_back = False
            self.flow.resume_reading()
        super().data_received(piece)
        if self._input:
            self._home.reads.run(_network(self.client), self, self._parse_some)
            self._hold_back()

    def _hold_back(self) -> None:
        """Read no more while input waits."""
        if self._input and not self.transport.is_closing():
            self._held_back = True
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed; a request that is being answered ends as well."""
        # None before the first request; uvicorn's type does not say so.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            super().send_400_response(msg)
        else:
            self.transport.abort()
        if cycle is not None:
            # Its answer has no reader. uvicorn would report every attempt to send it.
            cycle.disconnected = True
            cycle.message_event.set()

    def handle_events(self) -> None:
        """Process what was received; a request may be complete now."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._since = self.loop.time()
            self._home.began(self)

    def on_response_complete(self) -> None:
        """Called when the answer was written; the next request may follow already."""
        self._since = self.loop.time()
        self._home.answered(self)
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Called when the client has read most of what was waiting."""
        self._read_at = self.loop.time()
        super().resume_writing()

    def is_late(self, now: float) -> bool:
        """Return whether the client takes too long."""
        unread = self.transport.get_write_buffer_size()
        if unread < self._unread or not unread:
            self._read_at = now
        self._unread = unread
        if unread:
            return now - self._read_at > READING_S
        if self._home.answers(self) and not self.cycle.more_body:
            return False  # an event stream may be idle for long
        return now - self._since > REQUEST_S
