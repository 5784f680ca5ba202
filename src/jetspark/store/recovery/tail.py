"""The end of the newest segment: what invalid bytes there prove (``replay.py``).

Not compiled: used once per start, and only when something is wrong.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import (
    BATCH_LAST,
    BATCH_MEMBER,
    FIXED,
    GROUP_FIRST,
    OVERHEAD,
    record_flags,
    record_sequence,
)
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.recovery.findings import DOUBTFUL, MAGIC_BYTES, MARK_BODY, TORN, is_mark

_LOW: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000


class Tail:
    """The bytes after the last valid record of the newest segment, and what they prove."""

    def __init__(self, log: StreamLog, data: bytes, good: i64) -> None:
        end: i64 = len(data)
        last = log.index.last_seq
        cutting = self.cutting(log, data, good)
        self.verdict: i64 = DOUBTFUL
        if good < end and (end - good < OVERHEAD or cutting):
            self.verdict = TORN
        # The highest sequence that the tail may have contained: what frame words confirm, and as
        # many more as fit after that. The frame word covers the low half, so only that is
        # trusted.
        self.last_seq: i64 = last
        # From where on the verdict applies: if the last group starts in the tail, bad ranges
        # before the tail are not part of that group. A mark of an earlier recovery proves no
        # group.
        self.since: i64 = 0
        unframed = good
        # Whether the last framed record is a member of a batch and not its last one.
        inside = False
        position: int = data.find(MAGIC_BYTES, int(good))
        while position >= 0 and position + FIXED <= end:
            length = log.codec.framed_length(data, position)
            if length > 0:
                self.last_seq += (position - unframed) // OVERHEAD
                unframed = position + length
                flags = record_flags(data, position)
                # Frame words do not cover flags: a flipped bit must not turn a message into a
                # batch.
                inside = (
                    flags & (BATCH_MEMBER | BATCH_LAST) == BATCH_MEMBER
                    and log.codec.examine(data, position) == length
                )
                if flags & GROUP_FIRST and not is_mark(data, position):
                    self.since = good
                low = record_sequence(data, position) & _LOW
                ahead = (low - last) & _LOW
                if low != 0 and ahead < _HALF:
                    self.last_seq = max(self.last_seq, last + ahead)
                if unframed > end:
                    self.verdict = TORN
                    break
            position = data.find(MAGIC_BYTES, position + int(max(length, i64(1))))
        if unframed == end and inside:
            # The file ends inside a batch.
            self.verdict = TORN
        if unframed < end and not cutting:
            # Even less than a whole record: its sequence was assigned.
            self.last_seq += max(i64(1), (end - unframed) // OVERHEAD)

    def judge(self, verdict: i64) -> None:
        """Replace the verdict: what is known of the stream proves more than these bytes."""
        self.verdict = verdict

    def limit(self, last_seq: i64) -> None:
        """Set the highest sequence that it may have contained."""
        self.last_seq = last_seq

    def cutting(self, log: StreamLog, data: bytes, good: i64) -> bool:
        """Return whether these bytes are what an interrupted recovery was truncating."""
        size = OVERHEAD + MARK_BODY
        at = good - size
        return (
            at >= 0
            and log.codec.examine(data, at) == size
            and is_mark(data, at)
            and read_i64_le(data, at + FIXED + 32) == len(data)
        )

    def mark(self, until: i64) -> bytes:
        """Return the body of a mark, after the sequences it skips."""
        body = BytesWriter()
        write_i64_le(body, self.verdict)
        write_i64_le(body, self.since)
        write_i64_le(body, until)
        return body.getvalue()
