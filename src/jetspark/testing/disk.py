"""The disk of a test server: never synced, and full if a test wants that."""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jetspark.store.files import OsFiles


class FillableFiles:
    """The real file system without syncs, which can be filled: no file can grow then (ENOSPC).

    A test can end only the process. What the process wrote is in the page cache then and survives,
    so syncs would make tests slower and prove nothing.
    """

    def __init__(self) -> None:
        self._files = OsFiles(synced=False)
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

    # What may need space.

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        self.write(handle, blobs, offset)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        if self._full:
            self._grow(offset + sum(map(len, blobs)) - self.size(handle))
        self._files.write(handle, blobs, offset)

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the file at ``path`` atomically."""
        if not path.exists():
            self._grow(len(content))
        self._files.replace(path, content)

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files."""
        self._grow(sum(map(len, contents.values())))
        self._files.make_filled(path, contents)

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes."""
        return 0 if self._full else self._files.free_space(path)

    # What needs none.

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing."""
        return self._files.open(path, create=create)

    def close(self, handle: int) -> None:
        """Close a handle."""
        self._files.close(handle)

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        return self._files.size(handle)

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes."""
        return self._files.read(handle, offset, length)

    def sync(self, handle: int) -> None:
        """Do nothing."""

    def drop_cached(self, handle: int) -> None:
        """Do nothing: what is not on disk yet cannot be dropped."""

    def next_data(self, handle: int, offset: int) -> int:
        """Return where data may start after a hole."""
        return self._files.next_data(handle, offset)

    def truncate(self, handle: int, length: int) -> None:
        """Truncate a file to ``length``."""
        self._files.truncate(handle, length)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder within its parent."""
        self._files.rename(old, new)

    def make_folder(self, path: Path) -> None:
        """Create a folder, and its parents."""
        self._files.make_folder(path)

    def sync_folder(self, path: Path) -> None:
        """Check that it exists, and do nothing."""
        self._files.sync_folder(path)

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted."""
        return self._files.list_folder(path)

    def read_file(self, path: Path) -> bytes:
        """Return a whole file."""
        return self._files.read_file(path)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self._files.remove(path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it."""
        self._files.remove_folder(path)

    def lock(self, path: Path) -> int:
        """Open (or create) a file and lock it."""
        return self._files.lock(path)
