"""Selects the segments to rewrite (``compaction.py``)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from jetspark.store.format.segment import encode_rewritten_head
from jetspark.store.log.engine_state import EngineStateFilter
from jetspark.store.log.segment_files import SegmentFile, head_of
from jetspark.store.upkeep.compaction import Before, Compactor
from jetspark.store.upkeep.rewriting import Source

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog

# The maximum length of a run, so that no rewrite takes too long.
RUN_MAX: Final = 8
# This many neighbours that are each less than a quarter of a segment are merged.
SMALL_RUN: Final = 4
# On a full disk a file is rewritten only if so little of it is left that the reserve
# (``reserve.py``) is enough for that, or the free space minus some that deletes need; and if it
# frees more than this.
SPACE_RUN: Final = 256 * 1024
SPACE_LEFT: Final = 512 * 1024
SPACE_GAIN: Final = 256 * 1024


def next_compactor(log: "StreamLog") -> Compactor | None:
    """Return the task for the next run of segments to rewrite.

    The newest full segment waits until the next one is full: much of its content is removed soon.
    """
    if log.index.removed_bytes < log.upkeep.compact_after:
        return None
    files = log.segments.list_files()
    if log.upkeep.space_wanted or log.access.full:
        # A larger run would fail, and take the last space until then.
        run = find_space(log, files[:-1])
    else:
        run = find_run(files[:-2], int(log.segments.size))
    if not run and not log.access.full and not log.upkeep.space_wanted and log.upkeep.packing:
        run = [file for file in files[:-1] if not (file.rows[0].packed or file.pinned)][:1]
    if run and log.quarantine.copied(sources_of(run)) and restated(log, run):
        return None
    return compactor(log, files, run) if run else None


def restated(log: "StreamLog", run: list[SegmentFile]) -> bool:
    """Stage again the engine state from a damaged run; False if there is none.

    The record may be the damaged one: then only the index of the segment still had it.
    """
    if not log.engine_state.lies_in({file.name for file in run}):
        return False
    if not log.opening:
        log.staged.restate(run[-1].name)
    return True


def find_run(files: list[SegmentFile], segment_size: int) -> list[SegmentFile]:
    """Return neighbours that are worth rewriting into one file; empty if there are none."""
    for n, file in enumerate(files):
        run: list[SegmentFile] = []
        size = 0
        for candidate in files[n : n + RUN_MAX]:
            size += candidate.live_bytes
            small = (
                candidate.live_bytes < segment_size // 4 and candidate.length < segment_size // 2
            )
            if candidate.pinned or not (candidate.is_sparse or small) or size > segment_size:
                break
            run.append(candidate)
        if run and (file.is_sparse or len(run) >= SMALL_RUN):
            return run
    return []


def find_space(log: "StreamLog", files: list[SegmentFile]) -> list[SegmentFile]:
    """Return the file whose rewriting frees most space at little cost; empty if there is none."""
    gain = least_gain(log)
    found = [
        file
        for file in files
        if file.is_sparse and not file.pinned and file.length - file.live_bytes >= gain
    ]
    found.sort(key=lambda file: file.length - file.live_bytes, reverse=True)
    return next(([file] for file in found if has_space_for(log, file.live_bytes)), [])


def has_space_for(log: "StreamLog", size: int) -> bool:
    """Return whether a full disk has space to rewrite this much."""
    if size <= SPACE_RUN:
        return True
    try:
        return log.segments.files.free_space(log.segments.folder) - SPACE_LEFT >= size
    except OSError:
        return False


def least_gain(log: "StreamLog") -> int:
    """Return how many bytes a file must free on a full disk to be worth rewriting."""
    return min(SPACE_GAIN, int(log.segments.size) // 4)


def compactor(
    log: "StreamLog", files: list[SegmentFile], run: list[SegmentFile]
) -> Compactor | None:
    """Return the task that rewrites a run; None if a head cannot be read or the next is damaged.

    The next one has the configuration in force at the end of the run.
    """
    first = files.index(run[0])
    following = files[first + len(run)]
    try:
        after = head_of(log.segments.files, following.handle)
        heads = [head_of(log.segments.files, file.handle) for file in run]
    except OSError:
        # Not corruption: retried when there is more to gain.
        log.upkeep.compact_later()
        return None
    if after is None:
        return None
    sources = []
    for file, head in zip(run, heads, strict=True):
        # A damaged head was quarantined with everything up to the first record.
        first_record = head[1] if head else 0
        source = Source(file.handle, file.name, file.length, first_record, log.upkeep.packing)
        for columns in file.rows:
            source.note(columns)
        sources.append(source)
    generation = next_generation(log, run)
    fresh = msgspec.structs.replace(
        after[0],
        first_seq=run[0].name_parts()[0],
        first_position=run[0].name_parts()[1],
        last_time=heads[0][0].last_time if heads[0] else 0,
        first_live=log.first_live(),
        generation=generation,
        through=following.name_parts()[1],
        packed=log.upkeep.packing,
    )
    return Compactor(
        log,
        sources,
        list(rows_before(files[:first])),
        encode_rewritten_head(fresh),
        (run[0].name_parts()[0], following.name_parts()[0] - 1),
        EngineStateFilter(log.engine_state, [file.name for file in run], oldest=first == 0),
        generation,
        {
            (damage.segment, damage.offset): damage.offset + damage.length
            for damage in log.quarantine.copied(sources_of(run))
        },
    )


def sources_of(run: list[SegmentFile]) -> set[tuple[str, int]]:
    """Return names and generations of the files of a run."""
    return {(file.name, int(file.rows[0].generation)) for file in run}


def next_generation(log: "StreamLog", run: list[SegmentFile]) -> int:
    """Return the generation of the file that a run becomes.

    Higher than any that the first file of the run had: if that is an older version of itself
    (``recovery/stream_folder.py``), what was derived from the lost one, or recorded as damaged in
    it, must not be taken for the new one's.
    """
    known = [
        damage.generation
        for damage in log.quarantine.known.values()
        if damage.segment == run[0].name
    ]
    return max([int(file.rows[0].generation) for file in run] + known) + 1


def rows_before(files: list[SegmentFile]) -> Iterator[Before]:
    """Yield the rows of files, oldest first.

    Also those with nothing removed: messages may be evicted from them while the run is rewritten,
    together with messages of other rows, and then both must be named as removed.
    """
    for file in files:
        first = file.name_parts()[0]
        if file.rows[0].forgotten:
            yield Before(None, first, int(file.rows[0].base) - first)
        for columns in file.rows:
            yield Before(columns, int(columns.base), len(columns.offsets))
