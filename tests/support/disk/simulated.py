"""A simulated disk: a file layer in memory that loses what a real disk may lose.

``SimulatedDisk`` is a ``store.files.Files``. It keeps two states: what a program sees, and what is
certainly on the disk. Every call is made of steps (create, write, sync, rename ...), as on a real
system; ``before_step`` is called before each of them, so a test can stop the world inside a call.

- ``image(random)`` is a disk as it may be found after a power failure now: of everything
  not synced, any part may be there or not. ``prefixes`` and ``sector_subsets`` enumerate what one
  write in progress can leave.
- ``survivor()`` is the disk after the process was killed: nothing is lost yet, but what was not
  synced can still be lost by a power failure later.
- ``fail(step, error)`` lets a step fail, ``capacity`` fills the disk up, ``flip`` damages a file.
- ``refuse_reads`` lets reads of a place fail, for a while or for good; ``lose``, ``cut`` and
  ``swap`` do to files what a careless hand does.

Nothing here is random on its own: the same seed gives the same images.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Final

from tests.support.disk.nodes import (
    CHANGING,
    BadPlace,
    File,
    Folder,
    Node,
    Operation,
    Write,
    contents,
    crashed_folder,
    flipped,
    forked_folder,
)
from tests.support.disk.paths import KeptPath

__all__ = ["CHANGING", "Operation", "SimulatedDisk"]

OPERATIONS_KEPT: Final = 4096
ROOT: Final = KeptPath("/")


class SimulatedDisk:
    """A file system in memory. ``capacity`` bounds the bytes in all files together."""

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.before_step: Callable[[Operation], None] | None = None
        # The newest steps, for a person who looks at a failure.
        self.operations: deque[Operation] = deque(maxlen=OPERATIONS_KEPT)
        self.steps: int = 0
        self.failed_steps: int = 0
        self.read_calls: int = 0
        self.read_bytes: int = 0
        self._root = Folder()
        self._handles: dict[int, tuple[File, str]] = {}
        self._last_handle = 2
        self._failures: dict[int, int] = {}
        self._bad_places: list[BadPlace] = []
        self._unsynced_folders: set[Path] = set()

    # What may be left of it --------------------------------------------------------------------

    def image(self, random: Random) -> "SimulatedDisk":
        """A disk as it may be found after a power failure now."""
        return self._with(crashed_folder(self._root, random))

    def survivor(self) -> "SimulatedDisk":
        """The disk as the next process finds it when this one is killed now."""
        return self._with(forked_folder(self._root, {}))

    def prefixes(self) -> "Iterator[SimulatedDisk]":
        """Every image in which the first n bytes of the one write in progress exist."""
        file, change = self._write_under_way()
        for kept in range(len(change.data) + 1):
            yield self._altered(file, [Write(change.offset, change.data[:kept])])

    def sector_subsets(self, *, zeros: bool = False) -> "Iterator[SimulatedDisk]":
        """Every image in which some sectors of the one write in progress exist, others not.

        The file has its full length with ``zeros``; else it ends with the last sector there.
        """
        file, change = self._write_under_way()
        pieces = change.sectors()
        for kept in product((False, True), repeat=len(pieces)):
            some = [piece for piece, keep in zip(pieces, kept, strict=True) if keep]
            if zeros:
                blank = Write(len(file.durable), bytes(max(0, change.end - len(file.durable))))
                some.insert(0, blank)
            yield self._altered(file, some)

    def _write_under_way(self) -> tuple[File, Write]:
        found = [
            (file, change)
            for _, file in self._files(ROOT, self._root)
            for change in file.pending
            if isinstance(change, Write)
        ]
        if len(found) != 1:
            raise ValueError(f"one write must be under way, there are {len(found)}")
        return found[0]

    def _altered(self, file: File, changes: list[Write]) -> "SimulatedDisk":
        pending, file.pending = file.pending, []
        kept = file.durable
        for change in changes:
            file.durable = change.applied(file.durable)
        # Nothing is pending in the file now and folders keep every name: no chance is involved.
        altered = self._with(crashed_folder(self._root, None))
        file.durable = kept
        file.pending = pending
        return altered

    def _with(self, root: Folder) -> "SimulatedDisk":
        other = SimulatedDisk(capacity=self.capacity)
        other._root = root
        return other

    # What a test does to it --------------------------------------------------------------------

    def fail(self, step: int, error: int, *, times: int = 1) -> None:
        """Let steps fail with this errno: ``step`` is counted from now, 1 is the next one.

        Inside ``before_step``, 0 is the step that is about to be done. A write that fails has
        written a part. A sync that fails has lost what it was for: later syncs of the file succeed
        and do not bring it back, as on a real system.
        """
        for number in range(self.steps + step, self.steps + step + times):
            self._failures[number] = error

    def forget_failures(self) -> None:
        """The disk works again."""
        self._failures.clear()

    def refuse_reads(
        self, name: str = "", first: int = 0, end: int = 1 << 62, *, times: int = 1 << 62
    ) -> None:
        """Let reads fail (EIO) that touch these bytes of files whose paths end with ``name``.

        ``times`` is how often; then the place can be read again. Writing it repairs it, too, as a
        drive puts another sector in its place.
        """
        self._bad_places.append(BadPlace(name, first, end, times))

    def allow_reads(self) -> None:
        """Everything can be read again."""
        self._bad_places.clear()

    def _read_error(self, path: str, first: int, length: int) -> int:
        for place in self._bad_places:
            if place.touches(path, first, first + length) and place.times > 0:
                place.times -= 1
                return errno.EIO
        return 0

    def lose(self, path: Path) -> None:
        """A file is missing, at rest."""
        folder = self._folder(path.parent)
        del folder.names[path.name]
        folder.durable.pop(path.name, None)

    def cut(self, path: Path, length: int) -> None:
        """A file is shorter than it was, at rest."""
        self.put(path, self._file(path).data[:length])

    def swap(self, one: Path, other: Path) -> None:
        """Two files have each other's content, at rest."""
        first, second = self._file(one).data, self._file(other).data
        self.put(one, second)
        self.put(other, first)

    def flip(self, path: Path, bit: int) -> None:
        """Damage one bit of a file at rest."""
        file = self._file(path)
        file.data = flipped(file.data, bit)
        file.durable = flipped(file.durable, bit)

    def put(self, path: Path, content: bytes) -> None:
        """Put a file there, durably, with its folders; replaces one that exists."""
        folder = self._root
        for name in path.parent.parts[1:]:
            child = folder.names.get(name) or Folder()
            assert isinstance(child, Folder), f"{name} is a file"
            folder.names[name] = folder.durable[name] = child
            folder = child
        folder.names[path.name] = folder.durable[path.name] = File(content)

    def paths(self) -> dict[Path, int]:
        """Every file and its length."""
        return {path: len(file.data) for path, file in self._files(ROOT, self._root)}

    def content(self) -> frozenset[tuple[str, bytes | None]]:
        """Every file with what is in it, and every folder: equal disks, equal contents.

        Contents are shared between images and each is hashed once, so this takes little time.
        """
        return frozenset(contents(self._root, ""))

    @property
    def open_handles(self) -> int:
        """How many handles no one has closed yet."""
        return len(self._handles)

    # Files -------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open for reading and writing; with ``create`` the file must not exist yet."""
        if create:
            folder = self._folder(path.parent)
            if path.name in folder.names:
                raise self._error(errno.EEXIST, path)
            self._create(folder, path)
        else:
            self._step("open", path)
        return self._opened(self._file(path), path)

    def close(self, handle: int) -> None:
        """Give a handle back."""
        file, _ = self._held(handle)
        del self._handles[handle]
        if file.locked_by == handle:
            file.locked_by = None

    def size(self, handle: int) -> int:
        """Return the length of an open file."""
        return len(self._held(handle)[0].data)

    def read(self, handle: int, offset: int, length: int) -> bytes:
        """Read up to ``length`` bytes; shorter only at the end of the file."""
        file, path = self._held(handle)
        data = file.data[offset : offset + length]
        self._step("read", path, len(data))
        error = self._read_error(path, offset, len(data))
        if error:
            raise self._error(error, path)
        self._count_read(data)
        return data

    def write_synced(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset`` and return when they are on the disk."""
        file, path = self._held(handle)
        self._write(file, path, b"".join(blobs), offset)
        self._sync(file, path)

    def write(self, handle: int, blobs: Sequence[bytes], offset: int) -> None:
        """Write all blobs at ``offset``; they are on the disk after a later ``sync``."""
        self._write(*self._held(handle), b"".join(blobs), offset)

    def sync(self, handle: int) -> None:
        """Return when everything in the file is on the disk, whichever handle wrote it."""
        self._sync(*self._held(handle))

    def free_space(self, path: Path) -> int:
        """How many bytes more the disk takes."""
        self._step("free space", path)
        return max(0, (self.capacity or 1 << 40) - sum(self.paths().values()))

    def next_data(self, handle: int, offset: int) -> int:
        """There are no holes in these files."""
        self._held(handle)
        return offset

    def drop_cached(self, handle: int) -> None:
        """Forget what is remembered of a file; what was acknowledged reads the same."""
        self._step("drop cached", self._held(handle)[1])

    def truncate(self, handle: int, length: int) -> None:
        """Cut a file to ``length`` and return when the cut is on the disk."""
        file, path = self._held(handle)
        self._step("truncate", path, length)
        file.truncate(length)
        self._sync(file, path)

    def replace(self, path: Path, content: bytes) -> None:
        """Put a file with this content at ``path``, the old one or the new one at any time."""
        folder = self._folder(path.parent)
        temporary = path.parent / (path.name + ".tmp")
        if temporary.name not in folder.names:
            self._create(folder, temporary)
        file = self._file(temporary)
        self._step("truncate", temporary)
        file.truncate(0)
        self._write(file, str(temporary), content, 0)
        self._sync(file, str(temporary))
        self.rename(temporary, path)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder within its parent, durably."""
        folder = self._folder(old.parent)
        if old.name not in folder.names:
            raise self._error(errno.ENOENT, old)
        self._step("rename", new)
        folder.rename(old.name, new.name)
        self.sync_folder(old.parent)

    def make_folder(self, path: Path) -> None:
        """Create a folder (parents too) that is still there after a power failure."""
        missing = []
        while not isinstance(self._find(path), Folder):
            missing.append(path)
            path = path.parent
        # As in OsFiles: what exists may be from an attempt whose sync failed.
        if missing or path in self._unsynced_folders:
            self.sync_folder(path.parent)
            self._unsynced_folders.discard(path)
        for name in reversed(missing):
            self._room(0, name)
            self._step("link", name)
            self._unsynced_folders.add(name)
            self._folder(name.parent).link(name.name, Folder())
            self.sync_folder(name.parent)
            self._unsynced_folders.discard(name)

    def make_filled(self, path: Path, contents: Mapping[str, bytes]) -> None:
        """Create a folder with these files, which are on the disk when this returns."""
        self._room(0, path)
        self._step("link", path)
        folder = Folder()
        self._folder(path.parent).link(path.name, folder)
        for name, content in contents.items():
            self._create(folder, path / name)
            self._write(self._file(path / name), str(path / name), content, 0)
        for name in contents:
            self._sync(self._file(path / name), str(path / name))
        self.sync_folder(path)

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in a folder durable."""
        folder = self._folder(path)
        self._step("sync folder", path)
        folder.sync()

    def list_folder(self, path: Path) -> list[str]:
        """Return the names in a folder, sorted; empty when ``path`` is no folder."""
        folder = self._find(path)
        self._step("list", path)
        return sorted(folder.names) if isinstance(folder, Folder) else []

    def read_file(self, path: Path) -> bytes:
        """Return a whole file; FileNotFoundError when it is not there."""
        data = self._file(path).data
        self._step("read", path, len(data))
        error = self._read_error(str(path), 0, len(data))
        if error:
            raise self._error(error, path)
        self._count_read(data)
        return data

    def _count_read(self, data: bytes) -> None:
        self.read_calls += 1
        self.read_bytes += len(data)

    def remove(self, path: Path) -> None:
        """Remove a file, durably; FileNotFoundError when it is not there."""
        self._file(path)
        self._step("unlink", path)
        self._folder(path.parent).unlink(path.name)
        self.sync_folder(path.parent)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it, durably."""
        folder = self._folder(path)
        for name in self.list_folder(path):
            if isinstance(folder.names[name], Folder):
                self.remove_folder(path / name)
            else:
                self._step("unlink", path / name)
                folder.unlink(name)
        self._step("unlink", path)
        self._folder(path.parent).unlink(path.name)
        self.sync_folder(path.parent)

    def lock(self, path: Path) -> int:
        """Open (or create) a file and lock it; BlockingIOError when someone else has it."""
        folder = self._folder(path.parent)
        if path.name not in folder.names:
            self._create(folder, path)
        self._step("lock", path)
        file = self._file(path)
        if file.locked_by is not None:
            raise self._error(errno.EWOULDBLOCK, path)
        handle = self._opened(file, path)
        file.locked_by = handle
        return handle

    # Steps -------------------------------------------------------------------------------------

    def _step(self, kind: str, path: Path | str, size: int = 0) -> None:
        error = self._begin(kind, path, size)
        if error:
            raise self._error(error, path)

    def _begin(self, kind: str, path: Path | str, size: int = 0) -> int:
        """Count a step; the errno with which it has to fail, or 0."""
        self.steps += 1
        operation = Operation(kind, str(path), size)
        self.operations.append(operation)
        if self.before_step is not None:
            self.before_step(operation)
        error = self._failures.pop(self.steps, 0)
        self.failed_steps += error != 0
        return error

    def _create(self, folder: Folder, path: Path) -> None:
        self._room(0, path)
        self._step("create", path)
        folder.link(path.name, File(b""))

    def _write(self, file: File, path: str, data: bytes, offset: int) -> None:
        error = self._begin("write", path, len(data))
        self._bad_places = [
            place
            for place in self._bad_places
            if not (place.touches(path, offset, offset + len(data)) and place.end < 1 << 62)
        ]
        room = self._room(max(0, offset + len(data) - len(file.data)), path, partly=True)
        if error or room < 0:
            kept = len(data) // 2 if error else len(data) + room
            file.write(offset, data[: max(0, kept)])
            raise self._error(error or errno.ENOSPC, path)
        file.write(offset, data)

    def _sync(self, file: File, path: str) -> None:
        error = self._begin("sync", path)
        if error:
            file.lose_pending()
            raise self._error(error, path)
        file.sync()

    def _room(self, more: int, path: Path | str, *, partly: bool = False) -> int:
        """Bytes left after ``more``; less than none is an error unless it may come partly."""
        if self.capacity is None:
            return 0
        left = self.capacity - sum(self.paths().values()) - more
        if not partly and left <= 0:
            raise self._error(errno.ENOSPC, path)
        return min(0, left)

    # Look-ups ----------------------------------------------------------------------------------

    def _error(self, number: int, path: Path | str) -> OSError:
        return OSError(number, os.strerror(number), str(path))

    def _opened(self, file: File, path: Path) -> int:
        self._last_handle += 1
        self._handles[self._last_handle] = (file, str(path))
        return self._last_handle

    def _held(self, handle: int) -> tuple[File, str]:
        held = self._handles.get(handle)
        if held is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return held

    def _find(self, path: Path) -> Node | None:
        # A path keeps its string, which is needed for the step as well.
        names = _names(str(path))
        if not names:
            return self._root
        folder = self._root
        for name in names[:-1]:
            child = folder.names.get(name)
            if not isinstance(child, Folder):
                return None
            folder = child
        return folder.names.get(names[-1])

    def _file(self, path: Path) -> File:
        node = self._find(path)
        if isinstance(node, File):
            return node
        raise self._error(errno.EISDIR if node else errno.ENOENT, path)

    def _folder(self, path: Path) -> Folder:
        node = self._find(path)
        if isinstance(node, Folder):
            return node
        raise self._error(errno.ENOTDIR if node else errno.ENOENT, path)

    def _files(self, path: Path, folder: Folder) -> Iterator[tuple[Path, File]]:
        for name, node in sorted(folder.names.items()):
            if isinstance(node, Folder):
                yield from self._files(path / name, node)
            else:
                yield path / name, node


@lru_cache(4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)
