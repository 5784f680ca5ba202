"""The thread that keeps the journal usable: it creates files, and releases full ones.

Nothing waits for it: as long as there is no file, each group is written to its segment with a
sync.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from jetspark.store.journal.journal import Journal
from jetspark.store.threads import start_thread

log: logging.Logger = logging.getLogger("jetspark.store")

# Without another frame for this long, segments are synced: a start has nothing to read then.
IDLE_S: Final = 5.0
# After this many groups that could have shared a write, a file is worth its space.
WORTH_IT: Final = 64


class Checkpointer:
    """Creates files for a journal and releases those that are full, in one thread.

    ``hand_back`` runs callbacks in the thread of the logs, such as ``loop.call_soon_threadsafe``.
    ``want`` and ``wake`` belong to that thread.
    """

    def __init__(
        self, journal: Journal, hand_back: Callable[[Callable[[], None]], object]
    ) -> None:
        self._journal = journal
        self._hand_back = hand_back
        self._missed = 0
        self._wanted = False
        self._closing = False
        self._awake = threading.Event()
        self._thread: threading.Thread | None = start_thread("jetspark-journal", self._run)

    def want(self, groups: int) -> None:
        """Note groups that could have shared a write if the journal had a file for them."""
        self._missed += groups
        if self._missed >= WORTH_IT:
            self._missed = 0
            self._wanted = True
            self._awake.set()

    def wake(self) -> None:
        """Wake the thread if the journal needs something after a frame."""
        if self._journal.wants_file or self._journal.wants_release:
            self._awake.set()

    def close(self) -> None:
        """Stop after the current step; idempotent."""
        self._closing = True
        if self._thread is not None:
            self._awake.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        journal = self._journal
        seen = synced = 0
        while not self._closing:
            awake = self._awake.wait(None if synced == journal.frames else IDLE_S)
            self._awake.clear()
            if journal.wants_file and (self._wanted or journal.frames):
                self._wanted = False
                with suppress(OSError):  # ``Journal.problem`` says why
                    journal.prepare()
            idle = not awake and seen == journal.frames
            seen = journal.frames
            if idle:
                synced = seen
            if idle or journal.wants_release:
                self._release(everything=idle)

    def _release(self, *, everything: bool) -> None:
        try:
            failed = self._journal.release(
                everything=everything, may_continue=lambda: not self._closing
            )
        except Exception:
            # A bug; the files stay in use, and groups are written with a sync each.
            log.exception("Releasing journal files failed")
            return
        for segment in failed:
            if segment.error is not None:
                log.error("Syncing %s failed: %s", segment.path, segment.error)
                self._hand_back(partial(segment.stop, segment.error))
