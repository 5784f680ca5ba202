"""Files of which nothing is ever changed: what would be written is kept in memory instead.

A store is examined with the same code that opens it for work, which cuts, marks, renews and
removes as it goes. Over these files that leaves the disk as it was (`jetspark doctor check`).
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
        # Handle -> path, the handle below, or in memory once something was written.
        self._handles: dict[int, tuple[Path, int, bool]] = {}
        self._last_handle = 0

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open a file; one that is made exists in memory only."""
        if self._written(path) or create:
            if create and self._is_below(path):
                raise _error(errno.EEXIST, path)
            return self._opened(path, self._memory.open(path, create=create), True)
        if path in self._removed:
            raise _error(errno.ENOENT, path)
        return self._opened(path, self._below.open(path), False)

    def close(self, handle: int) -> None:
        """Give a handle back."""
        _, held, written = self._handles.pop(handle)
        (self._memory if written else self._below).close(held)

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        files, held = self._held(handle)
        return files.size(held)

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; shorter only at the end of the file."""
        files, held = self._held(handle)
        return files.read(held, offset, length)

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write into memory."""
        self._memory.write_synced(self._own(handle), blobs, offset)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write into memory."""
        self._memory.write_synced(self._own(handle), blobs, offset)

    def sync(self, handle: int) -> None:
        """Nothing has to be done."""

    def drop_cached(self, handle: int) -> None:
        """Nothing has to be done."""

    def next_data(self, handle: int, offset: int) -> int:
        """Where, from ``offset`` on, bytes may be other than the zeros of a hole."""
        files, held = self._held(handle)
        return files.next_data(held, offset)

    def free_space(self, path: Path) -> int:
        """How many bytes more the file system below takes."""
        return self._below.free_space(path)

    def truncate(self, handle: int, length: int) -> None:
        """Cut a file, in memory."""
        self._memory.truncate(self._own(handle, length), length)

    def replace(self, path: Path, content: bytes) -> None:
        """Put a file there, in memory."""
        self._memory.replace(path, content)
        self._removed.discard(path)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, in memory; folders are not renamed by who examines a store."""
        self.replace(new, self.read_file(old))
        self.remove(old)

    def make_folder(self, path: Path) -> None:
        """Make a folder, in memory."""
        self._memory.make_folder(path)

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files."""
        self._memory.make_filled(path, contents)

    def sync_folder(self, path: Path) -> None:
        """Nothing has to be done."""

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty when ``path`` is no folder."""
        below = {
            name for name in self._below.list_folder(path) if path / name not in self._removed
        }
        return sorted(below | set(self._memory.list_folder(path)))

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError when it is not there."""
        if self._written(path):
            return self._memory.read_file(path)
        if path in self._removed:
            raise _error(errno.ENOENT, path)
        return self._below.read_file(path)

    def remove(self, path: Path) -> None:
        """Remove a file, as seen through this."""
        written = self._written(path)
        if written:
            self._memory.remove(path)
        if self._is_below(path):
            self._removed.add(path)
        elif not written:
            raise _error(errno.ENOENT, path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder, as seen through this."""
        self._memory.remove_folder(path)
        self._removed.add(path)

    def lock(self, path: Path) -> int:
        """Lock the file below; BlockingIOError when somebody else has it."""
        return self._opened(path, self._below.lock(path), False)

    def _opened(self, path: Path, held: int, written: bool) -> int:
        self._last_handle += 1
        self._handles[self._last_handle] = (path, held, written)
        return self._last_handle

    def _held(self, handle: int) -> tuple[Files, int]:
        _, held, written = self._handles[handle]
        return (self._memory if written else self._below), held

    def _own(self, handle: int, most: int = 1 << 62) -> int:
        """The handle of a file in memory, which it becomes with the first change.

        ``most``: no more of it is needed.
        """
        path, held, written = self._handles[handle]
        if not written:
            # What cannot be read is damage, as seen through this; the rest is not.
            content, _ = read_pages(self._below, held, 0, min(self._below.size(held), most))
            self._memory.replace(path, content)
            # A lock is held as long as its handle is: it stays open until the process ends.
            if path.name != "STORE":
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
