"""Steps on disk before a group is written, done where the group is written.

A group may need a new segment, a sync of what was acknowledged at a lower level, sequences
reserved in a manifest, or the first manifests of its stream. Each of them waits for the disk, and
the thread that stages groups must not. So the steps are decided when the group is taken, done
right before its write, and become part of the log when the group is reported, whether it was
written or not.

Not compiled: few groups need it.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jetspark.store.format.manifest import Identity, Stored, raise_floor, write_manifests
from jetspark.store.format.segment import create_segment
from jetspark.store.journal.segment import sync_segment

if TYPE_CHECKING:
    from jetspark.store.journal.segment import JournaledSegment
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
        identity: Identity,
        *,
        sync: bool = False,
        floor: int = 0,
        begins: NewSegment | None = None,
        manifests_of: str = "",
        segment: "JournaledSegment | None" = None,
    ) -> None:
        """Plan the steps; ``manifests_of``: the only segment of a stream without manifests.

        ``segment``: the newest segment, if the journal knows it.
        """
        self._segment = segment
        self._files = segments.files
        self._folder = segments.folder
        self._identity = identity
        self.manifests_of = manifests_of
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
        self.has_manifests: bool = False
        # How many bytes of filler follow the head of the new segment.
        self.filled: int = 0
        self.sync_error: OSError | None = None

    def do(self) -> int:
        """Do all of it and return the handle to write to; raises OSError if the disk fails."""
        # Completed steps are not repeated: a group may be written once more.
        if self._sync and not self.synced:
            try:
                sync_segment(self._files, self.old, self._segment)
            except OSError as error:
                self.sync_error = error
                raise
            self.synced = True
        if self.manifests_of and not self.has_manifests:
            stored = Stored(segments=(self.manifests_of,), versions=((0, 0),))
            write_manifests(self._files, self._folder, self._identity, stored)
            self.has_manifests = True
        if self.floor and not self.reserved:
            raise_floor(self._files, self._folder, self._identity.stream_id, self.floor)
            self.reserved = True
        if self.begins is None:
            return self.old
        if self.fresh >= 0:
            return self.fresh
        self._cut_filler()
        path = self._folder / self.begins.name
        self.fresh = create_segment(self._files, path, self.begins.head)
        return self.fresh

    def made(self, handle: int, filled: int) -> None:
        """Note that the new segment was created together with its folder, and is open."""
        self.fresh = handle
        self.filled = filled

    def _cut_filler(self) -> None:
        """Truncate the filler of the old segment. If that fails, recovery skips it."""
        if self.old >= 0 and self._is_filled:
            with suppress(OSError):
                if self._files.size(self.old) > self.end:
                    self._files.truncate(self.old, self.end)
