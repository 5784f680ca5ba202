"""A group did not reach the disk: what was staged is forgotten, and what may be tried again.

Not compiled: writes do not fail often.
"""

import logging
from typing import TYPE_CHECKING

from librt.strings import BytesWriter

from jetspark.errors.storage import CorruptRecord
from jetspark.store.limits import Limits
from jetspark.store.record import GROUP_FIRST
from jetspark.store.removal import Doomed
from jetspark.store.reopening import Reopening

if TYPE_CHECKING:
    from jetspark.store.log import StreamLog

logger = logging.getLogger("jetspark.store")


def fail(log: "StreamLog", no_space: bool) -> None:
    """The group on its way did not reach the disk: forget all that was staged.

    ``no_space``: writing may be tried again. Any other error leaves the stream read-only
    until it was reopened and verified, because nobody knows what the disk holds now.
    """
    group = log.in_flight
    forget_staged(log)
    if log.closed:
        if group is not None:
            log.let_go(group)
        return
    if group is not None and group.before is not None:
        log.prepared(group.before)
    log.skip_needed = log.staged_seq > log.index.last_seq
    if not log.unsynced:
        # The failed group took the mark of a first one with it. Without the mark a start takes
        # what is on the disk for the last group, too, and writes it again: a power cut in that
        # write tears what was acknowledged.
        log.group_flag = GROUP_FIRST
    # A failed sync is for all that was written since the last one, whatever the reason is: no
    # later one brings it to the disk.
    lost_sync = log.sync_error is not None
    log.sync_error = None
    if not no_space or lost_sync:
        log.read_only = True
        log.failed = True
        return
    try:
        log.drop_filler(group)
    except OSError:
        log.read_only = True
        log.failed = True
    else:
        log.full = True


def reopen(log: "StreamLog") -> bool:
    """Verify a log whose write failed and let it write again; False when it still cannot."""
    log.reopen_due = log.failed and not log.closed
    chore = log.take_chore()
    if not isinstance(chore, Reopening):
        return False
    failed = True
    try:
        while not chore.step():
            pass
        failed = False
    except (OSError, CorruptRecord) as error:
        logger.warning("%s cannot be opened again yet: %s", log.folder, error)
    finally:
        log.end_chore(failed)
    return not failed


def forget_staged(log: "StreamLog") -> None:
    """Nothing of what was staged will be durable."""
    groups = [log.entries]
    if log.in_flight is not None:
        groups.append(log.in_flight.entries)
    if log.doomed.any:
        groups.append(log.index.entries)
    for entries in groups:
        for entry in entries:
            entry.staged_last = entry.last
    log.index.forget_staged()
    log.writer = BytesWriter()
    log.entries = []
    log.in_flight = None
    log.filling_messages = 0
    log.filling_bytes = 0
    log.flying_messages = 0
    log.flying_bytes = 0
    log.doomed = Doomed()
    log.batch = None
    log.batch_flags = 0
    number = log.consumer_number
    log.staged_ledger = log.ledger.copy()
    log.staged_ledger.consumer_number = number
    log.restated_position = 0
    log.staged_position = log.durable_position
    log.staged_document = bytes(log.identity.config)
    log.staged_revision = log.identity.revision
    log.staged_limits = Limits(
        log.identity.max_msgs, log.identity.max_bytes, log.identity.max_per_subject
    )
    # Limits that were staged are forgotten too; those in force stay and are still to be said.
    log.wanted_limits = log.limits
    log.limits_due = not log.limits.equals(log.staged_limits)
