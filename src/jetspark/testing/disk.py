"""A disk that tests fill: writes fail with ENOSPC until it is freed, or files are removed."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from jetspark.store.files import OsFiles


class FillableFiles(OsFiles):
    """The real file system, with a limit on what may still be written while ``full``.

    As on a real disk, removing a file gives room to the writes that follow: a server that keeps a
    reserve for deletes and consumer positions can use it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._full = False
        self._room = 0

    def fill(self) -> None:
        """Accept no more writes."""
        self._full, self._room = True, 0

    def free(self) -> None:
        """Accept writes again."""
        self._full = False

    def _take(self, size: int) -> None:
        if not self._full:
            return
        if size > self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room -= size

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset`` and return once they are on disk."""
        self._take(sum(map(len, blobs)))
        super().write_synced(handle, blobs, offset)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        self._take(sum(map(len, blobs)))
        super().write(handle, blobs, offset)

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the file at ``path`` atomically."""
        self._take(len(content))
        super().replace(path, content)

    def remove(self, path: Path) -> None:
        """Remove a file; its space is free again."""
        size = path.stat().st_size
        super().remove(path)
        self._room += size

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes."""
        return self._room if self._full else super().free_space(path)
