"""Which segments are rewritten (``compaction.py``), and what the log makes of it afterwards."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from librt.strings import read_i64_le

from jetspark.store.columns import Columns
from jetspark.store.compaction import Before, Compactor, Keeper
from jetspark.store.ledger import Ledger, restate
from jetspark.store.record import CONSUMER, CONSUMER_STATE, FAST_BATCH
from jetspark.store.rewriting import Source, take_over
from jetspark.store.segment import encode_rewritten_head
from jetspark.store.segment_files import Removal, SegmentFile, head_of, segment_files

if TYPE_CHECKING:
    from jetspark.store.segments import Segments

# A run is this long at most, so that no rewriting takes for ever.
RUN_MAX: Final = 8
# This many neighbours with less than a quarter of a segment in each become one.
SMALL_RUN: Final = 4
# How much removed bytes make looking for garbage worth it: this part of a segment.
LOOK_PART: Final = 4


def next_compactor(log: "Segments") -> Compactor | None:
    """The next run of segments to rewrite.

    The newest full segment rests until the next one is full: much of what is in it goes soon.
    """
    if log.index.removed_bytes < log.compact_after:
        return None
    files = segment_files(log)
    run = find_run(files[:-2], int(log.segment_size))
    if not run and log.packing:
        run = [file for file in files[:-1] if not (file.rows[0].packed or file.pinned)][:1]
    if run and log.quarantine.copied(sources_of(run)) and restated(log, run):
        return None
    return compactor(log, files, run) if run else None


def restated(log: "Segments", run: list[SegmentFile]) -> bool:
    """Stage again what the ledger has from a run with damage; False when it has nothing there.

    The record may be the damaged one: then only the index of the segment still had it.
    """
    if not log.ledger.lies_in({file.name for file in run}):
        return False
    if not log.opening:
        restate(log, run[-1].name)
    return True


def find_run(files: list[SegmentFile], segment_size: int) -> list[SegmentFile]:
    """Neighbours that are worth rewriting into one file; empty when there are none."""
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


def compactor(
    log: "Segments", files: list[SegmentFile], run: list[SegmentFile]
) -> Compactor | None:
    """What rewrites a run; None when a head cannot be read, or that behind it does not check.

    That one says what was in force at the end of the run.
    """
    first = files.index(run[0])
    behind = files[first + len(run)]
    try:
        after = head_of(log.files, behind.handle)
        heads = [head_of(log.files, file.handle) for file in run]
    except OSError:
        # Not damage: tried again when there is more to gain.
        log.compact_after = log.index.removed_bytes + log.segment_size // LOOK_PART
        return None
    if after is None:
        return None
    sources = []
    for file, head in zip(run, heads, strict=True):
        source = Source(file.handle, file.name, file.length)
        # A head that does not check was copied aside with all up to the first record.
        source.at = head[1] if head else 0
        source.packing = log.packing
        for columns in file.rows:
            source.note(columns)
        sources.append(source)
    generation = max(int(file.rows[0].generation) for file in run) + 1
    fresh = msgspec.structs.replace(
        after[0],
        first_seq=run[0].name_parts()[0],
        first_position=run[0].name_parts()[1],
        last_time=heads[0][0].last_time if heads[0] else 0,
        first_live=int(log.index.first_seq),
        generation=generation,
        through=behind.name_parts()[1],
        packed=log.packing,
    )
    chore = Compactor(
        log.files,
        log.folder,
        log.codec.seed,
        sources,
        list(rows_before(files[:first])),
        encode_rewritten_head(fresh),
        (run[0].name_parts()[0], behind.name_parts()[0] - 1),
        LedgerKeeper(log.ledger, [file.name for file in run], oldest=first == 0),
    )
    chore.rate = log.upkeep.compaction_rate
    chore.unsynced = lambda: int(log.handle) if log.unsynced else -1
    chore.generation = generation
    chore.packed = log.packing
    chore.damaged = {
        (damage.segment, damage.offset): damage.offset + damage.length
        for damage in log.quarantine.copied(sources_of(run))
    }
    return chore


def sources_of(run: list[SegmentFile]) -> set[tuple[str, int]]:
    """Names and generations of the files of a run."""
    return {(file.name, int(file.rows[0].generation)) for file in run}


def rows_before(files: list[SegmentFile]) -> Iterator[Before]:
    """The rows of files in which something is gone, oldest first."""
    for file in files:
        first = file.name_parts()[0]
        if file.rows[0].forgotten:
            yield Before(None, first, int(file.rows[0].base) - first)
        for columns in file.rows:
            if columns.live < len(columns.offsets):
                yield Before(columns, int(columns.base), len(columns.offsets))


class LedgerKeeper(Keeper):
    """Which records of consumers and fast batches a run has to keep, as of now."""

    def __init__(self, ledger: Ledger, names: list[str], *, oldest: bool) -> None:
        last = names[-1]
        self._oldest = oldest
        self._documents = {n for n, r in ledger.consumers.items() if r.document_in <= last}
        self._states = {n for n, r in ledger.consumers.items() if r.state_in <= last}
        self._batches = {name for name, place in ledger.fast_batches_in.items() if place <= last}

    def keeps(self, kind: int, body: bytes) -> bool:
        """Say whether a record has to stay.

        What says that something is over stays as long as there are segments before it.
        """
        number = int(read_i64_le(body, 8))
        if kind == CONSUMER:
            over = len(body) == 16
            return number in self._documents or (over and not self._oldest)
        if kind == CONSUMER_STATE:
            return number in self._states
        assert kind == FAST_BATCH, "there is no other kind"
        over = len(body) == 16 + number
        return body[16 : 16 + number] in self._batches or (over and not self._oldest)


def compacted(log: "Segments", chore: Compactor) -> None:
    """A run was rewritten: read it from its new file from now on."""
    names = [source.name for source in chore.sources]
    handles = set(chore.handles)
    segments = log.index.segments
    old = [columns for columns in segments if int(columns.handle) in handles]
    first = segments.index(old[0])
    # At a place of its own: what was read from the old files is found there no more.
    fresh = Columns(chore.output, chore.last_seq + 1, log.rewritten_start, names[0])
    log.rewritten_start += chore.written
    rows = take_over(log.index, chore.sources, fresh)
    rows[0].forgotten = any(columns.forgotten for columns in old)
    for columns in rows:
        columns.length = chore.written
        columns.generation = chore.generation
        columns.packed = chore.packed
    chore.output = -1
    log.index.segments = [*segments[:first], *rows, *segments[first + len(old) :]]
    for name in names:
        log.condensed.pop(name, 0)
    log.ledger.moved(names)
    log.unremoved = Removal(
        log.files, log.folder, chore.handles, names[1:], log.identity.stream_id
    )
