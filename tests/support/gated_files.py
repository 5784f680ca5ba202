"""A disk whose syncs wait until a test permits them."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jetspark.store.files import OsFiles

WAIT = 10
# Longer than what the committer takes for a quick disk, so that no group is written inline.
SLOW_S = 0.003


class GatedFiles(OsFiles):
    """The real file system; every sync waits until the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.loop_thread = threading.get_ident()
        self.on_the_loop: list[str] = []
        self.syncs = 0
        # Threads that wait for the gate.
        self.waiting = 0
        self.refuse: Callable[[str], bool] = lambda _what: False

    def _wait(self, what: str) -> None:
        self.syncs += 1
        if threading.get_ident() == self.loop_thread:
            # Waiting would be for ever: the gate is opened by this thread.
            self.on_the_loop.append(what)
            return
        self.waiting += 1
        assert self.gate.wait(WAIT)
        self.waiting -= 1
        time.sleep(SLOW_S)
        if self.refuse(what):
            raise OSError(errno.EIO, "Input/output error")

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        super().write_synced(handle, blobs, offset)
        self._wait("write")

    def sync(self, handle: int) -> None:
        super().sync(handle)
        self._wait("sync")

    def truncate(self, handle: int, length: int) -> None:
        super().truncate(handle, length)
        self._wait("truncate")

    def replace(self, path: Path, content: bytes) -> None:
        super().replace(path, content)
        self._wait(f"replace {path.name}")

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self._wait(f"sync {path.name}")
