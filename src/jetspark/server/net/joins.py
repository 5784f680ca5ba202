"""Assembles large messages in the background, in a thread of the server.

The default executor of the loop may be busy with other work, in a program that embeds a server,
and outlives the server.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

# Joining takes milliseconds, and memory is as fast for one thread as for two.
THREADS: Final = 1


class Joins:
    """The messages of a server that are being assembled. ``close`` it when the server closes."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def start(
        self, pieces: list[bytes], joined: Callable[["asyncio.Future[bytes]"], None]
    ) -> bool:
        """Join pieces; ``joined`` is called on the loop. False: no thread is available."""
        if self._closed:
            return False
        try:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="jetspark-join")
            # Joining megabytes of bytes releases the interpreter lock.
            join = partial(b"".join, pieces)
            joining = asyncio.get_running_loop().run_in_executor(self._executor, join)
        except RuntimeError:
            # The thread cannot be started: the caller has to join them.
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
