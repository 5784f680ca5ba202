"""Selects the next task of a log.

In this order: syncing what was acknowledged before it was on disk (``sync.py``), manifests older
than the log (``manifests.py``), quarantining damaged bytes (``quarantine.py``), removing files
with nothing left in them (``drop.py``), rewriting sparse ones (``runs.py``), index files
(``index_writer.py``), and scrubbing (``scrub.py``). While the disk is full, tasks that free space
come first, and no index file is written.

The functions here run in the thread of the log. Not compiled: used once in many commits.
"""

from typing import TYPE_CHECKING

from jetspark.store.upkeep.drop import detach
from jetspark.store.upkeep.index_writer import IndexWriter
from jetspark.store.upkeep.manifests import Renewing, next_noting
from jetspark.store.upkeep.quarantine import Quarantining, note_unreadable, pin
from jetspark.store.upkeep.runs import has_space_for, least_gain, next_compactor
from jetspark.store.upkeep.scrub import next_scrub
from jetspark.store.upkeep.sync import Syncing
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog


def next_task(log: "StreamLog") -> Task | None:
    """Return the next task, if any."""
    upkeep, index, durability = log.upkeep, log.index, log.durability
    garbage = upkeep.is_front_dead() or (
        len(index.segments) > 1 and index.removed_bytes >= upkeep.compact_at
    )
    if durability.unsynced and (durability.sync_due or garbage):
        # Nothing is removed before its replacement is on disk.
        return Syncing(log)
    durability.sync_ended()
    if upkeep.manifest_due and not durability.unsynced:
        return Renewing(log)
    if upkeep.space_wanted or log.access.full:
        roll_if_full(log)
    task = upkeep.take_unremoved()
    if log.reader.unreadable:
        note_unreadable(log)
        pin(log)
    if task is None and log.quarantine.waiting and not log.quarantine.refused:
        task = Quarantining(log, int(upkeep.now))
    for find in (detach, next_compactor, next_index_writer, next_noting, next_scrub):
        if task is None:
            task = find(log)
    if task is None:
        upkeep.found_nothing()
    return task


def roll_if_full(log: "StreamLog") -> None:
    """On a full disk, continue in a new segment if the newest one is mostly dead.

    Only a segment that is no longer written to can be removed or rewritten. The next group starts
    the new one; if there is nothing to write, the configuration is written again.
    """
    newest = log.segments.list_files()[-1]
    end = max(newest.length, int(log.segments.filled_to))
    records = end - int(log.segments.first_offset)
    # A segment that was rewritten because of damaged bytes would not be removed.
    if log.segments.in_memory or newest.pinned or log.staged.in_flight is not None:
        return
    gain = records - newest.live_bytes
    if gain >= least_gain(log) and has_space_for(log, newest.live_bytes):
        log.segments.want_roll()
        if log.staged.open_size() == 0:
            log.staged.restate_configuration()


def next_index_writer(log: "StreamLog") -> IndexWriter | None:
    """Return the task for the next segment to index: a full one, or one that grew enough."""
    segments = log.segments
    # An index file only speeds up a start: on a full disk its space is needed for deletes.
    wanted = not (segments.in_memory or log.upkeep.space_wanted or log.access.full)
    files = segments.list_files() if wanted else []
    for file in files:
        done = log.upkeep.indexed.get(file.name, 0)
        end = file.length
        if file is files[-1]:
            done += int(segments.size) // 2
            end = int(log.durability.certain_end)
        if done < end:
            return IndexWriter(
                segments.files,
                segments.folder,
                log.codec,
                file.handle,
                file.name,
                end,
                log.upkeep,
                file.rows[0].generation,
            )
    return None
