"""The file layer: the store's only access to the disk.

``Files`` is what the store needs of a file system, ``OsFiles`` is the real one. Tests replace it
with a simulated disk (``tests/support/disk/``), so every call here is one that such a disk can
tear or fail. A call that returned is a guarantee; a call that raised, or was interrupted by the
end of the process, guarantees nothing.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

# The errors that mean "no space": the write may be retried.
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

# Kernels without RWF_DSYNC are detected by trying once; macOS lacks the name.
_DSYNC: Final[int] = getattr(os, "RWF_DSYNC", 0)
_DSYNC_MISSING: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
# On macOS fsync leaves data in the drive's cache; this one does not. Linux has no such command.
_FULL_SYNC: Final[int] = getattr(fcntl, "F_FULLFSYNC", 0)
_IOV_MAX: Final = 1024
# No file that is read whole is longer. A damaged length (or a sparse file) must not load gigabytes
# into memory: all other streams would wait for that, or the system would kill the process.
WHOLE_FILE_MAX: Final = 256 * 1024 * 1024


class Files(Protocol):
    """The store's view of a file system. Paths are absolute; handles are small integers."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; with ``create`` the file must not exist yet."""
        ...

    def close(self, handle: int) -> None:
        """Close a handle."""
        ...

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        ...

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        ...

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset`` and return once they are on disk."""
        ...

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``; they are on disk after a later ``sync``."""
        ...

    def sync(self, handle: int) -> None:
        """Return once everything in the file is on disk, however it was written."""
        ...

    def drop_cached(self, handle: int) -> None:
        """Drop a file from the page cache, so that reads go to the disk."""
        ...

    def next_data(self, handle: int, offset: int) -> int:
        """Return where, from ``offset`` on, data may start after a hole; at most the end.

        ``offset`` itself if that is unknown.
        """
        ...

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes of the file system of a folder."""
        ...

    def truncate(self, handle: int, length: int) -> None:
        """Truncate a file to ``length`` and return once that is on disk."""
        ...

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the file at ``path`` atomically: it has the old or the new content."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder within its parent, durably."""
        ...

    def make_folder(self, path: Path) -> None:
        """Create a folder, and its parents, durably: it survives a power failure."""
        ...

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files, which are on disk when this returns.

        The folder's own name becomes durable with the next sync of its parent, as in ``rename``.
        """
        ...

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable."""
        ...

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty if ``path`` is not a folder."""
        ...

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError if it does not exist."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, durably; FileNotFoundError if it does not exist."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it, durably."""
        ...

    def lock(self, path: Path) -> int:
        """Open (or create) a file and lock it; BlockingIOError if another process holds it."""
        ...


