"""Threads for blocking disk operations that belong to no log: creating and removing streams.

All threads of a store are started with it. Later there may be no room for one (a limit on
processes or address space), and then the work handed over would wait forever.
"""

import errno
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import sleep
from typing import Final

# Each of them mostly waits for one sync.
DISK_THREADS: Final = 2
# This many streams are opened at a time when a server starts: each waits for the disk twice. Of
# large ones fewer, because each has a whole segment in memory.
OPENERS: Final = 8
LARGE_OPENERS: Final = 4

Done = Callable[[OSError | None], None]


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Start a thread; raises OSError that says what to do if the system refuses."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise no_thread() from error
    return thread


def turns_of_large() -> threading.BoundedSemaphore:
    """Return what lets so many large streams be opened at a time."""
    return threading.BoundedSemaphore(LARGE_OPENERS)


def no_thread() -> OSError:
    """Return the error if the system refuses to start a thread."""
    return OSError(
        errno.EAGAIN,
        "no thread can be started for writing to disk: raise the limit of processes "
        "(ulimit -u, pids.max) or of memory for this server",
    )


def attempt(work: Callable[[], None]) -> OSError | None:
    """Run a disk operation; return the error, if any.

    An error that is not the disk's is a bug, but the waiting caller must get it.
    """
    try:
        work()
    except OSError as error:
        return error
    except Exception as error:  # noqa: BLE001 - reported, never swallowed
        unexpected = OSError(errno.EIO, f"{type(error).__name__}: {error}")
        unexpected.__cause__ = error
        return unexpected
    return None


def let_others_run() -> None:
    """Release the interpreter lock: a thread that computes keeps it for 5 ms at a time."""
    sleep(0)


class DiskThreads:
    """Runs work in order of arrival, ``count`` pieces at a time.

    ``done`` is called through ``hand_back``, such as ``loop.call_soon_threadsafe``.
    """

    def __init__(
        self, hand_back: Callable[[Callable[[], None]], object], count: int = DISK_THREADS
    ) -> None:
        self._hand_back = hand_back
        self._queue: SimpleQueue[tuple[Callable[[], None], Done | None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        try:
            for _ in range(count):
                self._threads.append(start_thread("jetspark-disk", self._run))
        except OSError:
            self.close()
            raise

    def run(self, work: Callable[[], None], done: Done | None = None) -> None:
        """Run something; ``done(error)`` is called afterwards. Without it, no caller waits."""
        self._queue.put((work, done))

    def close(self) -> None:
        """Finish the work that was handed over and stop; idempotent."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            work, done = task
            error = attempt(work)
            if done is not None:
                self._hand_back(partial(done, error))
            # A thread that waits must not keep a stream that was removed.
            del task, work, done, error
