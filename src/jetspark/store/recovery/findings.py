"""Findings of recovery about invalid bytes, and the marks that record them (``replay.py``).

Not compiled: used only when something is wrong.
"""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import (
    FIXED,
    GROUP_FIRST,
    MESSAGE,
    OVERHEAD,
    SKIP,
    Codec,
    record_flags,
    record_kind,
    record_length,
    record_sequence,
)

MAGIC_BYTES: Final = b"JSR1"
# Verdicts, as stored in a mark.
TORN: Final[i64] = 1
DOUBTFUL: Final[i64] = 2
DAMAGED: Final[i64] = 3
# A checksum may look like filler.
CHECK_SIZE: Final = 8
# First and last sequence, verdict, since where, length of the file: the body of a mark.
MARK_BODY: Final[i64] = 40


class BadRange:
    """Bytes that fail their checksum, and the sequences that may have been in them (0: none)."""

    def __init__(self, where: i64, length: i64) -> None:
        self.where: i64 = where
        self.length: i64 = length
        self.first_seq: i64 = 0
        self.last_seq: i64 = 0
        # How many of them, at most.
        self.messages: int = 0

    def missing(self, first: i64, last: i64) -> None:
        """Note that it may have had the messages of these sequences; none if they are empty."""
        if first <= last:
            self.first_seq = first
            self.last_seq = last

    def narrow(self, codec: Codec, data: bytes, at: i64, found: i64) -> None:
        """Determine its message, if it is one record with a valid frame word.

        A rewritten segment has few of its sequences: otherwise all missing ones would count as
        lost. The frame word covers the low half of the sequence.
        """
        if self.first_seq == 0 or codec.framed_length(data, at) != found - at:
            return
        low = record_sequence(data, at) & 0xFFFFFFFF
        seq = self.first_seq + ((low - self.first_seq) & 0xFFFFFFFF)
        if low == 0 and record_kind(data, at) != MESSAGE:
            self.first_seq = self.last_seq = 0
        elif seq <= self.last_seq:
            self.first_seq = self.last_seq = seq
            self.messages = 1


