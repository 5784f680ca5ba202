"""Maintenance of a stream's log: syncs, space, and reopening after an error.

A log has no clock. ``Maintenance.due`` is when it is checked next: 0 is never, 1 as soon as
possible, for callers that do not have the time.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.files import NO_SPACE
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.reserve import Reserve

SECOND: Final = 1_000_000_000
SOON: Final = 1
# A disk that failed is retried after this time, and every time after it.
REOPEN_AFTER_NS: Final = 5 * SECOND


class Maintenance:
    """Maintains the log of one stream. ``reserve`` is the space kept free for deletes."""

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self.due: i64 = 0
        # A write failed, and decisions without a client that retries them were not repeated yet.
        self._dropped = False

    def soon(self) -> None:
        """Check the log as soon as possible."""
        self.due = SOON

    def committed(self) -> None:
        """Note that a group was written: it may need a sync later."""
        if self.due == 0 and self._log.durability.unsynced:
            self.due = SOON

    def reopened(self) -> None:
        """Note that the log was verified, and accepts writes again."""
        self.due = SOON if self._dropped else 0

    def failed(self, reserve: Reserve, *, no_space: bool, by_interest: bool = False) -> None:
        """Handle a failed write: determine how the stream continues.

        ``by_interest``: it removes unneeded messages, and has to decide that again.
        """
        access = self._log.access
        if no_space:
            reserve.release()
            # A quota, or a disk that was cleaned meanwhile: nothing to wait for.
            access.set_full(not reserve.has_room(0))
        self._dropped = self._dropped or by_interest
        self.due = SOON if self._dropped or access.full or access.failed else 0

    def find_room(self, reserve: Reserve, error: OSError) -> bool:
        """Return whether a write that found the disk full may be retried, using the reserve.

        Only without messages: the reserve is for deletes, purges and consumers.
        """
        log = self._log
        group = log.staged.in_flight
        if error.errno not in NO_SPACE or log.durability.sync_error is not None:
            return False
        if log.staged.has_messages:
            return False
        if log.access.full and (group is None or not group.filler):
            return False
        self.failed(reserve, no_space=True)
        if not log.access.full:
            return False
        try:
            log.segments.drop_filler(group)
        except OSError:
            return False
        if group is not None:
            group.without_filler()
        return True

    def tend(self, reserve: Reserve, now: int) -> bool:
        """Do or start what is due for the log.

        True if writes may work again after some failed: decisions without a client that retries
        them have to be repeated. Not at once, because the next write may fail as quickly as the
        last.
        """
        log = self._log
        first = self.due == SOON
        if log.access.full:
            full = not reserve.has_room(now)
            log.access.set_full(full)
            # The truncation of what was partly written may have failed as well.
            wait = SECOND if full or log.access.failed else 0
        elif log.access.failed:
            # What was staged before the failure is written to the end that would be truncated.
            idle = log.staged.is_idle
            log.upkeep.want_reopening(idle and not first)
            wait = REOPEN_AFTER_NS
        elif log.durability.unsynced:
            log.durability.want_sync(not first)
            wait = log.durability.sync_period
        else:
            wait = 0
        again = self._dropped and not (log.access.full or log.access.read_only)
        if again and first:
            wait = min(wait or SECOND, SECOND)
        elif again:
            self._dropped = False
        self.due = now + wait if wait else 0
        return again and not first
