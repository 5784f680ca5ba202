"""Files in memory: streams with ``storage: memory`` are the same log over these.

Nothing is ever synced, and everything is lost with the process. A log over it needs no cache: its
bytes are in memory already.
"""

import errno
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ENDLESS: Final = 1 << 62
# Pieces of this size or more are kept as written, not copied.
KEPT_MIN: Final = 512 * 1024


class _Content:
    """The bytes of one file: large pieces as they were written, everything else in between."""

    def __init__(self, content: bytes = b"") -> None:
        self.size = 0
        self._starts: list[int] = []
        self._pieces: list[bytes | bytearray] = []
        if content:
            self.write(content, 0)

    def read(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        end = min(offset + length, self.size)
        found: list[bytes | memoryview] = []
        number = bisect_right(self._starts, offset) - 1
        while offset < end:
            piece, start = self._pieces[number], self._starts[number]
            stop = min(end, start + len(piece))
            part = memoryview(piece)[offset - start : stop - start]
            found.append(piece if len(part) == len(piece) and type(piece) is bytes else part)
            offset = stop
            number += 1
        return b"".join(found)

    def write(self, data: bytes, offset: int) -> None:
        """Overwrite bytes at ``offset``."""
        if offset > self.size:
            self._append(bytes(offset - self.size))
        if offset == self.size:
            self._append(data)
            return
        if not self._pieces or offset < self._starts[-1] or type(self._pieces[-1]) is bytes:
            self._pieces = [bytearray(b"".join(self._pieces))]
            self._starts = [0]
        last, at = self._pieces[-1], offset - self._starts[-1]
        assert isinstance(last, bytearray), "a file that is overwritten is one piece"
        last[at : at + len(data)] = data
        self.size = self._starts[-1] + len(last)

    def _append(self, data: bytes) -> None:
        if len(data) >= KEPT_MIN:
            self._add(data)
        elif not self._pieces or type(self._pieces[-1]) is bytes:
            self._add(bytearray(data))
        else:
            last = self._pieces[-1]
            assert isinstance(last, bytearray), "it is not a large piece"
            last.extend(data)
        self.size += len(data)

    def _add(self, piece: bytes | bytearray) -> None:
        self._pieces.append(piece)
        self._starts.append(self.size)

    def truncate(self, length: int) -> None:
        """Truncate it, or extend it with zeros."""
        if length > self.size:
            self._append(bytes(length - self.size))
            return
        while self._pieces and self._starts[-1] >= length:
            self._pieces.pop()
            self._starts.pop()
        if self._pieces:
            self._pieces[-1] = bytearray(self._pieces[-1][: length - self._starts[-1]])
        self.size = length


class MemoryFiles:
    """A ``Files`` in memory, for one stream or for tests."""

    def __init__(self) -> None:
        self._files: dict[str, _Content] = {}
        self._folders: set[str] = {"/"}
        self._handles: dict[int, _Content] = {}
        self._locked: dict[int, _Content] = {}
        self._last_handle = 0

    @property
    def open_handles(self) -> int:
        """The number of open handles."""
        return len(self._handles)

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; with ``create`` the file must not exist yet."""
        found = self._files.get(str(path))
        if create and found is not None:
            raise _error(errno.EEXIST, path)
        if create:
            found = self._files[str(path)] = _Content()
        if found is None:
            raise _error(errno.ENOENT, path)
        self._last_handle += 1
        self._handles[self._last_handle] = found
        return self._last_handle

    def close(self, handle: int) -> None:
        """Close a handle."""
        self._held(handle)
        del self._handles[handle]
        self._locked.pop(handle, None)

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        return self._held(handle).size

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        return self._held(handle).read(offset, length)

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        content = self._held(handle)
        for blob in blobs:
            content.write(blob, offset)
            offset += len(blob)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``."""
        self.write_synced(handle, blobs, offset)

    def sync(self, handle: int) -> None:
        """Do nothing."""
        self._held(handle)

    def next_data(self, handle: int, offset: int) -> int:
        """Return ``offset``: memory has no holes."""
        del handle
        return offset

    def drop_cached(self, handle: int) -> None:
        """Do nothing."""
        self._held(handle)

    def free_space(self, path: Path) -> int:
        """Return a very large number: the limit of memory is unknown here."""
        del path
        return ENDLESS

    def truncate(self, handle: int, length: int) -> None:
        """Truncate a file to ``length``."""
        self._held(handle).truncate(length)

    def replace(self, path: Path, content: bytes) -> None:
        """Create or replace the file at ``path``."""
        self._files[str(path)] = _Content(content)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder within its parent."""
        if str(old) in self._files:
            self._files[str(new)] = self._files.pop(str(old))
            return
        if str(old) not in self._folders:
            raise _error(errno.ENOENT, old)
        before, after = f"{old}/", f"{new}/"
        moved = [name for name in self._files if name.startswith(before)]
        for name in moved:
            self._files[after + name[len(before) :]] = self._files.pop(name)
        self._folders = {
            after + name[len(before) :] if name.startswith(before) else name
            for name in self._folders - {str(old)}
        } | {str(new)}

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        self._folders |= {str(folder) for folder in (path, *path.parents)}

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files."""
        self.make_folder(path)
        for name, content in contents.items():
            self.replace(path / name, content)

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""
        if str(path) not in self._folders:
            raise _error(errno.ENOENT, path)

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty if ``path`` is not a folder."""
        names = (Path(name) for name in (*self._files, *self._folders) if name != "/")
        return sorted(name.name for name in names if name.parent == path)

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError if it does not exist."""
        found = self._files.get(str(path))
        if found is None:
            raise _error(errno.ENOENT, path)
        return found.read(0, found.size)

    def remove(self, path: Path) -> None:
        """Remove a file; FileNotFoundError if it does not exist."""
        if self._files.pop(str(path), None) is None:
            raise _error(errno.ENOENT, path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it."""
        below = f"{path}/"
        self._files = {k: v for k, v in self._files.items() if not k.startswith(below)}
        self._folders = {
            name for name in self._folders if name != str(path) and not name.startswith(below)
        }

    def lock(self, path: Path) -> int:
        """Open (or create) a file and lock it; BlockingIOError if it is locked."""
        content = self._files.setdefault(str(path), _Content())
        if any(held is content for held in self._locked.values()):
            raise _error(errno.EWOULDBLOCK, path)
        handle = self.open(path)
        self._locked[handle] = content
        return handle

    def _held(self, handle: int) -> _Content:
        found = self._handles.get(handle)
        if found is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
