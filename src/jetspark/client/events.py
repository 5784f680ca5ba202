"""What a client tells its user unasked: callbacks, plain or coroutine functions.

Callbacks run on the client's loop, between chunks. What they raise is logged and goes no further:
a bug in a callback must not break the connection that it hears about.
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
    """Calls the callbacks that ``connect`` was given."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        # The loop keeps only weak references to tasks.
        self._tasks: set[asyncio.Future[None]] = set()
        # What was told last; None when nothing ever went wrong.
        self.last_error: Exception | None = None
        self._deletion_told = False

    @property
    def tasks(self) -> list[asyncio.Future[None]]:
        """Callbacks that are still running."""
        return list(self._tasks)

    def error(self, error: Exception) -> None:
        """Something went wrong that no call can raise; goes to the log without a callback."""
        self.last_error = error
        if self._options.error_callback is None:
            # Whatever is no error of ours was raised by the user's code: show where.
            trace = None if isinstance(error, Error) else error
            logger.warning("%s: %s", type(error).__name__, error, exc_info=trace)
            return
        self._call("error", self._options.error_callback, error)

    def disconnected(self, reason: Exception) -> None:
        """The connection is lost; a new one is being looked for."""
        self.last_error = reason
        logger.info("disconnected: %s", reason)
        self._call("disconnected", self._options.disconnected_callback, reason)

    def reconnected(self, info: ServerInfo, label: str) -> None:
        """There is a new connection."""
        logger.info("connected to %s", label)
        self._call("reconnected", self._options.reconnected_callback, info)

    def closed(self, reason: Exception | None) -> None:
        """The client is closed for good; None when it was asked to."""
        self.last_error = reason or self.last_error
        self._call("closed", self._options.closed_callback, reason)

    def deleted(self, what: str) -> None:
        """The end of a subscription deleted what the library had made: said once per client."""
        if not self._deletion_told:
            self._deletion_told = True
            logger.warning(
                "%s was deleted: the end of a subscription deletes the consumer it made (ADR-15); "
                "keep=True keeps it (said once per client)",
                what,
            )

    def lame_duck(self, info: ServerInfo) -> None:
        """The server is about to shut down and will close its connections one by one."""
        logger.info("server %s is shutting down (lame duck)", info.server_name)
        self._call("lame_duck", self._options.lame_duck_callback, info)

    def discovered(self, labels: tuple[str, ...]) -> None:
        """The server named cluster members that were not known."""
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
