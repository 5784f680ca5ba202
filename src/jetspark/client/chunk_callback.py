"""A callback for what is otherwise iterated over: called from one task, one item at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from jetspark.client.arguments import function
from jetspark.client.callback_tasks import call_back, is_calling, mark_callback
from jetspark.client.thread_callback import Report, ThreadCallback
from jetspark.errors import ConnectionClosed, Error

CHUNK_MAX: Final = 256

M = TypeVar("M")

ItemCallback = Callable[[M], Awaitable[None] | None]


def check_callback(callback: object) -> None:
    """Refuse what cannot be called, before something is opened for it; None is none."""
    if callback is not None:
        function(callback, "callback", "what is watched")


class ChunkCallback(Generic[M]):
    """Takes chunks until there are none and hands out their items.

    What the callback raises is reported, and it goes on; an error of the source is reported and
    ends it.
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
        """Wait until the callback had its last item; returns at once from inside of it."""
        if isinstance(self._callback, ThreadCallback):
            self._callback.stop()
        if not is_calling(self._task, self._callback):
            await asyncio.wait([self._task])

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for the event; raises what ended the source before it, if something did."""
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
            if not isinstance(error, ConnectionClosed):  # which the closed callback tells
                self._report(error)
        finally:
            if isinstance(callback, ThreadCallback):
                callback.close()
