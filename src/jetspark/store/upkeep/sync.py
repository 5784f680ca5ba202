"""The task that syncs what was acknowledged before it was on disk (``durability.py``).

Not compiled: runs once per period.
"""

from typing import TYPE_CHECKING

from jetspark.store.journal.segment import sync_segment
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog


class Syncing(Task):
    """Syncs the newest segment, in the background."""

    def __init__(self, log: "StreamLog") -> None:
        super().__init__(log.segments.files, [int(log.segments.handle)], "syncing it")
        self._log = log
        self._segment = log.durability.segment
        self._end = int(log.segments.end)
        self._error: OSError | None = None

    def step(self) -> bool:
        """Sync; raises OSError if the disk fails."""
        try:
            sync_segment(self.files, self.handles[0], self._segment)
        except OSError as error:
            self._error = error
            raise
        return True

    def finish(self, failed: bool) -> None:
        """Record what is on disk now. A failed sync is a failed write: the log stops."""
        log = self._log
        log.durability.sync_ended()
        if failed:
            log.durability.sync_failed(self._error)
        elif log.segments.handle == self.handles[0]:
            log.durability.synced(self._end, log.staged.is_idle)
