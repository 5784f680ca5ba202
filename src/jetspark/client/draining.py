"""Draining a client: everything that has arrived is processed before it closes."""

import asyncio
import contextvars
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from jetspark.client.callbacks.tasks import CallbackTasks
from jetspark.client.options import ClientOptions
from jetspark.client.subscription import SubscriptionCore
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConnectionClosed, RequestTimeout


class Drained(Protocol):
    """The part of a client that draining needs."""

    @property
    def options(self) -> ClientOptions:
        """The options it was connected with."""

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """End all subscriptions, process the messages that have arrived, flush, and close."""

    def report(self, error: Exception) -> None:
        """Call the error callback."""

    async def or_closed(self, waiting: Coroutine[Any, Any, bool]) -> bool:
        """The result of ``waiting``; ConnectionClosed if the client closes first."""

    async def flush(self, *, timeout: Timeout | None = None) -> None:
        """Wait until the server has processed everything sent so far."""


async def drain_all(
    core: Drained,
    subscriptions: Sequence[SubscriptionCore],
    callbacks: CallbackTasks,
    seconds: float,
) -> None:
    """Drain the subscriptions concurrently, let callbacks finish, then flush; within ``seconds``.

    This includes callbacks of subscriptions that have already ended.
    """
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(each.drain(timeout=seconds) for each in subscriptions))
            await core.or_closed(callbacks.wait())
            await core.flush(timeout=seconds)
    except TimeoutError:
        left = [
            f"{each.pending_msgs} messages of {_what(core, each)} were not processed"
            for each in subscriptions
            if each.pending_msgs
        ]
        reason = "; ".join(left) or "a callback is still busy, or the server does not answer"
        raise RequestTimeout(
            f"drain did not finish within {seconds} s: {reason}; the client is closed now"
        ) from None


def _what(core: Drained, subscription: SubscriptionCore) -> str:
    """Describe a subscription to the user."""
    if subscription.subject.startswith(f"{core.options.inbox_prefix}."):
        return "a watch or consumer that is no longer read (close it first)"
    return repr(subscription.subject)


def drain_in_background(core: Drained, seconds: float) -> asyncio.Task[None]:
    """Drain for a callback that does not wait, in a task that does not count as that callback."""
    loop = asyncio.get_running_loop()
    return loop.create_task(_drain_in_background(core, seconds), context=contextvars.Context())


async def _drain_in_background(core: Drained, seconds: float) -> None:
    """Report a failure, unless the client was closed first."""
    try:
        await core.drain(timeout=seconds)
    except RequestTimeout as error:
        core.report(error)
    except ConnectionClosed:
        pass
