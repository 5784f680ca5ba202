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


def prepare(log: "StreamLog") -> None:
    """Do what must be done before a group is taken; raises OSError like any other write."""
    if log.durable:
        # The level was lower before: what stands on a group must be on disk with it.
        sync_now(log)
        return
    if not log.unsynced:
        log.synced_first = log.index.first_seq
    if log.staged_seq > log.sequence_floor:
        reserve_sequences(log, int(log.staged_seq) + log.sequences_ahead)


def sync_now(log: "Segments") -> None:
    """Put everything that was acknowledged on the disk; a log that failed so must stop."""
    try:
        log.files.sync(int(log.handle))
    except OSError as error:
        log.sync_error = error
        raise
    synced(log, int(log.end))


def synced(log: "Segments", end: int) -> None:
    """The newest segment is on the disk up to here."""
    log.synced_end = max(end, int(log.synced_end))
    if log.manifest_due and not log.unsynced:
        renew(log)
    if not log.unsynced and log.in_flight is None and len(log.writer) == 0:
        log.group_flag = int(GROUP_FIRST)


def renew(log: "Segments") -> None:
    """Put the configuration that the log says, durably, into the manifests.

    What fails here is made good by the next start, because the log says it already.
    """
    log.manifest_due = False
    with suppress(OSError):
        renew_manifests(log.files, log.folder, log.identity, int(log.sequence_floor))


def reserve_sequences(log: "Segments", floor: int) -> None:
    """Say durably that no start after this one may give out sequences up to ``floor``."""
    raise_floor(log.files, log.folder, log.identity.stream_id, floor)
    log.sequence_floor = floor


def settle(log: "Segments") -> None:
    """A log is closed: put it on the disk and give back the sequences that were not used.

    What fails here is made good by the next start, as after a power cut.
    """
    with suppress(OSError):
        if log.in_flight is None:
            sync_now(log)
            if log.sequence_floor > log.index.last_seq:
                reserve_sequences(log, int(log.staged_seq))


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
