"""Replaying index files (``index_file.py``) when a stream is opened."""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.store.format.index_file import END, FROM, RECORD, SUBJECT
from jetspark.store.log.columns import OFFSET_BITS, OFFSET_MASK
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.store.recovery.replay import apply

NO_OFFSET: Final[i64] = 1 << 62
_LOW: Final[i64] = 0xFFFFFFFF
# This many subjects are looked up together.
_TOGETHER: Final = 512


def replay_index_file(log: StreamLog, data: bytes, lost: list[tuple[int, int]]) -> i64:
    """Apply the entries of an index file to the newest segment added; return the record count.

    ``lost``: ranges of the segment whose messages were lost (``quarantine.py``). They do not
    count: others were stored since, and no limit removed an older message for them.
    """
    at: i64 = 16 + ((read_i64_le(data, 0) >> 32) & _LOW)
    index = log.index
    entries: list[SubjectEntry] = []
    subjects: i64 = 0
    seq: i64 = 0
    records: i64 = 0
    last_time = index.last_time
    # The first range that does not end before the next message.
    range_at: i64 = 0
    lost_from: i64 = lost[0][0] if lost else NO_OFFSET
    lost_to: i64 = lost[0][1] if lost else NO_OFFSET
    while True:
        word = read_i64_le(data, at)
        second = read_i64_le(data, at + 8)
        at += 16
        if word > 0:
            seq += second >> 32
            if (word & OFFSET_MASK) >= lost_from:
                while (word & OFFSET_MASK) >= lost_to:
                    range_at += 1
                    more = range_at < i64(len(lost))
                    lost_from = lost[range_at][0] if more else NO_OFFSET
                    lost_to = lost[range_at][1] if more else NO_OFFSET
                if (word & OFFSET_MASK) >= lost_from:
                    index.skip_to(seq)
                    continue
            entry = entries[second & _LOW]
            index.add_message(seq, entry, word & OFFSET_MASK, 0, word >> OFFSET_BITS)
            if log.limits.any:
                log.limits.evict(index, entry)
            records += 1
        elif word == SUBJECT:
            if subjects == i64(len(entries)):
                index.subjects.settle()
                entries += index.entries_for(subjects_ahead(data, at - 16))
            subjects += 1
            at += second
        elif word == RECORD:
            apply(log, data, at)
            at += second
            records += 1
        elif word == FROM:
            seq = second
        else:
            break
    index.end_replay(max(last_time, second), records)
    return records


def subjects_ahead(data: bytes, at: i64) -> list[bytes]:
    """Return the next subjects in an index file, from the entry at ``at`` on."""
    subjects: list[bytes] = []
    while len(subjects) < _TOGETHER:
        word = read_i64_le(data, at)
        second = read_i64_le(data, at + 8)
        at += 16
        if word == SUBJECT:
            subjects.append(data[at : at + second])
            at += second
        elif word == RECORD:
            at += second
        elif word <= END:
            break
    return subjects
