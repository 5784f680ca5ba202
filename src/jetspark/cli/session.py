"""One run of a command that is a client: connect, work, close, and say errors in one line."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.cli.commands import resolve
from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.exit_codes import DONE, FAILED, INTERRUPTED, TERMINATED
from jetspark.cli.output import Output
from jetspark.cli.refusals import not_found, plain_errors
from jetspark.client.client import Client, connect
from jetspark.errors import PermissionsViolation

if TYPE_CHECKING:
    from jetspark.client.jetstream.consumer.handle import Consumer
    from jetspark.client.jetstream.context import JetStream
    from jetspark.client.jetstream.streams import Stream

Work = Callable[..., Awaitable[None]]
_OF_SUBSCRIPTION: Final = "Violation for Subscription to"


class ServerErrors:
    """Errors that the server reports on its own: a publish or a subscription that it refused.

    Each is shown once. A refused subscription ends the command, which would wait for ever.
    """

    def __init__(self, output: Output, end: Callable[[], object]) -> None:
        self._output = output
        self._end = end
        self._shown: set[str] = set()
        self._refused: PermissionsViolation | None = None
        self.ended_command: bool = False

    def on_error(self, error: Exception) -> None:
        """Show an error; the callback of clients."""
        self.show(error)
        if not isinstance(error, PermissionsViolation):
            return
        self._refused = self._refused or error
        if _OF_SUBSCRIPTION in str(error):
            self.ended_command = True
            self._end()

    def show(self, error: Exception) -> None:
        """Show an error, unless it was shown already."""
        text = str(error)
        if text not in self._shown:
            self._shown.add(text)
            self._output.say(f"Error: {text}")

    def check(self) -> None:
        """Raise the first permission that was missing: for messages without an answer."""
        if self._refused is not None:
            raise self._refused


class Session:
    """What the function of a command works with."""

    def __init__(
        self, client: Client, settings: ConnectionSettings, output: Output, errors: ServerErrors
    ) -> None:
        self.client: Final = client
        self.settings: Final = settings
        self.output: Final = output
        self.errors: Final = errors
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
    if ended == FAILED or (ended and not endless):
        sys.exit(ended)


def _run(work: Work, settings: ConnectionSettings, output: Output, given: dict[str, Any]) -> int:
    """Run the function; returns the exit code of what ended it early, or 0."""
    terminated = refused = False

    async def connected(errors: ServerErrors) -> None:
        arguments = settings.arguments()
        arguments["error_callback"] = errors.on_error
        async with await connect(settings.server, **arguments) as client:
            try:
                await work(Session(client, settings, output, errors), **given)
            except PermissionsViolation as error:
                errors.show(error)
                raise

    async def signalled() -> None:
        nonlocal refused
        task = asyncio.current_task()
        assert task is not None

        def end() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
        errors = ServerErrors(output, task.cancel)
        try:
            await connected(errors)
        finally:
            refused = errors.ended_command

    try:
        asyncio.run(signalled())
    except KeyboardInterrupt:
        return INTERRUPTED
    except PermissionsViolation:
        return FAILED
    except asyncio.CancelledError:
        if refused:
            return FAILED
        if not terminated:
            raise
        return TERMINATED
    return DONE
