"""Compaction: rewrites sparse segments without their deleted messages.

A *run* of one or more full segments becomes one file with the name of the first of them. It is
written to a temporary file, synced, and renamed over the old one: at any time one or the other
exists, and both replay to the same state. Its head has a new generation, so that nothing derived
from the old file (``.idx``) is used with the new one, and the position up to which it goes, so
that the other segments of the run are recognised as litter if a crash left them there.

What is left out, and why a replay has the same result. *Removed* means removed when the run was
chosen; that is permanent.

- Removed messages. Replay decides evictions by the messages it reads, so without these it may keep
  a message that one of them had evicted. If the evicted one is in the run it is removed as well.
  If it is before the run, the new file says so: it starts with records that name everything
  removed from the segments before it (``SEGMENT_DROP``). If it is after the run it was evicted
  when everything of the run had been removed already, or by newer messages of its own subject,
  which are after it. So replay has exactly what exists up to the end of the run, and after it
  evicts as it did; limits evict nothing that exists, as it complied with them when it was more.
- Deletes and purges: they removed messages in the run or before it, all of which are left out or
  named as removed. What they say about sequences is in the last record: a skip to the end of the
  run.
- Configurations: the head has the one in force at the end of the run. Everything that exists
  complied with it then. It evicts nothing on its own: what was removed before it came into
  force is named in the records after it.
- Records of consumers and fast batches that newer ones after the run replace (``keeps``).

Atomic batches lose their flags: all of a full segment was acknowledged. Messages are copied
unchanged, or with their body compressed if the stream is configured so (``compression.py``).
"""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import FIXED, SEGMENT_DROP, SKIP, Codec, record_kind
from jetspark.store.journal.segment import JournaledSegment, sync_segment
from jetspark.store.log.columns import Columns
from jetspark.store.log.engine_state import EngineStateFilter
from jetspark.store.upkeep.drop import SegmentRemoval
from jetspark.store.upkeep.index_writer import STEP_READ, STEP_WRITE
from jetspark.store.upkeep.quarantine import note_place
from jetspark.store.upkeep.rewriting import Source, copy_record, removed_rows, take_over
from jetspark.store.upkeep.task import Task

if TYPE_CHECKING:
    from jetspark.store.log.stream_log import StreamLog

SUFFIX: Final = ".compact.tmp"  # the next start removes *.tmp as litter


class Before:
    """Sequences before a run; ``columns`` is None if all of them were removed."""

    def __init__(self, columns: Columns | None, first: int, count: int) -> None:
        self.columns = columns
        self.first = first
        self.count = count


