"""The callbacks of ``connect``, plain or coroutine functions.

Callbacks run on the client's loop, between chunks. Exceptions are logged and go no further: a bug
in a callback must not break the connection.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jetspark.client.options import ClientOptions
from jetspark.errors import Error
from jetspark.protocol.handshake import ServerInfo

logger: logging.Logger = logging.getLogger("jetspark.client")

T = TypeVar("T")


class Events:
    """Calls the callbacks passed to ``connect``."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        # The loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Future[None]] = set()
        # The last reported error; None if there was none.
        self.last_error: Exception | None = None
        self._deletion_told = False

    @property
    def tasks(self) -> list[asyncio.Future[None]]:
        """Callbacks that are still running."""
        return list(self._tasks)

    def error(self, error: Exception) -> None:
        """Report an error that no call can raise; logged if there is no callback."""
        self.last_error = error
        if self._options.error_callback is None:
            # An error that is not ours was raised by the user's code: log the traceback.
            trace = None if isinstance(error, Error) else error
            logger.warning("%s: %s", type(error).__name__, error, exc_info=trace)
            return
        self._call("error", self._options.error_callback, error)

    def disconnected(self, reason: Exception) -> None:
        """The connection was lost and is being replaced."""
        self.last_error = reason
        logger.info("disconnected: %s", reason)
        self._call("disconnected", self._options.disconnected_callback, reason)

    def reconnected(self, info: ServerInfo, label: str) -> None:
        """The client reconnected."""
        logger.info("connected to %s", label)
        self._call("reconnected", self._options.reconnected_callback, info)

    def closed(self, reason: Exception | None) -> None:
        """The client is closed permanently; None if the user closed it."""
        self.last_error = reason or self.last_error
        self._call("closed", self._options.closed_callback, reason)

    def deleted(self, what: str) -> None:
        """Log, once per client, that ending a subscription deleted the consumer it created."""
        if not self._deletion_told:
            self._deletion_told = True
            logger.warning(
                "%s was deleted: ending a subscription deletes the consumer it created (ADR-15); "
                "use keep=True to keep it (logged once per client)",
                what,
            )

    def lame_duck(self, info: ServerInfo) -> None:
        """The server is about to shut down and will close its connections one by one."""
        logger.info("server %s is shutting down (lame duck)", info.server_name)
        self._call("lame_duck", self._options.lame_duck_callback, info)

    def discovered(self, labels: tuple[str, ...]) -> None:
        """The server announced cluster members that were not known."""
        self._call("discovered", self._options.discovered_callback, labels)

    def _call(
        self, name: str, callback: Callable[[T], Awaitable[None] | None] | None, value: T
    ) -> None:
        if callback is None:
            return
        try:
            result = callback(value)
        except Exception:
            logger.exception("the %s callback failed on %r", name, value)
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(_logged(name, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _logged(name: str, result: Awaitable[None]) -> None:
    try:
        await result
    except Exception:
        logger.exception("the %s callback failed", name)
