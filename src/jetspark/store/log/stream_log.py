"""The log of one stream on disk: staging, group commit, and reading durable messages.

Decisions stage records: they get a sequence and a position immediately and are encoded into the
open group (``staged.py``). ``take_group`` hands the group to a committer; ``commit`` is called
when its synced write has returned, and only then do the index and the readers see it. ``fail``
drops what was staged: the file is truncated to its durable end, and since sequences are never
reused a skip record covers them before anything else is written.

The parts of a log, each of which owns its fields:

- ``index``, ``engine_state``, ``identity``, ``limits``: durable state, from the records;
- ``staged``: decided and not durable yet; replaced as a whole when a write fails;
- ``segments``: the files; ``reader`` reads messages from them;
- ``durability``: what is certainly on disk; ``access``: whether writes are accepted;
- ``upkeep`` and ``quarantine``: the tasks that maintain the files, and the damage.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.errors.storage import CorruptRecord
from jetspark.store.files import Files
from jetspark.store.format.manifest import Identity, Manifest, raise_floor, renew_manifests
from jetspark.store.format.record import (
    BATCH_FIRST,
    BATCH_MEMBER,
    CONFIGURATION,
    CONSUMER,
    DELETE_RANGE,
    FAST_BATCH,
    FIXED,
    MESSAGE,
    PURGE,
    SEGMENT_DROP,
    SKIP,
    Codec,
    body_end,
    headers_in,
    kind_in,
    record_flags,
    record_kind,
    record_length,
    record_lengths,
    record_sequence,
    record_time,
)
from jetspark.store.format.segment import SegmentHead, encode_head, identity_of, segment_name
from jetspark.store.journal.segment import sync_segment
from jetspark.store.log.access import Access
from jetspark.store.log.deletion import delete_range, is_of_newest, purge
from jetspark.store.log.durability import Durability
from jetspark.store.log.engine_state import EngineState
from jetspark.store.log.group import Group
from jetspark.store.log.index import RECYCLED_PER_TURN, StreamIndex
from jetspark.store.log.limits import Limits, limits_of
from jetspark.store.log.preparation import NewSegment, Preparation
from jetspark.store.log.reader import LogReader
from jetspark.store.log.segments import Segments
from jetspark.store.log.staged import Staged
from jetspark.store.log.subject_purge import purge_subjects, rare_entries
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.store.log.timeline import Timeline
from jetspark.store.upkeep.counts import UpkeepRates
from jetspark.store.upkeep.drop import detach
from jetspark.store.upkeep.manifests import last_noting
from jetspark.store.upkeep.next_task import next_task
from jetspark.store.upkeep.quarantine import Quarantine
from jetspark.store.upkeep.reopen import Reopening
from jetspark.store.upkeep.rewriting import apply_drop
from jetspark.store.upkeep.task import Task
from jetspark.store.upkeep.upkeep import Upkeep

__all__ = ["CACHE_BUDGET", "Group", "StreamLog"]

CACHE_BUDGET: Final = 16 * 1024 * 1024
NO_LIMITS: Final = Limits(0, 0, 0)
# More than any group costs.
ALL: Final[i64] = 1 << 62
# What a record costs that is not a message, without what it visits and removes.
RECORD_UNITS: Final[i64] = 4

logger: logging.Logger = logging.getLogger("jetspark.store")


def is_inside_batch(blob: bytes, at: i64) -> bool:
    """Return whether a record is part of an atomic batch, and not its first one."""
    flags = record_flags(blob, at)
    return flags & BATCH_MEMBER != 0 and flags & BATCH_FIRST == 0


class StreamLog:
    """The log of one stream: one writer, any number of reads, one group in flight at a time."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        identity: Identity,
        segment_size: int,
        cache_budget: int,
        rates: UpkeepRates,
        in_memory: bool = False,
        opening: bool = False,
    ) -> None:
        # Durable state, from the records.
        self.identity: Identity = identity
        self.index: StreamIndex = StreamIndex()
        self.engine_state: EngineState = EngineState()
        self.limits: Limits = limits_of(identity)
        self.codec: Codec = Codec(identity.stream_id)
        if in_memory:
            self.codec.count_as_memory()
        self.timeline: Timeline = Timeline()
        self.access: Access = Access()
        self.segments: Segments = Segments(files, folder, self.index, segment_size, in_memory)
        self.durability: Durability = Durability(self.segments, self.index)
        self.reader: LogReader = LogReader(self.segments, self.index, self.codec, cache_budget)
        self.quarantine: Quarantine = Quarantine()
        self.upkeep: Upkeep = Upkeep(
            self.index, self.segments, self.durability, self.access, self.reader, rates
        )
        self.staged: Staged = Staged(
            self.index,
            self.codec,
            self.timeline,
            self.access,
            self.durability,
            self.engine_state,
            identity,
            0,
            0,
        )
        # Sequences (first, last) that recovery did not find.
        self.missing: list[tuple[int, int]] = []
        # During recovery nothing is staged, because nothing would write it.
        self.opening: bool = opening
        # The folder is being changed (``hold``).
        self.held: bool = False
        self.closed: bool = False
        # The first message stored since the log was opened: its sequence and time. A copy that has
        # an older message under that sequence, or a later sequence, can tell that the log went
        # back.
        self.began_seq: i64 = 0
        self.began_time: i64 = 0
        self.applied_per_turn: i64 = ALL

    # Writing -----------------------------------------------------------------------------------

    def take_group(self) -> Group | None:
        """Return what was staged since the last group; None while one is in flight.

        Its preparation on disk is done here and now. May raise OSError: then ``fail`` must be
        called.
        """
        group = self.take_work()
        if group is not None:
            group.assemble()
            group.prepare()
        return group

    def take_work(self) -> Group | None:
        """Do what ``take_group`` does, but leave the preparation to the writer."""
        staged = self.staged
        size = staged.open_size()
        if size == 0 or staged.in_flight is not None or staged.batch_flags != 0:
            return None
        roll = self.segments.must_roll(size)
        before: Preparation | None = None
        if (
            roll
            or not self.durability.durable
            or self.durability.unsynced
            or not self.segments.has_manifests
        ):
            before = self.preparation(roll)
            self.segments.want_roll(roll)
        return self.seal_group(before)

    def preparation(self, roll: bool) -> Preparation | None:
        """Return what the next group needs before its write; None if nothing."""
        durability = self.durability
        floor = durability.floor_for(self.staged.seq)
        # The level was lower before: everything before a group must be on disk with it. So must
        # what a configuration depends on, at any level. And a segment with a successor is durable
        # to its end.
        sync = (durability.unsynced and (durability.durable or self.staged.configures)) or (
            durability.unsynced_segment and roll
        )
        manifests_of = ""
        # The file of a young stream ends with filler, even if a power failure tears this group.
        # And it is durable: a manifest must not contain what a power failure may remove.
        if not self.segments.has_manifests and (
            roll
            or not durability.durable
            or self.segments.end + self.staged.open_size() >= self.segments.filled_to
        ):
            manifests_of = self.index.segments[-1].name
        if not (sync or floor or roll or manifests_of):
            return None
        return Preparation(
            self.segments,
            self.identity,
            sync=sync,
            floor=floor,
            begins=self.next_segment() if roll else None,
            manifests_of=manifests_of,
            segment=durability.segment,
        )

    def next_segment(self) -> NewSegment:
        """Return the segment that follows what is durable."""
        index = self.index
        first_seq = int(index.last_seq) + 1
        position = int(index.position) + 1
        head = encode_head(
            self.identity,
            first_seq,
            position,
            first_live=self.first_live(),
            last_time=int(index.last_time),
            consumer_number=self.staged.last_consumer_id,
        )
        return NewSegment(segment_name(first_seq, position), first_seq, head)

    def first_live(self) -> int:
        """Return the sequence below which nothing is left, for the head of a new segment.

        Messages that cannot be read now count as left: the next start removes what is below.
        """
        first = int(self.index.first_seq)
        unread = self.quarantine.first_unread()
        return min(first, unread) if unread > 0 else first

    def seal_group(self, before: Preparation | None = None) -> Group:
        """Turn the open group into the group in flight, at the end of the newest segment."""
        segments = self.segments
        size = self.staged.open_size()
        handle = segments.handle
        offset = segments.end
        filled_to = segments.filled_to
        if before is not None and before.begins is not None:
            # It is assembled when the group is written.
            handle = -1
            offset = filled_to = len(before.begins.head)
        filler = segments.filler_after(size, offset + size, filled_to)
        durability = self.durability
        group = self.staged.seal(handle, offset, filler, durability.durable, before)
        if not segments.has_manifests and handle >= 0:
            group.keep_filler(filled_to)
        if durability.durable and before is None and group.parts is None:
            group.offer(durability.journaled(self.identity.stream_id))
        elif handle >= 0:
            group.keep_order(durability.segment)
        durability.group_taken()
        return group

    def apply_at_most(self, units: i64) -> None:
        """Set how much of a group is applied per turn."""
        self.applied_per_turn = units

    def takes_turns(self) -> bool:
        """Return whether the group in flight is more than is applied in one turn."""
        group = self.staged.in_flight
        if group is None:
            return False
        records = group.last_position - self.index.position
        return records + group.removal_units > self.applied_per_turn

    def records_in_flight(self) -> i64:
        """Return how many records the group in flight has."""
        group = self.staged.in_flight
        return 0 if group is None else group.last_position - self.index.position

    def is_applying(self) -> bool:
        """Return whether the group in flight is on disk and was not applied yet to its end."""
        group = self.staged.in_flight
        return group is not None and group.landed

    def commit(self) -> i64:
        """Apply the group in flight, which is on disk: readers see it from now on.

        Or what ``apply_some`` left of it. Returns its last position.
        """
        group = self.staged.group_in_flight()
        if self.closed:
            self.staged.landed()
            self.close_group_files(group)
            return self.index.position
        if not group.landed:
            self.begin_applying(group)
        self.apply_records(group, ALL)
        self.staged.landed()
        if self.began_seq == 0 and len(group.entries) > 0:
            self.note_beginning(group.blob)
        self.index.reach(group.last_position)
        if self.index.wants_recycling() and not self.index.want_sweep():
            self.index.recycle(self.staged.entries)
        return group.last_position

    def apply_some(self) -> bool:
        """Apply some of the group in flight, which is on disk; True: ``commit`` does the rest.

        For groups that a slow disk let grow. Readers see what was applied: that is what they would
        see if these records were a group of their own. The group stays in flight, so decisions
        count the rest of it as staged, and no other group is taken.
        """
        group = self.staged.group_in_flight()
        if self.closed:
            return True
        if not group.landed:
            self.begin_applying(group)
        return self.apply_records(group, self.applied_per_turn)

    def begin_applying(self, group: Group) -> None:
        """Note that a group is in its segment; its records are applied next."""
        group.begin_applying()
        if group.before is not None:
            self.prepared(group.before)
        self.reader.cache.add(self.index.segments[-1].start + group.offset, group.blob)
        self.segments.written(group)
        if group.synced:
            self.durability.landed(group.offset, group.shared)

    def gather_some(self) -> bool:
        """Read some of very many staged messages, for removals; True when finished."""
        return self.staged.gather_some()

    def sweep_step(self) -> bool:
        """Forget some subjects without messages, in one turn; True when finished."""
        staged = self.staged
        entries = staged.entries
        if staged.in_flight is not None:
            entries = entries + staged.in_flight.entries
        return self.index.sweep_step(entries, RECYCLED_PER_TURN)

    def fail(self, no_space: bool) -> None:
        """Drop everything staged: the group in flight did not reach the disk.

        ``no_space``: the write may be retried. Any other error leaves the stream read-only until
        it has been reopened and verified, because what the disk holds is unknown.
        """
        group = self.staged.in_flight
        self.staged = self.staged.drop(self.identity)
        if self.closed:
            if group is not None:
                self.close_group_files(group)
            return
        if group is not None and group.before is not None:
            self.prepared(group.before)
        if self.durability.group_failed() or not no_space:
            self.access.fail()
            return
        segment = self.durability.segment
        try:
            if segment is None:
                self.segments.drop_filler(group)
            else:
                with segment:
                    self.segments.drop_filler(group)
        except OSError:
            self.access.fail()
        else:
            self.access.set_full(True)

    def hold(self) -> None:
        """Hand out no group and no task until ``release``: the folder is being changed."""
        self.staged.hold(self.segments.end)
        self.held = True

    def release(self) -> None:
        """Continue after ``hold``."""
        self.staged.release()
        self.held = False

    # Segments ----------------------------------------------------------------------------------

    def roll(self) -> None:
        """Continue in a new segment; if that fails, nothing is written until it succeeds.

        Only while no group is in flight: a segment with a successor is durable to its end, and a
        failed attempt may have created the successor.
        """
        self.segments.want_roll()
        preparation = Preparation(
            self.segments,
            self.identity,
            sync=self.durability.unsynced_segment,
            begins=self.next_segment(),
            segment=self.durability.segment,
        )
        try:
            preparation.do()
        finally:
            self.prepared(preparation)

    def prepared(self, done: Preparation) -> None:
        """Apply what was done before a group, as far as it succeeded."""
        self.durability.prepared(done)
        if done.has_manifests:
            self.segments.manifests_written()
            self.upkeep.note_segments((done.manifests_of,), ((0, 0),))
        if done.fresh >= 0:
            self.segments.begin(done)
            self.durability.all_synced()
            self.upkeep.segment_started()
            self.quarantine.retry()

    # Applying ----------------------------------------------------------------------------------

    def apply_records(self, group: Group, units: i64) -> bool:
        """Apply records of a group in order, for so many units; True if those were all.

        An atomic batch is applied as a whole.
        """
        blob = group.blob
        entries = group.entries
        index = self.index
        codec = self.codec
        offset = group.offset
        limits = self.limits
        at = group.applied
        end: i64 = len(blob)
        n = group.applied_messages
        stop = n + units
        added: i64 = 0
        while at < end:
            if n >= stop and not is_inside_batch(blob, at):
                break
            total = record_length(blob, at)
            lengths = record_lengths(blob, at)
            if kind_in(lengths) == MESSAGE:
                entry = entries[n]
                n += 1
                size = codec.size_of(total, headers_in(lengths))
                added += size
                index.add_message(
                    record_sequence(blob, at), entry, offset + at, record_time(blob, at), size
                )
                if limits.any:
                    if self.staged.deletions.any:
                        self.evict_staged(entry)
                    else:
                        limits.evict(index, entry)
            else:
                stop -= self.apply_removing(blob, at)
                limits = self.limits
            at += total
        self.staged.note_applied(n - group.applied_messages, added)
        self.staged.forget_applied()
        group.apply_to(at, n)
        return at >= end

    def evict_staged(self, entry: SubjectEntry) -> None:
        """Evict what exceeds the limits while removals are staged, perhaps of the same."""
        seq = self.limits.next_evicted(self.index, entry)
        while seq > 0:
            self.remove_unrecorded(seq)
            seq = self.limits.next_evicted(self.index, entry)

    def remove_unrecorded(self, seq: i64) -> None:
        """Remove a message for a reason that no record states: a limit, its age, or damage.

        Decisions have subtracted it already if a staged removal concerns it.
        """
        index, staged = self.index, self.staged
        if staged.deletions.any:
            columns = index.segment_of(seq)
            assert columns is not None, "it exists"
            i: i64 = seq - columns.base
            subject = index.entries[i64(columns.subjects[i])].subject
            staged.note_unrecorded(seq, subject, columns.size_at(i))
        index.remove(seq)

    def enforce_limits(self) -> None:
        """Evict what exceeds the limits of a configuration that was applied."""
        if not self.staged.deletions.any:
            self.limits.enforce(self.index)
            return
        # In the same order.
        self.evict_staged(self.index.blank)
        if self.limits.max_per_subject > 0:
            for entry in self.index.entries:
                self.evict_staged(entry)

    def apply_removing(self, blob: bytes, at: i64) -> i64:
        """Apply a record of a group that is not a message; return what it cost, in units."""
        index = self.index
        visited, messages, size = index.visited, index.messages, index.bytes
        self.apply_other(blob, at)
        kind = record_kind(blob, at)
        is_removal = kind == PURGE
        if is_removal or kind == DELETE_RANGE:
            # Decisions have counted that already.
            self.staged.note_applied(index.messages - messages, index.bytes - size)
        return RECORD_UNITS + max(messages - index.messages, 0) + (index.visited - visited)

    def begin_again(self) -> None:
        """Consider everything stored so far as restored: it is stored as if from now on."""
        self.began_seq = 0

    def note_beginning(self, blob: bytes) -> None:
        """Remember the first message of a group; it is the first since the log was opened."""
        at: i64 = 0
        while record_kind(blob, at) != MESSAGE:
            at += record_length(blob, at)
        self.began_seq = record_sequence(blob, at)
        self.began_time = record_time(blob, at)

    def apply_message(self, data: bytes, at: i64, offset: i64, entry: SubjectEntry) -> None:
        """Apply a message record that is durable at this offset of the newest segment."""
        self.index.add_message(
            record_sequence(data, at),
            entry,
            offset,
            record_time(data, at),
            self.codec.message_size(data, at),
        )
        if self.limits.any:
            self.limits.evict(self.index, entry)

    def apply_other(self, data: bytes, at: i64) -> None:
        """Apply a durable record that is not a message. Unknown kinds never get here."""
        kind = record_kind(data, at)
        body = at + FIXED
        if kind == SKIP:
            self.index.skip_to(read_i64_le(data, body + 8))
            return
        # The as-of sequence: everything assigned before it is used.
        self.index.skip_to(read_i64_le(data, body))
        if kind == DELETE_RANGE:
            delete_range(self.index, read_i64_le(data, body + 8), read_i64_le(data, body + 16))
            if is_of_newest(data, at):
                self.index.note_time(record_time(data, at))
        elif kind == PURGE:
            pattern = data[body + 24 : body_end(data, at)]
            before, keep = read_i64_le(data, body + 8), read_i64_le(data, body + 16)
            rare = rare_entries(self.index, pattern)
            if rare is not None:
                purge_subjects(self.index, rare, int(before), int(keep))
            else:
                purge(self.index, before, keep, pattern)
        elif kind == CONFIGURATION:
            self.apply_configuration(data, at)
        elif kind == SEGMENT_DROP:
            apply_drop(self.index, data[body + 8 : body_end(data, at)])
        elif CONSUMER <= kind <= FAST_BATCH:
            segment = self.index.segments[-1].name
            self.engine_state.apply(int(kind), data[body : body_end(data, at)], segment)

    def apply_configuration(self, data: bytes, at: i64) -> None:
        """Apply a configuration, in force from here on (``Staged.add_configuration``)."""
        body = at + FIXED
        revision: int = read_i64_le(data, body + 8)
        delete_range(self.index, 1, read_i64_le(data, body + 16) - 1)
        limits = Limits(
            read_i64_le(data, body + 24),
            read_i64_le(data, body + 32),
            read_i64_le(data, body + 40),
        )
        if revision > self.identity.revision:
            self.identity = msgspec.structs.replace(
                self.identity,
                config=msgspec.Raw(data[body + 48 : body_end(data, at)]),
                revision=revision,
                max_msgs=int(read_i64_le(data, body + 24)),
                max_bytes=int(read_i64_le(data, body + 32)),
                max_per_subject=int(read_i64_le(data, body + 40)),
            )
            self.upkeep.want_manifest(True)
        self.limits = limits
        self.enforce_limits()
        self.recount_staged()

    def expire_before(self, time_ns: i64) -> i64:
        """Remove messages stored before a time; return how many. Not recorded."""
        index = self.index
        if index.messages == 0 or self.reader.first_time >= time_ns:
            return 0
        before = index.messages
        last = self.reader.search_time(time_ns, False) - 1
        seq = index.next_seq(index.first_seq, b"")
        while 0 < seq <= last:
            self.remove_unrecorded(seq)
            seq = index.next_seq(seq + 1, b"")
        self.recount_staged()
        return before - index.messages

    def recount_staged(self) -> None:
        """Let decisions count again what is left of each subject: no record removed messages."""
        if not self.staged.is_empty:
            self.staged.deletions.note_change(b"")

    # Recovery ----------------------------------------------------------------------------------

    def apply_head(self, head: SegmentHead) -> None:
        """Apply what the head of the newest segment says about everything before it."""
        identity = identity_of(head)
        if identity.revision > self.identity.revision:
            self.identity = identity
            self.upkeep.want_manifest(True)
        self.index.segments[-1].apply_head(head.generation, head.packed)
        self.index.note_time(head.last_time)
        self.engine_state.reserve_consumer_ids(head.consumer_number)
        delete_range(self.index, 1, head.first_live - 1)
        self.limits = limits_of(identity)
        # The limits of a rewritten segment are those at its end. What exists complies with them,
        # and its first records say what does not exist: evicting before those would be wrong.
        if head.generation == 0:
            self.limits.enforce(self.index)

    def suspend_limits(self) -> None:
        """Evict nothing until a record or a head states the limits: they are unknown."""
        self.limits = NO_LIMITS

    def restore_limits(self) -> None:
        """Set the limits of the newest configuration, after the replay."""
        self.limits = limits_of(self.identity)
        self.limits.make_up(self.index)

    def begin_staging(self, seq: i64) -> None:
        """Start staging from what is durable; the sequences up to ``seq`` were assigned."""
        self.index.begin_staging()
        self.staged = Staged(
            self.index,
            self.codec,
            self.timeline,
            self.access,
            self.durability,
            self.engine_state,
            self.identity,
            seq,
            self.index.last_time,
        )

    def opened(self, manifest: Manifest | None) -> None:
        """End recovery: the log is in use from now on."""
        self.opening = False
        self.durability.all_synced()
        if manifest is not None:
            self.durability.adopt_floor(manifest.sequence_floor)
            self.upkeep.note_stored(manifest.last_seq, manifest.end)
            self.upkeep.note_segments(manifest.segments or (), manifest.versions or ())

    def note_missing(self, ranges: list[tuple[int, int]]) -> None:
        """Note sequences that recovery did not find."""
        self.missing = ranges

    def reopen(self) -> bool:
        """Verify a log whose write failed and let it write again; False if it still cannot.

        Here and now; ``take_task`` returns the same after a call of ``Upkeep.want_reopening``.
        """
        if self.upkeep.task is not None or self.held or self.closed or not self.access.failed:
            return False
        task = Reopening(self)
        self.upkeep.begin(task, True)
        failed = True
        try:
            while not task.step():
                pass
            failed = False
        except (OSError, CorruptRecord) as error:
            logger.warning("%s cannot be opened again yet: %s", self.segments.folder, error)
        finally:
            self.end_task(failed)
        return not failed

    # Upkeep ------------------------------------------------------------------------------------

    def wants_upkeep(self, now: i64) -> bool:
        """Return whether there is damage to report, or ``take_task`` may return something."""
        upkeep = self.upkeep
        upkeep.tick(now)
        if self.quarantine.news or self.reader.refused_reads:
            return True
        if self.held or upkeep.task is not None:
            return False
        return upkeep.reopen_due or (not self.access.read_only and upkeep.has_task())

    def take_task(self, now: i64 = 0) -> Task | None:
        """Return an upkeep task whose steps may run in another thread, or None.

        ``end_task`` must follow. There is one at a time, and nothing waits for it.
        """
        upkeep = self.upkeep
        upkeep.tick(now)
        if self.held or upkeep.task is not None:
            return None
        task: Task | None = None
        if not self.access.read_only and upkeep.has_task():
            task = next_task(self)
        elif upkeep.reopen_due and not self.closed:
            task = Reopening(self)
        else:
            return None
        upkeep.want_reopening(False)
        upkeep.begin(task, True)
        return task

    def end_task(self, failed: bool) -> None:
        """End the current task, which is done or has failed."""
        task = self.upkeep.task
        assert task is not None, "no task is running"
        self.upkeep.end()
        task.finish(failed)
        with suppress(OSError):
            task.close()
        if self.closed:
            # The log was closed meanwhile and left the files to the task.
            self.upkeep.close()
            for handle in task.handles:
                if not self.is_in_flight(handle):
                    self.segments.close_handle(handle)

    def maintain(self, now: i64 = 0) -> bool:
        """Do one step of upkeep here and now; True while there is more to do."""
        upkeep = self.upkeep
        upkeep.tick(now)
        if upkeep.is_out or self.access.read_only:
            return False
        if upkeep.task is None and upkeep.has_task():
            upkeep.begin(next_task(self), False)
        task = upkeep.task
        if task is None:
            return False
        failed = False
        try:
            done = task.step()
        except OSError:
            failed = True
            done = True
        if done:
            self.end_task(failed)
        return not failed or task.is_optional

    def drop_segment(self) -> bool:
        """Remove the oldest segment if nothing in it is needed; True if one was removed."""
        upkeep = self.upkeep
        if upkeep.task is not None or not upkeep.is_front_dead():
            return False
        removal = upkeep.take_unremoved()
        if removal is None:
            removal = detach(self)
        upkeep.begin(removal, False)
        return removal is not None and self.maintain()

    @property
    def is_reopening(self) -> bool:
        """Return whether the folder may be about to be renamed back (``reopen.py``)."""
        task = self.upkeep.task
        return self.upkeep.is_out and task is not None and task.renames_folder

    # The end -----------------------------------------------------------------------------------

    def close(self, *, note: bool = True) -> None:
        """Close every segment file; idempotent.

        ``note``: record in a manifest what the log has, so that a start detects what is missing.

        A group in flight keeps its file: its writer could otherwise use a handle that belongs to
        another file by then. ``commit`` or ``fail`` closes it.
        """
        if not self.access.read_only and not self.opening:
            if self.upkeep.manifest_due or not self.durability.durable:
                self.settle()
            if note and not self.segments.in_memory:
                self.note_end()
        self.close_files()
        # Large objects are released now.
        self.reader.close()
        self.segments.close()
        self.access.stop()
        self.closed = True

    def settle(self) -> None:
        """Sync the log and its configuration, and release reserved sequences.

        What fails here is repaired by the next start, as after a power failure.
        """
        if self.staged.in_flight is not None:
            return
        files, folder = self.segments.files, self.segments.folder
        durability = self.durability
        with suppress(OSError):
            if not durability.durable:
                sync_segment(files, int(self.segments.handle), durability.segment)
                durability.synced(self.segments.end, self.staged.is_idle)
            if self.upkeep.manifest_due:
                renew_manifests(files, folder, self.identity, int(durability.sequence_floor))
            if not durability.durable and durability.sequence_floor > self.index.last_seq:
                raise_floor(files, folder, self.identity.stream_id, int(self.staged.seq))

    def note_end(self) -> None:
        """Record in a manifest what the log has. If that fails, a start does not know it."""
        task = last_noting(self)
        if task is not None:
            with suppress(OSError):
                task.step()
                task.finish(False)

    def close_files(self) -> None:
        """Close every file except those that another thread still uses."""
        upkeep = self.upkeep
        kept = {-1}
        left = [int(columns.handle) for columns in self.index.segments]
        task = upkeep.task
        if task is not None and upkeep.is_out:
            kept.update(task.handles)
        elif task is not None:
            upkeep.end()
            with suppress(OSError):
                task.close()
            left += task.handles
        unremoved = upkeep.take_unremoved()
        if unremoved is not None:
            left += unremoved.handles
        upkeep.close()
        for handle in left:
            if handle not in kept and not self.is_in_flight(handle):
                self.segments.close_handle(handle)
                kept.add(handle)
        self.index.close()

    def is_in_flight(self, handle: int) -> bool:
        """Return whether the group in flight needs a file."""
        group = self.staged.in_flight
        return group is not None and group.needs(handle)

    def close_group_files(self, group: Group) -> None:
        """Close the files that were left to a group when the log was closed.

        ``end_task`` closes those that a task still reads.
        """
        task = self.upkeep.task
        needed = task.handles if task is not None else []
        for handle in group.handles():
            if handle not in needed:
                self.segments.close_handle(handle)
