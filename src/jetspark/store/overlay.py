"""An overlay over files that are never changed: writes are kept in memory.

A store is inspected with the same code that opens it for use, which truncates, marks, renews and
removes files. With this overlay the disk stays unchanged (`jetspark doctor check`).
"""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jetspark.store.files import Files
from jetspark.store.memory import MemoryFiles
from jetspark.store.recovery.pages import read_pages


class OverlayFiles:
    """A ``Files`` over another one, which it only reads and locks."""

    def __init__(self, below: Files) -> None:
        self._below = below
        self._memory = MemoryFiles()
        self._removed: set[Path] = set()
        # Handle -> path, the handle below, or the one in memory after the first write.
        self._handles: dict[int, tuple[Path, int, bool]] = {}
        # Locks are held as long as the handle below is open: those of files that were written to.
        self._locks: dict[int, int] = {}
        self._last_handle = 0

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file; a created one exists in memory only."""
        if self._written(path) or create:
            if create and self._is_below(path):
                raise _error(errno.EEXIST, path)
            return self._opened(path, self._memory.open(path, create=create), True)
        if path in self._removed:
            raise _error(errno.ENOENT, path)
        return self._opened(path, self._below.open(path), False)

    def close(self, handle: int) -> None:
        """Close a handle."""
        _, held, written = self._handles.pop(handle)
        (self._memory if written else self._below).close(held)
        if handle in self._locks:
            self._below.close(self._locks.pop(handle))

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        files, held = self._held(handle)
        return files.size(held)

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        files, held = self._held(handle)
        return files.read(held, offset, length)

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write to memory."""
        self._memory.write_synced(self._own(handle), blobs, offset)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write to memory."""
        self._memory.write_synced(self._own(handle), blobs, offset)

    def sync(self, handle: int) -> None:
        """Do nothing."""

    def drop_cached(self, handle: int) -> None:
        """Do nothing."""

    def next_data(self, handle: int, offset: int) -> int:
        """Return where, from ``offset`` on, data may start after a hole."""
        files, held = self._held(handle)
        return files.next_data(held, offset)

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes of the file system below."""
        return self._below.free_space(path)

    def truncate(self, handle: int, length: int) -> None:
        """Truncate a file, in memory."""
        self._memory.truncate(self._own(handle, length), length)

    def replace(self, path: Path, content: bytes) -> None:
        """Create or replace a file, in memory."""
        self._memory.replace(path, content)
        self._removed.discard(path)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, in memory; an inspection does not rename folders."""
        self.replace(new, self.read_file(old))
        self.remove(old)

    def make_folder(self, path: Path) -> None:
        """Create a folder, in memory."""
        self._memory.make_folder(path)

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files."""
        self._memory.make_filled(path, contents)

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty if ``path`` is not a folder."""
        below = {
            name for name in self._below.list_folder(path) if path / name not in self._removed
        }
        return sorted(below | set(self._memory.list_folder(path)))

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError if it does not exist."""
        if self._written(path):
            return self._memory.read_file(path)
        if path in self._removed:
            raise _error(errno.ENOENT, path)
        return self._below.read_file(path)

    def remove(self, path: Path) -> None:
        """Remove a file from this view."""
        written = self._written(path)
        if written:
            self._memory.remove(path)
        if self._is_below(path):
            self._removed.add(path)
        elif not written:
            raise _error(errno.ENOENT, path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder from this view."""
        self._memory.remove_folder(path)
        self._removed.add(path)

    def lock(self, path: Path) -> int:
        """Lock the file below; BlockingIOError if another process holds it."""
        return self._opened(path, self._below.lock(path), False)

    def _opened(self, path: Path, held: int, written: bool) -> int:
        self._last_handle += 1
        self._handles[self._last_handle] = (path, held, written)
        return self._last_handle

    def _held(self, handle: int) -> tuple[Files, int]:
        _, held, written = self._handles[handle]
        return (self._memory if written else self._below), held

    def _own(self, handle: int, most: int = 1 << 62) -> int:
        """Return the handle in memory; the file is copied there with the first change.

        ``most``: how many bytes of it are needed.
        """
        path, held, written = self._handles[handle]
        if not written:
            # In this view, only the part that cannot be read is damaged.
            content, _ = read_pages(self._below, held, 0, min(self._below.size(held), most))
            self._memory.replace(path, content)
            if path.name == "STORE":
                self._locks[handle] = held
            else:
                self._below.close(held)
            held = self._memory.open(path)
            self._handles[handle] = (path, held, True)
        return held

    def _written(self, path: Path) -> bool:
        return path.name in self._memory.list_folder(path.parent)

    def _is_below(self, path: Path) -> bool:
        return path not in self._removed and path.name in self._below.list_folder(path.parent)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