class Recovery:
    """The findings of opening one stream. Ranges are (offset in the whole log, length)."""

    def __init__(self) -> None:
        self.records: i64 = 0
        self.bytes_read: i64 = 0
        # Bytes that were written to the newest segment from the journal.
        self.journaled_bytes: int = 0
        # Bytes of interrupted writes: nothing in them was ever acknowledged.
        self.torn_bytes: i64 = 0
        # All other invalid bytes.
        self.damaged: list[tuple[int, int]] = []
        # Those of `damaged` that may as well be the rest of an interrupted write.
        self.doubtful: list[tuple[int, int]] = []
        # Sequences (first, last) that were acknowledged and may be lost.
        self.lost: list[tuple[int, int]] = []
        # Sequences of a write that was interrupted, or may have been.
        self.unwritten: list[tuple[int, int]] = []
        # Problems with metadata and how they were handled, as sentences.
        self.notes: list[str] = []
        # The details of `damaged`, and whether each is doubtful; missing files: the file after the
        # gap, the sequences between, and whether they may exist in unread bytes.
        self.judged: list[tuple[BadRange, bool]] = []
        self.missing: list[tuple[str, int, int, bool]] = []
        # Sequences that were stored and are missing at the end of the log: after which file.
        self.truncated: list[tuple[str, int, int]] = []
        # It is unknown whether messages are lost: the file, how many were found, and why.
        self.doubted: list[tuple[str, int, str]] = []
        # Older versions of files: the file, which generation and which end a manifest says it has,
        # and the reason.
        self.outdated: list[tuple[str, int, int, str]] = []
        # What the disk failed to read: (offset in the whole log, length); replaced by zeros.
        self.unread: list[tuple[int, int]] = []
        # Files of another stream: their name now, their length, and the reason.
        self.foreign: list[tuple[str, int, str]] = []
        # Bad ranges after the last GROUP_FIRST record: no verdict yet.
        self.pending: list[BadRange] = []

    def note(self, text: str) -> None:
        """Add a sentence about what was found, or done about it."""
        self.notes.append(text)

    def miss(self, file: str, first: int, last: int, *, hidden: bool) -> None:
        """Add messages that are lost with the files before this one.

        ``hidden``: they may exist in bytes that the disk failed to read.
        """
        self.lost.append((first, last))
        self.missing.append((file, first, last, hidden))

    def miss_end(self, file: str, first: int, last: int) -> None:
        """Add messages that are lost at the end of the log, after this file."""
        self.lost.append((first, last))
        self.truncated.append((file, first, last))

    def doubt(self, file: str, last: int, reason: str) -> None:
        """Add that messages, or changes, may be lost after this one."""
        self.doubted.append((file, last, reason))

    def find_older(self, file: str, generation: int, end: int, reason: str) -> None:
        """Add an older version of a file; ``generation``, ``end``: what a manifest expects."""
        self.outdated.append((file, generation, end, reason))
        self.note(f"{file}: {reason}")

    def find_foreign(self, file: str, size: int, reason: str) -> None:
        """Add a file that is not used."""
        self.foreign.append((file, size, reason))

    def begin_pending(self, bad: BadRange) -> None:
        """Add a range without a verdict that has no connection with the one before it."""
        self.pending.append(bad)

    def add_pending(self, bad: BadRange) -> None:
        """Add a range without a verdict; merged with the previous one if they are adjacent."""
        if self.pending and self.pending[-1].where + self.pending[-1].length == bad.where:
            before = self.pending[-1]
            before.length += bad.length
            before.messages += bad.messages
            before.last_seq = max(before.last_seq, bad.last_seq)
            if before.first_seq == 0:
                before.first_seq = bad.first_seq
        else:
            self.pending.append(bad)

    def note_read(self, size: int, start: int, unread: list[tuple[int, int]]) -> None:
        """Count bytes of a file that starts here in the log; ``unread``: what the disk lacks."""
        self.bytes_read += size
        self.unread.extend((start + at, length) for at, length in unread)

    def note_records(self, count: int) -> None:
        """Count valid records."""
        self.records += count

    def note_journaled(self, size: int) -> None:
        """Count bytes that were written to the newest segment from the journal."""
        self.journaled_bytes += size

    def is_unread(self, where: int, length: int) -> bool:
        """Return whether the disk failed to read part of a range."""
        return any(a < where + length and where < a + size for a, size in self.unread)

    def is_damaged(self, where: int, length: int) -> bool:
        """Return whether part of a range is damaged."""
        return any(a < where + length and where < a + size for a, size in self.damaged)

    def is_stored(self, stored: int) -> bool:
        """Return whether a range without a verdict has a message up to this sequence."""
        return any(0 < bad.first_seq <= stored for bad in self.pending)

    def forget_from(self, where: i64) -> None:
        """Forget what was found after the last good record: it is judged as part of the tail."""
        while self.pending and self.pending[-1].where >= where:
            self.pending.pop()

    def settle(self, verdict: i64, since: i64) -> None:
        """Give the pending ranges a verdict; those before ``since`` are damage in any case."""
        for bad in self.pending:
            doubtful = verdict == DOUBTFUL and bad.where >= since
            if verdict == TORN and bad.where >= since:
                self.torn_bytes += bad.length
                if bad.first_seq > 0:
                    self.unwritten.append((int(bad.first_seq), int(bad.last_seq)))
                continue
            place = (int(bad.where), int(bad.length))
            self.damaged.append(place)
            self.judged.append((bad, doubtful))
            if doubtful:
                self.doubtful.append(place)
            if bad.first_seq > 0:
                fits = max(1, int(bad.length // OVERHEAD))
                bad.messages = bad.messages or min(int(bad.last_seq - bad.first_seq) + 1, fits)
                taken = self.unwritten if doubtful and not self.is_unread(*place) else self.lost
                taken.append((int(bad.first_seq), int(bad.last_seq)))
        self.pending = []


def is_mark(data: bytes, at: i64) -> bool:
    """Return whether the valid record at ``at`` was written by an earlier recovery."""
    return record_kind(data, at) == SKIP and record_length(data, at) == OVERHEAD + MARK_BODY


def acknowledged_until(codec: Codec, data: bytes, at: i64, sealed: bool) -> i64:
    """Return where a record proves that those before it, from ``at`` on, were acknowledged; or -1.

    It starts the next group. If that is the mark of a recovery, the mark decides.
    """
    position: int = data.find(MAGIC_BYTES, int(at) + 1)
    while position >= 0 and position + FIXED <= len(data):
        if codec.framed_length(data, position) > 0 and record_flags(data, position) & GROUP_FIRST:
            if not is_mark(data, position):
                return position
            # A torn one proves nothing: that recovery did not finish.
            if codec.examine(data, position) > 0:
                since = read_i64_le(data, i64(position) + FIXED + 24)
                return position if since > at else -1
        position = data.find(MAGIC_BYTES, position + 1)
    return len(data) if sealed else -1


def last_group(codec: Codec, data: bytes, covered: int) -> int:
    """Return the start of the last group, ``covered`` if none.

    Its first record may be torn. What is before it was on disk when it was written, and must not
    be written again: a power failure in that write would tear what was acknowledged.
    """
    position = data.rfind(MAGIC_BYTES, covered)
    while position >= 0:
        if (
            position + FIXED <= len(data)
            and codec.framed_length(data, position) > 0
            and record_flags(data, position) & GROUP_FIRST
        ):
            return position
        # The magic of the one to the left may end where this one starts.
        position = data.rfind(MAGIC_BYTES, covered, position + len(MAGIC_BYTES) - 1)
    return covered
