"""The disk of a test server: never synced, and full if a test wants that."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from jetspark.store.files import OsFiles


class TestFiles(OsFiles):
    """The real file system without syncs, which can be filled: no file can grow then (ENOSPC).

    A test can end only the process. What the process wrote is in the page cache then and survives,
    so syncs would make tests slower and prove nothing.
    """

    __test__ = False  # for pytest: not a class of tests

    def __init__(self) -> None:
        super().__init__()
        self._full = False

    def fill(self) -> None:
        """Let no file grow."""
        self._full = True

    def free(self) -> None:
        """Let files grow again."""
        self._full = False

    def _grow(self, size: int) -> None:
        if self._full and size > 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        self.write(handle, blobs, offset)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        if self._full:
            self._grow(offset + sum(map(len, blobs)) - self.size(handle))
        super().write(handle, blobs, offset)

    def sync(self, handle: int) -> None:
        """Do nothing."""

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the file at ``path`` atomically."""
        if not path.exists():
            self._grow(len(content))
        super().replace(path, content)

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes."""
        return 0 if self._full else super().free_space(path)
