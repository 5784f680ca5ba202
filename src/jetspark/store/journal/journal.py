"""The journal of a store: one synced write makes the groups of many streams durable (journal.md).

::

        journal/<number>.jnl        frames; of a fixed size, written with zeros once and used again
        journal/kept-<stream>.jnl   the groups of a stream that could not be opened at a start

A group is first written to its segment without a sync, then to the journal with one. Segments are
synced later, in the background (``release``); then the file can be used again. After a crash a
start writes the groups of the journal to their segments (``view.py``).

What a frame contains is what its place in its segment contains, for as long as nothing is written
after that segment: so applying a frame again changes nothing, and a file that is not needed any
more need not be invalidated. The exception is a frame whose write failed: other groups may follow
in its place. It is invalidated first (``settle``), and until then its streams do not write.

``write`` is called in one thread at a time, ``prepare`` and ``release`` in one thread at a time;
both may run at once.
"""

import errno
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from jetspark.store.files import Files
from jetspark.store.journal.format import (
    FRAMES_AT,
    HEAD_COPIES,
    Frame,
    Head,
    JournalGroup,
    aligned,
    decode_head,
    encode_frame,
    encode_head,
    frame_size,
    frames_in,
    is_unused,
)
from jetspark.store.journal.segment import JournaledSegment
from jetspark.store.journal.view import JournalView, StreamGroups
from jetspark.store.recovery.pages import read_pages

FOLDER: Final = "journal"
SUFFIX: Final = ".jnl"
KEPT: Final = "kept-"
TEMPORARY: Final = ".tmp"
# Files with damaged or unexpected content are renamed, not removed.
ASIDE: Final = ".damaged"
FILE_SIZE: Final = 16 * 1024 * 1024
FILES_MAX: Final = 8
# Segments are synced when this many files are in use. A later release syncs each segment once for
# more groups, but a start has more to read.
RELEASE_AT: Final = 4
# How much is written at once when a file is created.
ZEROS: Final = bytes(1024 * 1024)
# No journal file is created if the disk would have less free space than this many of them.
SPARE_SPACE: Final = 4
# How many files without frames stay on disk.
FREE_MAX: Final = 2


