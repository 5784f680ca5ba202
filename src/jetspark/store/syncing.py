"""Levels of durability: when what was acknowledged is on disk (reliability.md 2, PubAck).

- ``durable``: before it is acknowledged.
- ``interval``: it is acknowledged when the system has it, and synced once per period.
- ``async``: the same with a long period; streams ask for it (``persist_mode: async``).

At the lower levels a power cut may take what came since the last sync, and nothing else: what
stands in the place of something removed is synced before the removal, a segment is synced before
its successor is begun, a log when it is closed. Sequences that readers saw are not used again
either: before a group is written, a manifest says that they are used up, many at a time.

Not compiled: the work is per period.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jetspark.store.condensed import Chore
from jetspark.store.manifest import raise_floor, renew_manifests
from jetspark.store.record import GROUP_FIRST

if TYPE_CHECKING:
    from jetspark.store.log import StreamLog
    from jetspark.store.segments import Segments

LEVELS: Final = ("durable", "interval", "async")
SECOND: Final = 1_000_000_000
# nats-server's default; how long a stream of level ``async`` may go without a sync.
SYNC_PERIOD_NS: Final = 120 * SECOND
# So many sequences are reserved at a time.
SEQUENCES_AHEAD: Final = 65_536


def set_durability(log: "StreamLog", level: str) -> None:
    """Acknowledge at another level from the next group on."""
    if level not in LEVELS:
        raise ValueError(f"durability {level!r}: expected one of {', '.join(LEVELS)}")
    log.level = level
    log.durable = level == "durable"


def synced(log: "Segments", end: int) -> None:
    """The newest segment is on the disk up to here."""
    log.synced_end = max(end, int(log.synced_end))
    if not log.unsynced and log.in_flight is None and len(log.writer) == 0:
        log.group_flag = int(GROUP_FIRST)


def settle(log: "Segments") -> None:
    """A log is closed: put it and its configuration on the disk, give back unused sequences.

    What fails here is made good by the next start, as after a power cut.
    """
    with suppress(OSError):
        if log.in_flight is None:
            if not log.durable:
                log.files.sync(int(log.handle))
                synced(log, int(log.end))
            if log.manifest_due:
                renew_manifests(log.files, log.folder, log.identity, int(log.sequence_floor))
            if not log.durable and log.sequence_floor > log.index.last_seq:
                floor = int(log.staged_seq)
                raise_floor(log.files, log.folder, log.identity.stream_id, floor)


class Syncing(Chore):
    """Syncs the newest segment, beside the loop."""

    def __init__(self, log: "Segments") -> None:
        super().__init__(log.files, [int(log.handle)])
        self._end = int(log.end)
        self._error: OSError | None = None

    def step(self) -> bool:
        """Sync; raises OSError when the disk refuses."""
        try:
            self.files.sync(self.handles[0])
        except OSError as error:
            self._error = error
            raise
        return True

    def end(self, log: "Segments", failed: bool) -> None:
        """Note what is on disk now. A failed sync is a failed write: the log stops."""
        log.sync_due = False
        if failed:
            log.sync_error = self._error
        elif log.handle == self.handles[0]:
            synced(log, self._end)


class Renewing(Chore):
    """Puts the configuration that a log says, durably, into its manifests, beside the loop.

    What fails here is made good by the next start, because the log says it already.
    """

    def __init__(self, log: "Segments") -> None:
        super().__init__(log.files, [])
        self._folder = log.folder
        self._identity = log.identity
        self._floor = int(log.sequence_floor)

    def step(self) -> bool:
        """Write both copies; raises OSError when the disk refuses."""
        renew_manifests(self.files, self._folder, self._identity, self._floor)
        return True

    def end(self, log: "Segments") -> None:
        """Note that it was done, or tried; there may be another configuration by now."""
        log.manifest_due = log.identity is not self._identity
