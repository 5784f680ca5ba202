"""Removes segment files with nothing left in them.

Not compiled: runs once per segment.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jetspark.store.files import NO_SPACE
from jetspark.store.format.index_file import SUFFIX
from jetspark.store.format.manifest import forget_segments
from jetspark.store.log.segments import Segments
from jetspark.store.upkeep.task import Task
from jetspark.store.upkeep.upkeep import Upkeep

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog


def detach(log: "StreamLog") -> "SegmentRemoval | None":
    """Remove the oldest segment from the index if nothing in it is needed.

    Oldest first, each removal durable before the next: what a later segment says about an earlier
    one must not be removed before it (a deleted message would be back). Nothing needs to be
    written for messages: a crash before that leaves a segment that replays to nothing. Its
    consumer records are staged again first, and it is removed once they are durable.
    """
    if log.quarantine.unrecorded and not (log.access.full or log.upkeep.space_wanted):
        # What is missing shows in the gap after this segment.
        return None
    segments = log.index.segments
    count = 0
    while count < len(segments) and segments[count].handle == segments[0].handle:
        if segments[count].live > 0 or segments[count].pinned:
            if count > 0:
                # Rows that are not needed any more: nothing points at the oldest ones.
                log.index.drop_rows(count)
            return None
        count += 1
    if count == len(segments):
        return None
    columns = segments[0]
    if log.engine_state.holds(columns.name):
        if not log.opening:
            log.staged.restate(columns.name)
        return None
    log.index.drop_file(count)
    log.upkeep.forget_indexed([columns.name])
    return SegmentRemoval(
        log.upkeep,
        log.segments,
        [int(columns.handle)],
        [columns.name],
        log.identity.stream_id,
    )


class SegmentRemoval(Task):
    """Removes segment files, oldest first, and their index files; closes their handles."""

    def __init__(
        self,
        upkeep: Upkeep,
        segments: Segments,
        handles: list[int],
        names: list[str],
        stream_id: int,
    ) -> None:
        super().__init__(segments.files, list(handles), "removing segments")
        self.upkeep = upkeep
        self.stream_id = stream_id
        self.unlisted: bool = False
        self.folder: Path = segments.folder
        self.names: list[str] = names
        self.count: int = len(names)

    def step(self) -> bool:
        """Remove the next file, durably; raises OSError if that is uncertain."""
        if self.names and not self.unlisted:
            # First, or a crash would leave manifests that list removed files.
            try:
                forget_segments(self.files, self.folder, self.stream_id, self.names)
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                # A full disk has no space for a manifest until something is removed: start with
                # index files, which are never missed, whereas a segment that is still listed would
                # be.
                for name in self.names:
                    with suppress(OSError):
                        self.files.remove(self.folder / (name + SUFFIX))
                forget_segments(self.files, self.folder, self.stream_id, self.names)
            self.unlisted = True
        if self.names:
            try:
                self.files.remove(self.folder / self.names[0])
            except FileNotFoundError:
                # An earlier attempt removed it and could not confirm that.
                self.files.sync_folder(self.folder)
            with suppress(OSError):
                self.files.remove(self.folder / (self.names[0] + SUFFIX))
            self.names = self.names[1:]
        if self.names:
            return False
        for handle in self.handles:
            with suppress(OSError):
                self.files.close(handle)
        self.handles.clear()
        return True

    def finish(self, failed: bool) -> None:
        """Count what was removed; the rest is retried."""
        if failed:
            self.upkeep.remove_later(self)
        else:
            self.upkeep.counts.removed(self.count)
