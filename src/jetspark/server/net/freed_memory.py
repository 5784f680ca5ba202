"""Memory of clients that did not read is given back to the system when they are gone.

What waits for them may be hundreds of megabytes. glibc keeps what was freed for later use, in
pieces between what is still used, and gives it back only when asked to. That takes about 0.1 ms
for each megabyte, so it is done rarely, beside the loop, and only after much was freed.
"""

import asyncio
import threading
from contextlib import suppress
from typing import Final

FREED_MIN: Final = 32 * 1024 * 1024
# What else is freed meanwhile goes back with it; no more often than this.
DELAY_S: Final = 1.0


def give_back() -> None:
    """Give freed memory back to the system, where the C library can."""
    import ctypes  # most servers never need it

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class FreedMemory:
    """Counts what was freed, and has it given back."""

    def __init__(self) -> None:
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, size: int) -> None:
        """So many bytes are freed, or will be soon."""
        self._freed += size
        if self._freed >= FREED_MIN and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self._give_back)

    def _give_back(self) -> None:
        self._timer = None
        self._freed = 0
        # Where no thread can be started there is no hurry: the next time will do.
        with suppress(RuntimeError, MemoryError):
            threading.Thread(target=give_back, name="jetspark-trim", daemon=True).start()

    def close(self) -> None:
        """Leave the rest to the end of the process."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
