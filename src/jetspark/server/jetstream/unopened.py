"""Streams on disk that are not served: the reason, and retries while the server runs.

A disk or a limit of the system may fail temporarily (EIO, EMFILE, a permission that is fixed
later): such a stream is served once it can be opened. It is opened in the background, one at a
time, with pauses that grow from half a second to five minutes.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from jetspark.errors.storage import StorageFault, UnknownRecordKind, WrongStoreFormat
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import CannotOpenStream, FileStore
from jetspark.store.threads import DiskThreads

log: logging.Logger = logging.getLogger("jetspark.server")

FIRST_PAUSE: Final = 0.5  # seconds
LONGEST_PAUSE: Final = 300.0


class Unopened:
    """One folder, why it is not served, and whether it is retried."""

    def __init__(self, folder: Path, reason: str, *, again: bool) -> None:
        self.folder = folder
        self.again = again
        self._reason = reason

    @property
    def reason(self) -> str:
        """Why it is not served, and whether the server retries."""
        return f"{self._reason}; it is retried" if self.again else self._reason


class Attempt:
    """One attempt to open a folder: ``open`` blocks on the disk, the results are for the loop."""

    def __init__(self, store: FileStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self.opened: list[tuple[StreamLog, Recovery]] = []
        # With their owners, as far as known.
        self.refused: list[tuple[Path, StorageFault | OSError, Identity | None]] = []
        self.cancelled = False

    def open(self) -> None:
        """Open what can be opened; errors of one stream are not raised."""
        if not self.cancelled:
            self.opened = self._store.open_again(self._folder, self._cannot_open)

    def _cannot_open(self, folder: Path, error: StorageFault | OSError) -> None:
        self.refused.append((folder, error, self._store.identity_in(folder)))


class UnopenedStreams:
    """The folders that are not served.

    ``take_over`` serves a stream that was opened, or adds it here again; ``keep_name`` is called
    with the stream whose name must be reserved meanwhile.
    """

    def __init__(
        self,
        store: FileStore,
        threads: DiskThreads,
        take_over: Callable[[StreamLog, Recovery], None],
        keep_name: Callable[[Identity], None],
    ) -> None:
        self._store = store
        self._threads = threads
        self._take_over = take_over
        self._keep_name = keep_name
        self.all: list[Unopened] = []
        self._pause = FIRST_PAUSE
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[Unopened] = []
        self._attempt: Attempt | None = None
        self._closed = False

    def add(self, folder: Path, reason: str, *, again: bool = False) -> None:
        """Report a folder that is not served."""
        self.all.append(Unopened(folder, reason, again=again))

    def refuse(
        self, folder: Path, error: StorageFault | OSError, identity: Identity | None
    ) -> None:
        """Report a folder that could not be opened, and whose it is."""
        # What another version wrote does not change on its own, and neither do our own mistakes.
        again = not isinstance(error, WrongStoreFormat | UnknownRecordKind | CannotOpenStream)
        self.add(folder, str(error), again=again)
        if identity is not None:
            self._keep_name(identity)

    def try_again(self) -> None:
        """Retry everything that may be opened by now, after a pause."""
        if not self._closed and any(each.again for each in self.all):
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._waiting = [each for each in self.all if each.again]
        self._next()

    def _next(self) -> None:
        if not self._waiting:
            self.try_again()
            return
        unopened = self._waiting.pop(0)
        self._attempt = attempt = Attempt(self._store, unopened.folder)
        self._threads.run(attempt.open, partial(self._tried, unopened, attempt))

    def _tried(self, unopened: Unopened, attempt: Attempt, error: OSError | None) -> None:
        self._attempt = None
        if self._closed:
            for stream_log, _ in attempt.opened:
                stream_log.close()
            return
        if error is None:
            self.all.remove(unopened)
            for refused in attempt.refused:
                self.refuse(*refused)
            for stream_log, recovery in attempt.opened:
                self._take_over(stream_log, recovery)
            if all(folder != unopened.folder for folder, _, _ in attempt.refused):
                self._store.listed(unopened.folder)
        self._next()

    def close(self) -> None:
        """Stop retrying; a folder that is being opened is closed afterwards."""
        self._closed = True
        self._waiting.clear()
        if self._attempt is not None:
            self._attempt.cancelled = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
