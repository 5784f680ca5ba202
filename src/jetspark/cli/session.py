"""One run of a command that is a client: connect, work, close, and say errors in one line."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.cli.commands import resolve
from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.exit_codes import INTERRUPTED, TERMINATED
from jetspark.cli.output import Output
from jetspark.cli.refusals import not_found, plain_errors
from jetspark.client.client import Client, connect

if TYPE_CHECKING:
    from jetspark.client.jetstream.consumer.handle import Consumer
    from jetspark.client.jetstream.context import JetStream
    from jetspark.client.jetstream.streams import Stream

Work = Callable[..., Awaitable[None]]


class Session:
    """What the function of a command works with."""

    def __init__(self, client: Client, settings: ConnectionSettings, output: Output) -> None:
        self.client: Final = client
        self.settings: Final = settings
        self.output: Final = output
        self._jetstream: JetStream | None = None

    @property
    def jetstream(self) -> "JetStream":
        """JetStream as the options select it."""
        if self._jetstream is None:
            self._jetstream = self.client.jetstream(
                domain=self.settings.js_domain or "",
                prefix=self.settings.js_api_prefix or "",
                timeout=self.settings.timeout,
            )
        return self._jetstream

    async def stream(self, name: str) -> "Stream":
        """A stream; if it does not exist, the error suggests what was meant."""
        from jetspark.errors import StreamNotFound

        try:
            return await self.jetstream.stream(name)
        except StreamNotFound:
            known = [one async for one in self.jetstream.stream_names()]
        raise not_found("stream", name, known, "jetspark stream ls")

    async def consumer(self, stream: str, name: str) -> "Consumer":
        """A consumer; if it does not exist, the error suggests what was meant."""
        from jetspark.errors import ConsumerNotFound

        of = await self.stream(stream)
        try:
            return await of.consumer(name)
        except ConsumerNotFound:
            known = [one async for one in of.consumer_names()]
        raise not_found(
            f"stream {stream}: consumer", name, known, f"jetspark consumer ls {stream}"
        )


def run_session(
    target: str, settings: ConnectionSettings, output: Output, given: dict[str, Any], *,
    endless: bool,
) -> None:  # fmt: skip
    """Connect and call the function of a command."""
    work = resolve(target)
    with plain_errors():
        ended = _run(work, settings, output, given)
    if ended and not endless:
        sys.exit(ended)


def _run(work: Work, settings: ConnectionSettings, output: Output, given: dict[str, Any]) -> int:
    """Run the function; returns the exit code of the signal that ended it, or 0."""
    terminated = False

    async def connected() -> None:
        arguments = settings.arguments()
        arguments["error_callback"] = lambda error: output.say(f"Error: {error}")
        async with await connect(settings.server, **arguments) as client:
            await work(Session(client, settings, output), **given)

    async def signalled() -> None:
        task = asyncio.current_task()
        assert task is not None

        def end() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        await connected()

    try:
        asyncio.run(signalled())
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        if not terminated:
            raise
        return TERMINATED
    return 0
