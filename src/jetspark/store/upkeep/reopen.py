"""Reopens a log whose write failed, while the server runs.

After a failed sync it is unknown what the disk holds of the group: the system may show bytes that
are not on disk. Everything before that group was acknowledged. So the newest segment is opened
again, its cached pages are dropped, every message in it is read and verified, and what was never
acknowledged is truncated. Then the log continues in a new segment: nothing is written through the
old handle, or to the old file, again.

A stream whose removal failed half-way, with a folder that may have the name of a removed one, is
reopened in the same way: its folder is renamed back first, durably.

Not compiled: writes rarely fail.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jetspark.errors.storage import CorruptRecord
from jetspark.store.format.record import FIXED, record_sequence
from jetspark.store.format.segment import refill
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog

# How much one step reads at least.
STEP: Final = 256 * 1024


def dropped_folder(folder: Path) -> Path:
    """Return the name of a stream's folder once no start may open it any more."""
    return folder.with_name(folder.name.replace("stream-", "dropped-"))


class Reopening(Task):
    """Verifies the newest segment of a log and truncates it to what was acknowledged."""

    def __init__(self, log: "StreamLog") -> None:
        super().__init__(log.segments.files, [], "verifying it")
        self.renames_folder = True
        self._log = log
        newest = log.index.segments[-1]
        self._folder = log.segments.folder
        self._path = log.segments.folder / newest.name
        self._codec = log.codec
        self._durable_end = int(log.segments.end)
        self._synced_end = int(log.durability.synced_end)
        # The file of a young stream keeps its length.
        self._refilled_to = 0 if log.segments.has_manifests else int(log.segments.filled_to)
        self._segment = log.durability.segment
        self._fresh = -1
        # Sequence and offset of every message in the file.
        self._messages = [
            (int(columns.base) + i, int(columns.offset_at(i)))
            for columns in log.index.segments
            if columns.name == newest.name
            for i in range(len(columns.offsets))
            if columns.offset_at(i)
        ]
        self._next = 0

    def step(self) -> bool:
        """Verify some messages, or truncate the file; True when finished.

        Raises OSError if the disk still fails, CorruptRecord if it lost data.
        """
        if self._fresh < 0:
            self._restore_name()
            self._fresh = self.files.open(self._path)
            self.files.drop_cached(self._fresh)
            self._write_journaled()
        if self._next < len(self._messages):
            self._verify()
            return False
        if self.files.size(self._fresh) < self._durable_end:
            raise self._lost(self._durable_end, "the file is shorter than what was acknowledged")
        unsynced = self._durable_end - self._synced_end
        if unsynced:
            # Acknowledged at a lower level: only writing it again makes it durable.
            data = self.files.read(self._fresh, self._synced_end, unsynced)
            self.files.write_synced(self._fresh, [data], self._synced_end)
        if self._refilled_to > self._durable_end:
            refill(self.files, self._fresh, self._durable_end, self._refilled_to)
        else:
            self.files.truncate(self._fresh, self._durable_end)
        if self._segment is not None:
            self._segment.journal.forget(self._segment.stream_id)
        return True

    def _write_journaled(self) -> None:
        """Write what the journal has of the segment: a failed sync may have lost it.

        A frame that failed must be invalidated first: it may contain the group that failed, and
        the log is about to write something else.
        """
        segment = self._segment
        if segment is not None:
            segment.journal.settle()
            # A sync failed, perhaps one that was not this log's.
            segment.write_again(self.files, self._fresh)

    def _restore_name(self) -> None:
        dropped = dropped_folder(self._folder)
        if dropped.name in self.files.list_folder(self._folder.parent):
            self.files.rename(dropped, self._folder)
        else:
            # It may have been renamed back, but not durably.
            self.files.sync_folder(self._folder.parent)

    def _verify(self) -> None:
        begin = self._messages[self._next][1]
        data = self.files.read(self._fresh, begin, min(STEP, self._durable_end - begin))
        if len(data) >= FIXED and self._codec.framed_length(data, 0) > len(data):
            data = self.files.read(self._fresh, begin, int(self._codec.framed_length(data, 0)))
        first = self._next
        while self._next < len(self._messages):
            seq, offset = self._messages[self._next]
            at = offset - begin
            good = at < len(data) and self._codec.examine(data, at) > 0
            if not good and self._next > first:
                return  # it may end after what was read
            if not good or record_sequence(data, at) != seq:
                raise self._lost(offset, f"the acknowledged message {seq} is missing")
            self._next += 1

    def _lost(self, offset: int, problem: str) -> CorruptRecord:
        return CorruptRecord(
            str(self._path), offset, f"{problem}; the stream stays read-only: check the disk"
        )

    def finish(self, failed: bool) -> None:
        """Let the log write again, or release everything."""
        log = self._log
        if failed or log.closed:
            self.close()
            return
        log.segments.replace(self._fresh)
        self._fresh = -1
        log.durability.proven()
        log.reader.forget_page()
        log.access.resume()

    def close(self) -> None:
        """Close the file."""
        if self._fresh >= 0:
            handle, self._fresh = self._fresh, -1
            with suppress(OSError):
                self.files.close(handle)
