"""Replays the segments of a stream after a stop or crash, and classifies invalid bytes.

Recovery advances by length while the frame word is valid; otherwise it searches for the next valid
record. **Every valid record is kept**, wherever it is: it may have been acknowledged, and what was
acknowledged is never dropped. A record whose sequence does not increase does not belong there
(stale sectors, a copy inside a payload) and counts as bad bytes, and so does a copy of one of a
later segment (``later.py``); records that remove or configure name the last sequence before them
and are checked against it.

Bad bytes are one of two things: the rest of an interrupted write, in which nothing was
acknowledged, or damage to something that was. A write of many sectors may reach the disk in any
order, so valid records of an interrupted group can follow bad ones. The classification:

- *Damage*: a record with ``GROUP_FIRST`` follows the bytes, complete or torn, or a later segment.
  A group is written only when the one before it is on disk, so they were once valid.
- *Torn*: they belong to the last group, and the file ends inside a record whose frame word is
  valid, or less than one record after the last valid one. After a write has returned the file has
  its full length, so this write never returned.
- *Doubtful*: they belong to the last group, and the file has its full length. It may be a torn
  group whose middle is missing, or an acknowledged one that was damaged. It is reported, but not
  as a loss, unless a manifest says that it was stored.

For this purpose, the file ends where the filler after its records starts (``segment.py``).

A torn tail is truncated; doubtful bytes and damage are left in place and can be examined. In both
cases recovery first writes a *mark*: a skip record over the sequences that the tail may have
contained, so that none is used twice, followed by the verdict, the offset since which it applies
and, for a torn tail, the length of the file. The next start reads the verdict there and reports
the same again, although by then other groups follow the bytes; and it recognises the rest of a
tail whose truncation was interrupted.

Atomic batches need one more rule: an incomplete batch of the last group is dropped as a whole, its
valid records count as bad bytes; an earlier one was acknowledged and keeps its valid records.
"""

from typing import Final

from librt.strings import read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

from jetspark.errors.storage import UnknownRecordKind
from jetspark.store.format.record import (
    BAD_CHECK,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_MEMBER,
    FIXED,
    GROUP_FIRST,
    MESSAGE,
    OVERHEAD,
    SKIP,
    record_flags,
    record_key,
    record_kind,
    record_sequence,
    subject_end,
)
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.store.recovery.findings import (
    DAMAGED,
    MAGIC_BYTES,
    BadRange,
    Recovery,
    acknowledged_until,
    is_mark,
)
from jetspark.store.recovery.later_segments import LaterSegments, is_anchored, stated_sequence

__all__ = ["Recovery", "replay_segment"]

KNOWN_FLAGS: Final[i64] = 1 | 2 | 4 | 8 | 16  # of batches, COMPRESSED and GROUP_FIRST
# The subjects of this many messages are looked up together.
_TOGETHER: Final = 512


class SubjectsAhead:
    """The subjects of the next messages, looked up together (``StreamIndex.find_many``).

    Their records are not verified yet: only what is asked for is used, and by then it is.
    """

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        # Where the records begin, their subjects, and the entries of those that are known.
        self._starts: vec[i64] = vec[i64]()
        self._subjects: list[bytes] = []
        self._entries: list[SubjectEntry | None] = []
        self._next: i64 = 0

    def entry(self, data: bytes, at: i64) -> SubjectEntry:
        """Return the entry of the subject of the valid message at ``at``."""
        count: i64 = len(self._starts)
        n = self._next
        while n < count and self._starts[n] < at:
            n += 1
        if n == count or self._starts[n] != at:
            self._look_up(data, at)
            n = 0
        self._next = n + 1
        entry = self._entries[n]
        # It may have become known since.
        return self._log.index.entry(self._subjects[n]) if entry is None else entry

    def _look_up(self, data: bytes, at: i64) -> None:
        """Look up the subjects of the message at ``at`` and of those that seem to follow it."""
        starts = vec[i64]()
        subjects: list[bytes] = []
        end: i64 = len(data)
        codec = self._log.codec
        while len(subjects) < _TOGETHER and at + OVERHEAD <= end:
            length = codec.framed_length(data, at)
            if length <= 0 or at + length > end:
                break
            if record_kind(data, at) == MESSAGE:
                starts = append(starts, at)
                subjects.append(data[at + FIXED : subject_end(data, at)])
            at += length
        self._starts = starts
        self._subjects = subjects
        self._entries = self._log.index.find_many(subjects)


