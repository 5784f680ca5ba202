"""One stream on disk: staging, group commit, and reading what is durable (contracts.md 1).

Decisions stage records: they get a sequence and a position at once and are encoded into the
group that fills (``staging.py``). ``take_group`` hands the group to a committer; ``commit`` is
called when its synced write returned, and only then do the index and the readers learn of it.
``fail`` forgets what was staged: the file is cut back to its durable end, and since numbers are
never used again a skip record covers them before anything else is written.
"""

from pathlib import Path
from typing import Final

from librt.strings import BytesWriter, read_i64_le
from mypy_extensions import i64

from jetspark.store import failure
from jetspark.store.cache import BlobCache
from jetspark.store.configuration import adopt_limits, apply_configuration
from jetspark.store.files import Files
from jetspark.store.manifest import Identity
from jetspark.store.noting import note_end
from jetspark.store.preparation import Preparation, preparation_for
from jetspark.store.record import (
    CONFIGURATION,
    CONSUMER,
    DELETE_RANGE,
    FAST_BATCH,
    FIXED,
    GROUP_FIRST,
    MESSAGE,
    PURGE,
    SEGMENT_DROP,
    SKIP,
    body_end,
    headers_in,
    kind_in,
    record_kind,
    record_length,
    record_lengths,
    record_sequence,
    record_time,
)
from jetspark.store.removal import delete_range, is_of_newest, purge
from jetspark.store.rewriting import apply_drop
from jetspark.store.segments import Segments
from jetspark.store.staging import Group
from jetspark.store.subject_purge import purge_subjects, rare_entries
from jetspark.store.subject_table import SubjectEntry
from jetspark.store.syncing import set_durability, settle

__all__ = ["CACHE_BUDGET", "Group", "StreamLog"]

CACHE_BUDGET: Final = 16 * 1024 * 1024


