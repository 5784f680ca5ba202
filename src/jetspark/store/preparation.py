"""What has to happen on the disk before a group is written, done by whoever writes the group.

A group may need a new segment, a sync of what was acknowledged at a lower level, or sequences that
a manifest says are used up. Each of them waits for the disk, and the thread that stages groups
must not. So what is needed is settled when the group is taken, done right before its write, and
becomes part of the log when the group is reported, whether it was written or not.

Not compiled: few groups need it.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.store.manifest import raise_floor
from jetspark.store.segment import create_segment, encode_head, segment_name

if TYPE_CHECKING:
    from jetspark.store.log import StreamLog
    from jetspark.store.segments import Segments


def preparation_for(log: "StreamLog", *, roll: bool) -> "Preparation | None":
    """What the next group of a log needs; None when it can be written as it is."""
    floor = 0
    if not log.durable:
        if not log.unsynced:
            log.synced_first = log.index.first_seq
        if log.staged_seq > log.sequence_floor:
            floor = int(log.staged_seq) + log.sequences_ahead
    # The level was lower before: what stands on a group must be on disk with it. And a segment
    # that has a successor is durable to its end.
    sync = bool(log.unsynced) and (log.durable or roll)
    if not (sync or floor or roll):
        return None
    return Preparation(log, sync=sync, floor=floor, roll=roll)


class Preparation:
    """The steps before one group: ``do`` in any thread; ``Segments.prepared`` follows."""

    def __init__(self, log: "Segments", *, sync: bool, floor: int, roll: bool) -> None:
        self._files = log.files
        self._folder = log.folder
        self._stream_id = log.identity.stream_id
        self._sync = sync
        self.floor = floor
        # The newest segment until now, and its end.
        self.old = int(log.handle)
        self.end = int(log.end)
        self._is_filled = log.filled_to > log.end
        # The head of the segment that is begun; empty: none is.
        self.head = b""
        self.first_seq = int(log.index.last_seq) + 1
        self.name = ""
        if roll:
            position = int(log.durable_position) + 1
            self.name = segment_name(self.first_seq, position)
            self.head = encode_head(
                log.identity,
                self.first_seq,
                position,
                first_live=int(log.index.first_seq),
                last_time=int(log.index.last_time),
                consumer_number=log.consumer_number,
            )
        # What was done.
        self.fresh = -1
        self.synced = False
        self.reserved = False
        self.sync_error: OSError | None = None

    def do(self) -> int:
        """Do all of it and return the handle to write to; raises OSError when the disk refuses."""
        # A part that was done stays done: a group may be written once more.
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
        if not self.head:
            return self.old
        if self.fresh >= 0:
            return self.fresh
        self._cut_filler()
        self.fresh = create_segment(self._files, self._folder / self.name, self.head)
        return self.fresh

    def _cut_filler(self) -> None:
        """Cut the filler off the old segment. When that fails, recovery passes over it."""
        if self.old >= 0 and self._is_filled:
            with suppress(OSError):
                if self._files.size(self.old) > self.end:
                    self._files.truncate(self.old, self.end)
