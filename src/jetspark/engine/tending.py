"""What a stream's log needs as time passes: syncs, space, and to be opened again after an error.

A log has no clock. ``Stream.tend_at`` says when it is looked at next: 0 is never, 1 as soon as
possible, because whoever sets it knows no time.
"""

from typing import Final

from jetspark.engine.stream.stream import Stream
from jetspark.store.files import NO_SPACE
from jetspark.store.store import FileStore

SECOND: Final = 1_000_000_000
SOON: Final = 1
# A disk that failed is asked again after this time, and every time after it.
REOPEN_AFTER_NS: Final = 5 * SECOND


def failed(stream: Stream, store: FileStore, *, no_space: bool) -> None:
    """A write failed: what becomes of the stream from now on."""
    log = stream.log
    if no_space:
        store.reserve.release()
        # A quota, or a disk that somebody cleaned meanwhile: nothing to wait for.
        log.access.set_full(not store.reserve.has_room(0))
    stream.tend_at = SOON if log.access.full or log.access.failed else 0


def find_room(stream: Stream, store: FileStore, error: OSError) -> bool:
    """Say whether what met a full disk may be written once more, with the space of the reserve.

    Only what has no message: deletes, purges and consumers are what the reserve is for.
    """
    log = stream.log
    group = log.staged.in_flight
    if error.errno not in NO_SPACE or log.durability.sync_error is not None:
        return False
    if stream.dropped or log.staged.flying_messages + log.staged.filling_messages > 0:
        return False
    if log.access.full and (group is None or not group.filler):
        return False
    failed(stream, store, no_space=True)
    if not log.access.full:
        return False
    try:
        log.segments.drop_filler(group)
    except OSError:
        return False
    if group is not None:
        group.without_filler()
    return True


def tend(stream: Stream, store: FileStore, now: int) -> None:
    """Do for the log of a stream what is due, or set it going."""
    log = stream.log
    first = stream.tend_at == SOON
    if log.access.full:
        full = not store.reserve.has_room(now)
        log.access.set_full(full)
        wait = SECOND if full else 0
    elif log.access.failed:
        # What was staged before it failed is written to the end that would be cut off.
        idle = log.staged.in_flight is None and len(log.staged.writer) == 0
        log.upkeep.want_reopening(idle and not first)
        wait = REOPEN_AFTER_NS
    elif log.durability.unsynced:
        log.durability.want_sync(not first)
        wait = log.durability.sync_period
    else:
        wait = 0
    stream.tend_at = now + wait if wait else 0
