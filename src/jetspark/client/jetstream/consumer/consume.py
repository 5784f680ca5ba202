"""``consume``: a callback that is called with one message after the other, from one task."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from jetspark.client.callback_tasks import call_back, is_calling
from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.endless import CHUNK_MAX, ChunkSource
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.thread_callback import ThreadCallback
from jetspark.errors import ConnectionClosed, RequestTimeout

MessageCallback = Callable[[JetStreamMessage], Awaitable[None] | None]


class CallbackRun:
    """The task that takes messages of a source and calls a callback with them."""

    def __init__(
        self,
        core: ClientCore,
        source: ChunkSource,
        callback: MessageCallback,
        label: str,
    ) -> None:
        self._core = core
        self._source = source
        self.label = label
        if isinstance(callback, ThreadCallback):
            callback = callback.for_one_reader()
        self._callback = callback
        self._thread = callback if isinstance(callback, ThreadCallback) else None
        self._stopping = False
        self.task: Final = core.loop.create_task(self._run(callback), name=f"jetspark {label}")
        core.callbacks.add(self.task, callback)
        # Consumption.wait raises what ended it to callers that ask; nobody has to.
        self.task.add_done_callback(_look_at_result)

    @property
    def is_calling_here(self) -> bool:
        """Whether the caller is the callback itself, which cannot wait for its own end."""
        return is_calling(self.task, self._callback)

    async def stop(self) -> None:
        """As ``Consumption.close``."""
        self._stopping = True
        if self._thread is not None:
            self._thread.stop()
        await self._source.stop()
        if not self.is_calling_here:
            await asyncio.wait([self.task])

    async def drain(self, *, timeout: float | None = None) -> None:
        """As ``Consumption.drain``."""
        await self._source.stop()
        if not self.is_calling_here:
            seconds = self._core.seconds(timeout)
            await self.finish(seconds, self._core.loop.time() + seconds)

    async def finish(self, seconds: float, deadline: float) -> None:
        """Wait until the callback had everything, after the source was told to stop."""
        left = max(deadline - self._core.loop.time(), 0.0)
        if not await self._core.or_closed(self._done_within(left)):
            raise RequestTimeout(
                f"drain of {self.label}: the callback was not done within {seconds} s; call "
                "close() to give up what is left"
            )

    async def wait(self) -> None:
        """As ``Consumption.wait``."""
        await asyncio.wait([self.task])
        if self.task.cancelled():  # by the end of the client, which waits only so long
            raise self._core.closed_error()
        self.task.result()

    async def _done_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait([self.task], timeout=seconds)
        return bool(done)

    async def _run(self, callback: MessageCallback) -> None:
        try:
            while not self._stopping:
                chunk = await self._source.next_chunk(CHUNK_MAX)
                if not chunk:
                    return
                if self._thread is not None:
                    await self._thread.run(chunk, self._core.report)
                else:
                    await self._call(callback, chunk)
        except Exception as error:
            if not isinstance(error, ConnectionClosed):  # which the closed callback tells
                self._core.report(error)
            await self._source.stop()
            raise
        finally:
            if self._thread is not None:
                self._thread.close()

    async def _call(
        self,
        callback: MessageCallback,
        chunk: list[JetStreamMessage],
    ) -> None:
        for message in chunk:
            if self._stopping:
                return
            await call_back(callback, message, self.label, self._core.report)
        # A callback that never awaits must not keep the loop from reading.
        await asyncio.sleep(0)


class Consumption:
    """Messages on their way to a callback. Made by ``consume`` and ended by ``close``."""

    def __init__(self, run: CallbackRun) -> None:
        self._run = run

    @property
    def is_closed(self) -> bool:
        """Whether the callback will not be called again."""
        return self._run.task.done()

    async def close(self) -> None:
        """End now: after the message that the callback has; buffered ones are given up.

        The callback may call it too; it then returns without waiting.
        """
        await self._run.stop()

    async def drain(self, *, timeout: float | None = None) -> None:
        """Ask for nothing more and wait until the callback had all that has arrived.

        The callback may call it too; it then returns without waiting.
        """
        await self._run.drain(timeout=timeout)

    async def wait(self) -> None:
        """Wait until it has ended; raises what ended it, if nobody stopped it."""
        await self._run.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Consumption({self._run.label!r}, {'ended' if self.is_closed else 'running'})"


def _look_at_result(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
