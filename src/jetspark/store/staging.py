"""Staging: decisions become records of the group that fills (contracts.md 1).

What is staged has a sequence and a position at once and shows to nobody who reads. Decisions see
it: ``staged_seq``, ``staged_messages``, ``staged_bytes``, ``SubjectEntry.staged_last``. Staged
state is an overlay over durable state, so dropping it is forgetting it.
"""

from pathlib import Path

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from jetspark.errors.storage import StoreReadOnly
from jetspark.store import batches, configuration
from jetspark.store.batches import Batch
from jetspark.store.files import Files
from jetspark.store.ledger import (
    ConsumerRecords,
    Ledger,
    consumer_body,
    consumer_state_body,
    fast_batch_body,
)
from jetspark.store.limits import Limits
from jetspark.store.manifest import Identity
from jetspark.store.preparation import Preparation
from jetspark.store.reader import LogReader
from jetspark.store.record import (
    BATCH_MEMBER,
    CONSUMER,
    CONSUMER_STATE,
    FAST_BATCH,
    GROUP_FIRST,
    MESSAGE,
    SKIP,
)
from jetspark.store.removal import Doomed
from jetspark.store.subject_table import SubjectEntry
from jetspark.store.timeline import Timeline


class Group:
    """The records of one synced write, on their way to the disk."""

    def __init__(
        self,
        handle: i64,
        offset: i64,
        blob: bytes,
        entries: list[SubjectEntry],
        last_position: i64,
        filler: bytes = b"",
        synced: bool = True,
        before: Preparation | None = None,
    ) -> None:
        # What has to be done first, by whoever writes the group; it may give it its handle.
        self.before: Preparation | None = before
        # Whether what a full disk took of it was cut off, or that was tried at least.
        self.cut: bool = False
        self.cut_tried: bool = False
        self.handle: i64 = handle
        self.offset: i64 = offset
        self.blob: bytes = blob
        # Written behind the blob, in the same write (segment.py).
        self.filler: bytes = filler
        # Whether it is on the disk when its write returns (``syncing.py``).
        self.synced: bool = synced
        self.entries: list[SubjectEntry] = entries
        self.last_position: i64 = last_position

    def prepare(self) -> None:
        """Do what has to be done before it is written; raises OSError."""
        if self.before is not None:
            self.handle = self.before.do()

    def cut_off(self, files: Files) -> None:
        """Cut off what a full disk took of it: a later start must not take that for a record."""
        self.cut_tried = True
        if self.handle >= 0:
            try:
                files.truncate(int(self.handle), int(self.offset))
            except OSError:
                return
        self.cut = True


