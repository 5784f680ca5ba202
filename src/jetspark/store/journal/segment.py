"""A segment with groups in the journal.

Its groups are acknowledged when their frame is on disk, and written to the segment without a sync.
It *holds* the journal files that contain them until they are on disk in the segment itself.

A sync of the segment that fails, whatever it was for, may lose everything that was written to it
since the last one, and no later sync brings that back. So each sync of a segment that the journal
knows is done while the segment is entered (``with segment``), and after a failed one the groups
are written again, from the journal, before a sync proves anything.
"""

import threading
from typing import TYPE_CHECKING

from jetspark.store.journal.format import name_in_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from jetspark.store.files import Files
    from jetspark.store.journal.journal import Journal
    from jetspark.store.log.segments import Segments


class JournaledSegment:
    """One segment of one stream, as the journal knows it.

    ``stop`` is called, in the thread of the log, if the segment could not be synced.
    """

    def __init__(
        self,
        journal: "Journal",
        segments: "Segments",
        stream_id: int,
        name: str,
        place: tuple[int, int],
        generation: int,
        stop: "Callable[[OSError | None], None]",
    ) -> None:
        self.journal = journal
        self.stop: Callable[[OSError | None], None] = stop
        self._segments: Segments | None = segments
        self._folder: Path | None = None
        self._name = name
        self.stream_id = stream_id
        self.place = place
        self.name_in_frame: bytes = name_in_frame(stream_id, place[0], place[1])
        self.generation = generation
        # Up to which frame its groups are on disk in the segment itself.
        self.synced_frame: int = 0
        # Nothing of it is needed any more: it was synced to its end, or its stream was dropped.
        self.released: bool = False
        # A sync of it failed: from then on a sync alone proves nothing.
        self.sync_failed: bool = False
        # Why it could not be synced, and up to which frame its groups were copied to a file of
        # their own. Its log learns of the error later: more groups may follow until then.
        self.error: OSError | None = None
        self.kept_frame: int = 0
        self._entered = threading.Lock()

    @property
    def path(self) -> "Path":
        """The file; the folder may be renamed."""
        segments, folder = self._segments, self._folder
        if segments is not None:
            folder = segments.folder
        assert folder is not None, "it is set before the segments are forgotten"
        return folder / self._name

    @property
    def is_entered(self) -> bool:
        """Return whether a thread is syncing it."""
        return self._entered.locked()

    def __enter__(self) -> None:
        self._entered.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        if error is not None:
            self.sync_failed = True
        self._entered.release()

    def sync(self, files: "Files", handle: int) -> None:
        """Sync the segment to its end; raises OSError."""
        # What is in the journal by now was written to the segment before.
        frame = self.journal.last_frame
        with self:
            if self.sync_failed:
                self.journal.groups_of(self).write_to(files, handle, self.place, self.generation)
            files.sync(handle)
        self.synced_frame = max(frame, self.synced_frame)

    def write_again(self, files: "Files", handle: int) -> None:
        """Write the groups that the journal has of it, and sync it; raises OSError."""
        self.sync_failed = True
        self.sync(files, handle)

    def failed(self, error: OSError) -> None:
        """Note why it could not be synced."""
        self.error = error

    def kept(self, frame: int) -> None:
        """Note that its groups up to a frame were copied to a file of their own."""
        self.kept_frame = frame

    def holds(self, frame: int) -> bool:
        """Return whether it needs the journal file with frames up to this one."""
        return not self.released and max(self.synced_frame, self.kept_frame) < frame

    def release(self) -> None:
        """Note that the journal is not needed for it any more.

        A journal file that is not used again soon must not keep a stream that was removed.
        """
        self.released = True
        if self._segments is not None:
            self._folder = self._segments.folder
            self._segments = None
        self.stop = _ignore


def sync_segment(files: "Files", handle: int, segment: JournaledSegment | None) -> None:
    """Sync a segment that the journal may know; raises OSError.

    Every sync of a segment is done here, or while it is entered: the journal must not rely on a
    later one if this one fails.
    """
    if segment is not None:
        segment.sync(files, handle)
    else:
        files.sync(handle)


def _ignore(_error: OSError | None) -> None:
    """Do nothing: the log does not need the segment to be synced any more."""
