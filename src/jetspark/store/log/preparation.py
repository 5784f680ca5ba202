"""Steps on disk before a group is written, done where the group is written.

A group may need a new segment, a sync of what was acknowledged at a lower level, or sequences
reserved in a manifest. Each of them waits for the disk, and the thread that stages groups must
not. So the steps are decided when the group is taken, done right before its write, and become part
of the log when the group is reported, whether it was written or not.

Not compiled: few groups need it.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jetspark.store.format.manifest import raise_floor
from jetspark.store.format.segment import create_segment

if TYPE_CHECKING:
    from jetspark.store.log.segments import Segments


class NewSegment(NamedTuple):
    """A segment that is about to be created."""

    name: str
    first_seq: int
    head: bytes


class Preparation:
    """The steps before one group: ``do`` in any thread; then ``StreamLog.prepared``."""

    def __init__(
        self,
        segments: "Segments",
        stream_id: int,
        *,
        sync: bool = False,
        floor: int = 0,
        begins: NewSegment | None = None,
    ) -> None:
        self._files = segments.files
        self._folder = segments.folder
        self._stream_id = stream_id
        self._sync = sync
        self.floor = floor
        # The newest segment until now, and its end.
        self.old: int = int(segments.handle)
        self.end: int = int(segments.end)
        self._is_filled = segments.filled_to > segments.end
        self.begins = begins
        # The results.
        self.fresh: int = -1
        self.synced: bool = False
        self.reserved: bool = False
        self.sync_error: OSError | None = None

    def do(self) -> int:
        """Do all of it and return the handle to write to; raises OSError if the disk fails."""
        # Completed steps are not repeated: a group may be written once more.
        if self._sync and not self.synced:
            try:
                self._files.sync(self.old)
            except OSError as error:
                self.sync_error = error
                raise
            self.synced = True
        if self.floor and not self.reserved:
            raise_floor(self._files, self._folder, self._stream_id, self.floor)
            self.reserved = True
        if self.begins is None:
            return self.old
        if self.fresh >= 0:
            return self.fresh
        self._cut_filler()
        path = self._folder / self.begins.name
        self.fresh = create_segment(self._files, path, self.begins.head)
        return self.fresh

    def made(self, handle: int) -> None:
        """Note that the new segment was created together with its folder, and is open."""
        self.fresh = handle

    def _cut_filler(self) -> None:
        """Truncate the filler of the old segment. If that fails, recovery skips it."""
        if self.old >= 0 and self._is_filled:
            with suppress(OSError):
                if self._files.size(self.old) > self.end:
                    self._files.truncate(self.old, self.end)
