"""Returns the memory of slow clients and of removed streams to the system.

Output that waits for clients may be hundreds of megabytes. glibc keeps freed memory for later use,
in fragments, and returns it only on request. That takes about 0.1 ms per megabyte, so it is done
rarely, in a thread, and only after a lot was freed. Python keeps some freed objects as well, and
each of them keeps a block of memory: a full collection frees those.
"""

import asyncio
import gc
import sys
import threading
from contextlib import suppress
from typing import Final

FREED_MIN: Final = 8 * 1024 * 1024
# Everything else freed meanwhile is returned with it; at most this often.
DELAY_S: Final = 1.0


# Nothing else runs during a collection: with more allocated blocks than this it takes too long.
FEW_BLOCKS: Final = 400_000


def give_back() -> None:
    """Give freed memory back to the system, if the C library supports it."""
    import ctypes  # most servers never need it

    if sys.getallocatedblocks() < FEW_BLOCKS:
        gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class FreedMemory:
    """Counts freed memory, and has it returned."""

    def __init__(self) -> None:
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, size: int) -> None:
        """Count bytes that are freed, or will be soon."""
        self._freed += size
        if self._freed >= FREED_MIN and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self._give_back)

    def _give_back(self) -> None:
        self._timer = None
        self._freed = 0
        # If no thread can be started there is no hurry: the next time will do.
        with suppress(RuntimeError, MemoryError):
            threading.Thread(target=give_back, name="jetspark-trim", daemon=True).start()

    def close(self) -> None:
        """Stop: the end of the process frees the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
