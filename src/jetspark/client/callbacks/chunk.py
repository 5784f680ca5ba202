"""Callbacks for watches and other iterators: called from one task, one item at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from jetspark.client.arguments import function
from jetspark.client.callbacks.tasks import call_back, is_calling, mark_callback
from jetspark.client.callbacks.thread import Report, ThreadCallback
from jetspark.errors import ConnectionClosed, Error

CHUNK_MAX: Final = 256

M = TypeVar("M")

ItemCallback = Callable[[M], Awaitable[None] | None]


def check_callback(callback: object) -> None:
    """Refuse a callback that is not callable, before anything is opened; None is allowed."""
    if callback is not None:
        function(callback, "callback", "one item")


class ChunkCallback(Generic[M]):
    """Takes chunks until there are none and passes their items to the callback.

    An exception of the callback is reported and it continues; an error of the source is reported
    and ends it.
    """

    def __init__(
        self,
        next_chunk: Callable[[int], Awaitable[list[M]]],
        callback: ItemCallback[M],
        report: Report,
    ) -> None:
        if isinstance(callback, ThreadCallback):
            callback = callback.for_one_reader()
        self._next_chunk = next_chunk
        self._callback = callback
        self._report = report
        self._failure: Error | None = None
        self._task = asyncio.get_running_loop().create_task(
            self._run(callback), name="jetspark watch callback"
        )
        mark_callback(self._task)

    async def wait(self) -> None:
        """Wait until the callback has processed its last item; returns at once inside it."""
        if isinstance(self._callback, ThreadCallback):
            self._callback.stop()
        if not is_calling(self._task, self._callback):
            await asyncio.wait([self._task])

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for the event; raises the error that ended the source before it, if any."""
        waiting = asyncio.get_running_loop().create_task(event.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._failure is not None and not event.is_set():
            raise self._failure.with_traceback(None)

    async def _run(self, callback: ItemCallback[M]) -> None:
        try:
            while chunk := await self._next_chunk(CHUNK_MAX):
                if isinstance(callback, ThreadCallback):
                    await callback.run(chunk, self._report)
                    continue
                for item in chunk:
                    await call_back(callback, item, "watch", self._report)
                # A callback that never awaits must not keep the loop from reading.
                await asyncio.sleep(0)
        except Error as error:
            self._failure = error
            if not isinstance(error, ConnectionClosed):  # reported by the closed callback
                self._report(error)
        finally:
            if isinstance(callback, ThreadCallback):
                callback.close()
