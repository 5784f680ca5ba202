"""A callback that may block: it runs on its own thread, a chunk of messages at a time."""

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
    "the callback is a coroutine function, which a thread cannot run: pass a plain function, or "
    "use the asyncio client"
)
# Set on callback threads, and inherited by what they ask the loop to do.
_CALLING: Final[ContextVar["ThreadCallback[Any] | None"]] = ContextVar("calling", default=None)


def in_callback_thread() -> bool:
    """Whether the caller runs inside some ThreadCallback, on its thread or on the loop for it."""
    return _CALLING.get() is not None


def check_plain(callback: object) -> None:
    """Refuse a coroutine function: nothing would await it on a thread."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(_PLAIN)


class ThreadCallback(Generic[M]):
    """A callback for ``subscribe`` that runs a blocking function on a thread.

    Messages keep their order; threads are switched once per chunk, not per message. The thread
    starts with the first message and ends with the subscription; it does not keep the process
    alive. Each subscription that gets the same ThreadCallback has its own thread.
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
        """Whether the caller runs inside the function, on this thread or another."""
        return _CALLING.get() is self

    def for_one_reader(self) -> "ThreadCallback[M]":
        """The same function with a separate thread."""
        return ThreadCallback(self._callback)

    def __repr__(self) -> str:
        return f"ThreadCallback({self._callback!r})"

    def __call__(self, message: M) -> None:
        """Call the function on the current thread."""
        self._callback(message)

    async def run(self, messages: list[M], report: Report) -> list[M]:
        """Call the function on the thread for each message, and wait for it.

        Returns the messages that it was not called with, because of ``stop``.
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
        return messages[chunk.started :]

    def stop(self) -> list[M]:
        """Stop calling the function; returns the messages that it has not processed.

        The thread may be about to start the next one: the result of ``run`` is final.
        """
        self._stopped = True
        chunk = self._chunk
        return chunk.messages[chunk.started + 1 :] if chunk is not None else []

    def close(self) -> None:
        """End the thread after its current work."""
        if self._thread is not None:
            self._work.put(None)

    def _serve(self) -> None:
        _CALLING.set(self)
        while (chunk := self._work.get()) is not None:
            for message in chunk.messages:
                if self._stopped:
                    break
                chunk.started += 1
                self._call(message, chunk)
            chunk.tell(chunk.finish)

    def _call(self, message: M, chunk: "_Chunk[M]") -> None:
        try:
            result = self._callback(message)
            if inspect.iscoroutine(result):
                result.close()
                raise TypeError(_PLAIN)
        except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
            chunk.tell(chunk.fail, error)
        except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the thread
            problem = RuntimeError(f"the callback raised {error!r}")
            problem.__cause__ = error
            chunk.tell(chunk.fail, problem)


class _Chunk(Generic[M]):
    """Messages passed to the thread."""

    def __init__(self, messages: list[M], report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self.messages = messages
        self.report = report
        self.loop = loop
        self.started = 0
        self.done: asyncio.Future[None] = loop.create_future()

    def tell(self, function: Callable[..., None], *arguments: object) -> None:
        """Call ``function`` on the loop, unless the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def fail(self, error: Exception) -> None:
        """Report an exception of the function, unless the caller no longer waits."""
        if not self.done.cancelled():
            self.report(error)

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
