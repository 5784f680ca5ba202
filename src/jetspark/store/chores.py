"""Housekeeping of a log: which chore is next, and what a log makes of one that is done.

In their order: copying damaged bytes aside (``quarantine.py``), removing files of which nothing is
left, rewriting those of which little is left (``compaction.py``), condensing (``condensed.py``),
and looking for damage (``scrubber.py``).
One at a time; nothing waits for them. The
functions here run where the log lives; the steps of a chore may be done in another thread.

Not compiled: it is asked once in many commits.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from jetspark.store.compaction import Compactor
from jetspark.store.condensed import Chore, Condenser
from jetspark.store.ledger import restate
from jetspark.store.noting import Noting, next_noting
from jetspark.store.quarantine import (
    Quarantining,
    note_place,
    note_unreadable,
    pin,
    quarantined,
)
from jetspark.store.reopening import Reopening
from jetspark.store.runs import LOOK_PART, compacted, next_compactor
from jetspark.store.scrubber import DAY_NS, Scrub, next_scrub, scrubbed
from jetspark.store.segment_files import Removal, segment_files
from jetspark.store.syncing import Renewing, Syncing
from jetspark.store.upkeep import UpkeepCounts

if TYPE_CHECKING:
    from jetspark.store.segments import Segments


def end_chore(log: "Segments", failed: bool) -> None:
    """The chore that was handed out is done, or has failed."""
    chore = log.chore
    assert chore is not None, "no chore was handed out"
    log.chore = None
    log.chore_is_out = False
    count(log.upkeep_counts, chore, failed)
    if isinstance(chore, Reopening | Syncing | Noting):
        chore.end(log, failed)
    elif isinstance(chore, Renewing):
        chore.end(log)
    elif isinstance(chore, Condenser):
        # What failed is not tried again before there is more of it.
        log.condensed[chore.name] = int(chore.end)
    elif isinstance(chore, Compactor):
        end_compaction(log, chore, failed)
    elif isinstance(chore, Scrub):
        scrubbed(log, chore, failed)
    elif isinstance(chore, Quarantining):
        if failed:
            log.quarantine.refused = True
        elif not log.closed:
            quarantined(log, chore)
    elif failed:
        log.unremoved = chore
    with suppress(OSError):
        chore.close()
    if log.closed:
        # The log was closed meanwhile and left the files to the chore.
        log.unremoved = None
        for handle in chore.handles:
            if not log.is_flying(handle):
                log.close_handle(handle)


def count(counts: UpkeepCounts, chore: Chore, failed: bool) -> None:
    """Count a chore that is done, or has failed."""
    if isinstance(chore, Condenser):
        counts.segments_condensed += not (failed or chore.failed)
    elif isinstance(chore, Compactor):
        failed = failed or chore.failed
        counts.compactions += not failed
        counts.compactions_failed += failed
        counts.compaction_read += int(chore.moved) - chore.written
        counts.compaction_written += chore.written
    elif isinstance(chore, Scrub):
        counts.scrubs += chore.finished
        counts.scrubs_failed += failed
        counts.scrub_read += chore.read_bytes()
        if chore.finished or failed:
            counts.scrub_damage += len(chore.found)
    elif isinstance(chore, Removal) and not failed:
        counts.segments_removed += chore.count


def end_compaction(log: "Segments", chore: Compactor, failed: bool) -> None:
    """Segments were rewritten, or that has failed."""
    if chore.sync_error is not None and not log.closed:
        # A failed sync is a failed write, whoever asked for it.
        log.sync_error = chore.sync_error
    if not failed and not chore.failed and not log.closed:
        compacted(log, chore)
    elif chore.failed:
        # Bytes do not check: the segment is rewritten when they were copied aside.
        log.compact_after = log.index.removed_bytes + 1
        source = chore.sources[chore.number]
        for columns in log.index.segments:
            if columns.handle == source.handle and not log.closed:
                note_place(log, columns, int(source.at), "found while rewriting")
                break
    else:
        # The disk refused: not again before there is more to gain.
        log.compact_after = log.index.removed_bytes + log.segment_size // LOOK_PART


def maintain(log: "Segments") -> bool:
    """Do one step of housekeeping here and now; True while there is more to do."""
    if log.chore_is_out or log.read_only:
        return False
    if log.chore is None and log.has_chore():
        log.chore = next_chore(log)
    chore = log.chore
    if chore is None:
        return False
    failed = False
    try:
        done = chore.step()
    except OSError:
        failed = True
        done = True
    if done:
        end_chore(log, failed)
    return not failed or isinstance(chore, Condenser)


def drop_segment(log: "Segments") -> bool:
    """Remove the oldest segment if nothing in it is left; True when one was removed."""
    if log.chore is not None or not log.is_front_dead():
        return False
    log.chore = log.unremoved if log.unremoved is not None else detach(log)
    log.unremoved = None
    return log.chore is not None and maintain(log)


def close_segments(log: "Segments") -> None:
    """Close every file but those that somebody else still has in hand."""
    kept = {-1}
    chore = log.chore
    if chore is not None and log.chore_is_out:
        kept.update(chore.handles)
    elif chore is not None:
        log.chore = None
        with suppress(OSError):
            chore.close()
        if isinstance(chore, Removal):
            log.unremoved = chore
    left = [int(columns.handle) for columns in log.index.segments]
    if log.unremoved is not None:
        left += log.unremoved.handles
        log.unremoved = None
    for handle in left:
        if handle not in kept and not log.is_flying(handle):
            log.close_handle(handle)
            kept.add(handle)
    log.index.segments = []


def next_chore(log: "Segments") -> Chore | None:
    """Find something to do."""
    garbage = log.is_front_dead() or (
        len(log.index.segments) > 1 and log.index.removed_bytes >= log.compact_at
    )
    if log.unsynced and (log.sync_due or garbage):
        # Nothing is removed before what stands in its place is on disk.
        return Syncing(log)
    log.sync_due = False
    if log.manifest_due and not log.unsynced:
        return Renewing(log)
    if log.full:
        give_way(log)
    chore: Chore | None = log.unremoved
    log.unremoved = None
    if log.unreadable:
        note_unreadable(log)
        pin(log)
    if chore is None and log.quarantine.waiting and not log.quarantine.refused:
        chore = Quarantining(log, int(log.now))
    if chore is None:
        chore = detach(log)
    if chore is None:
        chore = next_compactor(log)
    if chore is None:
        chore = next_condenser(log)
    if chore is None:
        chore = next_noting(log)
    if chore is None:
        chore = next_scrub(log)
    if chore is None:
        log.chores_due = False
        done = log.condensed.get(log.index.segments[-1].name, 0)
        log.condense_at = done + log.segment_size // 2
        log.compact_at = log.index.removed_bytes + log.segment_size // LOOK_PART
        log.scrub_at = min(log.scrubbed.values(), default=int(log.now)) + DAY_NS
    return chore


def give_way(log: "Segments") -> None:
    """On a full disk, go on in a new segment when no message of the newest one is left.

    The next group begins it; when there is nothing to write, there must be something.
    """
    newest = segment_files(log)[-1]
    held = any(columns.held > 0 for columns in newest.rows)
    if held and newest.live == 0 and log.in_flight is None:
        log.roll_due = True
        if len(log.writer) == 0:
            log.stage_current(log.staged_document)


def detach(log: "Segments") -> "Removal | None":
    """Take the oldest segment out of the index if nothing in it is left.

    Oldest first, each removal durable before the next: what a later segment says about an
    earlier one must not go before it (a message that was deleted would be back). Nothing
    needs to be written for messages: a crash before leaves a segment that replays to nothing.
    What it holds of consumers is staged again first, and it goes when that is durable.
    """
    segments = log.index.segments
    count = 0
    while count < len(segments) and segments[count].handle == segments[0].handle:
        if segments[count].live > 0 or segments[count].pinned:
            if count > 0:
                # Rows that nobody needs any more: nothing points at what is oldest.
                segments[count].forgotten = True
                log.index.segments = segments[count:]
            return None
        count += 1
    if count == len(segments):
        return None
    columns = segments[0]
    if log.ledger.holds(columns.name):
        if not log.opening:
            restate(log, columns.name)
        return None
    log.index.segments = segments[count:]
    log.condensed.pop(columns.name, 0)
    return Removal(
        log.files, log.folder, [int(columns.handle)], [columns.name], log.identity.stream_id
    )


def next_condenser(log: "Segments") -> Condenser | None:
    """The next segment to condense: one that is full, or a newest one that grew enough."""
    files = segment_files(log) if not log.in_memory else []
    for file in files:
        done = log.condensed.get(file.name, 0)
        end = file.length
        if file is files[-1]:
            done += int(log.segment_size) // 2
            end = int(log.synced_end)
        if done < end:
            return Condenser(
                log.files,
                log.folder,
                log.codec,
                file.handle,
                file.name,
                end,
                file.rows[0].generation,
            )
    return None
