"""Replaying index files (``index_file.py``) when a stream is opened."""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.store.format.index_file import END, FROM, RECORD, SUBJECT
from jetspark.store.log.columns import OFFSET_BITS, OFFSET_MASK
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.log.subject_table import SubjectEntry
from jetspark.store.recovery.replay import apply

_LOW: Final[i64] = 0xFFFFFFFF
# This many subjects are looked up together.
_TOGETHER: Final = 512


def replay_index_file(log: StreamLog, data: bytes) -> i64:
    """Apply the entries of an index file to the newest segment added; return the record count."""
    at: i64 = 16 + ((read_i64_le(data, 0) >> 32) & _LOW)
    index = log.index
    entries: list[SubjectEntry] = []
    subjects: i64 = 0
    seq: i64 = 0
    records: i64 = 0
    last_time = index.last_time
    while True:
        word = read_i64_le(data, at)
        second = read_i64_le(data, at + 8)
        at += 16
        if word > 0:
            seq += second >> 32
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