class OsFiles:
    """The real file system.

    ``one_call`` False writes and syncs in two system calls, as on platforms without RWF_DSYNC.
    ``read_only`` opens files read-only, for file systems mounted that way. ``synced`` False never
    syncs: what was written survives the process, not a power failure.
    """

    def __init__(
        self, *, one_call: bool = True, read_only: bool = False, synced: bool = True
    ) -> None:
        self._dsync = _DSYNC if one_call and synced else 0
        self._synced = synced
        self._read_only = read_only
        # Folders that were created and whose names are not on disk yet: their sync failed, or
        # another thread is waiting for it.
        self._unsynced: set[Path] = set()

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; with ``create`` the file must not exist yet."""
        flags = os.O_RDONLY if self._read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        return _open_regular(path, flags)

    def close(self, handle: int) -> None:
        """Close a handle."""
        os.close(handle)

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        return os.fstat(handle).st_size

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; fewer only at the end of the file."""
        data = os.pread(handle, length, offset)
        if len(data) in {0, length}:
            return data
        return _read_rest(handle, offset, length, data)

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset`` and return once they are on disk.

        One system call where the platform has RWF_DSYNC: write followed by fdatasync needs the
        interpreter lock in between and would wait for it twice.
        """
        self._write_all(handle, blobs, offset, self._write_once)
        if not self._dsync and self._synced:
            _sync_data(handle)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``; they are on disk after a later ``sync``."""
        # Once per group of a turn of many streams: nearly always one call is enough.
        if len(blobs) != 1 or os.pwrite(handle, blobs[0], offset) != len(blobs[0]):
            self._write_all(handle, blobs, offset, os.pwritev)

    def _write_all(
        self,
        handle: int,
        blobs: Sequence[bytes],
        offset: int,
        write: Callable[[int, Sequence[bytes], int], int],
    ) -> None:
        if len(blobs) == 1 and blobs[0]:
            # Nearly always one call writes everything.
            written = self._taken(write(handle, blobs, offset))
            if written == len(blobs[0]):
                return
            offset += written
            blobs = (blobs[0][written:],)
        queue = [blob for blob in blobs if blob]
        while queue:
            written = self._taken(write(handle, queue[:_IOV_MAX], offset))
            offset += written
            while queue and written >= len(queue[0]):
                written -= len(queue.pop(0))
            if written:
                queue[0] = queue[0][written:]

    def _taken(self, written: int) -> int:
        if written <= 0:
            # Retrying forever would hang the writer; a disk that accepts nothing is broken.
            raise OSError(errno.EIO, "the file system accepted no byte of a write")
        return written

    def _write_once(self, handle: int, blobs: Sequence[bytes], offset: int) -> int:
        if self._dsync:
            try:
                return os.pwritev(handle, blobs, offset, self._dsync)
            except OSError as error:
                if error.errno not in _DSYNC_MISSING:
                    raise
                self._dsync = 0
        return os.pwritev(handle, blobs, offset)

    def sync(self, handle: int) -> None:
        """Return once everything in the file is on disk, however it was written."""
        if self._synced:
            _sync_all(handle)

    def next_data(self, handle: int, offset: int) -> int:
        """Return where, from ``offset`` on, data may start after a hole."""
        if not hasattr(os, "SEEK_DATA"):
            return offset
        try:
            # Reads and writes pass their offsets: the offset of the handle is unused.
            return os.lseek(handle, offset, os.SEEK_DATA)
        except OSError as error:
            return os.fstat(handle).st_size if error.errno == errno.ENXIO else offset

    def free_space(self, path: Path) -> int:
        """Return the number of free bytes of the file system of a folder."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def drop_cached(self, handle: int) -> None:
        """Drop a file from the page cache, so that reads go to the disk.

        A hint that the system may not follow entirely; without support for it, nothing is done.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def truncate(self, handle: int, length: int) -> None:
        """Truncate a file to ``length`` and return once that is on disk."""
        os.ftruncate(handle, length)
        self.sync(handle)

    def replace(self, path: Path, content: bytes) -> None:
        """Replace the file at ``path`` atomically: it has the old or the new content."""
        temporary = path.with_name(path.name + ".tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(handle, view) :]
                self.sync(handle)
            finally:
                os.close(handle)
            temporary.replace(path)
        except OSError:
            # A partial file must not take the last space of a full disk.
            with suppress(OSError):
                temporary.unlink()
            raise
        self.sync_folder(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder within its parent, durably."""
        old.rename(new)
        self.sync_folder(new.parent)

    def make_folder(self, path: Path) -> None:
        """Create a folder, and its parents, durably: it survives a power failure."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        if path in self._unsynced:
            self.sync_folder(path.parent)
            self._unsynced.discard(path)
        elif missing:
            # An existing one may be from a process that ended before its sync. If we may not read
            # its parent, we did not create it.
            with suppress(PermissionError):
                self.sync_folder(path.parent)
        for folder in reversed(missing):
            self._unsynced.add(folder)
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)
            self._unsynced.discard(folder)

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files, which are on disk when this returns."""
        path.mkdir(mode=0o700)
        handles: list[int] = []
        try:
            for name, content in contents.items():
                handles.append(self.open(path / name, create=True))
                self.write(handles[-1], [content], 0)
                # Start writeback of all of them before waiting for the first: often one commit of
                # the file system's journal is enough then.
                self.drop_cached(handles[-1])
            for handle in handles:
                self.sync(handle)
        finally:
            for handle in handles:
                os.close(handle)
        self.sync_folder(path)

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(handle)
        finally:
            os.close(handle)

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty if ``path`` is not a folder."""
        try:
            # A start lists the folder of each stream: without a Path per name.
            return sorted(os.listdir(path))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError if it does not exist."""
        handle = _open_regular(path, os.O_RDONLY)
        try:
            size = os.fstat(handle).st_size
            if size > WHOLE_FILE_MAX:
                raise OSError(errno.EFBIG, f"{size} bytes: not a valid file", str(path))
            data = os.pread(handle, size, 0)
            return data if len(data) == size else _read_rest(handle, 0, size, data)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        """Remove a file, durably; FileNotFoundError if it does not exist."""
        path.unlink()
        self.sync_folder(path.parent)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it, durably."""
        for name in self.list_folder(path):
            child = path / name
            if child.is_dir() and not child.is_symlink():
                self.remove_folder(child)
            else:
                child.unlink()
        path.rmdir()
        self.sync_folder(path.parent)

    def lock(self, path: Path) -> int:
        """Open (or create) a file and lock it; BlockingIOError if another process holds it."""
        flags = os.O_RDONLY if self._read_only else os.O_RDWR | os.O_CREAT
        handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle


def _read_rest(handle: int, offset: int, length: int, data: bytes) -> bytes:
    """Continue a read that returned ``data`` so far."""
    pieces = [data]
    got = len(data)
    while got < length:
        data = os.pread(handle, length - got, offset + got)
        if not data:
            break
        pieces.append(data)
        got += len(data)
    return b"".join(pieces)


def _open_regular(path: Path, flags: int) -> int:
    """Open a regular file; OSError for anything else.

    Opening a named pipe would wait for its other end, and reading a device would never end.
    """
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return handle


def _sync_data(handle: int) -> None:
    """Sync the content of a file, and the metadata needed to read it."""
    if _FULL_SYNC:
        fcntl.fcntl(handle, _FULL_SYNC)
    else:
        os.fdatasync(handle)


def _sync_all(handle: int) -> None:
    """Sync the content and the metadata of a file or folder."""
    if _FULL_SYNC:
        fcntl.fcntl(handle, _FULL_SYNC)
    else:
        os.fsync(handle)
