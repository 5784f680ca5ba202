"""What a stream's log needs as time passes: syncs, space, and to be opened again after an error.

A log has no clock. ``Tending.due`` says when it is looked at next: 0 is never, 1 as soon as
possible, for callers that know no time.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.store.files import NO_SPACE
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.reserve import Reserve

SECOND: Final = 1_000_000_000
SOON: Final = 1
# A disk that failed is asked again after this time, and every time after it.
REOPEN_AFTER_NS: Final = 5 * SECOND


class Tending:
    """Looks after the log of one stream. ``reserve`` is the space kept free for deletes."""

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self.due: i64 = 0
        # A write failed, and what nobody asks for a second time was not decided again yet.
        self._dropped = False

    def soon(self) -> None:
        """Look after the log as soon as possible."""
        self.due = SOON

    def committed(self) -> None:
        """A group was written: it may want a sync later."""
        if self.due == 0 and self._log.durability.unsynced:
            self.due = SOON

    def reopened(self) -> None:
        """The log was verified, and takes writes again."""
        self.due = SOON if self._dropped else 0

    def failed(self, reserve: Reserve, *, no_space: bool, by_interest: bool = False) -> None:
        """A write failed: what becomes of the stream from now on.

        ``by_interest``: it removes what nobody needs, and has to decide that again.
        """
        access = self._log.access
        if no_space:
            reserve.release()
            # A quota, or a disk that somebody cleaned meanwhile: nothing to wait for.
            access.set_full(not reserve.has_room(0))
        self._dropped = self._dropped or by_interest
        self.due = SOON if self._dropped or access.full or access.failed else 0

    def find_room(self, reserve: Reserve, error: OSError) -> bool:
        """Say whether what met a full disk may be written once more, with the reserve's space.

        Only what has no message: deletes, purges and consumers are what the reserve is for.
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
        """Do for the log what is due, or set it going.

        True when writes may work again after some failed: what nobody asks for a second time has
        to be decided again. Not at once, for the next write may fail as quickly as the last.
        """
        log = self._log
        first = self.due == SOON
        if log.access.full:
            full = not reserve.has_room(now)
            log.access.set_full(full)
            wait = SECOND if full else 0
        elif log.access.failed:
            # What was staged before it failed is written to the end that would be cut off.
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
