"""Large messages are put together beside the loop, in a thread of the server's own.

The loop's own threads may all wait for something else, in a program that has a server inside, and
stay when the server is closed.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

# Joining takes milliseconds, and memory is as fast for one thread as for two.
THREADS: Final = 1


class Joins:
    """The messages of a server that are being put together. ``close`` it when the server ends."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def start(
        self, pieces: list[bytes], joined: Callable[["asyncio.Future[bytes]"], None]
    ) -> bool:
        """Join pieces; ``joined`` gets the whole, on the loop. False: no thread can do it."""
        if self._closed:
            return False
        try:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="jetspark-join")
            # Joining megabytes of bytes lets the other threads go on.
            join = partial(b"".join, pieces)
            joining = asyncio.get_running_loop().run_in_executor(self._executor, join)
        except RuntimeError:
            # The thread cannot be started: the caller has to do it. Nothing else waits for it.
            self._executor = None
            return False
        joining.add_done_callback(joined)
        return True

    def close(self) -> None:
        """Stop the thread."""
        self._closed = True
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