class StreamLog(Segments):
    """The log of one stream: one writer, any number of reads, one group on its way at a time."""

    def __init__(
        self, files: Files, folder: Path, identity: Identity, segment_size: int, cache_budget: int
    ) -> None:
        super().__init__(files, folder, identity, segment_size, cache_budget)
        # Sequences (first, last) that recovery looked for in vain.
        self.missing: list[tuple[int, int]] = []
        self.level: str = "durable"
        adopt_limits(self, identity)

    @property
    def durability(self) -> str:
        """What an acknowledgement means: ``durable``, ``interval`` or ``async``."""
        return self.level

    @durability.setter
    def durability(self, level: str) -> None:
        set_durability(self, level)

    # Writing -----------------------------------------------------------------------------------

    def take_group(self) -> Group | None:
        """Hand out what was staged since the last group; None while one is on its way.

        What has to be done on the disk before it is done here and now. May raise OSError: then
        ``fail`` follows.
        """
        group = self.take_work()
        if group is not None:
            group.prepare()
        return group

    def take_work(self) -> Group | None:
        """As ``take_group``, but what has to be done before it is left to whoever writes it."""
        size: i64 = len(self.writer)
        if size == 0 or self.in_flight is not None or self.batch_flags != 0:
            return None
        roll = self.roll_due or (
            self.end + size > self.segment_size and self.end > self.first_offset
        )
        before: Preparation | None = None
        if roll or not self.durable or self.unsynced:
            before = preparation_for(self, roll=roll)
            self.roll_due = roll
        return self.seal_group(before)

    def seal_group(self, before: Preparation | None = None) -> Group:
        """Make what is staged the group on its way, at the end of the newest segment."""
        blob = self.writer.getvalue()
        handle = self.handle
        offset = self.end
        filled_to = self.filled_to
        if before is not None and len(before.head) > 0:
            # It is made when the group is written.
            handle = -1
            offset = filled_to = len(before.head)
        group = Group(
            handle,
            offset,
            blob,
            self.entries,
            self.staged_position,
            self.filler_behind(len(blob), offset + len(blob), filled_to),
            self.durable,
            before,
        )
        if not self.durable:
            self.group_flag = 0
        self.writer = BytesWriter()
        self.entries = []
        self.flying_messages = self.filling_messages
        self.flying_bytes = self.filling_bytes
        self.filling_messages = 0
        self.filling_bytes = 0
        self.in_flight = group
        return group

    def commit(self) -> i64:
        """The group on its way is on disk: readers see it from now on.

        Returns its last position.
        """
        group = self.in_flight
        assert group is not None, "commit without a group on its way"
        self.in_flight = None
        if self.closed:
            self.let_go(group)
            return self.durable_position
        if group.before is not None:
            self.prepared(group.before)
        self.apply_group(group)
        self.cache.add(self.index.segments[-1].start + group.offset, group.blob)
        self.end = group.offset + len(group.blob)
        if group.synced:
            self.synced_end = self.end
            self.group_flag = GROUP_FIRST
        self.filled_to = max(self.filled_to, self.end + len(group.filler))
        self.durable_position = group.last_position
        self.flying_messages = 0
        self.flying_bytes = 0
        if self.doomed.any:
            self.doomed.settle(self.durable_position)
        if self.index.wants_recycling():
            self.index.recycle(self.entries)
        return self.durable_position

    def apply_group(self, group: Group) -> None:
        """Apply the records of a group, in their order."""
        blob = group.blob
        entries = group.entries
        index = self.index
        offset = group.offset
        limits = self.limits
        at: i64 = 0
        end: i64 = len(blob)
        n: i64 = 0
        while at < end:
            total = record_length(blob, at)
            lengths = record_lengths(blob, at)
            if kind_in(lengths) == MESSAGE:
                entry = entries[n]
                n += 1
                index.add_message(
                    record_sequence(blob, at),
                    entry,
                    offset + at,
                    record_time(blob, at),
                    self.codec.size_of(total, headers_in(lengths)),
                )
                if limits.any:
                    limits.evict(index, entry)
            else:
                self.apply_other(blob, at)
                limits = self.limits
            at += total

    def hold(self) -> None:
        """Take no group and no chore until ``release``: somebody changes the folder."""
        assert self.in_flight is None, "a group needs the folder"
        self.in_flight = Group(-1, self.end, b"", [], self.durable_position)
        self.held = True

    def release(self) -> None:
        """Go on after ``hold``."""
        self.in_flight = None
        self.held = False

    def fail(self, no_space: bool) -> None:
        """The group on its way did not reach the disk: forget all that was staged.

        ``no_space``: writing may be tried again. Any other error leaves the stream read-only
        until it was reopened and verified, because nobody knows what the disk holds now.
        """
        failure.fail(self, no_space)

    def reopen(self) -> bool:
        """Verify a log whose write failed and let it write again; False when it still cannot.

        Here and now; ``take_chore`` hands the same out when ``reopen_due`` is set.
        """
        return failure.reopen(self)

    # Applying ----------------------------------------------------------------------------------

    def apply_message(self, data: bytes, at: i64, offset: i64, entry: SubjectEntry) -> None:
        """A message record is durable at this offset of the newest segment."""
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
        """A record that is not a message is durable. Unknown kinds never get here."""
        kind = record_kind(data, at)
        body = at + FIXED
        if kind == SKIP:
            self.index.skip_to(read_i64_le(data, body + 8))
            return
        # As of which sequence: whatever was given out before is used up.
        self.index.skip_to(read_i64_le(data, body))
        if kind == DELETE_RANGE:
            delete_range(self.index, read_i64_le(data, body + 8), read_i64_le(data, body + 16))
            if is_of_newest(data, at):
                self.index.last_time = max(self.index.last_time, record_time(data, at))
        elif kind == PURGE:
            pattern = data[body + 24 : body_end(data, at)]
            before, keep = read_i64_le(data, body + 8), read_i64_le(data, body + 16)
            rare = rare_entries(self.index, pattern)
            if rare is not None:
                purge_subjects(self.index, rare, int(before), int(keep))
            else:
                purge(self.index, before, keep, pattern)
        elif kind == CONFIGURATION:
            apply_configuration(self, data, at)
        elif kind == SEGMENT_DROP:
            apply_drop(self.index, data[body + 8 : body_end(data, at)])
        elif CONSUMER <= kind <= FAST_BATCH:
            segment = self.index.segments[-1].name
            self.ledger.apply(int(kind), data[body : body_end(data, at)], segment)

    def expire_before(self, time_ns: i64) -> i64:
        """Take out what was stored before a time; how many that were. Leaves no record."""
        index = self.index
        if index.messages == 0 or index.first_time >= time_ns:
            return 0
        before = index.messages
        delete_range(index, index.first_seq, self.search_time(time_ns, False) - 1)
        return before - index.messages

    # The end -----------------------------------------------------------------------------------

    def close(self, *, note: bool = True) -> None:
        """Close every segment file; twice is as good as once.

        ``note``: say in a manifest what there is, so that a start notices when it is not there.

        A group on its way keeps its file: its writer would otherwise meet a handle that belongs
        to somebody else by then. ``commit`` or ``fail`` closes it.
        """
        if not self.read_only and not self.opening:
            if self.manifest_due or not self.durable:
                settle(self)
            if note and not self.in_memory:
                note_end(self)
        self.close_segments()
        # What is large goes now, and what refers back to it: garbage in a cycle would stay until
        # a pass over all objects.
        self.index.times = None
        self.cache = BlobCache(0)
        self.page = b""
        self.handle = -1
        self.read_only = True
        self.closed = True