class JournalFile:
    """One file: where its next frame begins, and the segments that hold it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle
        self.key: int = 0
        self.first: int = 0
        self.last: int = 0
        self.end: int = FRAMES_AT
        # Those with groups in it, in the order of their first group: a test can repeat a run.
        self.segments: dict[JournaledSegment, None] = {}

    def begin(self, key: int, first: int) -> None:
        """Start using it; its head is on disk."""
        self.key = key
        self.first = first
        self.last = first - 1
        self.end = FRAMES_AT
        self.segments = {}

    def is_held(self) -> bool:
        """Return whether a segment in it is not synced yet."""
        return any(segment.holds(self.last) for segment in self.segments)


class Journal:
    """The journal of one store.

    ``claim`` is called before the first file is created: from then on the store needs a version of
    jetspark that reads the journal. ``random_key`` returns 64 random bits.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        claim: Callable[[], None],
        random_key: Callable[[], int],
        *,
        size: int = FILE_SIZE,
    ) -> None:
        self._files = files
        self._folder = folder / FOLDER
        self._claim = claim
        self._random_key = random_key
        self._size = size
        # Guards the lists of files, which both threads change.
        self._lock = threading.Lock()
        self._current: JournalFile | None = None
        # Full files, oldest first, and files that can be used again.
        self._full: list[JournalFile] = []
        self._free: list[JournalFile] = []
        # Files whose removal failed.
        self._unremoved: list[JournalFile] = []
        self._removing = threading.Lock()
        self._last_file = 0
        # The number of the next frame.
        self._next = 1
        # A frame that failed and may still be on disk: the file, and where it begins.
        self._zombie: tuple[JournalFile, int] | None = None
        self._settling = threading.Lock()
        # Why no file could be created or used, as the last attempt found.
        self.problem: OSError | None = None
        # Figures, for monitoring.
        self.frames: int = 0
        self.groups: int = 0
        self.bytes: int = 0
        self.failures: int = 0
        self.releases: int = 0
        self.syncs: int = 0

    # Writing -----------------------------------------------------------------------------------

    @property
    def last_frame(self) -> int:
        """The number of the last frame that was written."""
        return self._next - 1

    def takes(self, groups: int, size: int) -> bool:
        """Return whether groups can be written now; if not, each goes to its own segment."""
        if self._zombie is not None:
            return False
        length = frame_size(groups, size)
        if self._current is not None and self._current.end + length <= self._size:
            return True
        return bool(self._free) and FRAMES_AT + length <= self._size

    def write(self, groups: Sequence[JournalGroup[JournaledSegment]]) -> None:
        """Write a frame, synced; raises OSError, then none of it is acknowledged.

        Their plain writes to the segments must have been done. If this fails and ``settled``, the
        groups can be written to their segments with synced writes; if not, their streams must not
        write anything else until ``settle`` succeeds.
        """
        file = self._file_for(frame_size(len(groups), sum(len(group.blob) for group in groups)))
        frame = encode_frame(file.key, self._next, groups)
        try:
            self._files.write_synced(file.handle, [frame], file.end)
        except OSError:
            self.failures += 1
            self._zombie = (file, file.end)
            with suppress(OSError):
                self.settle()
            raise
        file.segments.update(dict.fromkeys([group.segment for group in groups]))
        file.last = self._next
        file.end = aligned(file.end + len(frame))
        self._next += 1
        self.frames += 1
        self.groups += len(groups)
        self.bytes += len(frame)

    @property
    def settled(self) -> bool:
        """Return whether no frame that failed may be on disk."""
        return self._zombie is None

    def settle(self) -> None:
        """Invalidate a frame that failed, durably; raises OSError.

        A start would write its groups over what its streams write from now on.
        """
        # Several threads may want it; by the second time another frame may be in that place.
        with self._settling:
            if self._zombie is not None:
                file, at = self._zombie
                # Its head is enough; a frame that is written there later is complete or torn.
                self._files.write_synced(file.handle, [bytes(frame_size(0, 0))], at)
                self._zombie = None

    def _file_for(self, length: int) -> JournalFile:
        """Return the file for a frame; the next one if the current one is full."""
        file = self._current
        if file is not None and file.end + length <= self._size:
            return file
        with self._lock:
            if not self._free:
                raise OSError(errno.ENOBUFS, "all journal files are in use", str(self._folder))
            fresh = self._free.pop(0)
            oldest = self._full[0] if self._full else file
            floor = oldest.first if oldest is not None else self._next
        key = self._random_key()
        head = encode_head(Head(key, self._next, floor))
        try:
            # If this is interrupted, the old head counts, or the new one, which has no frames.
            for at in reversed(HEAD_COPIES):
                self._files.write_synced(fresh.handle, [head], at)
        except OSError:
            # One copy may be torn: another attempt that is interrupted could tear the other.
            self._discard([fresh])
            raise
        fresh.begin(key, self._next)
        with self._lock:
            if file is not None:
                self._full.append(file)
            self._current = fresh
        return fresh

    # Files -------------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """The number of files with frames."""
        return len(self._full) + (self._current is not None)

    @property
    def disk_bytes(self) -> int:
        """The space that the journal takes."""
        return (self.used + len(self._free)) * self._size

    @property
    def wants_file(self) -> bool:
        """Return whether another file should be prepared."""
        return not self._free and self.used < FILES_MAX

    @property
    def wants_release(self) -> bool:
        """Return whether it is time to sync segments."""
        return len(self._full) >= RELEASE_AT

    def prepare(self) -> None:
        """Create a file for the next frames; raises OSError. Waits for the disk."""
        try:
            self._prepare()
        except OSError as error:
            self.problem = error
            raise
        self.problem = None

    def _prepare(self) -> None:
        self._files.make_folder(self._folder)
        if self._files.free_space(self._folder) < SPARE_SPACE * self._size:
            raise OSError(errno.ENOSPC, "not enough space for a journal file", str(self._folder))
        self._claim()
        self._last_file += 1
        path = self._folder / f"{self._last_file:08d}{SUFFIX}"
        # Only complete files have a name that a start looks at.
        partial = path.with_name(path.name + TEMPORARY)
        handle = self._files.open(partial, create=True)
        try:
            # Written once: a sync into existing bytes is cheaper than one that grows the file.
            for at in range(0, self._size, len(ZEROS)):
                self._files.write(handle, [ZEROS[: self._size - at]], at)
            self._files.sync(handle)
            self._files.rename(partial, path)
        except OSError:
            self._files.close(handle)
            for each in (partial, path):
                with suppress(OSError):
                    self._files.remove(each)
            raise
        with self._lock:
            self._free.append(JournalFile(path, handle))

    # Release -----------------------------------------------------------------------------------

    def release(
        self, *, everything: bool = False, may_continue: Callable[[], bool] = lambda: True
    ) -> list[JournaledSegment]:
        """Sync the segments that hold full files, or all; files without any can be used again.

        Returns the segments that could not be synced: their groups stay in the journal. Waits for
        the disk, as long as ``may_continue()``.
        """
        with self._lock:
            full = list(self._full)
            current = self._current
        files = [*full, current] if everything and current is not None else full
        failed: list[JournaledSegment] = []
        for file in files:
            for segment in list(file.segments):
                if not segment.holds(file.last) or segment in failed or not may_continue():
                    continue
                if not self._sync(segment):
                    failed.append(segment)
        for segment in failed:
            self._keep_failed(segment)
        with self._lock:
            # Oldest first: frames that are found at a start have no gaps.
            while self._full and not self._full[0].is_held():
                self._free.append(self._full.pop(0))
            surplus = sorted(self._free, key=lambda file: file.first)[:-FREE_MAX]
            self._free = [file for file in self._free if file not in surplus]
        self._discard(surplus)
        self.releases += 1
        return failed

    def _sync(self, segment: JournaledSegment) -> bool:
        """Sync a segment to its end; False if that failed and it still matters."""
        try:
            handle = self._files.open(segment.path)
            try:
                # Only then may the file be rewritten, and this handle is not the one of the new
                # file.
                if segment.released:
                    return True
                segment.sync(self._files, handle)
            finally:
                self._files.close(handle)
        except OSError as error:
            # Its folder may have been renamed, or removed after it was dropped.
            if segment.released:
                return True
            if not isinstance(error, FileNotFoundError):
                segment.failed(error)
            return False
        self.syncs += 1
        return True

    def shrink(self) -> None:
        """Remove the files without frames that are needed: the disk is full."""
        with self._lock:
            free, self._free = self._free, []
        self._discard(free)

    def _keep_failed(self, segment: JournaledSegment) -> None:
        """Copy the groups of a segment that cannot be synced: it must not hold all others."""
        with suppress(OSError):
            if segment.error is not None and not segment.released:
                frame = self.last_frame
                self._keep(segment.stream_id, self.groups_of(segment))
                segment.kept(frame)

    def _discard(self, files: list[JournalFile]) -> None:
        """Remove files that are not needed, in the order of their frames.

        One that may have been removed is not used again. What is left at any time has no gaps.
        """
        for file in files:
            with suppress(OSError):
                self._files.close(file.handle)
        with self._removing:
            self._unremoved = sorted([*self._unremoved, *files], key=lambda file: file.first)
            with suppress(OSError):
                while self._unremoved:
                    try:
                        self._files.remove(self._unremoved[0].path)
                    except FileNotFoundError:
                        # An earlier attempt removed it and could not confirm that.
                        self._files.sync_folder(self._folder)
                    self._unremoved.pop(0)

    def groups_of(self, segment: JournaledSegment) -> StreamGroups:
        """Return the groups of a segment that the journal has; raises OSError.

        To write them again after a failed sync.
        """
        found = JournalView()
        if segment.kept_frame:
            found.add_kept(self.kept(segment.stream_id))
        with self._lock:
            files = [*self._full, *([self._current] if self._current is not None else [])]
        for file in files:
            if segment in file.segments:
                data = self._files.read(file.handle, 0, self._size)
                frames = [
                    frame
                    for frame in frames_in(data, Head(file.key, file.first))
                    if frame.number <= file.last
                ]
                found.add(frames)
        return found.of(segment.stream_id)

    # A start -----------------------------------------------------------------------------------

    def read(self) -> JournalView:
        """Return the groups that the journal has. Raises OSError, WrongStoreFormat."""
        view = JournalView()
        frames: list[Frame] = []
        found: list[tuple[Head, bytes, str]] = []
        unreadable: set[str] = set()
        for name in self._files.list_folder(self._folder):
            path = self._folder / name
            if not name.endswith(SUFFIX):
                continue
            try:
                data, unread = self._read_whole(path)
            except IsADirectoryError:
                view.add_folder(name)
                view.note(f"{path} is a folder, not a file of the journal")
                continue
            head = decode_head(data)
            if unread:
                unreadable.add(name)
                view.note(f"{path} cannot be read completely: the disk failed")
            if head is None:
                # Only files of their whole length get their name.
                if not is_unused(data) or len(data) < FRAMES_AT:
                    view.note(f"the head of {path} is damaged: nothing in it can be used")
                continue
            if name.startswith(KEPT):
                view.add(frames_in(data, head))
            else:
                found.append((head, data, name))
        for head, data, name in sorted(found, key=lambda each: each[0].first):
            frames += frames_in(data, head)
            view.add_file(name)
        heads = [head for head, _, _ in found]
        floor = max((head.floor for head in heads), default=0)
        frames = [frame for frame in frames if frame.number >= floor]
        cut = not unreadable & set(view.files[-1:])
        view.add(self._acknowledged(frames, heads, view, cut=cut))
        return view

    def set_aside(self) -> bool:
        """Rename files that must not be used; return whether there are any. Raises OSError."""
        names = [n for n in self._files.list_folder(self._folder) if n.endswith(SUFFIX)]
        for name in names:
            self._files.rename(self._folder / name, self._folder / (name + ASIDE))
        return bool(names)

    def _read_whole(self, path: Path) -> tuple[bytes, bool]:
        """Return a file, with zeros where the disk fails to read it."""
        handle = self._files.open(path)
        try:
            data, unread = read_pages(self._files, handle, 0, self._files.size(handle))
        finally:
            self._files.close(handle)
        return data, bool(unread)

    def _acknowledged(
        self, frames: list[Frame], heads: list[Head], view: JournalView, *, cut: bool
    ) -> list[Frame]:
        """Return the frames without the last one if that is torn; note what is missing.

        A frame is written when the one before it is on disk, so all but the last one were; and a
        file comes into use when all frames before its first are. ``cut``: an incomplete last one
        is torn; else the disk may fail to read the rest.
        """
        if not heads:
            return []
        newest = max(head.first for head in heads)
        expected = max(min(head.first for head in heads), *(head.floor for head in heads))
        for number in (*(frame.number for frame in frames), newest):
            if number > expected:
                view.note(
                    f"frames {expected} to {number - 1} of the journal are damaged or missing; "
                    "segments normally have what was in them"
                )
            expected = max(expected, number + 1)
        acknowledged = [
            frame
            for frame in frames
            if frame.whole or frame is not frames[-1] or frame.number < newest or not cut
        ]
        for frame in acknowledged:
            if not frame.whole and (frame is not frames[-1] or frame.number < newest):
                view.note(f"frame {frame.number} of the journal is damaged")
        return acknowledged

    def settle_start(self, view: JournalView, unopened: Iterable[int]) -> None:
        """End a start: all groups are in their segments, on disk, or are kept; raises OSError.

        ``unopened``: the streams of which that is not true. Nothing may be written to a stream
        before this has returned.
        """
        keep = {stream_id for stream_id in unopened if stream_id in view.streams}
        for stream_id in sorted(keep):
            self._keep(stream_id, view.of(stream_id))
        kept = {self._kept_name(stream_id) for stream_id in keep}
        names = self._files.list_folder(self._folder)
        others = [name for name in names if name not in view.files and name not in kept]
        # In the order of frames: what is left after a crash in between has no gaps.
        for name in (*others, *view.files):
            path = self._folder / name
            aside = view.notes and name.endswith(SUFFIX) and not name.startswith(KEPT)
            if aside or name in view.folders:
                self._files.rename(path, path.with_name(name + ASIDE))
            elif name.endswith((SUFFIX, TEMPORARY)):
                self._files.remove(path)

    def _kept_name(self, stream_id: int) -> str:
        return f"{KEPT}{stream_id:016x}{SUFFIX}"

    def _keep(self, stream_id: int, groups: StreamGroups) -> None:
        """Write the groups of a stream to a file of their own, durably."""
        key = self._random_key()
        copy = encode_head(Head(key, 1))
        head = (copy.ljust(HEAD_COPIES[1], b"\0") + copy).ljust(FRAMES_AT, b"\0")
        frame = encode_frame(key, 1, groups.copies())
        self._files.make_folder(self._folder)
        self._files.replace(self._folder / self._kept_name(stream_id), head + frame)

    def keeps_any(self) -> bool:
        """Return whether groups are kept for any stream; raises OSError."""
        return any(name.startswith(KEPT) for name in self._files.list_folder(self._folder))

    def kept(self, stream_id: int) -> StreamGroups:
        """Return the groups of a stream that could not be opened at the start; raises OSError."""
        view = JournalView()
        name = self._kept_name(stream_id)
        if name in self._files.list_folder(self._folder):
            data = self._files.read_file(self._folder / name)
            head = decode_head(data)
            if head is not None:
                view.add(frames_in(data, head))
        return view.of(stream_id)

    def forget(self, stream_id: int) -> None:
        """Remove the kept groups of a stream: they are in its segment, on disk. Raises OSError."""
        name = self._kept_name(stream_id)
        if name in self._files.list_folder(self._folder):
            self._files.remove(self._folder / name)

    # The end -----------------------------------------------------------------------------------

    def close(self, may_continue: Callable[[], bool] = lambda: True) -> bool:
        """Sync all segments and remove the files; True if the journal has nothing any more.

        As long as ``may_continue()``: otherwise the next start reads the rest. Raises OSError if
        it is unknown what is left.
        """
        if self._zombie is None:
            self.release(everything=True, may_continue=may_continue)
        with self._lock:
            files = [*self._full, *([self._current] if self._current else []), *self._free]
            self._full, self._free, self._current = [], [], None
        done = self._zombie is None and not any(file.is_held() for file in files)
        if done:
            self._discard(files)
        for file in [] if done else files:
            with suppress(OSError):
                self._files.close(file.handle)
        left = self._files.list_folder(self._folder)
        return done and not any(name.endswith(SUFFIX) for name in left)

    def remove_folder(self) -> None:
        """Remove the folder if nothing in it is worth keeping, after ``close``. Raises OSError."""
        if all(name.endswith(TEMPORARY) for name in self._files.list_folder(self._folder)):
            self._files.remove_folder(self._folder)