class Compactor(Task):
    """Rewrites a run, step by step. Its arguments describe the log when the run was chosen."""

    def __init__(
        self,
        log: "StreamLog",
        sources: list[Source],
        before: list[Before],
        head: bytes,
        sequences: tuple[int, int],
        state_filter: EngineStateFilter,
        generation: int,
        damaged: dict[tuple[str, int], int],
    ) -> None:
        handles = [int(source.handle) for source in sources]
        super().__init__(log.segments.files, handles, "rewriting segments")
        self._log = log
        self.rate: i64 = log.upkeep.rates.compaction_rate
        self.path: Path = log.segments.folder / sources[0].name
        # Its own: a codec is used by one thread.
        self.codec: Codec = Codec(log.codec.seed)
        self.sources = sources
        # Newest last, visited newest first, the newest row of each first: messages are evicted in
        # their order, and by newer ones. So if one is named as removed, what was evicted before it
        # is found to be removed later.
        self.before = before
        # The range of the run.
        self.first_seq: int = sequences[0]
        self.last_seq: int = sequences[1]
        self.state_filter = state_filter
        # Quarantined ranges of the sources: where they end.
        self.damaged = damaged
        self.generation = generation
        self.packed: bool = log.upkeep.packing
        self.current_source: int = 0
        self.output: int = -1
        self.written: int = 0
        self.pieces: BytesWriter = BytesWriter()
        self.pieces.write(head)
        # Bytes of a source are invalid, or do not match the index.
        self.failed: bool = False
        self.sync_error: OSError | None = None

    def step(self) -> bool:
        """Do a bounded piece of the work; True when finished, or failed permanently.

        Raises OSError if the disk fails; then nothing of it counts, and nothing of it is kept: on
        a full disk that would take the last space.
        """
        try:
            done = self._advance()
        except OSError:
            self._discard()
            raise
        if self.failed:
            self._discard()
        return done

    def _discard(self) -> None:
        """Remove the partial file."""
        if self.output >= 0:
            with suppress(OSError):
                self.files.remove(self.path.with_name(self.path.name + SUFFIX))

    def _advance(self) -> bool:
        if self.output < 0:
            self._begin()
        elif len(self.pieces) >= STEP_WRITE:
            self._write()
        elif self.before:
            while self.before and not self._name_removed(self.before.pop()):
                pass
        elif self.current_source < len(self.sources):
            self._copy(self.sources[self.current_source])
            return self.failed
        else:
            self._put(SKIP, self.last_seq + 1, self.last_seq, b"")
            self._write()
            self._settle()
            self.files.rename(self.path.with_name(self.path.name + SUFFIX), self.path)
            return True
        return False

    def _settle(self) -> None:
        """Sync the records that removed the messages which are named as removed.

        At the lower levels (``durability.py``) those may be newer than this task, and a power
        failure must not lose the cause and keep the effect.
        """
        if self._log.durability.unsynced:
            try:
                sync_segment(self.files, *self._newest())
            except OSError as error:
                self.sync_error = error
                raise

    def _newest(self) -> tuple[int, JournaledSegment | None]:
        """Return the newest segment; the log may start another one meanwhile."""
        log = self._log
        while True:
            handle, segment = int(log.segments.handle), log.durability.segment
            if handle == log.segments.handle:
                return handle, segment

    def _begin(self) -> None:
        """Create the file, replacing that of an earlier attempt."""
        temporary = self.path.with_name(self.path.name + SUFFIX)
        try:
            self.output = self.files.open(temporary, create=True)
        except FileExistsError:
            self.files.remove(temporary)
            self.output = self.files.open(temporary, create=True)

    def _name_removed(self, before: Before) -> bool:
        """Record what was removed among some rows before the run; False if they are all live."""
        columns = before.columns
        flags = b""
        # Rows are only ever emptied, or dropped when everything is purged.
        if columns is not None and columns.base == before.first:
            if columns.live == len(columns.offsets):
                return False
            flags = removed_rows(columns)
            if not flags:
                return True
            flags = zlib.compress(flags, 1)
        self._put(SEGMENT_DROP, before.first, before.first + before.count - 1, flags)
        return True

    def _put(self, kind: int, first: int, last: int, more: bytes) -> None:
        """Add a record that is not a message."""
        body = BytesWriter()
        if kind == SEGMENT_DROP:
            # The as-of sequence: the record fits nowhere else (``replay.py``).
            write_i64_le(body, self.first_seq - 1)
        write_i64_le(body, first)
        write_i64_le(body, last)
        body.write(more)
        body.write(b"\r\n")
        last_time = self.sources[-1].last_time
        self.codec.encode(self.pieces, 0, last_time, kind, 0, b"", 0, body.getvalue())

    def _copy(self, source: Source) -> None:
        """Copy what is left of the next records of a source; each of them must be valid."""
        started = source.at
        length = min(int(STEP_READ), int(source.length - source.at))
        data = self.files.read(int(source.handle), int(source.at), length)
        if len(data) >= FIXED and self.codec.framed_length(data, 0) > len(data):
            total = int(self.codec.framed_length(data, 0))
            data = self.files.read(int(source.handle), int(source.at), total)
        came = int(source.copy(self.codec, data, 0, self.pieces, self.written))
        while came < len(data):
            total = int(self.codec.examine(data, came))
            if total <= 0:
                break
            body = data[came + int(FIXED) : came + total - 10]
            if self.state_filter.keeps(int(record_kind(data, came)), body):
                copy_record(self.codec, data, came, total, self.pieces)
            came = int(source.copy(self.codec, data, came + total, self.pieces, self.written))
        self.note_moved(came)
        end = int(started) + came
        # Quarantined ranges are skipped: they contain no message that exists.
        source.copied_to(self.damaged.get((source.name, end), end))
        self.failed = source.at == started
        if source.at >= source.length:
            self.failed = len(source.moved) < len(source.offsets)
            self.current_source += not self.failed

    def _write(self) -> None:
        piece = self.pieces.getvalue()
        self.files.write_synced(self.output, [piece], self.written)
        self.written += len(piece)
        self.note_moved(len(piece))
        self.pieces = BytesWriter()

    def finish(self, failed: bool) -> None:
        """Read the run from its new file from now on, or record the failure."""
        log = self._log
        read = int(self.moved) - self.written
        log.upkeep.counts.compacted(read, self.written, failed or self.failed)
        if self.sync_error is not None and not log.closed:
            log.durability.sync_failed(self.sync_error)
        if not failed and not self.failed and not log.closed:
            self._take_over()
        elif self.failed:
            # Invalid bytes: the segment is rewritten after they were quarantined.
            log.upkeep.compact_after_quarantine()
            source = self.sources[self.current_source]
            for columns in log.index.segments:
                if columns.handle == source.handle and not log.closed:
                    note_place(log, columns, int(source.at), "found while rewriting")
                    break
        else:
            log.upkeep.compact_later()

    def _take_over(self) -> None:
        log = self._log
        names = [source.name for source in self.sources]
        handles = set(self.handles)
        segments = log.index.segments
        old = [columns for columns in segments if int(columns.handle) in handles]
        at = segments.index(old[0])
        after = at + len(old)
        # The end of a run without rows. If a damaged segment before it has its rows, too, the rows
        # of the run begin later than its file says, and stay in order.
        base = max(self.last_seq + 1, old[0].base)
        if after < len(segments):
            base = min(base, segments[after].base)
        start = log.segments.place_rewritten(self.written)
        fresh = Columns(self.output, base, start, names[0])
        rows = take_over(log.index, self.sources, fresh)
        if any(columns.forgotten for columns in old):
            rows[0].follow_removed()
        for columns in rows:
            columns.seal(self.written, self.written)
            columns.apply_head(self.generation, self.packed)
        self.output = -1
        log.index.replace_rows(at, len(old), rows)
        log.upkeep.forget_indexed(names)
        log.engine_state.moved(names)
        log.upkeep.remove_later(
            SegmentRemoval(
                log.upkeep, log.segments, self.handles, names[1:], log.identity.stream_id
            )
        )

    def close(self) -> None:
        """Close the file, unless the log uses it now."""
        if self.output >= 0:
            handle, self.output = self.output, -1
            self.files.close(handle)
