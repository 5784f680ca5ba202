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
        log.full = not store.reserve.has_room(0)
    stream.tend_at = SOON if log.full or log.failed else 0


def find_room(stream: Stream, store: FileStore, error: OSError) -> bool:
    """Say whether what met a full disk may be written once more, with the space of the reserve.

    Only what has no message: deletes, purges and consumers are what the reserve is for.
    """
    log = stream.log
    group = log.in_flight
    if error.errno not in NO_SPACE or log.sync_error is not None:
        return False
    if stream.dropped or log.flying_messages + log.filling_messages > 0:
        return False
    if log.full and (group is None or not group.filler):
        return False
    failed(stream, store, no_space=True)
    if not log.full:
        return False
    if group is not None:
        group.filler = b""
    try:
        log.drop_filler(group)
    except OSError:
        return False
    if group is not None:
        group.cut = group.cut_tried = False
    return True


def tend(stream: Stream, store: FileStore, now: int) -> None:
    """Do for the log of a stream what is due, or set it going."""
    log = stream.log
    first = stream.tend_at == SOON
    if log.full:
        log.full = not store.reserve.has_room(now)
        wait = SECOND if log.full else 0
    elif log.failed:
        # What was staged before it failed is written to the end that would be cut off.
        idle = log.in_flight is None and len(log.writer) == 0
        log.reopen_due = idle and not first
        wait = REOPEN_AFTER_NS
    elif log.unsynced:
        log.sync_due = not first
        wait = log.sync_period
    else:
        wait = 0
    stream.tend_at = now + wait if wait else 0