class Staging(LogReader):
    """The part of a log that decisions talk to."""

    def __init__(self, files: Files, folder: Path, identity: Identity, cache_budget: int) -> None:
        super().__init__(files, folder, identity.stream_id, cache_budget)
        self.identity: Identity = identity
        self.staged_seq: i64 = 0
        self.staged_position: i64 = 0
        self.durable_position: i64 = 0
        self.staged_time: i64 = 0
        self.timeline: Timeline = Timeline()
        self.writer: BytesWriter = BytesWriter()
        self.entries: list[SubjectEntry] = []
        self.in_flight: Group | None = None
        # What the group that fills, and the one on its way, add to the counts.
        self.filling_messages: i64 = 0
        self.filling_bytes: i64 = 0
        self.flying_messages: i64 = 0
        self.flying_bytes: i64 = 0
        self.doomed: Doomed = Doomed()
        # Consumers and fast batches: durable, and decided.
        self.ledger: Ledger = Ledger()
        self.staged_ledger: Ledger = Ledger()
        # Where the last record stands that says again what an old segment holds.
        self.restated_position: i64 = 0
        # The atomic batch that is being staged, and the flags of its next record.
        self.batch: Batch | None = None
        self.batch_flags: i64 = 0
        # GROUP_FIRST when all before the next group will be on disk as it is written, else 0.
        self.group_flag: i64 = GROUP_FIRST
        # Whether groups are on disk when they are acknowledged, and up to where they are.
        self.durable: bool = True
        self.sync_period: int = 0
        self.synced_end: i64 = 0
        # The first sequence that was there at the last sync.
        self.synced_first: i64 = 0
        # No sequence up to this one is given out by another start.
        self.sequence_floor: i64 = 0
        self.sequences_ahead: int = 0
        # A write met a full disk: messages wait until there is space.
        self.full: bool = False
        # In force; in the newest record that says so, durable or staged; and asked for.
        self.limits: Limits = Limits(0, 0, 0)
        self.staged_limits: Limits = self.limits
        self.wanted_limits: Limits = self.limits
        self.staged_document: bytes = bytes(identity.config)
        self.staged_revision: i64 = identity.revision
        # Records that must stand before the next one.
        self.skip_needed: bool = False
        self.limits_due: bool = False
        self.read_only: bool = False
        # It is so because of a failed write: it can be opened again (``reopening.py``).
        self.failed: bool = False

    @property
    def unsynced(self) -> bool:
        """Say whether something was acknowledged that is not on disk yet."""
        return self.synced_end < self.end

    @property
    def staged_messages(self) -> i64:
        """How many messages there are with those on their way; evictions do not count yet."""
        return self.index.messages + self.flying_messages + self.filling_messages

    @property
    def staged_bytes(self) -> i64:
        """What those messages count."""
        return self.index.bytes + self.flying_bytes + self.filling_bytes

    # Messages ----------------------------------------------------------------------------------

    def stage_message(self, subject: bytes, headers_length: i64, tail: bytes, now: i64) -> i64:
        """Decide that a message is in the stream; returns its sequence. Not durable yet.

        ``tail`` is headers, body and CRLF as they arrived, ``now`` is engine time. No two messages
        of a stream have the same time. Raises StoreReadOnly after a failed write, and ValueError,
        with nothing staged, for what a record cannot hold.
        """
        if self.read_only or self.skip_needed or self.limits_due:
            self.stage_prelude()
        time = max(self.staged_time + 1, now + self.timeline.lead)
        seq = self.staged_seq + 1
        flags = self.batch_flags
        if len(self.writer) == 0:
            flags |= self.group_flag
        total = self.codec.encode(
            self.writer, seq, time, MESSAGE, flags, subject, headers_length, tail
        )
        entry = self.index.entry(subject)
        if flags & BATCH_MEMBER:
            self.join_batch(total)
            self.restage(entry, seq)
        else:
            entry.staged_last = seq
        self.entries.append(entry)
        self.staged_time = time
        self.staged_seq = seq
        self.staged_position += 1
        self.filling_messages += 1
        self.filling_bytes += self.codec.size_of(total, headers_length)
        return seq

    def stage_prelude(self) -> None:
        """Stage what has to stand before the next record."""
        if self.read_only:
            raise StoreReadOnly("the stream takes no writes until it was opened again")
        if self.skip_needed:
            self.stage_skip(b"")
        if self.limits_due:
            self.stage_current(self.staged_document)

    def stage_skip(self, more: bytes) -> None:
        """Say in the log that the sequences after the durable ones are not used again.

        Only when nothing else is staged. ``more`` is what recovery adds (``recovery.py``).
        """
        self.skip_needed = False
        body = BytesWriter()
        write_i64_le(body, self.index.last_seq + 1)
        write_i64_le(body, self.staged_seq)
        body.write(more)
        body.write(b"\r\n")
        self.stage_record(SKIP, body.getvalue())

    def stage_record(self, kind: i64, body: bytes) -> None:
        """Put a record that is not a message into the group; ``body`` has its CRLF."""
        flags = self.batch_flags
        if len(self.writer) == 0:
            flags |= self.group_flag
        total = self.codec.encode(self.writer, 0, self.staged_time, kind, flags, b"", 0, body)
        if flags & BATCH_MEMBER:
            self.join_batch(total)
        self.staged_position += 1

    # Batches -----------------------------------------------------------------------------------

    def begin_batch(self) -> None:
        """Messages and removals staged from now on are durable together or not at all.

        No group is cut before ``end_batch`` or ``abort_batch``. Raises StoreReadOnly.
        """
        batches.begin(self)

    def end_batch(self) -> None:
        """The batch is complete."""
        batches.end(self)

    def abort_batch(self) -> None:
        """Forget what was staged since ``begin_batch``, its sequences too."""
        batches.abort(self)

    def join_batch(self, total: i64) -> None:
        """The record just encoded, of this length, belongs to the batch."""
        assert self.batch is not None, "only a batch gives its flags"
        self.batch.last_at = int(len(self.writer) - total)
        self.batch_flags = BATCH_MEMBER

    def restage(self, entry: SubjectEntry, seq: i64) -> None:
        """Decisions see another message as the last one of a subject."""
        if self.batch is not None:
            self.batch.changed.append((entry, int(entry.staged_last)))
        entry.staged_last = seq

    # Consumers and fast batches ----------------------------------------------------------------

    @property
    def consumers(self) -> dict[int, ConsumerRecords]:
        """What is durable of each consumer, by its number."""
        return self.ledger.consumers

    @property
    def consumer_number(self) -> int:
        """The highest number that a consumer ever had, decided or durable; never given again."""
        return max(self.ledger.consumer_number, self.staged_ledger.consumer_number)

    @property
    def fast_batches(self) -> dict[bytes, bytes]:
        """What is durable of each fast batch that is under way, by its id."""
        return self.ledger.fast_batches

    def stage_consumer(self, number: i64, document: bytes) -> None:
        """Decide what a consumer is; an empty document deletes it. Raises StoreReadOnly."""
        self.stage_entry(CONSUMER, consumer_body(self.staged_seq, number, document))

    def stage_consumer_state(self, number: i64, whole: bool, body: bytes) -> None:
        """Decide what the state of a consumer is, or what changes of it. Raises StoreReadOnly."""
        self.stage_entry(CONSUMER_STATE, consumer_state_body(self.staged_seq, number, whole, body))

    def stage_fast_batch(self, batch_id: bytes, body: bytes) -> None:
        """Decide what the state of a fast batch is; empty: it is over. Raises StoreReadOnly."""
        self.stage_entry(FAST_BATCH, fast_batch_body(self.staged_seq, batch_id, body))

    def stage_entry(self, kind: i64, body: bytes) -> None:
        """Stage a record of the ledger; ``body`` without its CRLF."""
        self.stage_prelude()
        self.stage_record(kind, body + b"\r\n")
        self.staged_ledger.apply(int(kind), body, "")

    # Configuration -----------------------------------------------------------------------------

    def stage_configuration(self, document: bytes) -> None:
        """Decide that this is the stream's configuration, with the limits last set.

        Raises StoreReadOnly after a failed write.
        """
        self.stage_prelude()
        self.stage_current(document)

    def set_limits(self, max_msgs: i64, max_bytes: i64, max_per_subject: i64) -> None:
        """Keep no more than this from now on (0 or less: no limit); too much goes at once.

        The log says so before its next record, so replaying it takes the same out at the same
        place. While something is staged, the change is staged behind it, and forgotten when that
        fails.
        """
        configuration.set_limits(self, Limits(max_msgs, max_bytes, max_per_subject))

    def stage_current(self, document: bytes) -> None:
        """Stage a configuration record with the limits last set."""
        configuration.stage_current(self, document)