def replay_segment(
    log: StreamLog,
    data: bytes,
    at: i64,
    recovery: Recovery,
    later: LaterSegments,
    sealed: bool = False,
) -> i64:
    """Apply the records of the newest segment added; return the end of the last valid one.

    Ranges without proof either way yet stay in ``recovery.pending``. ``later``: the segments after
    this one. ``sealed``: a segment follows this one, so all of it was acknowledged.
    """
    # Members of batches count up to here.
    judged: i64 = 0
    start = log.index.segments[-1].start
    ahead = SubjectsAhead(log)
    records: i64 = 0
    good = at
    until = later.until
    end: i64 = len(data)
    while at < end:
        length = good_length(log, data, at, later, until)
        if length > 0 and at >= judged and record_flags(data, at) & BATCH_MEMBER:
            judged = batch_end(log, data, at)
            if judged < 0:
                judged = acknowledged_until(log.codec, data, at, sealed)
            if judged < 0:
                length = BAD_CHECK
        if length <= 0:
            found = next_good(log, data, at, later)
            if found < 0:
                break
            bad = BadRange(start + at, found - at)
            bad.missing(log.index.last_seq + 1, last_before(data, found))
            bad.narrow(log.codec, data, at, found)
            # It may have contained a change of limits. Until a record states the limits nothing is
            # evicted: an excess is corrected later, a wrong eviction is a loss.
            log.suspend_limits()
            recovery.add_pending(bad)
            # As many records as fit: positions must not be used twice either.
            log.index.reach(log.index.position + (found - at) // OVERHEAD + 1)
            at = found
            continue
        if record_flags(data, at) & GROUP_FIRST and recovery.pending:
            if is_mark(data, at):
                since = start + read_i64_le(data, at + FIXED + 24)
                recovery.settle(read_i64_le(data, at + FIXED + 16), since)
            else:
                recovery.settle(DAMAGED, 0)
        apply(log, data, at, ahead)
        log.index.reach(log.index.position + 1)
        records += 1
        at += length
        good = at
    recovery.note_records(int(records))
    recovery.forget_from(start + good)
    if log.index.wants_recycling():
        log.index.recycle([])
    return good


def apply(log: StreamLog, data: bytes, at: i64, ahead: SubjectsAhead | None = None) -> None:
    """Apply one valid record, or refuse one that this version does not understand."""
    kind = record_kind(data, at)
    flags = record_flags(data, at)
    key = record_key(data, at)
    problem = ""
    if flags & ~KNOWN_FLAGS:
        problem = f"record flags {int(flags)} are"
    elif key != 0:
        problem = f"encryption (key {int(key)}) is"
    elif kind == MESSAGE:
        if ahead is None:
            ahead = SubjectsAhead(log)
        log.apply_message(data, at, at, ahead.entry(data, at))
    elif kind == SKIP or is_anchored(kind):
        log.apply_other(data, at)
    else:
        problem = f"record kind {int(kind)} is"
    if problem:
        raise UnknownRecordKind(
            str(log.segments.folder),
            int(at),
            f"{problem} unknown to this version of jetspark; "
            "open the store with the version that wrote it",
        )


def good_length(log: StreamLog, data: bytes, at: i64, later: LaterSegments, until: i64) -> i64:
    """Return the length of the record at ``at`` if it is valid and belongs here, else <= 0.

    ``until`` is that of ``later``.
    """
    length = log.codec.examine(data, at)
    if length <= 0:
        return length
    kind = record_kind(data, at)
    if kind == MESSAGE:
        seq = record_sequence(data, at)
        if seq <= log.index.last_seq:
            return BAD_CHECK
    else:
        seq = stated_sequence(data, at)
        if is_anchored(kind) and seq < log.index.last_seq:
            return BAD_CHECK
    if seq >= until and later.have(data, at, length):
        return BAD_CHECK
    return length


def batch_end(log: StreamLog, data: bytes, at: i64) -> i64:
    """Return the end of the complete batch that starts at ``at``; -1 if there is none."""
    last = log.index.last_seq
    first = BATCH_FIRST
    while at < len(data):
        length = log.codec.examine(data, at)
        if length <= 0:
            return -1
        flags = record_flags(data, at)
        # The as-of sequence, as in `good_length`.
        if record_kind(data, at) == MESSAGE:
            last += 1
            said = record_sequence(data, at)
        else:
            said = read_i64_le(data, at + FIXED)
        if not flags & BATCH_MEMBER or (flags & BATCH_FIRST) != first or said < last:
            return -1
        last = said
        at += length
        if flags & BATCH_LAST:
            return at
        first = 0
    return -1


def next_good(log: StreamLog, data: bytes, at: i64, later: LaterSegments) -> i64:
    """Return the start of the next valid record after the bad one at ``at``, or -1."""
    until = later.until
    end: i64 = len(data)
    if at + FIXED <= end:
        length = log.codec.framed_length(data, at)
        # With a mark inside, other records may be before it: found then, and found again.
        if length > 0 and at + length <= end and not has_mark(log, data, at, at + length):
            if at + length == end:
                return -1
            if good_length(log, data, at + length, later, until) > 0:
                return at + length
    position: int = data.find(MAGIC_BYTES, int(at) + 1)
    while position >= 0:
        if good_length(log, data, position, later, until) > 0:
            return position
        position = data.find(MAGIC_BYTES, position + 1)
    return -1


def has_mark(log: StreamLog, data: bytes, at: i64, end: i64) -> bool:
    """Return whether an earlier recovery found the file ending inside the record at ``at``.

    That record was truncated, and later writes overwrote the place where it ended. A message may
    contain bytes of a segment, including marks: those skip sequences of the past.
    """
    position: int = data.find(MAGIC_BYTES, int(at) + 1, int(end))
    while position >= 0:
        if (
            log.codec.examine(data, position) > 0
            and is_mark(data, position)
            and read_i64_le(data, i64(position) + FIXED) > log.index.last_seq
        ):
            return True
        position = data.find(MAGIC_BYTES, position + 1, int(end))
    return False


def last_before(data: bytes, at: i64) -> i64:
    """Return the last sequence before the valid record at ``at``; 0 if the record has none."""
    seq = stated_sequence(data, at)
    return seq - 1 if record_kind(data, at) == MESSAGE else seq
