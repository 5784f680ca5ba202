"""Which task of a log is next.

In their order: syncing what was acknowledged before it was on disk (``sync.py``), manifests
that say less than the log (``manifests.py``), copying damaged bytes aside (``quarantine.py``),
removing files of which nothing is left (``drop.py``), rewriting those of which little is left
(``runs.py``), index files (``index_file.py``), and looking for damage (``scrub.py``).

The functions here run in the thread of the log. Not compiled: asked once in many commits.
"""

from typing import TYPE_CHECKING

from jetspark.store.upkeep.drop import detach
from jetspark.store.upkeep.index_writer import IndexWriter
from jetspark.store.upkeep.manifests import Renewing, next_noting
from jetspark.store.upkeep.quarantine import Quarantining, note_unreadable, pin
from jetspark.store.upkeep.runs import next_compactor
from jetspark.store.upkeep.scrub import next_scrub
from jetspark.store.upkeep.sync import Syncing
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog


def next_task(log: "StreamLog") -> Task | None:
    """Find something to do."""
    upkeep, index, durability = log.upkeep, log.index, log.durability
    garbage = upkeep.is_front_dead() or (
        len(index.segments) > 1 and index.removed_bytes >= upkeep.compact_at
    )
    if durability.unsynced and (durability.sync_due or garbage):
        # Nothing is removed before what stands in its place is on disk.
        return Syncing(log)
    durability.sync_ended()
    if upkeep.manifest_due and not durability.unsynced:
        return Renewing(log)
    if log.access.full:
        give_way(log)
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


def give_way(log: "StreamLog") -> None:
    """On a full disk, go on in a new segment when no message of the newest one is left.

    The next group begins it; when there is nothing to write, there must be something.
    """
    newest = log.segments.list_files()[-1]
    held = any(columns.held > 0 for columns in newest.rows)
    if held and newest.live == 0 and log.staged.in_flight is None:
        log.segments.want_roll()
        if len(log.staged.writer) == 0:
            log.staged.restate_configuration()


def next_index_writer(log: "StreamLog") -> IndexWriter | None:
    """The next segment that wants an index file: a full one, or a newest one that grew enough."""
    segments = log.segments
    files = segments.list_files() if not segments.in_memory else []
    for file in files:
        done = log.upkeep.indexed.get(file.name, 0)
        end = file.length
        if file is files[-1]:
            done += int(segments.size) // 2
            end = int(log.durability.synced_end)
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
