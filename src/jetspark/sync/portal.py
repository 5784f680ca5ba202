"""The bridge between blocking code and the asyncio client: one event loop on one daemon thread.

The loop is started on first use and lives as long as the process. A forked child (a Spark worker)
creates its own: objects opened before the fork belong to the parent and raise an error when used.
"""

import asyncio
import atexit
import concurrent.futures
import contextvars
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Final, Generic, NoReturn, TypeVar

from jetspark.client.options import NO_PICKLE
from jetspark.errors import ConnectionClosed, InvalidState

CHUNK_SIZE: Final = 256  # messages that an iterator takes from the loop's thread at once
SIGNAL_CHECK_INTERVAL: Final = 0.5  # maximum seconds until Ctrl-C is noticed
STOP_TIMEOUT: Final = 2.0  # seconds for the loop to end when the process exits

T = TypeVar("T")
D = TypeVar("D")
# Waits for an item, then returns all available ones, up to a number; none at the end.
NextChunk = Callable[[int], Coroutine[Any, Any, list[T]]]


class _Missing:
    """Marks a missing item: an item may be None."""


_MISSING: Final = _Missing()


class Portal:
    """Runs coroutines on its own thread; ``call`` waits for their result."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._started = threading.Lock()
        self._started.acquire()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="jetspark loop", daemon=True)
        self._thread.start()
        self._started.acquire()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` on the loop and return its result, or raise its exception."""
        self._check_or_close(coroutine)
        return _Call(self, self._loop, coroutine).wait()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run ``coroutine`` on the loop; its result can be waited for on any thread or loop."""
        self._check_or_close(coroutine)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call_keeping(self, coroutine: Coroutine[Any, Any, T], keep: Callable[[T], None]) -> T:
        """Like ``call``; a result interrupted by Ctrl-C is passed to ``keep``."""
        self._check_or_close(coroutine)
        call = _Call(self, self._loop, coroutine)
        try:
            return call.wait()
        except BaseException:
            call.hand_over(keep)
            raise

    def close(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a closing coroutine; does nothing if the loop has already ended.

        In a forked child the connection is the parent's, and at process exit the connections are
        already closed: a ``with`` or a ``__del__`` must not fail there.
        """
        if self._pid != os.getpid() or not self._thread.is_alive():
            coroutine.close()
            return
        self.call(coroutine)

    @property
    def is_stopping(self) -> bool:
        """Whether the process is exiting."""
        return self._stopping

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_PICKLE)

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a plain function on the loop's thread and return its result."""

        async def on_loop() -> T:
            return function(*args, **kwargs)

        return self.call(on_loop())

    def items(self, next_chunk: NextChunk[T]) -> "Items[T]":
        """A blocking iterator that crosses threads once per chunk."""
        return Items(self, next_chunk)

    def chunks(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """A blocking iterator over a source whose items are already chunks."""
        ended = object()

        async def following() -> Any:
            return await anext(source, ended)

        try:
            while (item := self.call(following())) is not ended:
                yield item
        finally:
            self._dispose(source)

    def stop(self) -> None:
        """End the loop and cancel every task. Called when the process exits."""
        if self._pid == os.getpid() and self._thread.is_alive():
            self._stopping = True
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STOP_TIMEOUT)

    def _dispose(self, source: AsyncGenerator[T, None]) -> None:
        """Close a source without waiting: an iterator may be collected on any thread."""

        async def close() -> None:
            await source.aclose()

        if self._pid == os.getpid() and self._thread.is_alive():
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(close()))

    def _check_or_close(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            self._check()
        except BaseException:
            coroutine.close()
            raise

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ConnectionClosed(
                f"this was opened in process {self._pid} and cannot be used in its fork "
                f"{os.getpid()}: call jetspark.sync.connect() again in the new process"
            )
        if threading.current_thread() is self._thread:
            raise InvalidState(
                "a blocking call inside the event loop of jetspark.sync would deadlock: "
                "error and closed callbacks must not call the client"
            )
        if not self._thread.is_alive():
            raise ConnectionClosed("the process is exiting: its connections are closed")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._started.release()
        await self._stop.wait()


class _Call(Generic[T]):
    """One running coroutine: the waiting thread needs only a lock."""

    def __init__(
        self,
        portal: Portal,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T],
    ) -> None:
        self._portal = portal
        self._loop = loop
        self._coroutine = coroutine
        # The thread of a callback must be recognised on the loop: it cannot wait for itself.
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[T] | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self) -> T:
        try:
            self._loop.call_soon_threadsafe(self._start)
            # A signal that arrives just before the lock starts waiting does not interrupt it, so
            # check periodically.
            while not self._lock.acquire(timeout=SIGNAL_CHECK_INTERVAL):
                pass
        except BaseException:
            # Ctrl-C in the waiting thread: cancel the coroutine before the caller continues, so
            # that the next call finds nothing of it.
            self._loop.call_soon_threadsafe(self._cancel)
            self._lock.acquire(timeout=SIGNAL_CHECK_INTERVAL)
            raise
        assert self._task is not None
        return self._task.result()

    def hand_over(self, keep: Callable[[T], None]) -> None:
        """Pass the result to ``keep`` if there is one after all."""
        task = self._task
        if task is not None and task.done() and not task.cancelled() and not task.exception():
            keep(task.result())

    def _start(self) -> None:
        self._task = self._loop.create_task(self._coroutine, context=self._context)
        self._task.add_done_callback(self._finished)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finished(self, _task: asyncio.Task[T]) -> None:
        # Only daemon threads wait while the process exits: they keep waiting and end with it,
        # instead of raising a confusing error.
        if not self._portal.is_stopping:
            self._lock.release()


class Items(Iterator[T]):
    """Items of a chunked source, one by one, without a thread switch per item.

    Several threads may read from it; each item goes to one of them.
    """

    def __init__(self, portal: Portal, next_chunk: NextChunk[T]) -> None:
        self._portal = portal
        self._next_chunk = next_chunk
        self._ready: deque[T] = deque()

    def take_ready(self, default: D) -> T | D:
        """An item that is already available, or ``default``."""
        try:
            return self._ready.popleft()
        except IndexError:  # another thread may be faster, so a check first would not help
            return default

    def put_back(self, take: Callable[[list[T]], None]) -> None:
        """Return read-ahead items to the source, before something else reads or ends it."""
        ready: list[T] = []
        while not isinstance(item := self.take_ready(_MISSING), _Missing):
            ready.append(item)
        if ready:
            self._portal.run(take, ready)

    def __next__(self) -> T:
        ready = self.take_ready(_MISSING)
        if not isinstance(ready, _Missing):
            return ready
        chunk = self._portal.call_keeping(self._next_chunk(CHUNK_SIZE), self._ready.extend)
        if not chunk:
            raise StopIteration
        self._ready.extend(chunk[1:])
        return chunk[0]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop factory: uvloop if it is installed, else asyncio's own (None)."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class _Process:
    """The portal of this process."""

    def __init__(self) -> None:
        self.portal: Portal | None = None
        self.lock = threading.Lock()
        # Portals of the parent are kept: closing their loops would close the parent's files.
        self.abandoned: list[Portal] = []

    def get(self) -> Portal:
        with self.lock:
            if self.portal is None:
                self.portal = Portal()
                atexit.register(self.portal.stop)
            return self.portal

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        if self.portal is not None:
            self.abandoned.append(self.portal)
            self.portal = None


_process: Final = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.after_fork)


def get_portal() -> Portal:
    """The portal of this process, started on first use."""
    return _process.get()
