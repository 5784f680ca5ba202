"""The drain of a client: everything that has arrived is processed before it closes."""

import asyncio
import contextvars
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from jetspark.client.callback_tasks import CallbackTasks
from jetspark.client.options import ClientOptions
from jetspark.client.subscription import SubscriptionCore
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConnectionClosed, RequestTimeout


class Drained(Protocol):
    """What is drained."""

    @property
    def options(self) -> ClientOptions:
        """How it was connected."""

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """Stop all subscriptions, let what has arrived be processed, flush, and close."""

    def report(self, error: Exception) -> None:
        """Tell the error callback."""

    async def or_closed(self, waiting: Coroutine[Any, Any, bool]) -> bool:
        """The result of ``waiting``; ConnectionClosed when the client closes first."""

    async def flush(self, *, timeout: Timeout | None = None) -> None:
        """Wait until the server has seen everything sent so far."""


async def drain_all(
    core: Drained,
    subscriptions: Sequence[SubscriptionCore],
    callbacks: CallbackTasks,
    seconds: float,
) -> None:
    """Drain the subscriptions together, let callbacks finish, then flush; in ``seconds`` or not.

    Callbacks of subscriptions that ended before are waited for as well.
    """
    try:
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(each.drain(timeout=seconds) for each in subscriptions))
            await core.or_closed(callbacks.wait())
            await core.flush(timeout=seconds)
    except TimeoutError:
        left = [
            f"{each.pending_msgs} messages of {_what(core, each)} were not taken"
            for each in subscriptions
            if each.pending_msgs
        ]
        reason = "; ".join(left) or "a callback is still busy, or the server does not answer"
        raise RequestTimeout(
            f"drain was not done within {seconds} s: {reason}; the client is closed now"
        ) from None


def _what(core: Drained, subscription: SubscriptionCore) -> str:
    """What the user calls a subscription."""
    if subscription.subject.startswith(f"{core.options.inbox_prefix}."):
        return "a watch or consumer that nobody reads any more (close it first)"
    return repr(subscription.subject)


def drain_behind(core: Drained, seconds: float) -> asyncio.Task[None]:
    """Drain for a callback that does not wait, in a task that is not taken for that callback."""
    loop = asyncio.get_running_loop()
    return loop.create_task(_drain_behind(core, seconds), context=contextvars.Context())


async def _drain_behind(core: Drained, seconds: float) -> None:
    """Unless it is closed first, a failure is reported."""
    try:
        await core.drain(timeout=seconds)
    except RequestTimeout as error:
        core.report(error)
    except ConnectionClosed:
        pass
