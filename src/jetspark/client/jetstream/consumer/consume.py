"""``consume``: a callback that is called with one message after the other, from one task."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.endless import CHUNK_MAX, ChunkSource
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.client.thread_callback import ThreadCallback
from jetspark.errors import Error, RequestTimeout

MessageCallback = Callable[[JetStreamMessage], Awaitable[None] | None]


class Consumption:
    """Messages on their way to a callback. Made by ``consume`` and ended by ``stop``."""

    def __init__(
        self,
        core: ClientCore,
        source: ChunkSource,
        callback: MessageCallback,
        label: str,
    ) -> None:
        self._core = core
        self._source = source
        self._label = label
        self._stopping = False
        self._task = core.loop.create_task(self._run(callback), name=f"jetspark {label}")
        # wait() raises what ended it for whoever asks; nobody has to.
        self._task.add_done_callback(_look_at_result)

    @property
    def is_closed(self) -> bool:
        """Whether the callback will not be called again."""
        return self._task.done()

    async def stop(self) -> None:
        """End now: after the message that the callback has; buffered ones are given up."""
        self._stopping = True
        await self._source.stop()
        await asyncio.wait([self._task])

    async def drain(self, *, timeout: float | None = None) -> None:
        """Ask for nothing more and wait until the callback had all that has arrived."""
        seconds = self._core.seconds(timeout)
        await self._source.stop()
        _, waiting = await asyncio.wait([self._task], timeout=seconds)
        if waiting:
            raise RequestTimeout(
                f"drain of {self._label}: the callback was not done within {seconds} s; call "
                "stop() to give up what is left"
            )

    async def wait(self) -> None:
        """Wait until it has ended; raises what ended it, if nobody stopped it."""
        await asyncio.shield(self._task)

    async def _run(self, callback: MessageCallback | ThreadCallback[JetStreamMessage]) -> None:
        try:
            while not self._stopping:
                chunk = await self._source.next_chunk(CHUNK_MAX)
                if not chunk:
                    return
                if isinstance(callback, ThreadCallback):
                    await callback.run(chunk, self._core.report)
                else:
                    await self._call(callback, chunk)
        except Error as error:
            self._core.report(error)
            await self._source.stop()
            raise
        finally:
            if isinstance(callback, ThreadCallback):
                callback.close()

    async def _call(
        self,
        callback: MessageCallback,
        chunk: list[JetStreamMessage],
    ) -> None:
        for message in chunk:
            if self._stopping:
                return
            try:
                result = callback(message)
                if result is not None and inspect.isawaitable(result):
                    await result
            except Exception as error:  # noqa: BLE001 - whatever a user's callback raises
                self._core.report(error)
        # A callback that never awaits must not keep the loop from reading.
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


def _look_at_result(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
