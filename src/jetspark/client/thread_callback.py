"""A callback that may block: it runs on a thread of its own, a chunk of messages at a time."""

import asyncio
import contextlib
import inspect
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from jetspark.client.arguments import function

M = TypeVar("M")

Report = Callable[[Exception], None]

_PLAIN: Final = (
    "the callback is a coroutine function, which a thread cannot run: give a plain function, or "
    "use the asyncio client"
)
# Set on the threads of callbacks. What such a thread asks the loop to do carries it along.
_CALLING: Final[ContextVar["ThreadCallback[Any] | None"]] = ContextVar("calling", default=None)


def in_callback_thread() -> bool:
    """Whether this was called, across threads or not, from inside some ThreadCallback."""
    return _CALLING.get() is not None


def check_plain(callback: object) -> None:
    """Refuse a coroutine function: a thread that blocks has nobody to await it."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(_PLAIN)


class ThreadCallback(Generic[M]):
    """Give one of these to ``subscribe`` as the callback, around a plain function that blocks.

    Messages keep their order; threads are switched once per chunk, not per message. The thread
    starts with the first message and ends with the subscription; it does not keep the process
    alive. Each subscription that gets the same one has a thread of its own.
    """

    def __init__(self, callback: Callable[[M], object]) -> None:
        check_plain(function(callback, "callback", "a message"))
        self._callback = callback
        self._work: queue.SimpleQueue[_Chunk[M] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._chunk: _Chunk[M] | None = None

    @property
    def is_here(self) -> bool:
        """Whether this was called, across threads or not, from inside the function."""
        return _CALLING.get() is self

    def for_one_reader(self) -> "ThreadCallback[M]":
        """The same function with a thread of its own, which may end without the others."""
        return ThreadCallback(self._callback)

    def __repr__(self) -> str:
        return f"ThreadCallback({self._callback!r})"

    def __call__(self, message: M) -> None:
        """Call the function here and now, as any callback."""
        self._callback(message)

    async def run(self, messages: list[M], report: Report) -> list[M]:
        """Have the thread call the function with each message; wait until it has.

        Returns those that it was not called with, because of ``stop``.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="jetspark callback", daemon=True
            )
            self._thread.start()
        loop = asyncio.get_running_loop()
        chunk = _Chunk(messages, report, loop)
        self._chunk = chunk
        self._work.put(chunk)
        await chunk.done
        self._chunk = None
        return messages[chunk.begun :]

    def stop(self) -> list[M]:
        """Call the function no more; returns messages that it has not seen and will not see.

        The next one may be about to begin on the thread: ``run`` tells in the end.
        """
        self._stopped = True
        chunk = self._chunk
        return chunk.messages[chunk.begun + 1 :] if chunk is not None else []

    def close(self) -> None:
        """End the thread when it has done what it was given."""
        if self._thread is not None:
            self._work.put(None)

    def _serve(self) -> None:
        _CALLING.set(self)
        while (chunk := self._work.get()) is not None:
            for message in chunk.messages:
                if self._stopped:
                    break
                chunk.begun += 1
                self._call(message, chunk)
            chunk.tell(chunk.finish)

    def _call(self, message: M, chunk: "_Chunk[M]") -> None:
        try:
            result = self._callback(message)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(_PLAIN)
        except Exception as error:  # noqa: BLE001 - whatever a user's callback raises
            chunk.tell(chunk.fail, error)
        except BaseException as error:  # noqa: BLE001 - sys.exit() ends no thread of ours
            problem = RuntimeError(f"the callback raised {error!r}")
            problem.__cause__ = error
            chunk.tell(chunk.fail, problem)


class _Chunk(Generic[M]):
    """Messages on their way through the thread."""

    def __init__(self, messages: list[M], report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self.messages = messages
        self.report = report
        self.loop = loop
        self.begun = 0
        self.done: asyncio.Future[None] = loop.create_future()

    def tell(self, function: Callable[..., None], *arguments: object) -> None:
        """Have the loop call ``function``; a loop that has ended needs to hear nothing."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def fail(self, error: Exception) -> None:
        """Report what the function raised, unless nobody waits any more."""
        if not self.done.cancelled():
            self.report(error)

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
