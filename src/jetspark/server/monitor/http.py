"""The monitoring port: uvicorn in the server's own event loop (contracts.md 8).

No signal handler is touched, no thread is started, nothing of the logging of the process is
changed, and several of these run in one loop.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Generator
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("jetspark.server.monitor")

BACKLOG: Final = 128
# Beyond this many open connections and requests, answers are 503.
CONCURRENCY_MAX: Final = 1_000
# An open event stream would otherwise hold up the end of the server for ever.
GRACE_S: Final = 1


class MonitorPort:
    """A port that serves an application; `start` and `stop` it in the same loop.

    Applications find ``request.state.stopping``, an ``asyncio.Event``: an event stream ends itself
    when it is set, so that nobody has to be cut off.
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

        Raises OSError when the address cannot be used, and RuntimeError if it listens already.
        """
        if self._task is not None:
            raise RuntimeError("the monitoring port is open already")
        listener = _listen(host, max(port, 0))
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
        """Stop listening and end every request; streams that do not end themselves are cut off.

        Twice is as good as once.
        """
        server, task = self._server, self._task
        self._server = self._task = None
        if server is None or task is None:
            return
        self._stopping.set()
        server.leave()
        await task
        # What uvicorn cancelled at the end of the grace period is still on its way out.
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
            http=_Protocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            limit_concurrency=CONCURRENCY_MAX,
            timeout_graceful_shutdown=self._grace_s,
        )
        config.load()
        config.ssl = self._tls
        return config

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["stopping"] = self._stopping
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
            # Cut off by `stop`: no traceback for what is meant to happen.
            log.warning("%s did not end with the server and was cut off", scope.get("path"))


class _LoopServer(uvicorn.Server):
    """uvicorn as a guest: no signals, and no look ten times a second whether to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._leave = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to whoever runs the process."""
        yield

    async def main_loop(self) -> None:
        """Sleep until `leave`."""
        await self.on_tick(0)
        self.ready.set()
        await self._leave.wait()

    def leave(self) -> None:
        """End `serve`."""
        self.should_exit = True
        self._leave.set()


class _Protocol(H11Protocol):
    """HTTP with our logger: uvicorn's own belong to the process, which may use uvicorn itself."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.logger = log
        self.access_log = False


def _listen(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    listener.setblocking(False)
    return listener
